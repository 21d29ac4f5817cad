"""Detached runs and those who follow them, as the helper's socket has it: nothing lost, nothing doubled, whoever comes when."""

import hashlib

from detached import call, detach, follow, followed, good, status_of, wait_for

# Says so many lines on both streams, waits for a file that nobody makes for so long, and says as many again.
LINES = """
import sys, time
for part in range(2):
    for i in range({lines}):
        print("out", part, i)
        print("err", part, i, file=sys.stderr)
    sys.stdout.flush()
    if not part:
        time.sleep({pause})
"""


def expected(lines):
    return {
        name: hashlib.sha256("".join(f"{word} {part} {i}\n" for part in range(2) for i in range(lines)).encode()).hexdigest()
        for name, word in (("stdout", "out"), ("stderr", "err"))
    }


def test_a_detached_run_lives_without_its_caller_and_reads_its_text(machine):
    run_id = detach(machine, "import sys; print(sys.stdin.read() * 2)", stdin="ab")
    result = good(machine, "Attach", id=run_id)["result"]
    assert result["status"] == "succeeded" and result["stdout"]["text"] == "abab\n"
    assert machine.read(f"/var/lib/sbxctl/users/1000/{run_id}/stdout", user="alice") == b"abab\n"


def test_a_detached_run_takes_no_streams(machine):
    answer = call(machine, "Run", script="print(4)", language="python", detach=True, streams="none")
    assert answer["parameters"]["event"] == "detached"
    for streams in ("messages", "descriptors"):
        answer = call(machine, "Run", more=True, script="print(4)", language="python", detach=True, streams=streams)
        assert answer["error"].endswith(".Rejected") and answer["parameters"]["field"] == "streams"


def test_followers_miss_nothing_and_see_nothing_twice(machine):
    run_id = detach(machine, LINES.format(lines=20000, pause=2))
    wait_for(machine, run_id, "running")
    following = [follow(machine, run_id), follow(machine, run_id, hold=3), follow(machine, run_id, output=False)]
    seen = [followed(one) for one in following]
    late = followed(follow(machine, run_id))
    for one in (seen[0], seen[1], late):
        assert one["sums"] == expected(20000) and one["gaps"] == one["doubled"] == 0, one
        assert one["status"] == "succeeded"
    assert "started" in seen[0]["events"] and late["events"] == ["finished"]
    assert seen[2]["sums"] == {} and seen[2]["status"] == "succeeded"


def test_an_offset_begins_in_the_middle(machine):
    run_id = detach(machine, "print('0123456789')")
    assert good(machine, "Attach", id=run_id)["result"]["status"] == "succeeded"
    seen = followed(follow(machine, run_id, stdoutOffset=4))
    assert seen["at"]["stdout"] == 11 and seen["gaps"] == seen["doubled"] == 0


def test_what_is_not_kept_comes_live_and_a_late_follower_sees_the_gap(machine):
    script = """
import sys, time
time.sleep(2)
sys.stdout.write("x" * 20000)
sys.stdout.flush()
time.sleep(2)
sys.stdout.write("y" * 20000)
"""
    with machine.configured("[Limits]\nKeptOutput=4096\n"):
        run_id = detach(machine, script)
        early = follow(machine, run_id)
        assert followed(early)["at"]["stdout"] == 40000
        late = followed(follow(machine, run_id))
    assert late["at"]["stdout"] == 4096 and late["status"] == "succeeded"


def test_a_foreground_run_can_be_followed_too(machine):
    running = machine.popen(["sbxctl", "run", "-c", "import sys; print('up', flush=True); print(sys.stdin.read())"], user="alice")
    assert running.popen.stdout.readline() == b"up\n"
    following = follow(machine, good(machine, "List", active=True)["runs"][0]["id"])
    assert running.finish(input=b"said").stdout == b"said\n"
    seen = followed(following)
    assert seen["at"]["stdout"] == len("up\nsaid\n") and seen["status"] == "succeeded"


def test_others_find_no_run_to_follow(machine):
    run_id = detach(machine, "print(4)")
    answer = call(machine, "Attach", uid=1001, id=run_id)
    assert answer["error"].endswith(".NoSuchRun")


