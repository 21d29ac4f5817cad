"""The test machine is what the other tests take it for."""

import pytest

ALL_BYTES = bytes(range(256))


def test_systemd_is_running(machine):
    assert machine.run(["systemctl", "is-system-running"]).text == "running\n"
    assert machine.run(["cat", "/proc/1/comm"]).text == "systemd\n"


@pytest.mark.parametrize("user, uid", [("alice", 1000), ("bob", 1001)])
def test_users_are_ordinary(machine, user, uid):
    assert machine.run(["id"], user).text == (
        f"uid={uid}({user}) gid={uid}({user}) groups={uid}({user})\n"
    )
    assert machine.run(["stat", "-c", "%a %U", f"/home/{user}"]).text == f"700 {user}\n"
    assert machine.run(["grep", "CapEff", "/proc/self/status"], user).text.split()[1] == "0" * 16


def test_users_cannot_reach_docker(machine):
    assert machine.run(["docker", "info"], "alice").status != 0


def test_journald_keeps_what_is_logged(machine):
    token = machine.run(["cat", "/proc/sys/kernel/random/uuid"]).text.strip()
    machine.run(["logger", "--tag", "test-machine", token], "alice", check=True)
    (entry,) = machine.journal("SYSLOG_IDENTIFIER=test-machine", f"MESSAGE={token}")
    assert entry["_UID"] == "1000"


def test_polkit_answers(machine):
    check = machine.run(["pkcheck", "--action-id", "org.freedesktop.no-such", "--process", "1"])
    assert "org.freedesktop.no-such is not registered" in check.errors


def test_docker_starts_on_demand_and_answers(machine):
    info = machine.run(["docker", "info", "--format", "{{.Driver}}"], check=True)
    assert info.text == "overlay2\n"


def test_exec_passes_input_and_output_byte_for_byte(machine):
    assert machine.run(["cat"], "bob", input=ALL_BYTES * 4096).stdout == ALL_BYTES * 4096


def test_exec_keeps_streams_apart(machine):
    result = machine.run(["sh", "-c", "echo out; echo err >&2"])
    assert (result.stdout, result.stderr) == (b"out\n", b"err\n")


@pytest.mark.parametrize("status", [0, 1, 64, 124, 126, 137, 255])
def test_exec_passes_the_status(machine, status):
    assert machine.run(["sh", "-c", f"exit {status}"], "alice").status == status


def test_exec_passes_arguments_unchanged(machine):
    words = ["", " two  words ", "*", "$HOME", "a\nb", "'\"\\", "--user"]
    printed = machine.run(["printf", "%s\\0", *words], "alice").stdout
    assert printed.decode().split("\0")[:-1] == words


def test_exec_gives_the_environment_of_a_login(machine):
    lines = machine.run(["env"], "alice").text.splitlines()
    environment = dict(line.split("=", 1) for line in lines)
    assert environment.keys() == {"HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG"}
    assert environment["HOME"] == "/home/alice"
    assert machine.run(["pwd"], "alice").text == "/home/alice\n"


def test_exec_with_tty_gives_a_terminal(machine):
    assert machine.run(["tty"], "alice").text == "not a tty\n"
    assert machine.run(["tty"], "alice", tty=True).text.startswith("/dev/pts/")
    assert machine.run(["sh", "-c", "exit 7"], "alice", tty=True).status == 7


def test_signals_reach_a_running_command(machine):
    sleeper = machine.popen(["sleep", "60"], "alice")
    sleeper.signal("TERM")
    assert sleeper.finish(timeout=10).status == 128 + 15
