"""What a program finds inside its sandbox, and what it does not."""

import json

STATUS = """
import json, os, re
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
print(json.dumps({
    "uid": os.getuid(), "euid": os.geteuid(), "gid": os.getgid(), "groups": os.getgroups(),
    "caps": [status[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
    "nnp": status["NoNewPrivs"].strip(), "seccomp": status["Seccomp"].strip(),
    "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd"))[:-1],
}))
"""


def inside(machine, script, user="alice"):
    result = machine.run_json(["-c", script], user=user)
    assert result["status"] == "succeeded", result
    return result["stdout"]["text"]


def test_fault_45_the_program_has_no_privilege(machine):
    found = json.loads(inside(machine, STATUS))
    assert 0 not in (found["uid"], found["euid"], found["gid"])
    assert 0 not in found["groups"]
    assert set(found["caps"]) == {"0" * 16}
    assert (found["nnp"], found["seccomp"]) == ("1", "2")


def test_fault_40_no_descriptor_beyond_the_streams_is_inherited(machine):
    assert json.loads(inside(machine, STATUS))["fds"] == [0, 1, 2]


def test_there_is_no_network_but_loopback(machine):
    script = """
import os, socket
print(sorted(line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line))
for address in [("192.0.2.1", 80), ("10.0.0.1", 80), ("169.254.169.254", 80)]:
    try:
        socket.create_connection(address, timeout=2)
        print("connected")
    except OSError as error:
        print(error.errno)
"""
    lines = inside(machine, script).splitlines()
    assert lines[0] == "['lo']"
    assert lines[1:] == ["101"] * 3  # ENETUNREACH


def test_nothing_is_writable_but_workspace_and_scratch(machine):
    script = """
import os
seen = set()
for top, folders, files in os.walk("/", followlinks=False):
    folders[:] = [f for f in folders if os.path.join(top, f) not in ("/proc", "/sys")]
    if os.access(top, os.W_OK):
        seen.add("/" + "/".join(top.split("/")[1:3] if top.startswith("/dev/") else top.split("/")[1:2]))
print(sorted(seen))
for path in ("/x", "/usr/x", "/etc/x", "/var/x", "/run/x", "/sys/x", "/proc/sys/kernel/hostname"):
    try:
        open(path, "w")
        print("wrote", path)
    except OSError:
        pass
"""
    writable = eval(inside(machine, script))
    assert set(writable) <= {"/workspace", "/tmp", "/dev/shm", "/var"}, writable


LAUNCHER_SEEN = {"docker": [".sbxctl-launch"]}


def test_no_other_process_is_visible(machine):
    script = """
import os
print(sorted(open(f"/proc/{p}/comm").read().strip() for p in os.listdir("/proc") if p.isdigit()))
"""
    # The launcher, PID 1, is not dumpable: hidden too, but for containers, whose /proc shows every name.
    assert eval(inside(machine, script)) == LAUNCHER_SEEN.get(machine.engine, []) + ["python3"]


def test_no_service_socket_can_be_reached(machine):
    script = """
import os, socket, stat
found = []
for top, folders, files in os.walk("/"):
    folders[:] = [f for f in folders if os.path.join(top, f) != "/proc"]
    for name in files:
        try:
            if stat.S_ISSOCK(os.lstat(os.path.join(top, name)).st_mode):
                found.append(os.path.join(top, name))
        except OSError:
            pass
def refuses(path):
    try:
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(path)
    except ConnectionRefusedError:
        return True
# A container keeps the launcher's own, at which nobody listens any more.
print([path for path in found if path != "/.sbxctl-control" or not refuses(path)])
print([path for path in ("/run/docker.sock", "/run/dbus", "/run/systemd/private", "/run/systemd/journal", "/run/sbxctl/engine",
                         "/run/sbxctl/io.sbxctl.Sandbox", "/var/lib/sbxctl", "/home/alice", "/root/.bashrc", "/etc/shadow")
       if os.path.exists(path)])
print(open("/proc/net/unix").read().count("@"))
"""
    assert inside(machine, script).splitlines()[:2] == ["[]", "[]"]


def test_environment_is_the_expected_one(machine):
    script = "import os, json; print(json.dumps(dict(os.environ) | {'cwd': os.getcwd()}))"
    found = json.loads(inside(machine, script))
    assert found["HOME"] == found["cwd"] == "/workspace"
    assert found["TMPDIR"] == "/tmp" and found["LANG"] == "C.UTF-8" and found["TZ"] == "UTC"
    assert "SSH_AUTH_SOCK" not in found and found["USER"] == "sandbox"


def test_the_user_has_a_name_inside(machine):
    script = "import getpass, grp, os, pwd; print(getpass.getuser(), pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name)"
    assert inside(machine, script) == "sandbox sandbox sandbox\n"


NEIGHBOUR = """
import os, sys, time
open("/dev/shm/mine", "w")
open("/tmp/mine", "w")
print("there", flush=True)
sys.stdin.read()
"""


def test_two_runs_at_once_neither_see_nor_signal_each_other(machine):
    neighbour = machine.popen(["sbxctl", "run", "-c", NEIGHBOUR], user="alice")
    assert neighbour.popen.stdout.readline() == b"there\n"
    script = """
import os
print(sorted(os.listdir("/dev/shm")), sorted(os.listdir("/tmp")))
print(len([p for p in os.listdir("/proc") if p.isdigit()]))
failed = 0
others = set(range(2, 5000)) - {os.getpid()}
for pid in others:
    try:
        os.kill(pid, 0)
    except OSError:
        failed += 1
print(failed == len(others))
"""
    lines = inside(machine, script).splitlines()
    assert lines == ["[] []", str(1 + len(LAUNCHER_SEEN.get(machine.engine, []))), "True"]
    assert neighbour.finish(input=b"").status == 0


def test_fault_47_the_callers_terminal_cannot_be_reached(machine):
    script = """
import os
for fd in (0, 1, 2):
    print(os.isatty(fd))
try:
    open("/dev/tty")
except OSError as error:
    print(error.errno)
"""
    result = machine.sbxctl(["run", "-c", script], tty=True)
    assert result.text.replace("\r", "").split() == ["False"] * 3 + ["6"]


def test_dev_holds_what_programs_need_and_no_more(machine):
    script = """
import json, os, stat
nodes, directories, readable = [], [], []

def opens(path):
    try:
        os.close(os.open(path, os.O_RDWR))
        return True
    except OSError:
        return False

for name in sorted(os.listdir("/dev")):
    mode = os.lstat("/dev/" + name).st_mode
    if stat.S_ISCHR(mode):
        # A ptmx without the pts beside it makes no terminals.
        if name != "ptmx" or opens("/dev/ptmx"):
            nodes.append(name)
    elif stat.S_ISDIR(mode):
        directories.append(name)
        if os.access("/dev/" + name, os.R_OK):
            readable.append(name)
    else:
        assert stat.S_ISLNK(mode), name
mounts = [line.split()[1:3] for line in open("/proc/mounts")]
print(json.dumps([nodes, directories, readable, mounts]))
"""
    nodes, directories, readable, mounts = json.loads(inside(machine, script))
    assert nodes == ["full", "null", "random", "tty", "urandom", "zero"]
    # "char" holds links to them by number. What is not readable is covered up.
    assert set(directories) <= {"char", "hugepages", "mqueue", "pts", "shm"}
    assert readable == (["shm"] if machine.engine == "docker" else ["char", "shm"])
    kinds = {kind for path, kind in mounts if path == "/dev" or path.startswith("/dev/")}
    assert kinds == {"tmpfs"}, mounts