# As many followers as there may be, one more, and then the end of all of them.
CROWD = """
import sys
import varlink_client as client

client.become(1000)
links = [client.connect() for _ in range(5)]
for link in links:
    link.sendall(client.message("Attach", more=True, id=sys.argv[1]))
    told = client.answer(link)
    print(told.get("error") or told["parameters"]["event"])
print(client.call("Cancel", id=sys.argv[1], kill=True).get("error"))
for link in links[:4]:
    print(client.answer(link)["parameters"]["result"]["status"])
"""


def test_followers_are_bounded_for_each_user(machine):
    with machine.configured("[Helper]\nConnectionsPerUser=8\n"):
        run_id = detach(machine, "import time; time.sleep(60)")
        wait_for(machine, run_id, "running")
        said = machine.run(machine.python(CROWD, run_id), check=True).text.split()
    assert said == ["started"] * 4 + ["io.sbxctl.Sandbox.TooManyAttached", "None"] + ["cancelled"] * 4


def test_kill_leaves_no_grace(machine):
    script = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: open("asked", "w").close())
print("up", flush=True)
while True:
    time.sleep(0.1)
"""
    kept = {}
    with machine.configured("[Helper]\nGrace=5s\n"):
        for kill in (False, True):
            run_id = detach(machine, script)
            wait_for(machine, run_id, "running")
            machine.wait_for(lambda: machine.run(["cat", f"/var/lib/sbxctl/staging/{run_id}/stdout"]).text, 10, "it to be up")
            good(machine, "Cancel", id=run_id, kill=kill)
            result = good(machine, "Attach", id=run_id)["result"]
            assert result["status"] == "cancelled"
            kept[kill] = [file["name"] for file in result["files"]]
    assert kept == {False: ["asked"], True: []}


def test_a_list_comes_in_pages(machine):
    good(machine, "RemoveAll")
    for _ in range(5):
        detach(machine, "print(4)")
    everything = [run["id"] for run in good(machine, "List", limit=1000)["runs"]]
    assert len(everything) >= 5
    pages, after = [], {}
    while True:
        page = good(machine, "List", limit=2, **after)
        pages += [run["id"] for run in page["runs"]]
        if "next" not in page:
            break
        assert len(page["runs"]) == 2 and page["next"] == pages[-1]
        after = {"after": page["next"]}
    assert pages == everything
    machine.wait_for(lambda: good(machine, "List", active=True)["runs"] == [], 20, "all to have ended")
    assert call(machine, "List", after="0" * 16)["error"].endswith(".NoSuchRun")


def test_a_verdict_stays_with_the_run_and_in_the_journal(machine):
    run_id = detach(machine, "print(4)")
    assert good(machine, "Attach", id=run_id)["result"]["status"] == "succeeded"
    for verdict in ("rejected", "accepted", "accepted"):
        good(machine, "Mark", id=run_id, verdict=verdict)
    machine.restart_helper()
    result = good(machine, "Describe", id=run_id)["result"]
    assert result["verdict"] == "accepted" and result["stdout"]["text"] == "4\n"
    recorded = machine.journal(f"SBXCTL_RUN_ID={run_id}", "MESSAGE_ID=5d0c4e2f9b7a4c1e8f6d3a2b1c0e9f87")
    assert [entry["SBXCTL_VERDICT"] for entry in recorded] == ["rejected", "accepted"]
    assert call(machine, "Mark", uid=1001, id=run_id, verdict="accepted")["error"].endswith(".NoSuchRun")
    assert call(machine, "Mark", id=run_id, verdict="great")["error"].endswith(".InvalidParameter")


def test_all_finished_runs_are_removed_at_once_and_the_others_stay(machine):
    done = detach(machine, "print(4)")
    good(machine, "Attach", id=done)
    sleeping = detach(machine, "import time; time.sleep(60)")
    wait_for(machine, sleeping, "running")
    assert good(machine, "RemoveAll")["removed"] >= 1
    assert [run["id"] for run in good(machine, "List")["runs"]] == [sleeping]
    assert machine.run(["ls", "/var/lib/sbxctl/users/1000"]).text == ""
    good(machine, "Cancel", id=sleeping, kill=True)
    assert good(machine, "Attach", id=sleeping)["result"]["status"] == "cancelled"
