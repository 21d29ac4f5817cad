"""The end of cloud sandboxes: asked for, by a clock, by a death. None outlives its owner."""

import json
import re
import time

import e2b_engine
import pytest
from e2b_engine import KEY, UNIT, configure, inside

pytestmark = pytest.mark.long  # whoever is killed has to be waited for

HOLD = """
import sys
with Sandbox(**json.loads(sys.argv[1])) as sandbox:
    to, out, err = sandbox.go(["sh", "-c", "echo begun; exec sleep 1000"])
    os.read(out, 10)
    print("begun", flush=True)
    sys.stdin.read()
"""


def hold(machine, **options):
    """A program in a sandbox, until its owner's standard input ends."""
    command = machine.python("import json, os\nfrom engine_client import *\n" + HOLD, json.dumps(options))
    running = machine.popen(["setpriv", "--reuid=sbxctl", "--regid=sbxctl", "--clear-groups", "env", "ENGINE=e2b", *command])
    assert running.popen.stdout.readline() == b"begun\n"
    return running


def processes(machine):
    """The engine's, the service's own first."""
    return [int(pid) for pid in machine.run(["pgrep", "-x", "sbxctl-engine-e"], check=True).text.split()]


def child_with_sandbox(machine):
    """Of its own processes the one that has two connections to the broker: the control socket is one."""
    service = machine.main_pid(UNIT)
    sockets = {pid: machine.run(["sh", "-c", f"ls -l /proc/{pid}/fd | grep -c socket:"]).text.strip() for pid in processes(machine)}
    return max(sockets, key=lambda pid: (pid != service, int(sockets[pid] or 0)))


def test_grace_lets_the_program_tidy_up(machine, cloud):
    told = inside(machine, """
        code = "import signal, sys, time; signal.signal(15, lambda *_: (open('tidy', 'w').write('x'), print('bye'), sys.exit(5))); " \\
               "print('ready', flush=True); time.sleep(1000)"
        with Sandbox() as sandbox:
            to, out, err = sandbox.go(["python3", "-c", code])
            os.read(out, 10)
            sandbox.tell({"type": "kill", "version": VERSION, "graceUSec": 10_000_000})
            exited = sandbox.exited()
            files = os.listdir(sandbox.workspace)
            rest = os.read(out, 100)
            ended = sandbox.kill()
        print(json.dumps([exited[:2], rest.decode(), files, ended["cleaned"]]))
    """)
    assert told == [[1, 5], "bye\n", ["tidy"], True]


def test_grace_has_an_end(machine, cloud):
    told = inside(machine, """
        with Sandbox() as sandbox:
            to, out, err = sandbox.go(["sh", "-c", "trap '' TERM; echo x; while :; do sleep 1; done"])
            os.read(out, 10)
            began = now()
            ended = sandbox.kill(1_000_000)
            print(json.dumps([ended["cleaned"], now() - began]))
    """)
    assert told[0] and 1_000_000 <= told[1] < 6_000_000
    cloud.wait_until_empty()


def test_life_of_a_sandbox_is_a_clock_of_its_own(machine, cloud):
    # The cloud counts whole seconds, so its own clock leaves the engine's most of one to be the first.
    told = inside(machine, """
        with Sandbox(lifetimeUSec=5_100_000) as sandbox:
            sandbox.go(["sleep", "1000"])
            print(json.dumps(sandbox.ended()["why"]))
    """)
    assert told == "timeout"
    cloud.wait_until_empty()
    assert cloud.counts()["deleted"] == 1


def test_cloud_ends_it_when_nobody_else_does(machine, cloud):
    """The whole machine may be gone: so the life is told to the cloud."""
    running = hold(machine, lifetimeUSec=8_000_000)
    cloud.fault("delete", "drop", times=-1)
    machine.run(["systemctl", "kill", "--signal=KILL", UNIT], check=True)
    machine.run(["systemctl", "stop", UNIT.replace(".service", ".socket"), UNIT], check=True)
    try:
        cloud.wait_until_empty(20)
        assert cloud.counts()["expired"] == 1
    finally:
        machine.run(["systemctl", "start", UNIT.replace(".service", ".socket")], check=True)
        running.finish()


