"""The life of a run hangs on a chain of sockets: whatever is killed, nothing of the run stays."""

import json

import pytest
from engines import engine_of

SLEEP = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = """
import os, signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        time.sleep(600)
print("up", flush=True)
time.sleep(600)
"""


def nothing_left(machine):
    return engine_of(machine).nothing_left()


def start(machine, script=STUBBORN):
    machine.wait_for(lambda: nothing_left(machine), 10, "earlier runs to be gone")
    running = machine.popen(["sbxctl", "run", "-c", script], user="alice")
    assert running.popen.stdout.readline() == b"up\n"
    engine = engine_of(machine)
    assert engine.sandboxes() and engine.processes()
    return running


def last_run(machine):
    runs = json.loads(machine.sbxctl(["ps", "--all", "--json"]).stdout)
    return (runs["runs"] if isinstance(runs, dict) else runs)[0]


@pytest.mark.parametrize("script", [SLEEP, STUBBORN], ids=["plain", "stubborn"])
def test_killed_client_leaves_nothing(machine, script):
    running = start(machine, script)
    running.signal("KILL")
    machine.wait_for(lambda: nothing_left(machine), 2, "the run to be gone")
    machine.wait_for(lambda: last_run(machine)["status"] == "cancelled", 5, "the record")
    running.finish()


def test_killed_broker_leaves_nothing_and_the_record_says_lost(machine):
    running = start(machine)
    pid = str(machine.main_pid())
    machine.run(["kill", "-KILL", pid], check=True)
    machine.wait_for(lambda: nothing_left(machine), 2, "the run to be gone")
    ended = running.finish()
    assert ended.status in (69, 125), ended
    last = machine.wait_for(
        lambda: (run := last_run(machine))["status"] == "lost" and run, 5, "the record"
    )
    assert "helper" in last["reason"]
    assert machine.run(["ls", "-A", "/var/lib/sbxctl/staging"]).text == ""
    assert machine.sbxctl(["run", "-c", "print(4)"]).text == "4\n"


def test_killed_engine_process_leaves_nothing(machine):
    running = start(machine)
    for pid in engine_of(machine).children():
        machine.run(["kill", "-KILL", pid])
    machine.wait_for(lambda: nothing_left(machine), 2, "the run to be gone")
    ended = running.finish()
    assert ended.status == 125, ended
    assert last_run(machine)["status"] == "lost"
    assert machine.sbxctl(["run", "-c", "print(4)"]).text == "4\n"


def test_killed_engine_service_leaves_nothing(machine):
    running = start(machine)
    machine.run(["systemctl", "kill", "-s", "KILL", engine_of(machine).service], check=True)
    machine.wait_for(lambda: nothing_left(machine), 2, "the run to be gone")
    running.finish()
    machine.wait_for(
        lambda: machine.sbxctl(["run", "-c", "print(4)"]).text == "4\n", 10, "the next run to work"
    )


def test_interrupted_client_cancels_and_keeps_the_outputs(machine):
    script = "open('part.txt', 'w').write('partial')\n" + SLEEP
    running = start(machine, script)
    running.signal("INT")
    ended = running.finish()
    assert ended.status == 130, ended
    run = last_run(machine)
    assert run["status"] == "cancelled"
    kept = machine.read(f"/var/lib/sbxctl/users/1000/{run['id']}/files/part.txt", user="alice")
    assert kept == b"partial"
    machine.wait_for(lambda: nothing_left(machine), 2, "the run to be gone")


def test_script_j_sigterm_is_handled_within_the_grace_period(machine):
    script = """
import signal, sys, time
def stop(*_):
    open("checkpoint", "w").write("saved")
    print("stopping", flush=True)
    sys.exit(3)
signal.signal(signal.SIGTERM, stop)
while True:
    time.sleep(0.1)
"""
    result = machine.run_json(["--timeout", "2s", "-c", script])
    assert result["status"] == "timed_out"
    assert result["stdout"]["text"] == "stopping\n"
    assert [file["name"] for file in result["files"]] == ["checkpoint"]


def test_program_that_ignores_sigterm_is_killed_after_the_grace_period(machine):
    result = machine.run_json(["--timeout", "1s", "-c", STUBBORN])
    assert result["status"] == "timed_out"
    assert result["usage"]["wallUSec"] < 6_000_000
    machine.wait_for(lambda: nothing_left(machine), 2, "the run to be gone")


def test_helper_exits_when_idle_and_comes_back(machine):
    with machine.configured("[Helper]\nIdleExit=1s\n"):
        machine.run(["systemctl", "start", "sbxctl-helper.service"], check=True)
        machine.wait_for(
            lambda: machine.run(["systemctl", "is-active", "sbxctl-helper.service"]).text == "inactive\n",
            10, "the idle helper to exit",
        )
        assert machine.sbxctl(["run", "-c", "print(4)"]).text == "4\n"
        assert machine.run(["systemctl", "is-failed", "sbxctl-helper.service"]).status != 0


