"""Detached runs outlive the helper: killed or started anew at any moment, the next one goes on with them, and no output of a program
that ended is lost."""

import contextlib

import pytest
from detached import detach, follow, followed, good, status_of, wait_for
from engines import engine_of

# Says a line, another one after a while, makes a file, and ends with 3.
SLOW = """
import sys, time
print("before", flush=True)
time.sleep({seconds})
print("after", flush=True)
open("made", "w").write("made")
sys.exit(3)
"""


def kill(machine):
    machine.run(["kill", "-KILL", str(machine.main_pid())], check=True)


def restart(machine):
    machine.run(["systemctl", "restart", "sbxctl-helper.service"], check=True)


def result_of(machine, run_id, uid=1000):
    return good(machine, "Attach", uid, id=run_id)["result"]


def said(machine, run_id):
    return machine.run(["cat", f"/var/lib/sbxctl/staging/{run_id}/stdout"]).text


def removals(machine, run_id):
    """What is on record of the end of the run's sandbox."""
    wanted = (f"SBXCTL_RUN_ID={run_id}", "MESSAGE_ID=a6f9153cf261463fbc52efd749aae1c3")
    return [entry["SBXCTL_RESULT"] for entry in machine.journal(*wanted)]


def begun(machine, script, **parameters):
    run_id = detach(machine, script, **parameters)
    machine.wait_for(lambda: said(machine, run_id), 20, "it to say something")
    return run_id


@contextlib.contextmanager
def stopped(machine, pid):
    machine.run(["kill", "-STOP", str(pid)], check=True)
    try:
        yield
    finally:
        machine.run(["kill", "-CONT", str(pid)])


def nothing_left(machine):
    machine.wait_for(engine_of(machine).nothing_left, 5, "everything to be gone")
    assert machine.run(["ls", "-A", "/var/lib/sbxctl/staging"]).text == ""
    assert machine.run(["systemctl", "show", "-P", "NFileDescriptorStore", "sbxctl-helper.service"]).text.strip() == "0"


@pytest.mark.parametrize("end", [kill, restart])
def test_a_detached_run_goes_on_with_the_next_helper(machine, end):
    run_id = begun(machine, SLOW.format(seconds=8))
    pid = machine.main_pid()
    end(machine)
    assert status_of(machine, run_id) == "running"
    assert machine.main_pid() != pid
    seen = followed(follow(machine, run_id))
    assert seen["at"]["stdout"] == len("before\nafter\n") and seen["gaps"] == seen["doubled"] == 0
    result = result_of(machine, run_id)
    assert result["status"] == "failed" and result["exitCode"] == 3
    assert result["stdout"]["text"] == "before\nafter\n" and result["stdout"]["bytes"] == len("before\nafter\n")
    assert [file["name"] for file in result["files"]] == ["made"]
    assert result["usage"]["wallUSec"] > 7_900_000
    nothing_left(machine)


def test_a_run_that_waits_is_kept_with_its_files(machine):
    with machine.configured("[Queue]\nRuns=1\n"):
        first = begun(machine, SLOW.format(seconds=60))
        script = "import sys; print(open('a').read() + open('b').read() + sys.stdin.read() + sys.argv[1])"
        second = detach(
            machine, script, stdin="c", arguments=["d"], inputs=[{"name": "a", "content": "a"}, {"name": "b", "content": "b"}],
        )
        for _ in range(3):
            kill(machine)
            assert status_of(machine, second) == "queued"
        good(machine, "Cancel", id=first, kill=True)
        assert result_of(machine, second)["stdout"]["text"] == "abcd\n"
        assert result_of(machine, first)["status"] == "cancelled"
    nothing_left(machine)


def test_limits_go_on_and_cancelling_works(machine):
    limited = begun(machine, SLOW.format(seconds=60), timeoutUSec=8_000_000)
    cancelled = begun(machine, SLOW.format(seconds=60))
    kill(machine)
    good(machine, "Cancel", id=cancelled)
    assert result_of(machine, cancelled)["status"] == "cancelled"
    result = result_of(machine, limited)
    assert result["status"] == "timed_out" and result["usage"]["wallUSec"] < 20_000_000
    nothing_left(machine)


def test_a_program_that_ends_while_nobody_looks_has_its_end_told(machine):
    run_id = begun(machine, SLOW.format(seconds=1))
    pid = machine.main_pid()
    with stopped(machine, pid):
        machine.wait_for(lambda: not machine.run(["pgrep", "-f", "print..after"]).text, 10, "the program to end")
        machine.run(["kill", "-KILL", str(pid)], check=True)
    result = result_of(machine, run_id)
    assert result["exitCode"] == 3 and result["stdout"]["text"] == "before\nafter\n"
    assert [file["name"] for file in result["files"]] == ["made"]
    nothing_left(machine)


@pytest.mark.parametrize("detached", [True, False], ids=["detached", "foreground"])
def test_outputs_that_were_being_saved_are_saved_by_the_next_helper(machine, detached):
    good(machine, "GetPolicy")
    pid = machine.main_pid()
    store = machine.run(["pgrep", "-P", str(pid), "-x", "sbxctl-store"], check=True).text.strip()
    with stopped(machine, store):
        if detached:
            run_id = detach(machine, SLOW.format(seconds=0))
        else:
            running = machine.popen(["sbxctl", "run", "-c", SLOW.format(seconds=0)], user="alice")
            run_id = machine.wait_for(lambda: good(machine, "List", active=True)["runs"], 10, "the run")[0]["id"]
        machine.wait_for(lambda: "after" in said(machine, run_id), 10, "the program to say all")
        machine.wait_for(engine_of(machine).nothing_left, 10, "the sandbox to be gone")
        kill(machine)
    if not detached:
        assert running.finish().status in (69, 125)
    result = result_of(machine, run_id)
    assert result["exitCode"] == 3 and result["stdout"]["text"] == "before\nafter\n"
    assert machine.read(f"/var/lib/sbxctl/users/1000/{run_id}/files/made", user="alice") == b"made"
    assert removals(machine, run_id) == ["removed"]
    nothing_left(machine)


