"""Sandboxes that wait for runs: who gets one, that each is used once and by one run, and that none stays."""

import json
import textwrap

import pytest
from engines import engine_of

HELLO = "print(4)"
KEEP = 3  # seconds
# Of a sandbox that was there before its run: everything that could be somebody else's.
LOOK = """
import os
found = [os.path.join(at, name) for top in ("/workspace", "/tmp", "/dev/shm", "/var/tmp")
         for at, folders, files in os.walk(top) for name in folders + files]
print(found, sorted(os.listdir("/proc/self/fd")), sum(name.isdigit() for name in os.listdir("/proc")))
open("/tmp/left", "w").close()
open("/dev/shm/left", "w").close()
open("/workspace/left", "w").close()
"""


@pytest.fixture(scope="module")
def pool(machine):
    with machine.configured("[Pool]\nSize=1\nKeepTime=10min\n[Helper]\nIdleExit=600s\n"):
        yield engine_of(machine)


def is_of(name, result):
    """Whether that sandbox was the run's."""
    return result["sandboxId"].startswith(name) or name.startswith(result["sandboxId"])


def wait_for_one(machine, engine, *over):
    """The one sandbox that waits, as soon as those of the runs that are `over` are gone."""

    def waiting():
        names = engine.sandboxes()
        return len(names) == 1 and engine.processes() and not any(is_of(names[0], run) for run in over) and names

    return machine.wait_for(waiting, 20, "a sandbox to wait")[0]


def prime(machine, engine):
    """A first run, after which one waits."""
    return wait_for_one(machine, engine, machine.run_json(["-c", HELLO]))


def test_a_run_takes_the_sandbox_that_waits_and_another_one_is_made(machine, pool):
    name = prime(machine, pool)
    first = machine.run_json(["-c", HELLO])
    assert first["usage"]["warm"] and is_of(name, first)
    assert first["stdout"]["text"] == "4\n"
    wait_for_one(machine, pool, first)
    second = machine.run_json(["-c", HELLO])
    assert second["usage"]["warm"] and second["sandboxId"] != first["sandboxId"]


def test_no_sandbox_is_used_twice_nor_knows_of_another_run(machine, pool):
    seen, said, result = set(), set(), machine.run_json(["-c", HELLO])
    for user in ("alice", "bob", "alice", "bob"):
        wait_for_one(machine, pool, result)
        result = machine.run_json(["-c", LOOK], user=user)
        assert result["usage"]["warm"] and result["status"] == "succeeded", result
        seen.add(result["sandboxId"])
        said.add(result["stdout"]["text"])
    assert len(seen) == 4
    cold = machine.run_json(["--memory", "256M", "-c", LOOK])
    assert not cold["usage"]["warm"]
    assert said == {cold["stdout"]["text"]}


@pytest.mark.parametrize("option", [["--memory", "256M"], ["--cpus", "0.5"]], ids=["memory", "cpus"])
def test_a_run_that_asks_for_something_else_has_a_sandbox_of_its_own(machine, pool, option):
    name = prime(machine, pool)
    result = machine.run_json([*option, "-c", HELLO])
    assert not result["usage"]["warm"] and result["stdout"]["text"] == "4\n"
    assert wait_for_one(machine, pool, result) == name


def test_the_time_limit_is_the_runs_own(machine, pool):
    prime(machine, pool)
    result = machine.run_json(["--timeout", "1s", "-c", "import time; time.sleep(60)"])
    assert result["usage"]["warm"] and result["status"] == "timed_out"
    assert 1_000_000 <= result["usage"]["wallUSec"] < 10_000_000


def test_the_audit_tells_of_the_sandbox_at_the_start(machine, pool):
    name = prime(machine, pool)
    run = machine.run_json(["-c", HELLO])
    entries = machine.journal("_SYSTEMD_UNIT=sbxctl-helper.service", f"SBXCTL_RUN_ID={run['id']}")
    told = [entry["SBXCTL_SANDBOX_ID"] for entry in entries if "starts" in entry["MESSAGE"]]
    assert told == [run["sandboxId"]] and is_of(name, run)
    assert [entry["SBXCTL_WARM"] for entry in entries if "SBXCTL_WARM" in entry] == ["interpreter"]


@pytest.mark.parametrize("stopped", [False, True], ids=["noticed", "not yet noticed"])
def test_a_sandbox_that_died_while_it_waited_is_none(machine, pool, stopped):
    name = prime(machine, pool)
    pid = str(machine.main_pid())
    if stopped:
        machine.run(["kill", "-STOP", pid], check=True)
    running = None
    try:
        pool.kill_launcher(name)
        machine.wait_for(lambda: not pool.processes(), 10, "the sandbox to be dead")
        if stopped:
            running = machine.popen(["sbxctl", "run", "--json", "-c", HELLO], user="alice")
            assert running.pid  # so it waits to be heard
    finally:
        machine.run(["kill", "-CONT", pid], check=True)
    result = json.loads(running.finish().stdout) if running else machine.run_json(["-c", HELLO])
    assert result["status"] == "succeeded" and not is_of(name, result)