def test_owner_that_hangs_up_leaves_no_sandbox(machine, cloud):
    running = hold(machine)
    running.signal("KILL")
    cloud.wait_until_empty()
    assert cloud.counts()["deleted"] == 1


def test_killed_process_of_a_sandbox_leaves_none(machine, cloud):
    running = hold(machine)
    service = machine.main_pid(UNIT)
    machine.run(["kill", "-KILL", str(child_with_sandbox(machine))], check=True)
    cloud.wait_until_empty()
    assert machine.main_pid(UNIT) == service
    running.finish()


def test_killed_service_leaves_none(machine, cloud):
    running = hold(machine)
    machine.run(["systemctl", "kill", "--signal=KILL", UNIT], check=True)
    cloud.wait_until_empty()
    running.finish()


def test_stopped_service_leaves_none(machine, cloud):
    running = hold(machine)
    e2b_engine.stop(machine)
    assert cloud.live() == []
    running.finish()


def test_sandbox_of_another_machine_is_none_of_ours(machine, cloud):
    running = hold(machine)
    cloud.fault("list", "merge", fields={"metadata": {"sbxctl-machine": "0" * 32, "sbxctl-service": "x"}}, times=-1)
    before = len([request for request in cloud.requests() if request["operation"] == "list"])
    machine.run(["systemctl", "kill", "--signal=KILL", UNIT], check=True)
    machine.wait_for(lambda: len([request for request in cloud.requests() if request["operation"] == "list"]) > before, 20, "a sweep")
    assert cloud.live()
    cloud.call("DELETE", "/faults")
    e2b_engine.stop(machine)
    inside(machine, "with Sandbox(): print(0)")
    cloud.wait_until_empty(30)
    running.finish()


def test_key_is_found_nowhere(machine, cloud):
    """In no process's command line and environment, no file that a run leaves, no journal, no message."""
    cloud.fault("get", "answer", status=500, body=f"no such key {KEY}", times=1, skip=1)
    running = hold(machine)
    places = machine.run(["sh", "-c", "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'"]).text
    # What looks for it would find itself, so only its beginning is told apart here.
    assert KEY not in places
    for pid in processes(machine):
        assert machine.run(["grep", "-c", "Limit", f"/proc/{pid}/limits"]).status == 0
        assert re.search(r"Max core file size +0 +0", machine.read(f"/proc/{pid}/limits").decode())
        assert machine.run(["stat", "-c", "%u", f"/proc/{pid}/environ"], check=True).text.strip() == "0"
    running.finish()
    cloud.fault("create", "answer", status=400, body={"code": 400, "message": f"Invalid API key {KEY} given"}, times=1)
    message = e2b_engine.refusal(machine)["message"]
    assert "Invalid API key" in message and KEY not in message
    cloud.fault("create", "answer", status=500, body=f"<html>{KEY}</html>", times=1)
    assert KEY not in e2b_engine.refusal(machine)["message"]
    assert KEY not in str(machine.journal("_SYSTEMD_UNIT=" + UNIT))
    assert machine.run(["grep", "-rlF", KEY, "/run/sbxctl", "/var/lib/sbxctl", "/tmp", "/var/tmp", "/workspace"]).text == ""


def test_environment_leads_nobody_astray(machine, cloud):
    drop_in = f"/run/systemd/system/{UNIT}.d/environment.conf"
    machine.run(["mkdir", "-p", drop_in.rpartition("/")[0]], check=True)
    names = ["https_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"]
    lines = [f"Environment={name}=http://localhost:1" for name in names]
    lines += ["Environment=SSL_CERT_FILE=/dev/null", "Environment=SSLKEYLOGFILE=/tmp/keys", "Environment=E2B_API_URL=https://localhost:1"]
    machine.write(drop_in, "\n".join(["[Service]", *lines, ""]).encode())
    try:
        machine.run(["systemctl", "daemon-reload"], check=True)
        e2b_engine.stop(machine)
        assert inside(machine, "with Sandbox() as sandbox: print(json.dumps(sandbox.run(['true']).exited[:2]))") == [1, 0]
        assert machine.run(["find", "/tmp", "-path", "*sbxctl-engine-e2b*", "-name", "keys"], check=True).text == ""
    finally:
        machine.run(["rm", drop_in], check=True)
        machine.run(["systemctl", "daemon-reload"], check=True)
        e2b_engine.stop(machine)


