"""Known ways out of a sandbox, by the fault catalogue: each ends in an error inside. Over either engine."""

import json

import pytest
from engines import engine_of

CALLS = """
import ctypes, errno, json
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    ctypes.set_errno(0)
    return errno.errorcode[ctypes.get_errno()] if getattr(libc, name)(*arguments) < 0 else "done"
"""
# Where the host has sockets that are worth something.
SOCKETS = """
import json, os, socket
answers = {}
for path in json.loads(PATHS):
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        with socket.socket(socket.AF_UNIX, kind) as s:
            try:
                s.connect(path)
                answers[path] = "connected"
            except OSError as error:
                answers.setdefault(path, error.strerror)
print(json.dumps([answers, [line.split()[-1] for line in open("/proc/net/unix") if "@" in line]]))
"""
# What a stranger can do to a process: everything that is not refused.
TOUCH = """
import ctypes, os, signal, sys
PTRACE_ATTACH, PTRACE_SEIZE = 16, 0x4206
libc = ctypes.CDLL(None)
for pid in map(int, sys.argv[1:]):
    for name in ("environ", "mem", "maps", "auxv", "fd/0", "cwd", "root", "exe"):
        try:
            os.open(f"/proc/{pid}/{name}", os.O_RDONLY)
            print(pid, name)
        except (PermissionError, FileNotFoundError):
            pass
    for number in (0, signal.SIGSTOP, signal.SIGKILL):
        try:
            os.kill(pid, number)
            print(pid, "signal", number)
        except PermissionError:
            pass
    for request in (PTRACE_SEIZE, PTRACE_ATTACH):
        if libc.ptrace(request, pid, 0, 0) == 0:
            print(pid, "ptrace", request)
"""

# A folder takes turns with a link to the root, until everything in the sandbox is killed.
SWAP = """
import ctypes, mmap, os, struct, sys
AT_FDCWD, RENAME_EXCHANGE = -100, 2
os.makedirs("a/etc")
for name in ("shadow", "passwd"):
    open(f"a/etc/{name}", "w").write("own")
os.symlink("/", "b")
turns = mmap.mmap(-1, 8)
renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
if sys.argv[1] == "stays" or os.fork() == 0:
    print("swaps", flush=True)
    n = 0
    while True:
        n += renameat2(AT_FDCWD, b"a", AT_FDCWD, b"b", RENAME_EXCHANGE) == 0
        turns[:] = struct.pack("=q", n)
while struct.unpack("=q", turns[:])[0] < 1000:
    pass
"""

ASK = """
import json, sys
from varlink_client import call
method, parameters = json.loads(sys.argv[1])
print(json.dumps(call(method, **parameters)))
"""


def inside(machine, script):
    result = machine.run_json(["-c", script])
    assert result["status"] == "succeeded", result
    return json.loads(result["stdout"]["text"])


def test_fault_71_no_namespace_and_no_control_group_file_system_can_be_had(machine):
    found = inside(machine, CALLS + """
import glob
print(json.dumps([
    call("unshare", 0x10000000 | 0x02000000), call("unshare", 0x00020000),
    call("mount", b"cgroup", b"/tmp", b"cgroup", 0, b"memory"), call("mount", b"none", b"/tmp", b"cgroup2", 0, None),
    call("syscall", 250, 0, -3, 1), call("syscall", 272, 0x10000000),
    glob.glob("/sys/fs/cgroup/**/release_agent", recursive=True),
]))
""")
    assert found[-1] == [] and "done" not in found[:-1], found


def test_fault_34_another_user_gets_no_hold_of_a_running_run_and_its_owner_keeps_it(machine):
    def ask(user, method, **more):
        words = json.dumps([method, {"id": run_id, **more}])
        return json.loads(machine.run(machine.python(ASK, words), user=user, check=True).text)

    running = machine.popen(["sbxctl", "run", "-c", "print(1, flush=True); input()"], user="alice")
    assert running.popen.stdout.readline() == b"1\n"
    (run_id,) = (run["id"] for run in json.loads(machine.sbxctl(["ps", "--json"]).stdout)["runs"])
    for method, more in (("Describe", {}), ("Cancel", {}), ("Remove", {}), ("Read", {"name": "stdout"})):
        assert ask("bob", method, **more) == {"error": "io.sbxctl.Sandbox.NoSuchRun", "parameters": {"id": run_id}}
    assert ask("alice", "Describe")["parameters"]["result"]["status"] == "running"
    assert ask("alice", "Cancel") == {"parameters": {}}
    assert running.finish().status != 0
    assert ask("alice", "Describe")["parameters"]["result"]["status"] == "cancelled"


