"""CASES 28 and 30: what is missing, closed or stuck around a run is told in one line, and in a second one
what to do; and the limits act in whatever kind of control groups the host has."""

import contextlib
import re

HELPER = "sbxctl-helper"
ENGINE = "sbxctl-engine-systemd"
ENGINE_SOCKET = "/run/sbxctl/engine/systemd"
HELPER_SOCKET = "/run/sbxctl/io.sbxctl.Sandbox"


def told(machine, status, timeout=60):
    """The two lines that sbxctl says when nothing could be run: what happened, what to do."""
    result = machine.sbxctl(["run", "-c", "print(4)"], timeout=timeout)
    assert (result.status, result.text) == (status, ""), result
    what, advice = result.errors.splitlines()
    assert what.startswith("sbxctl: ") and advice.startswith("sbxctl: ")
    return what, advice


@contextlib.contextmanager
def put_right(machine, *command):
    """Whatever was done to the units meanwhile, they serve again afterwards."""
    try:
        yield
    finally:
        for words in command:
            machine.run(["sh", "-c", words], check=True)
        assert machine.sbxctl(["run", "-c", "print(4)"]).text == "4\n"


def test_case_28_helper_whose_socket_is_missing(machine):
    with put_right(machine, f"systemctl restart {HELPER}.socket"):
        machine.run(["systemctl", "stop", HELPER + ".socket", HELPER + ".service"], check=True)
        machine.run(["rm", HELPER_SOCKET], check=True)
        what, advice = told(machine, 69)
        assert "not installed or its socket is not active" in what and HELPER_SOCKET in what
        assert f"systemctl enable --now {HELPER}.socket" in advice


def test_case_28_helper_whose_socket_is_stopped(machine):
    with put_right(machine, f"systemctl start {HELPER}.socket"):
        machine.run(["systemctl", "stop", HELPER + ".socket", HELPER + ".service"], check=True)
        what, advice = told(machine, 69)
        assert "nobody listens on the helper's socket" in what and HELPER_SOCKET in what
        assert f"systemctl restart {HELPER}.socket" in advice


def test_case_28_socket_of_the_helper_that_may_not_be_used(machine):
    with put_right(machine, f"chmod 666 {HELPER_SOCKET}"):
        machine.run(["chmod", "600", HELPER_SOCKET], check=True)
        what, advice = told(machine, 69)
        assert "you may not connect" in what and HELPER_SOCKET in what
        assert "administrator" in advice


def test_case_28_helper_that_accepts_and_never_answers(machine):
    assert machine.sbxctl(["policy"]).status == 0
    pid = str(machine.main_pid())
    with put_right(machine, f"kill -CONT {pid}"):
        machine.run(["kill", "-STOP", pid], check=True)
        result = machine.sbxctl(["ps"])
        assert (result.status, result.text) == (69, "")
        assert result.errors == (
            "sbxctl: the helper does not answer\n"
            "sbxctl: as root, try: systemctl restart sbxctl-helper.service\n"
        )


def test_case_28_polkit_that_never_answers_is_waited_for_once(machine):
    assert machine.sbxctl(["policy"]).status == 0
    pid = str(machine.main_pid("polkit.service"))
    assert int(pid) > 1
    with put_right(machine, f"kill -CONT {pid}"):
        machine.run(["kill", "-STOP", pid], check=True)
        answer = machine.sbxctl(["policy", "--json"], timeout=60)
        assert answer.status == 0, answer


def test_case_28_engine_whose_socket_is_missing(machine):
    with put_right(machine, f"systemctl start {ENGINE}.socket"):
        machine.run(["systemctl", "stop", ENGINE + ".socket", ENGINE + ".service"], check=True)
        what, advice = told(machine, 125)
        assert "There is no engine 'systemd' on this machine." in what
        assert re.search(r"Use --engine with one of: .*\bdocker\b", advice), advice


def test_the_cloud_is_not_offered_instead(machine):
    cloud = "/run/sbxctl/engine/beyond"
    config = "[Helper]\nCloudEngines=beyond\n"
    with machine.configured(config), put_right(machine, f"rm {cloud}; systemctl start {ENGINE}.socket"):
        machine.run(["touch", cloud], check=True)
        machine.run(["systemctl", "stop", ENGINE + ".socket", ENGINE + ".service"], check=True)
        _, advice = told(machine, 125)
        assert "docker" in advice and "beyond" not in advice, advice


def test_case_28_engine_at_whose_socket_nobody_listens(machine):
    bind = f"import socket; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).bind('{ENGINE_SOCKET}')"
    with put_right(machine, f"rm {ENGINE_SOCKET}; systemctl start {ENGINE}.socket"):
        machine.run(["systemctl", "stop", ENGINE + ".socket", ENGINE + ".service"], check=True)
        machine.run(["sh", "-c", f'python3 -c "$0" && chown sbxctl {ENGINE_SOCKET}', bind], check=True)
        what, advice = told(machine, 125)
        assert "The engine 'systemd' does not answer: its socket is not active." in what
        assert f"systemctl enable --now {ENGINE}.socket" in advice


def test_case_28_engine_whose_socket_the_helper_may_not_use(machine):
    with put_right(machine, f"chown sbxctl {ENGINE_SOCKET}"):
        machine.run(["chown", "root", ENGINE_SOCKET], check=True)
        what, advice = told(machine, 125)
        assert "The engine 'systemd' does not answer: Permission denied." in what
        assert f"systemctl restart {ENGINE}.socket" in advice


def test_case_28_engine_that_accepts_and_never_answers(machine):
    with machine.configured("[Helper]\nStartTimeout=2s\n"):
        assert machine.sbxctl(["run", "-c", "print(4)"]).text == "4\n"
        pid = str(machine.main_pid(ENGINE + ".service"))
        with put_right(machine, f"kill -CONT {pid}"):
            machine.run(["kill", "-STOP", pid], check=True)
            what, advice = told(machine, 125, timeout=20)
            assert "The engine 'systemd' said nothing for 2 s while it made the sandbox." in what
            assert f"systemctl restart {ENGINE}.service" in advice


def test_case_30_limits_of_a_run_stand_in_the_control_groups_of_version_1(machine):
    """Version 2 is tried in the virtual machine, see tests/vm/test_vm.py."""
    kinds = machine.run(["stat", "-f", "-c", "%T", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids"])
    assert kinds.text == "cgroupfs\ncgroupfs\n", kinds
    program = "print('up', flush=True); input()"
    running = machine.popen(["sbxctl", "run", "--memory", "100M", "-c", program], "alice")
    assert running.popen.stdout.readline() == b"up\n"
    list_units = ["systemctl", "list-units", "--plain", "--no-legend", "sbxctl-run-*"]
    (unit,) = [line.split()[0] for line in machine.run(list_units, check=True).text.splitlines()]
    group = machine.run(["systemctl", "show", "-P", "ControlGroup", unit], check=True).text.strip()
    limits = {}
    for controller, file in (
        ("memory", "memory.limit_in_bytes"),
        ("pids", "pids.max"),
        ("cpu", "cpu.cfs_quota_us"),
    ):
        limits[file] = int(machine.read(f"/sys/fs/cgroup/{controller}{group}/{file}"))
    assert running.finish(b"\n").status == 0
    assert limits["memory.limit_in_bytes"] == 100 << 20
    assert 256 <= limits["pids.max"] < 300
    assert limits["cpu.cfs_quota_us"] == 100000