# ---- the life of a sandbox, and who counts


def test_long_upload_takes_nothing_of_the_sandboxes_life(machine, cloud):
    """The cloud's clock is set anew while files are sent, and once more before the program starts."""
    cloud.fault("files.upload", "delay", seconds=14)
    told = inside(machine, """
        with Sandbox(lifetimeUSec=10_000_000) as sandbox:
            sandbox.put("f", b"content")
            to, out, err = sandbox.go(["sh", "-c", "sleep 4; cat f"])
            os.close(to)
            print(json.dumps([os.read(out, 100).decode(), sandbox.exited()[:2]]))
    """, timeout=90)
    assert told == ["content", [1, 0]]
    assert cloud.operations().count("timeout") >= 2
    cloud.wait_until_empty()
    assert cloud.counts()["expired"] == 0


def test_who_only_asks_takes_no_place(machine, cloud):
    configure(machine, MaxSandboxes=1)
    cloud.fault("list", "delay", seconds=8, skip=1, times=-1)  # the sweep at the start comes first
    asking = machine.popen(["setpriv", "--reuid=sbxctl", "--regid=sbxctl", "--clear-groups", "env", "ENGINE=e2b", *machine.python("""
        from engine_client import *
        for _ in range(4):
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            sock.connect("/run/sbxctl/engine/e2b")
            sock.send(json.dumps({"type": "prepare", "version": VERSION, "image": "", "anyState": False}).encode())
            globals()[f"kept{_}"] = sock
        print("asked", flush=True)
        print(sock.recv(10000).decode())
    """)])
    try:
        assert asking.popen.stdout.readline() == b"asked\n"
        assert inside(machine, "with Sandbox() as sandbox: print(json.dumps(sandbox.run(['true']).exited[:2]))") == [1, 0]
    finally:
        configure(machine)
        asking.finish()


def test_place_of_a_killed_process_is_free_when_its_sandbox_is_gone(machine, cloud):
    configure(machine, MaxSandboxes=1)
    try:
        running = hold(machine)
        assert "allows no more" in e2b_engine.refusal(machine)["message"]
        machine.run(["kill", "-KILL", str(child_with_sandbox(machine))], check=True)
        cloud.wait_until_empty()
        machine.wait_for(lambda: "place" not in str(inside(machine, """
            try:
                with Sandbox():
                    print(json.dumps("made"))
            except EngineError:
                print(json.dumps("no place"))
        """)), 30, "the place")
        running.finish()
    finally:
        configure(machine)


def test_cloud_that_does_not_answer_is_told_before_anybody_tires(machine, cloud):
    cloud.fault("list", "delay", seconds=60, times=-1)
    began = time.monotonic()
    shown = machine.sbxctl(["engines"], timeout=60).text
    assert "did not answer in time" in " ".join(shown.split()), shown
    assert time.monotonic() - began < 30
    cloud.call("DELETE", "/faults")


def test_many_left_sandboxes_hold_up_nobody(machine, cloud):
    """A service that starts has them all asked to end, and goes on when the cloud is slow with it."""
    running = [hold(machine) for _ in range(4)]
    cloud.fault("delete", "delay", seconds=9, times=-1)
    machine.run(["systemctl", "kill", "--signal=KILL", UNIT], check=True)
    began = time.monotonic()
    assert inside(machine, "with Sandbox() as sandbox: print(json.dumps(sandbox.run(['true']).exited[:2]))", timeout=90) == [1, 0]
    assert time.monotonic() - began < 60
    cloud.call("DELETE", "/faults")
    cloud.wait_until_empty(60)
    for each in running:
        each.finish()