@pytest.mark.parametrize("end", ["leaves", "stays"])
def test_fault_35_folder_swapped_for_a_link_to_the_root_till_the_end_gives_nothing_of_the_host(machine, end):
    """Where the program ends while it swaps, and where its time does."""
    names = ("/etc/shadow", "/etc/passwd")
    before = machine.run(["sha256sum", *names], check=True).text
    result = machine.run_json(["--timeout", "2s", "-c", SWAP, end])
    assert result["status"] == {"leaves": "succeeded", "stays": "timed_out"}[end], result
    assert result["stdout"]["text"] == "swaps\n"
    kept = {file["name"]: machine.read(file["path"], "alice") for file in result["files"]}
    (link,) = (skipped["name"] for skipped in result["skippedFiles"])
    folder = {"a": "b", "b": "a"}[link]
    assert kept == {f"{folder}/etc/shadow": b"own", f"{folder}/etc/passwd": b"own"}
    assert machine.run(["sha256sum", *names], check=True).text == before


def test_fault_41_kernel_interfaces_are_hidden_or_cannot_be_written_to(machine):
    found = inside(machine, """
import json, os
readable, writable = [], []
for path in ("/proc/kcore", "/proc/timer_list", "/proc/sched_debug", "/proc/latency_stats",
             "/sys/firmware/dmi/tables/DMI", "/sys/kernel/debug/x", "/proc/1/mem", "/proc/1/environ"):
    try:
        with open(path, "rb") as f:
            readable += [path] if f.read(64) else []
    except OSError:
        pass
for path in ("/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/panic_on_oom",
             "/proc/irq/default_smp_affinity", "/proc/1/oom_score_adj", "/sys/kernel/uevent_helper", "/proc/sys/kernel/hostname",
             "/proc/sys/fs/binfmt_misc/register", "/sys/power/state", "/dev/mem", "/dev/kmsg"):
    try:
        os.close(os.open(path, os.O_WRONLY))
        writable.append(path)
    except OSError:
        pass
print(json.dumps([readable, writable]))
""")
    assert found == [[], []]


def test_fault_41_two_runs_that_start_together_share_no_file(machine):
    script = """
import os, time
places = ("/workspace", "/tmp", "/var/tmp", "/dev/shm")
for place in places:
    open(f"{place}/{os.environ['SBXCTL_RUN_ID'] if 'SBXCTL_RUN_ID' in os.environ else os.urandom(8).hex()}", "x")
print("made", flush=True)
input()
print([len(os.listdir(place)) for place in places])
"""
    path = machine.script(script)
    both = [machine.popen(["sbxctl", "run", path], user=user) for user in ("alice", "alice")]
    for running in both:
        assert running.popen.stdout.readline() == b"made\n"
    ends = [running.finish(input=b"\n") for running in both]
    first = ends[0].text
    assert first == ends[1].text and first.startswith("["), ends
    assert all(n in (1, 2) for n in json.loads(first)), first


def test_fault_46_no_socket_of_the_host_is_within_reach(machine):
    paths = [
        "/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/sbxctl/io.sbxctl.Sandbox",
        "/run/sbxctl/engine/docker", "/run/sbxctl/engine/systemd", "/run/systemd/private", "/run/dbus/system_bus_socket",
        "/.sbxctl-control",
    ]
    answers, abstract = inside(machine, f"PATHS = {json.dumps(paths)!r}" + SOCKETS)
    assert set(answers) == set(paths) and "connected" not in answers.values(), answers
    assert abstract == []
    listening = machine.run(["ss", "-xlpH"], check=True).text.splitlines()
    assert listening
    assert not [line for line in listening if "sbxctl" in line and " @" in line]


def test_fault_48_a_user_cannot_touch_a_process_that_has_more_rights(machine):
    engine = engine_of(machine)
    running = machine.popen(["sbxctl", "run", "-c", "print(1, flush=True); input()"], user="alice")
    assert running.popen.stdout.readline() == b"1\n"
    services = ["sbxctl-helper.service", engine.service]
    pids = [machine.main_pid(unit) for unit in services] + [int(pid) for pid in engine.children()]
    pids += [int(line.split()[1]) for line in engine.processes()]
    assert 0 not in pids and len(pids) >= 5, pids
    touched = machine.run(["python3", "-c", TOUCH, *map(str, pids)], user="alice", check=True)
    assert touched.text == ""
    assert running.finish(input=b"\n").status == 0
