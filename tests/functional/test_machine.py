"""The test machine is what the other tests take it for."""

import os
import signal
import subprocess

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


def test_a_command_that_was_stopped_ends_like_another(machine):
    reader = machine.popen(["cat"], "alice")
    stat = f"/proc/{reader.pid}/stat"
    reader.signal("STOP")
    machine.wait_for(lambda: machine.read(stat).split()[2] == b"T", 10, "the command to stop")
    reader.signal("CONT")
    ended = reader.finish(input=b"on", timeout=10)
    assert (ended.status, ended.stdout) == (0, b"on")


def test_exec_says_nothing_of_a_command_that_a_signal_ended(machine):
    ended = machine.run(["sh", "-c", "kill -9 $$"], "alice")
    assert (ended.status, ended.stdout, ended.stderr) == (128 + 9, b"", b"")


LOOK = """
grep -E '^(SigIgn|Groups|CapBnd):' /proc/self/status
echo "pid $$ session $(cut -d' ' -f6 /proc/$$/stat)"
ls /proc/$$/fd
echo again >/dev/stdout
"""


def test_exec_hands_on_nothing_else_of_the_host(machine):
    """Neither what its caller ignores, nor descriptors, groups and capabilities; and pipes are the user's."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    read, write = os.pipe()
    try:
        seen = subprocess.run(machine._command(["sh", "-c", LOOK], "alice"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              pass_fds=[read, write], check=True, text=True).stdout.split("\n")
    finally:
        signal.signal(signal.SIGINT, before)
        os.close(read)
        os.close(write)
    fields = dict(line.split(":\t") for line in seen if ":\t" in line)
    assert fields["SigIgn"] == "0" * 16 and fields["Groups"].split() == ["1000"]
    assert fields["CapBnd"] == machine.run(["grep", "CapBnd", "/proc/1/status"]).text.split()[1]
    pid, session = next(line.split()[1::2] for line in seen if line.startswith("pid "))
    assert pid == session
    assert seen[-5:] == ["0", "1", "2", "again", ""], seen