REMOVED_LATE = """
import fcntl, sys, termios, time
from engine_double import *
def scenario(engine):
    launcher = engine.go()
    launcher.hang_up_streams()
    launcher.exited(alone=1)
    assert engine.hear()["type"] == "kill"
    engine.ended(cleaned=False, stands=True, leftovers=0)
    while int.from_bytes(fcntl.ioctl(engine.sock, termios.TIOCOUTQ, bytes(4)), sys.byteorder) > 0:
        time.sleep(0.01)  # until it is read
    print("over", flush=True)
    input()
    engine.say("removed", cleaned=True)
    engine.hung_up()
serve(scenario)
"""


def test_the_next_helper_hears_that_a_sandbox_is_removed(machine):
    good(machine, "GetPolicy")
    pid = machine.main_pid()
    store = machine.run(["pgrep", "-P", str(pid), "-x", "sbxctl-store"], check=True).text.strip()
    playing = machine.popen(machine.python(REMOVED_LATE))
    assert playing.popen.stdout.readline() == b"up\n"
    with stopped(machine, store):
        run_id = detach(machine, "print(4)", engine="double")
        assert playing.popen.stdout.readline() == b"over\n"
        kill(machine)
    assert result_of(machine, run_id)["status"] == "succeeded"
    playing.popen.stdin.write(b"\n")
    playing.popen.stdin.flush()
    assert playing.finish().text == "played\n"
    machine.wait_for(lambda: removals(machine, run_id) == ["removed"], 10, "the record of the removal")


def test_a_helper_that_is_stopped_ends_all_and_says_lost(machine):
    run_id = begun(machine, SLOW.format(seconds=60))
    machine.run(["systemctl", "stop", "sbxctl-helper.service"], check=True)
    machine.wait_for(engine_of(machine).nothing_left, 5, "the sandbox to be gone")
    assert status_of(machine, run_id) == "lost"
    nothing_left(machine)
    assert machine.sbxctl(["run", "-c", "print(4)"]).text == "4\n"


def test_what_was_ready_for_its_user_is_given_and_what_was_half_written_is_removed(machine):
    run_id = detach(machine, SLOW.format(seconds=0))
    assert result_of(machine, run_id)["exitCode"] == 3
    machine.run(["systemctl", "stop", "sbxctl-helper.service"], check=True)
    # As a helper leaves them that is killed just before the one is renamed, and while the other is filled.
    machine.run(["mv", f"/var/lib/sbxctl/users/1000/{run_id}", "/var/lib/sbxctl/staging/"], check=True)
    machine.run(["install", "-d", "-o", "sbxctl", "-m", "0700", "/var/lib/sbxctl/staging/00000000deadbeef"], check=True)
    assert status_of(machine, run_id) == "failed"
    made = f"/var/lib/sbxctl/users/1000/{run_id}/files/made"
    machine.wait_for(lambda: machine.run(["cat", made], user="alice").stdout == b"made", 10, "the outputs")
    machine.wait_for(lambda: machine.run(["ls", "-A", "/var/lib/sbxctl/staging"]).text == "", 10, "the rest to be gone")
    saved = machine.journal(f"SBXCTL_RUN_ID={run_id}", "MESSAGE_ID=06c58d6dbcc846ad91e085b0ee645890")
    assert [entry["SBXCTL_RESULT"] for entry in saved] == ["saved", "saved"]
    removed = machine.journal("SBXCTL_RUN_ID=00000000deadbeef", "MESSAGE_ID=a6f9153cf261463fbc52efd749aae1c3")
    assert removed[-1]["SBXCTL_RESULT"] == "removed" and "half written" in removed[-1]["SBXCTL_REASON"]


def test_a_foreground_run_does_not_outlive_a_killed_helper(machine):
    running = machine.popen(["sbxctl", "run", "-c", SLOW.format(seconds=60)], user="alice")
    assert running.popen.stdout.readline() == b"before\n"
    run_id = good(machine, "List", active=True)["runs"][0]["id"]
    kill(machine)
    machine.wait_for(engine_of(machine).nothing_left, 2, "the sandbox to be gone")
    assert status_of(machine, run_id) == "lost"
    running.finish()
    nothing_left(machine)


def test_what_was_approved_is_what_is_restored(machine):
    with machine.configured("[Queue]\nRuns=1\n"):
        first = begun(machine, SLOW.format(seconds=10))
        second = detach(machine, "print(4)")
        # Read by the next helper only.
        machine.write("/etc/sbxctl/sbxctl.conf.d/91-other.conf", b"[Defaults]\nMemory=300M\n")
        try:
            kill(machine)
            assert status_of(machine, second) == "lost"
            result = result_of(machine, first)
            assert result["exitCode"] == 3 and result["policy"]["memoryBytes"] == 512 << 20
        finally:
            machine.run(["rm", "/etc/sbxctl/sbxctl.conf.d/91-other.conf"])
    nothing_left(machine)
