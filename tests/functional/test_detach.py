"""Runs that outlive the terminal, by the verbs of sbxctl: detach, follow, wait, stop, mark, remove. And what becomes of those that
don't, when their terminal goes."""

import json

import pytest
from engines import engine_of

SLEEP = "import time; print('up', flush=True); time.sleep(600)"
# Makes a file, and does not end when asked to.
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: open("asked", "w").close())
open("made", "w").write("something")
print("up", flush=True)
while True:
    time.sleep(0.05)
"""
# All bytes on one stream and lines on the other, in parts that lie some time apart.
PARTS = """
import os, time
for part in range(8):
    os.write(1, bytes(range(256)) * 40)
    os.write(2, b"part %d\\n" % part)
    time.sleep(0.25)
"""


def detach(machine, *arguments):
    done = machine.sbxctl(["run", "--detach", *arguments])
    assert done.status == 0 and done.errors == "", done
    return done.text.strip()


def described(machine, run_id):
    return json.loads(machine.sbxctl(["show", "--json", run_id]).stdout)


def status_of(machine, run_id):
    return described(machine, run_id)["status"]


def wait_for(machine, run_id, predicate):
    return machine.wait_for(lambda: predicate(run := described(machine, run_id)) and run, 20, f"{run_id}")


def has_said(text):
    return lambda run: text in run.get("stdout", {}).get("text", "")


def last_run(machine):
    return json.loads(machine.sbxctl(["ps", "--all", "--json", "--limit", "1"]).stdout)["runs"][0]


def file_names(run):
    return [file["name"] for file in run["files"]]


def test_a_detached_run_goes_on_and_can_be_awaited(machine):
    run_id = detach(machine, "-c", "import sys; print(repr(sys.stdin.read())); sys.exit(3)")
    waited = machine.sbxctl(["wait", run_id[:13]])
    assert waited.status == 3 and waited.text == ""
    assert "status 3" in waited.errors
    assert machine.sbxctl(["logs", run_id]).text == "''\n"
    result = json.loads(machine.sbxctl(["wait", "--json", run_id]).stdout)
    assert result["id"] == run_id and result["exitCode"] == 3


def test_a_detached_run_says_what_it_is_as_json(machine):
    result = json.loads(machine.sbxctl(["run", "--detach", "--json", "-c", "print(4)"]).stdout)
    assert result["status"] in ("queued", "starting", "running")
    assert machine.sbxctl(["wait", result["id"]]).status == 0


def test_the_end_of_a_session_does_not_end_a_detached_run(machine):
    session = ["setsid", "--wait", "sh", "-c", "sbxctl run --detach -c \"$0\"; kill -KILL 0", SLEEP]
    run_id = machine.run(session, user="alice").text.strip()
    run = wait_for(machine, run_id, has_said("up\n"))
    assert run["status"] == "running"
    assert machine.sbxctl(["stop", run_id]).status == 0
    assert status_of(machine, run_id) == "cancelled"


def test_logs_from_several_terminals_are_whole_whenever_they_join(machine):
    run_id = detach(machine, "-c", PARTS)
    following = [machine.popen(["sbxctl", "logs", "-f", run_id], user="alice")]
    for part in (1, 3, 5):
        wait_for(machine, run_id, lambda run: run.get("stderr", {}).get("bytes", 0) >= 7 * part or run["status"] == "succeeded")
        following.append(machine.popen(["sbxctl", "logs", "--follow", run_id], user="alice"))
    for one in [*(running.finish() for running in following), machine.sbxctl(["logs", run_id])]:
        assert one.status == 0
        assert one.stdout == bytes(range(256)) * 40 * 8
        assert one.stderr == b"".join(b"part %d\n" % part for part in range(8))


def test_logs_of_a_run_that_goes_on_show_what_there_is(machine):
    run_id = detach(machine, "-c", SLEEP)
    wait_for(machine, run_id, has_said("up\n"))
    shown = machine.sbxctl(["logs", run_id], timeout=20)
    assert shown.status == 0 and shown.text == "up\n"
    assert status_of(machine, run_id) == "running"
    # Whoever follows and goes away leaves the run alone.
    following = machine.popen(["sbxctl", "logs", "-f", run_id], user="alice")
    assert following.popen.stdout.readline() == b"up\n"
    following.signal("INT")
    following.finish()
    assert status_of(machine, run_id) == "running"
    assert machine.sbxctl(["stop", "--kill", run_id]).status == 0
    machine.wait_for(engine_of(machine).nothing_left, 5, "the run to be gone")


def test_logs_into_a_pipe_that_nobody_reads_end(machine):
    run_id = detach(machine, "-c", SLEEP)
    ended = machine.run(["sh", "-c", f"sbxctl logs -f {run_id} | head -n 1"], user="alice", timeout=20)
    assert ended.text == "up\n"
    machine.sbxctl(["stop", "--kill", run_id])


@pytest.mark.parametrize("kill", [False, True], ids=["grace", "kill"])
def test_stop_keeps_what_was_made(machine, kill):
    run_id = detach(machine, "-c", STUBBORN)
    wait_for(machine, run_id, has_said("up\n"))
    assert machine.sbxctl(["stop", *(["--kill"] if kill else []), run_id]).status == 0
    run = described(machine, run_id)
    assert run["status"] == "cancelled"
    assert file_names(run) == (["made"] if kill else ["asked", "made"])
    again = machine.sbxctl(["stop", run_id])
    assert again.status == 0


def test_a_queued_run_tells_why_and_can_be_taken_out(machine):
    with machine.configured("[Queue]\nRunsPerUser=1\n"):
        first, second = detach(machine, "-c", SLEEP), detach(machine, "-c", SLEEP)
        assert status_of(machine, second) == "queued"
        listed = machine.sbxctl(["ps"]).text
        assert listed.count("queued") == 1 and second[:12] in listed
        assert machine.sbxctl(["stop", second]).status == 0
        run = described(machine, second)
        assert run["status"] == "cancelled" and "before it started" in run["reason"]
        assert machine.sbxctl(["stop", "--kill", first]).status == 0


def test_finished_runs_are_at_hand_while_the_helper_is_idle(machine):
    run_id = detach(machine, "-c", "open('out', 'w').write('x' * 1000)")
    assert machine.sbxctl(["wait", run_id]).status == 0
    directory = machine.directory()
    for verb in (["get", "-o", f"{directory}/o", run_id], ["mark", run_id, "accepted"], ["rm", run_id]):
        machine.restart_helper()
        done = machine.sbxctl(verb)
        assert done.status == 0, done
    assert machine.read(f"{directory}/o/out") == b"x" * 1000
    assert machine.sbxctl(["show", run_id]).status == 125


def test_a_verdict_is_shown(machine):
    run_id = detach(machine, "-c", "print(4)")
    assert machine.sbxctl(["wait", run_id]).status == 0
    assert machine.sbxctl(["mark", run_id, "rejected"]).status == 0
    listed = machine.sbxctl(["ps", "-a", "-n", "1"]).text
    assert "VERDICT" in listed and "rejected" in listed
    assert "verdict       rejected\n" in machine.sbxctl(["show", run_id]).text


def test_what_a_run_made_goes_into_the_next(machine):
    script = "import os; os.mkdir('d'); open('d/a', 'w').write('first'); open('b', 'w').write('second')"
    run_id = detach(machine, "-c", script)
    assert machine.sbxctl(["wait", run_id]).status == 0
    look = "import os; print(sorted(os.path.join(d, f) for d, _, fs in os.walk('.') for f in fs if f != 'script'))"
    for wish, expected in ((run_id, "['./b', './d/a']"), (f"{run_id[:14]}:d/a", "['./a']"), (f"{run_id}:d", "['./d/a']")):
        assert machine.sbxctl(["run", "--input-run", wish, "-c", look]).text == expected + "\n"
    stolen = machine.sbxctl(["run", "--input-run", run_id, "-c", look], user="bob")
    assert stolen.status == 125 and "no run" in stolen.errors


def test_two_interrupts_kill_and_keep_what_was_made(machine):
    with machine.configured("[Helper]\nGrace=30s\n"):
        running = machine.popen(["sbxctl", "run", "-c", STUBBORN], user="alice")
        assert running.popen.stdout.readline() == b"up\n"
        run_id = last_run(machine)["id"]
        running.signal("INT")
        assert b"once more" in running.popen.stderr.readline()
        running.signal("INT")
        ended = running.finish(timeout=20)
    assert ended.status == 130 and "made" in ended.errors, ended
    run = described(machine, run_id)
    assert run["status"] == "cancelled" and "made" in file_names(run)


# A terminal with sbxctl as its session's leader, which is closed when the program is up.
TERMINAL = """
import os, pty, sys
pid, master = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
shown = b""
while b"up" not in shown:
    shown += os.read(master, 4096)
os.close(master)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_a_closed_terminal_cancels_and_keeps_what_was_made(machine):
    ended = machine.run(machine.python(TERMINAL, "sbxctl", "run", "-c", STUBBORN), user="alice")
    assert ended.text.strip() == "130", ended
    run_id = last_run(machine)["id"]
    run = wait_for(machine, run_id, lambda run: run["status"] == "cancelled")
    assert "made" in file_names(run)
    machine.wait_for(engine_of(machine).nothing_left, 5, "the run to be gone")


def test_all_that_ended_can_be_removed(machine):
    run_id = detach(machine, "-c", SLEEP)
    wait_for(machine, run_id, has_said("up\n"))
    assert machine.sbxctl(["rm", "--all"]).status == 0
    assert [run["id"] for run in json.loads(machine.sbxctl(["ps", "-a", "--json"]).stdout)["runs"]] == [run_id]
    refused = machine.sbxctl(["rm", run_id])
    assert refused.status == 125 and "sbxctl stop" in refused.errors
    machine.sbxctl(["stop", "--kill", run_id])
