"""What is wrong with Docker is said in one line, with what to do: never a hang, never a run that is lost."""

import pathlib

import docker_engine
import pytest

pytestmark = pytest.mark.long  # waits for daemons that hang

DOUBLE = pathlib.Path(__file__).with_name("docker_double.py").read_text()
SOCKET = "/run/docker-double.sock"


@pytest.fixture(autouse=True)
def restored(machine):
    docker_engine.use_machine_as_image(machine)
    yield
    docker_engine.use_machine_as_image(machine)


@pytest.fixture
def double(machine):
    """Starts a daemon that misbehaves, and lets the engine use it."""
    started = []

    def start(behaviour):
        running = machine.popen(["python3", "-c", DOUBLE, SOCKET, behaviour])
        assert running.popen.stdout.readline() == b"listening\n"
        docker_engine.configure(machine, Socket=SOCKET)
        started.append(running)

    yield start
    for running in started:
        running.signal("KILL")
        running.finish()
    machine.run(["rm", "-f", SOCKET])


def refused(machine, timeout=60):
    """What a run that does not start says: one line with the reason, one with the way out or none."""
    result = machine.sbxctl(["run", "--engine", "docker", "-c", "print(4)"], timeout=timeout)
    assert result.status == 125 and result.text == "", result
    lines = result.errors.splitlines()
    assert 1 <= len(lines) <= 2, lines
    assert all(line.isprintable() for line in lines), lines
    # The next run is not the worse for it.
    assert machine.sbxctl(["run", "--engine", "systemd", "-c", "print(4)"]).text == "4\n"
    return lines


def names_the_way_out(lines):
    return len(lines) == 2 and "--engine" in lines[1] and "systemd" in lines[1]


VERSION_OF = '{{range .Server.Components}}{{if eq .Name "%s"}}{{.Version}}{{end}}{{end}}'


def test_missing_socket_is_said(machine):
    docker_engine.configure(machine, Socket="/run/no-docker.sock")
    lines = refused(machine)
    assert "/run/no-docker.sock" in lines[0] and "systemctl start docker.socket" in lines[0]
    assert names_the_way_out(lines)


def test_forbidden_socket_is_said(machine):
    machine.run(["chmod", "0600", "/run/docker.sock"], check=True)
    try:
        lines = refused(machine)
    finally:
        machine.run(["chmod", "0660", "/run/docker.sock"], check=True)
    assert "may not use" in lines[0] and "usermod -aG docker sbxctl-docker" in lines[0]
    assert names_the_way_out(lines)


def test_stopped_daemon_is_said(machine):
    bind = "import socket; socket.socket(socket.AF_UNIX).bind('/run/stopped.sock')"
    machine.run(["sh", "-c", f'python3 -c "{bind}"; chmod 0666 /run/stopped.sock'], check=True)
    docker_engine.configure(machine, Socket="/run/stopped.sock")
    try:
        lines = refused(machine)
    finally:
        machine.run(["rm", "/run/stopped.sock"])
    assert "stopped" in lines[0] and "systemctl start docker.service" in lines[0]
    assert names_the_way_out(lines)


def test_daemon_that_stands_still_is_given_up(machine):
    pid = machine.run(["pidof", "dockerd"], check=True).text.split()[0]
    machine.run(["kill", "-STOP", pid], check=True)
    try:
        lines = refused(machine)
    finally:
        machine.run(["kill", "-CONT", pid], check=True)
    assert "did not answer" in lines[0] and "systemctl restart docker.service" in lines[0]
    assert names_the_way_out(lines)


@pytest.mark.parametrize(
    "behaviour, words",
    [
        ("hangs", "did not answer in 10 s"),
        ("hangs-at-create", "did not answer in 20 s"),
        ("too-old", "Docker is too old: it speaks version 1.40"),
        ("no-api", "does not speak Docker's Engine API"),
        ("full", "docker system prune"),
        ("goes-away", "went away in the middle of a request"),
    ],
)
def test_unusable_daemon_is_said_with_the_way_out(machine, double, behaviour, words):
    double(behaviour)
    lines = refused(machine)
    assert words in lines[0]
    assert names_the_way_out(lines)


@pytest.mark.parametrize(
    "behaviour, words",
    [
        ("name-conflict", "docker rm --force sbxctl-run-"),
        ("only-newer", "newer"),
        ("escapes", "bad\\x0a\\x1b[31mred"),
        ("volume", "declares a volume (/data)"),
    ],
)
def test_refusal_is_said_with_its_reason(machine, double, behaviour, words):
    double(behaviour)
    lines = refused(machine)
    assert words in lines[0]
    assert len(lines[0]) < 600