@pytest.mark.parametrize(
    "prepare, expected",
    [
        ("printf '[Defaults]\\nMemory=lots\\n' >F", "90-bad.conf:2"),
        ("printf '[Defaults]\\nColour=red\\n' >F", "Colour"),
        ("printf '[Limits]\\nTasks=100\\n' >F && chown alice F", "must belong to root"),
        ("printf '[Limits]\\nTasks=100\\n' >F && chmod 0666 F", "writable by nobody else"),
        ("printf '[Ceiling]\\nMemory=64M\\n' >F", "above its [Ceiling]"),
    ],
    ids=["value", "key", "owner", "mode", "whole"],
)
def test_bad_configuration_stops_the_helper_and_names_the_place(machine, prepare, expected):
    path = "/etc/sbxctl/sbxctl.conf.d/90-bad.conf"
    machine.run(["systemctl", "stop", "sbxctl-helper.service"], check=True)
    since = machine.run(["date", "+%s.%N"]).text.strip()
    machine.run(["sh", "-c", prepare.replace("F", path)], check=True)
    try:
        refused = machine.sbxctl(["run", "-c", "print(4)"], timeout=30)
        assert refused.status in (69, 125) and refused.text == ""
        log = machine.journal("_SYSTEMD_UNIT=sbxctl-helper.service", f"--since=@{since}")
        assert any(expected in entry["MESSAGE"] for entry in log), [e["MESSAGE"] for e in log]
    finally:
        machine.run(["rm", "-f", path], check=True)
        machine.run(["systemctl", "reset-failed", "sbxctl-helper.service", "sbxctl-helper.socket"])
        machine.run(["systemctl", "restart", "sbxctl-helper.socket"], check=True)
    assert machine.sbxctl(["run", "-c", "print(4)"]).text == "4\n"


def test_a_hundred_runs_in_a_row_leave_everything_where_it_was(machine):
    loop = "for i in $(seq {}); do [ \"$(sbxctl run -c 'print(4)')\" = 4 ] || exit 1; done"
    machine.run(["sh", "-c", loop.format(10)], user="alice", check=True, timeout=120)
    machine.wait_for(lambda: nothing_left(machine), 5, "the first runs to be gone")
    pid = machine.main_pid()
    before = machine.descriptors(pid), machine.memory(pid)
    machine.run(["sh", "-c", loop.format(100)], user="alice", check=True, timeout=300)
    machine.wait_for(lambda: nothing_left(machine), 5, "the runs to be gone")
    assert machine.main_pid() == pid
    assert machine.descriptors(pid) == before[0]
    assert machine.memory(pid) < before[1] + 4096
    assert machine.run(["ls", "-A", "/var/lib/sbxctl/staging"], check=True).text == ""
    assert machine.run(["systemctl", "--failed", "--no-legend"]).text == ""
    if machine.engine not in (None, "systemd"):
        return
    # What sandboxes share stays; what is of one sandbox has its id in its name.
    shared = machine.run(["ls", "-A", "/run/sbxctl-engine-systemd"], check=True).text.split()
    assert [name for name in shared if not name.startswith("etc-")] == []


def test_ten_runs_at_once_all_go_right(machine):
    script = """
for i in 0 1 2 3 4 5 6 7 8 9; do
    sbxctl run -c "import time; time.sleep(0.2); open('out', 'w').write('$i'); print($i)" >out.$i 2>err.$i &
done
wait
for i in 0 1 2 3 4 5 6 7 8 9; do [ "$(cat out.$i)" = $i ] || { cat err.$i; exit 1; }; done
"""
    directory = machine.directory()
    machine.run(["sh", "-c", f"cd {directory} && {script}"], user="alice", check=True, timeout=120)
    machine.wait_for(lambda: nothing_left(machine), 5, "the runs to be gone")


def test_a_full_queue_refuses_at_once(machine):
    waiting = [machine.popen(["sbxctl", "run", "-c", SLEEP], user="alice") for _ in range(18)]
    try:
        machine.wait_for(
            lambda: len(json.loads(machine.sbxctl(["ps", "--json"]).stdout)["runs"]) == 18
            if isinstance(json.loads(machine.sbxctl(["ps", "--json"]).stdout), dict)
            else len(json.loads(machine.sbxctl(["ps", "--json"]).stdout)) == 18,
            20, "all to wait",
        )
        refused = machine.sbxctl(["run", "-c", "print(4)"])
        assert refused.status == 125 and "waiting" in refused.errors
        assert machine.sbxctl(["run", "-c", "print(4)"], user="bob").text == "4\n"
    finally:
        for running in waiting:
            running.signal("KILL")
        for running in waiting:
            running.finish()
    machine.wait_for(lambda: nothing_left(machine), 10, "the runs to be gone")
