"""The Docker engine on podman's socket, with Debian's podman."""

import docker_engine
import pytest

pytestmark = pytest.mark.long  # another engine

IMAGE = "localhost/sbxctl-test/small:1"
SOCKET = "/run/podman/podman.sock"
QUIET = "PODMAN_IGNORE_CGROUPSV1_WARNING=1"

# Its storage needs a file system below it that is none of Docker's; a copy for each container is all that works everywhere.
SET_UP = r"""
set -euo pipefail
mkdir -p /etc/containers /run/podman
printf '[storage]\ndriver = "vfs"\ngraphroot = "/var/lib/docker/test-podman"\nrunroot = "/run/containers/storage"\n' >/etc/containers/storage.conf
printf '[engine]\ncgroup_manager = "cgroupfs"\n' >/etc/containers/containers.conf
root=$(mktemp -d -p /var/lib/docker)
trap 'rm -rf "$root"' EXIT
chmod 0755 "$root"
mkdir -p "$root"/usr/bin "$root"/etc "$root"/tmp
ln -s usr/bin "$root"/bin
for program in sh cat head tail sleep; do
    cp --dereference "/usr/bin/$program" "$root/usr/bin/$program"
    ldd "/usr/bin/$program" | grep -o '/[^ ]*' | xargs -I{} cp --dereference --parents {} "$root"
done
tar -C "$root" -c . | podman import - "$1"
systemctl restart podman.socket
chgrp docker /run/podman "$2"
chmod 0750 /run/podman
chmod 0660 "$2"
"""
TEAR_DOWN = """
systemctl stop podman.socket podman.service
rm -rf /var/lib/docker/test-podman /etc/containers/storage.conf /etc/containers/containers.conf /run/containers
"""


@pytest.fixture(scope="module", autouse=True)
def podman(machine):
    machine.run(["env", QUIET, "bash", "-c", SET_UP, "set-up", IMAGE, SOCKET], timeout=120, check=True)
    docker_engine.configure(machine, Socket=SOCKET)
    docker_engine.use_images(machine, default=IMAGE)
    yield
    docker_engine.use_machine_as_image(machine)
    machine.run(["bash", "-c", TEAR_DOWN])


def run(machine, code, *options):
    return machine.run_json(["--engine", "docker", "--language", "shell", *options, "-c", code])


def containers(machine):
    return machine.run(["env", QUIET, "podman", "ps", "--all", "--format", "{{.Names}}"], check=True).text.split()


def test_program_runs_without_privilege_and_is_counted(machine):
    result = run(machine, "head -n 50 /proc/self/status; echo 4 >made; cat /proc/net/dev")
    assert result["status"] == "succeeded", result
    status = dict(line.split(":\t", 1) for line in result["stdout"]["text"].splitlines() if ":\t" in line)
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1" and "0" not in status["Uid"].split()
    assert "eth0" not in result["stdout"]["text"]
    assert [f["name"] for f in result["files"]] == ["made"]
    assert result["usage"]["memoryPeakBytes"] > 0
    assert result["image"] == IMAGE and result["imageDigest"].startswith("sha256:")
    machine.wait_for(lambda: not containers(machine), 10, "the container to go")


def test_nothing_but_workspace_and_scratch_is_writable(machine):
    result = run(machine, "for d in / /usr /etc /run /var /dev /proc /sys; do (echo x >$d/x) 2>/dev/null && echo $d; done; :")
    assert result["stdout"]["text"] == ""


def test_limits_hold(machine):
    full = run(machine, "cat /dev/zero >big", "--memory", "512M")
    assert full["status"] == "failed" and "No space left" in full["stderr"]["text"], full
    memory = run(machine, "exec tail /dev/zero", "--memory", "64M")
    assert memory["status"] == "out_of_memory", memory
    late = run(machine, "while :; do :; done", "--timeout", "1s")
    assert late["status"] == "timed_out", late


def test_killed_client_leaves_no_container(machine):
    running = machine.popen(
        ["sbxctl", "run", "--engine", "docker", "-l", "shell", "-c", "echo up; sleep 600"], user="alice"
    )
    assert running.popen.stdout.readline() == b"up\n"
    assert len(containers(machine)) == 1
    running.signal("KILL")
    running.finish()
    machine.wait_for(lambda: not containers(machine), 10, "the container to go")


def test_missing_image_is_said(machine):
    docker_engine.use_images(machine, default=IMAGE, allowed=["127.0.0.1:9/none:1"])
    result = machine.sbxctl(["run", "--engine", "docker", "-l", "shell", "--image", "127.0.0.1:9/none:1", "-c", "echo"])
    assert result.status == 125
    assert "could not be pulled" in result.errors and "sbxctl pull 127.0.0.1:9/none:1" in result.errors


def test_packages_are_lent_to_a_container(machine):
    said = docker_engine.lend_packages(machine, IMAGE)
    assert "stdout=b'lent\\n'" in said and "Read-only file system" in said
