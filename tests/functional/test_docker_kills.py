"""Whoever is killed, at whatever point of a run: no container of ours stays, the record is true, the next run works."""

import json

import docker_engine
import pytest
from engines import Docker

pytestmark = pytest.mark.long  # kills everything at ten points

# Points of a run, by what has been seen of it; those before the program's first word are times after the call.
POINTS = [0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, "up", "busy", "exiting"]
PROGRAM = """
import sys, time
print("up", flush=True)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    pass
print("busy", flush=True)
time.sleep(float(sys.argv[2]))
"""
FINAL = {"succeeded", "failed", "timed_out", "out_of_memory", "killed", "cancelled", "lost", "denied", "rejected"}


@pytest.fixture(scope="module", autouse=True)
def docker(machine):
    docker_engine.use_machine_as_image(machine)
    # What a kill of dockerd itself leaves is dockerd's: it is back when somebody connects.
    yield Docker(machine)


def start(machine):
    # Long enough to be killed in each of its parts.
    return machine.popen(
        ["sbxctl", "run", "--engine", "docker", "-c", PROGRAM, "0.3", "0.3"], user="alice"
    )


def reach(machine, running, point):
    if isinstance(point, float | int):
        machine.run(["sleep", str(point)])
        return
    assert running.popen.stdout.readline() == b"up\n"
    if point != "up":
        assert running.popen.stdout.readline() == b"busy\n"
    if point == "exiting":
        machine.run(["sleep", "0.3"])


def kill_client(machine, running):
    # It may have ended just now.
    machine.run(["kill", "-KILL", str(running.pid)])


def kill_broker(machine, running):
    machine.run(["systemctl", "kill", "--signal=KILL", "sbxctl-helper.service"])


def kill_engine(machine, running):
    machine.run(["systemctl", "kill", "--signal=KILL", "sbxctl-engine-docker.service"])


def kill_engine_process(machine, running):
    machine.run(["pkill", "-KILL", "-P", machine.run(
        ["systemctl", "show", "-P", "MainPID", "sbxctl-engine-docker.service"]).text.strip()])


def kill_dockerd(machine, running):
    machine.run(["systemctl", "kill", "--signal=KILL", "docker.service"])


KILLS = {
    "client": kill_client,
    "broker": kill_broker,
    "engine": kill_engine,
    "engine-process": kill_engine_process,
    "dockerd": kill_dockerd,
}


def reset(machine):
    """Killing a service twenty times in a minute is our doing, not its."""
    for unit in ("sbxctl-helper", "sbxctl-engine-docker", "docker"):
        machine.run(["systemctl", "reset-failed", f"{unit}.service", f"{unit}.socket"])
    machine.run(["systemctl", "start", "docker.socket", "sbxctl-helper.socket", "sbxctl-engine-docker.socket"], check=True)


def runs(machine):
    listed = json.loads(machine.sbxctl(["ps", "--all", "--json"]).stdout)
    return listed["runs"] if isinstance(listed, dict) else listed


def mounts(machine):
    return machine.run(["grep", "-c", "/var/lib/docker/.*/merged", "/proc/1/mounts"]).text.strip()


@pytest.mark.parametrize("point", POINTS, ids=str)
@pytest.mark.parametrize("who", KILLS)
def test_kill_leaves_no_container_and_a_true_record(machine, docker, who, point):
    reset(machine)
    machine.wait_for(docker.nothing_left, 30, "earlier runs to be gone")
    running = start(machine)
    reach(machine, running, point)
    KILLS[who](machine, running)
    ended = running.finish()
    reset(machine)
    next_run = machine.wait_for(
        lambda: (r := machine.sbxctl(["run", "--engine", "docker", "-c", "print(4)"])).status == 0 and r, 60,
        "the next run to work",
    )
    assert next_run.text == "4\n"
    machine.wait_for(docker.nothing_left, 70 if who == "dockerd" else 10, "the container to go")
    assert mounts(machine) == "0"
    # Every run has come to one of its ends, and a client that could still be told was told the same.
    assert all(run["status"] in FINAL for run in runs(machine))
    if who != "client":
        assert ended.status == 0 or ended.errors.strip(), ended