def test_a_killed_engine_takes_what_waits_with_it_and_runs_go_on(machine, pool):
    name = prime(machine, pool)
    machine.run(["systemctl", "kill", "-s", "KILL", pool.service], check=True)
    machine.wait_for(lambda: name not in pool.sandboxes() and not pool.processes(), 5, "the sandbox to be gone")
    result = machine.run_json(["-c", HELLO])
    assert result["status"] == "succeeded", result
    wait_for_one(machine, pool)


def test_a_killed_helper_leaves_no_sandbox_waiting(machine, pool):
    prime(machine, pool)
    machine.run(["kill", "-KILL", str(machine.main_pid())], check=True)
    machine.wait_for(pool.nothing_left, 5, "the sandbox to be gone")


def test_a_stopped_helper_leaves_no_sandbox_waiting(machine, pool):
    prime(machine, pool)
    machine.restart_helper()
    machine.wait_for(pool.nothing_left, 5, "the sandbox to be gone")


@pytest.mark.parametrize("whom", ["client", "helper"])
def test_a_warm_run_ends_with_its_client_and_with_the_helper(machine, pool, whom):
    name = prime(machine, pool)
    running = machine.popen(["sbxctl", "run", "-c", "print('up', flush=True)\nwhile True: pass"], user="alice")
    assert running.popen.stdout.readline() == b"up\n"
    assert name in pool.sandboxes()
    pid = running.pid if whom == "client" else machine.main_pid()
    machine.run(["kill", "-KILL", str(pid)], check=True)
    machine.wait_for(lambda: name not in pool.sandboxes(), 5, "the run's sandbox to be gone")
    running.finish()


def test_what_nobody_came_for_is_removed_and_the_helper_exits(machine, pool):
    with machine.configured(name="91-test", text=f"[Pool]\nKeepTime={KEEP}s\n[Helper]\nIdleExit=1s\n"):
        prime(machine, pool)
        pid = machine.main_pid()
        machine.wait_for(pool.nothing_left, KEEP + 10, "the sandbox to be gone")
        machine.wait_for(lambda: machine.main_pid() != pid, 10, "the helper to exit")


def test_a_pool_that_is_given_up_between_two_looks_keeps_no_helper(machine, pool):
    # A second after a run ends, the helper looks through what its user keeps, and then at the pool: sooner than it would by itself.
    with machine.configured(name="91-test", text="[Pool]\nKeepTime=2s\n[Helper]\nIdleExit=1s\n"):
        prime(machine, pool)
        pid = machine.main_pid()
        machine.run(["sbxctl", "run", "-c", "import time; time.sleep(1.5)"], user="alice", check=True)
        machine.wait_for(lambda: machine.main_pid() != pid, 20, "the helper to exit")


def test_more_wait_when_more_were_wanted_at_once(machine, pool):
    with machine.configured("[Pool]\nSize=2\n[Queue]\nRunsPerUser=4\n", name="91-test"):
        prime(machine, pool)
        sleepers = [machine.popen(["sbxctl", "run", "-c", "input()"], user="alice") for _ in range(3)]
        machine.wait_for(lambda: len(pool.sandboxes()) >= 3, 20, "the runs to start")
        for sleeper in sleepers:
            sleeper.finish(input=b"\n")
        machine.wait_for(lambda: len(pool.sandboxes()) == 2, 20, "two to wait")


def test_without_a_pool_nothing_waits(machine, pool):
    with machine.configured("[Pool]\nSize=0\n", name="91-test"):
        assert not machine.run_json(["-c", HELLO])["usage"]["warm"]
        assert not machine.run_json(["-c", HELLO])["usage"]["warm"]
        machine.wait_for(pool.nothing_left, 5, "the runs to be gone")


# A first run; then one waits, and hangs up when it is given a file; then the run's own.
LOST = """
def good(engine):
    launcher = engine.go()
    launcher.print("good")
    launcher.hang_up_streams()
    launcher.exited()
    engine.finish()
def bad(engine):
    engine.ready()
    print("waits", flush=True)
    launcher = engine.launcher
    assert launcher.hear()[0] == WARM
    assert launcher.hear()[0] == PUT
    CLOSE
serve(good, bad, good)
"""


@pytest.mark.parametrize("close", ["engine.sock.close()", "launcher.sock.close()"], ids=["engine", "launcher"])
def test_a_sandbox_lost_before_the_program_went_is_replaced_without_an_error(machine, pool, close):
    code = "from engine_double import *\n" + textwrap.dedent(LOST).replace("CLOSE", close)
    playing = machine.popen(machine.python(code))
    assert playing.popen.stdout.readline() == b"up\n"
    assert machine.run_json(["--engine", "double", "-c", HELLO])["stdout"]["text"] == "good"
    assert playing.popen.stdout.readline() == b"waits\n"
    result = machine.run_json(["--engine", "double", "-c", HELLO])
    assert result.get("status") == "succeeded" and result["stdout"]["text"] == "good", result
    assert not result["usage"]["warm"]
    assert playing.finish().text == "played\n"