@pytest.mark.parametrize(
    "behaviour",
    [
        "two-lengths",
        "cut",
        "no-http",
        "negative-length",
        "huge-chunk",
        "endless-headers",
        "endless-hints",
        "endless-chunks",
        "endless-body",
        "slow",
        "elsewhere",
        "deep",
        "no-object",
    ],
)
def test_fault_38_an_answer_that_is_none_ends_the_run_in_words(machine, double, behaviour):
    double(behaviour)
    lines = refused(machine)
    assert "Docker" in lines[0] and "went away while" not in lines[0]
    assert len(lines[0]) < 600
    shown = machine.run(["systemctl", "show", "-P", "MemoryPeak", "sbxctl-engine-docker.service"], check=True).text
    assert not shown.strip().isdigit() or int(shown) < 64 << 20


@pytest.mark.parametrize(
    "behaviour",
    [
        "image-without-id",
        "image-of-another-id",
        "image-of-another-type",
        "image-with-a-terrible-digest",
        "wrong-container-id",
        "short-container-id",
        "no-container-id",
    ],
)
def test_fault_38_an_id_or_digest_that_is_none_is_not_used(machine, double, behaviour):
    double(behaviour)
    assert "has no id" in refused(machine)[0]


def test_daemon_that_starts_nothing_is_given_up_with_its_words(machine, double):
    double("no-launcher")
    lines = refused(machine)
    assert "did not get ready in 20 s" in lines[0]


def test_nothing_runs_in_a_container_with_the_network_of_the_machine(machine, double):
    double("no-network")
    assert "Docker gave the sandbox the machine's own network" in refused(machine)[0]


def test_unknown_runtime_is_said(machine):
    docker_engine.configure(machine, Runtime="no-such-runtime")
    lines = refused(machine)
    assert "'no-such-runtime'" in lines[0] and "engine-docker.conf" in lines[0]


def test_missing_image_without_a_registry_is_said(machine):
    docker_engine.use_images(machine, python="127.0.0.1:9/none:1")
    lines = refused(machine)
    assert "'127.0.0.1:9/none:1' is not on this machine" in lines[0]
    assert "sbxctl pull 127.0.0.1:9/none:1" in lines[0]


def test_daemon_restarted_in_the_middle_of_a_run_ends_it(machine):
    running = machine.popen(
        ["sbxctl", "run", "--engine", "docker", "-c", "import time; print(1, flush=True); time.sleep(600)"],
        user="alice",
    )
    assert running.popen.stdout.readline() == b"1\n"
    machine.run(["systemctl", "restart", "docker.service"], check=True)
    ended = running.finish()
    # Docker asks its containers to end first.
    assert ended.status in (125, 137, 143), ended
    assert ended.errors.strip()
    machine.wait_for(lambda: not docker_engine.containers(machine), 30, "the container to go")
    assert machine.sbxctl(["run", "--engine", "docker", "-c", "print(4)"]).text == "4\n"


def test_fault_39_and_41_versions_of_what_runs_containers_are_in_the_log(machine):
    machine.run(["systemctl", "stop", "sbxctl-engine-docker.service"], check=True)
    since = machine.run(["date", "+%s"], check=True).text.strip()
    assert machine.sbxctl(["run", "--engine", "docker", "-c", "print(4)"]).text == "4\n"
    log = ["journalctl", "-u", "sbxctl-engine-docker.service", f"--since=@{since}", "-o", "cat"]
    told = machine.run(log, check=True).text
    for program in ("Engine", "containerd", "runc"):
        version = machine.run(["docker", "version", "--format", VERSION_OF % program], check=True).text.strip()
        assert version and told.count(f"The daemon's {program} has version {version}.\n") == 1, told


def test_bad_configuration_stops_the_engine_and_names_the_place(machine):
    docker_engine.configure(machine, Sockets="/run/docker.sock")
    assert machine.sbxctl(["run", "--engine", "docker", "-c", "print(4)"]).status == 125
    log = machine.run(["journalctl", "-u", "sbxctl-engine-docker.service", "-n", "20", "-o", "cat"]).text
    assert f"{docker_engine.CONFIG}:2: unknown key Sockets= in section [Docker]" in log