def test_abandoned_container_is_removed_at_the_start_and_recorded(machine, docker):
    machine.run(["systemctl", "stop", "sbxctl-engine-docker.service"], check=True)
    label = ["--label", "io.sbxctl.run=feed", "--label", "io.sbxctl.service=gone", "--label", "io.sbxctl.connection=1"]
    command = [docker_engine.PYTHON_IMAGE, "sleep", "600"]
    machine.run(["docker", "run", "-d", "--network=none", "--name", "sbxctl-run-feed", *label, *command], check=True)
    # Labels come from images, too: what has not our name is somebody else's.
    machine.run(["docker", "run", "-d", "--network=none", "--name", "somebodys", *label, *command], check=True)
    try:
        assert machine.sbxctl(["run", "--engine", "docker", "-c", "print(4)"]).text == "4\n"
        left = machine.run(["docker", "ps", "--all", "--format", "{{.Names}}"], check=True).text.split()
        assert "sbxctl-run-feed" not in left and "somebodys" in left
    finally:
        machine.run(["docker", "rm", "--force", "somebodys", "sbxctl-run-feed"])
    log = machine.run(["journalctl", "-u", "sbxctl-engine-docker.service", "-o", "cat", "-n", "50"]).text
    assert "Removing the abandoned sandbox sbxctl-run-feed." in log


LABELS = """{{range $key, $value := .Config.Labels}}--label
{{$key}}={{$value}}
{{end}}"""


def test_container_that_comes_after_its_engines_death_is_removed_too(machine, docker):
    """As when the daemon was just making it."""
    running = start(machine)
    reach(machine, running, "up")
    labels = machine.run(["docker", "inspect", "--format", LABELS, *docker.sandboxes()], check=True).text
    kill_engine_process(machine, running)
    late = ["docker", "create", "--name", "sbxctl-run-feed", *labels.split(), "--label", "io.sbxctl.run=feed"]
    machine.run([*late, docker_engine.PYTHON_IMAGE, "true"], check=True)
    try:
        running.finish()
        machine.wait_for(docker.nothing_left, 10, "both containers to go")
    finally:
        machine.run(["docker", "rm", "--force", "sbxctl-run-feed"])


# More than a list of containers may be long (helper/engine/docker/http.h); a line of such a file has at most 64 KiB.
STRANGERS = r"""
(echo io.sbxctl.run=feed; for i in $(seq 40); do echo "l$i=$(head -c 60000 /dev/zero | tr '\0' x)"; done) >/tmp/labels
for i in 1 2 3; do docker create --name "strangers-$i" --label-file /tmp/labels "$1" true; done
rm /tmp/labels
"""


def test_labels_of_strangers_are_not_in_the_way_of_the_sweep(machine, docker):
    machine.run(["bash", "-ec", STRANGERS, "strangers", docker_engine.PYTHON_IMAGE], check=True)
    strangers = [f"strangers-{i}" for i in (1, 2, 3)]
    try:
        running = start(machine)
        reach(machine, running, "up")
        assert len(docker_engine.containers(machine)) == 4
        kill_engine_process(machine, running)
        running.finish()
        machine.wait_for(lambda: sorted(docker_engine.containers(machine)) == strangers, 10, "the container to go")
    finally:
        machine.run(["docker", "rm", "--force", *strangers])


COUNT = r"""
for unit in sbxctl-helper sbxctl-engine-docker docker containerd; do
    pid=$(systemctl show -P MainPID $unit.service)
    echo "$unit $(ls /proc/$pid/fd | wc -l)"
done
echo "networks $(docker network ls -q | wc -l)"
echo "volumes $(docker volume ls -q | wc -l)"
echo "mounts $(wc -l </proc/1/mounts)"
echo "files $(ls -A /run/sbxctl-engine-docker | wc -l)"
echo "shims $(pgrep -c containerd-shim)"
"""
FIFTY = r"""
seq 50 | xargs -P 8 -I{} sbxctl run --engine docker -c 'import os; os.write(1, b"{}\n")'
"""


@pytest.fixture
def wide_queue(machine):
    path = "/etc/sbxctl/sbxctl.conf.d/71-test-queue.conf"
    reset(machine)
    machine.write(path, b"[Queue]\nRuns=8\nRunsPerUser=8\n")
    machine.run(["systemctl", "stop", "sbxctl-helper.service"], check=True)
    yield
    machine.run(["rm", path], check=True)
    machine.run(["systemctl", "stop", "sbxctl-helper.service"], check=True)


def test_fifty_runs_eight_at_once_leak_nothing(machine, docker, wide_queue):
    def count():
        machine.wait_for(docker.nothing_left, 20, "the containers to go")
        # Children of the engine end a moment after their container.
        machine.wait_for(lambda: not docker.children(), 20, "the engine's processes to end")
        return dict(line.split() for line in machine.run(["bash", "-c", COUNT]).text.splitlines())

    assert machine.sbxctl(["run", "--engine", "docker", "-c", "print(4)"]).text == "4\n"
    before = count()
    result = machine.run(["bash", "-c", FIFTY], user="alice", timeout=300)
    assert sorted(map(int, result.text.split())) == list(range(1, 51)), result
    after = count()
    # Daemons keep a few idle connections.
    slack = {"docker": 8, "containerd": 8, "sbxctl-helper": 4}
    for what, number in after.items():
        assert int(number) <= int(before[what]) + slack.get(what, 0), (what, before, after)
