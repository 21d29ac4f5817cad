"""The Docker engine on a daemon that remaps users: nobody in a container is anybody outside."""

import docker_engine
import pytest

pytestmark = pytest.mark.long  # a second daemon

IMAGE = "sbxctl-test/small:1"
SOCKET = "/run/test-remap.sock"
DATA = "/var/lib/docker/test-remap"
# A daemon beside the machine's own, with nothing in common but containerd. Where it wants no bridge it takes
# docker0 away, so it sees none.
DAEMON = [
    "unshare", "--net", "dockerd", "--userns-remap=default", f"--data-root={DATA}", "--exec-root=/run/test-remap",
    "--pidfile=/run/test-remap.pid", f"--host=unix://{SOCKET}", "--group=docker",
    "--containerd=/run/containerd/containerd.sock", "--containerd-namespace=test-remap",
    "--containerd-plugins-namespace=test-remap-plugins", "--bridge=none", "--iptables=false",
]
REMOTE = ["docker", "--host", f"unix://{SOCKET}"]

# A shell with what the scripts below call.
MAKE_IMAGE = r"""
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 0755 "$root"
mkdir -p "$root"/usr/bin "$root"/etc "$root"/tmp
ln -s usr/bin "$root"/bin
for program in sh cat head tail sleep mkdir chmod; do
    cp --dereference "/usr/bin/$program" "$root/usr/bin/$program"
    ldd "/usr/bin/$program" | grep -o '/[^ ]*' | xargs -I{} cp --dereference --parents {} "$root"
done
tar -C "$root" -c . | docker --host "$2" import - "$1"
"""


@pytest.fixture(scope="module", autouse=True)
def remapped(machine):
    # Which has containerd started, too.
    machine.run(["docker", "version"], check=True)
    # Its own root in there has to reach its data.
    machine.run(["chmod", "o+x", "/var/lib/docker"], check=True)
    daemon = machine.popen(DAEMON, silent=True)
    machine.wait_for(lambda: machine.run([*REMOTE, "version"]).status == 0, 60, "the daemon")
    machine.run(["bash", "-c", MAKE_IMAGE, "make", IMAGE, f"unix://{SOCKET}"], timeout=120, check=True)
    docker_engine.configure(machine, Socket=SOCKET)
    docker_engine.use_images(machine, default=IMAGE, shell=IMAGE)
    yield
    docker_engine.use_machine_as_image(machine)
    daemon.signal("TERM")
    daemon.finish()
    machine.run(["rm", "-rf", DATA, "/run/test-remap", SOCKET], check=True)
    machine.run(["chmod", "o-x", "/var/lib/docker"], check=True)


def run(machine, code, *options):
    return machine.run_json(["--engine", "docker", "--language", "shell", *options, "-c", code])


def containers(machine):
    return machine.run([*REMOTE, "ps", "--all", "--format", "{{.Names}}"], check=True).text.split()


def first_of_range(machine):
    lines = machine.read("/etc/subuid").decode().split()
    return next(int(line.split(":")[1]) for line in lines if line.startswith("dockremap:"))


def test_program_is_outside_of_the_machines_users(machine):
    running = machine.popen(
        ["sbxctl", "run", "--engine", "docker", "-l", "shell", "-c", "echo up; sleep 600"], user="alice"
    )
    assert running.popen.stdout.readline() == b"up\n"
    first = first_of_range(machine)
    pid = machine.run([*REMOTE, "inspect", "--format", "{{.State.Pid}}", *containers(machine)], check=True).text.strip()
    inside = machine.run(["pgrep", "-P", pid], check=True).text.split()
    for process in [pid, *inside]:
        status = machine.read(f"/proc/{process}/status").decode()
        uids = [int(uid) for line in status.splitlines() if line.startswith(("Uid:", "Gid:")) for uid in line.split()[1:]]
        assert uids and all(first < uid < first + 65536 for uid in uids), status
    running.signal("INT")
    running.finish()
    machine.wait_for(lambda: not containers(machine), 10, "the container to go")


def test_files_are_collected_and_are_the_callers_business(machine):
    machine.write("/tmp/remap-input.txt", b"input\n")
    machine.run(["chmod", "0644", "/tmp/remap-input.txt"], check=True)
    result = run(
        machine,
        "cat remap-input.txt; echo changed >>remap-input.txt; echo 4 >made; chmod 0600 made; mkdir -p -m 0700 a/b; echo 5 >a/b/c",
        "--file", "/tmp/remap-input.txt",
    )
    assert result["status"] == "succeeded" and result["stdout"]["text"] == "input\n", result
    assert sorted(f["name"] for f in result["files"]) == ["a/b/c", "made", "remap-input.txt"]
    assert result["usage"]["memoryPeakBytes"] > 0 and result["usage"]["cpuUSec"] > 0
    got = machine.sbxctl(["get", "--output", "/tmp/remap-got", result["id"]])
    try:
        assert got.status == 0, got
        names = ("made", "a/b/c", "remap-input.txt")
        read = machine.run(["cat", *(f"/tmp/remap-got/{name}" for name in names)], user="alice")
        assert read.text == "4\n5\ninput\nchanged\n"
        kept = f"/var/lib/sbxctl/users/1000/{result['id']}/files"
        owners = machine.run(["find", kept, "-printf", "%u\n"], check=True).text.split()
        plain = machine.run_json(["--engine", "systemd", "-l", "shell", "-c", ": >made"])
        expected = f"/var/lib/sbxctl/users/1000/{plain['id']}/files"
        assert set(owners) == set(machine.run(["find", expected, "-printf", "%u\n"], check=True).text.split())
    finally:
        machine.run(["rm", "-rf", "/tmp/remap-got", "/tmp/remap-input.txt"])


def test_locks_and_limits_hold(machine):
    status = run(machine, "cat /proc/self/status; for d in / /usr /etc /run /var /dev /proc /sys; do (echo x >$d/x) 2>/dev/null && echo bad $d; done; :")
    lines = dict(line.split(":\t", 1) for line in status["stdout"]["text"].splitlines() if ":\t" in line)
    assert {lines[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert lines["NoNewPrivs"] == "1" and "bad" not in status["stdout"]["text"]
    memory = run(machine, "exec tail /dev/zero", "--memory", "64M")
    assert memory["status"] == "out_of_memory", memory
    late = run(machine, "while :; do :; done", "--timeout", "1s")
    assert late["status"] == "timed_out", late


def test_packages_are_lent_to_a_container(machine):
    said = docker_engine.lend_packages(machine, IMAGE)
    assert "stdout=b'lent\\n'" in said and "Read-only file system" in said
