"""A program that wants to tell the helper itself how it ended, in the launcher's place."""

import json

# Tries every way to the launcher's control socket. What it reaches gets a forged `exited` with status 0
# (helper/launch/protocol.h). The first way is open, and shows that the attack works where it can.
FORGE = """
import array, ctypes, errno, json, os, socket, struct, sys

FORGED = struct.pack("=IIIiQIIQII", 1, 5, 1, 0, 0, 0, 0, 0, 0, 0)
libc = ctypes.CDLL(None, use_errno=True)
launcher = os.getppid()
found = {}

def send(fd):
    socket.socket(fileno=os.dup(fd)).send(FORGED)

def call(number, *arguments):
    result = libc.syscall(number, *(ctypes.c_long(a) for a in arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), "system call")
    return result

def attempt(name, way):
    try:
        way()
        found[name] = "reached"
    except OSError as error:
        found[name] = errno.errorcode.get(error.errno, str(error))

def inherited():
    for fd in range(4096):
        try:
            os.fstat(fd)
        except OSError:
            continue
        if fd not in mine:
            send(fd)
            return
    raise OSError(errno.EBADF, "none")

def streams():
    for fd in range(3):
        try:
            return send(fd)
        except OSError as error:
            last = error
    raise last

def by_pidfd(pid):
    pidfd = os.pidfd_open(pid)
    mine.add(pidfd)
    send(call(438, pidfd, 3, 0))

def by_proc(pid):
    send(os.open(f"/proc/{pid}/fd/3", os.O_RDWR))

def by_mem(pid):
    os.open(f"/proc/{pid}/mem", os.O_RDWR)

def by_write(pid):
    data = ctypes.create_string_buffer(8)
    vector = (ctypes.c_void_p * 2)(ctypes.addressof(data), 8)
    call(311, pid, ctypes.addressof(vector), 1, ctypes.addressof(vector), 1, 0)

def by_name(kind, name):
    sock = socket.socket(socket.AF_UNIX, kind)
    mine.add(sock.fileno())
    sock.connect(name)
    sock.send(FORGED)

def listed():
    rows = [line.split() for line in open("/proc/net/unix").read().splitlines()[1:]]
    names = [row[7] for row in rows if len(row) > 7]
    if not names:
        raise OSError(errno.ENOENT, "no names")
    by_name(socket.SOCK_SEQPACKET, names[0].replace("@", chr(0)))

own = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
mine = {0, 1, 2, *(sock.fileno() for sock in own)}
attempt("own socket", lambda: send(own[0].fileno()))
assert own[1].recv(100) == FORGED
attempt("inherited", inherited)
attempt("streams", streams)
attempt("listed", listed)
for path in ("/run/sbxctl/engine/systemd", "/run/sbxctl/io.sbxctl.Sandbox"):
    attempt(path, lambda: by_name(socket.SOCK_SEQPACKET, path))
for who, pid in (("parent", launcher), ("first", 1)):
    attempt(f"pidfd_getfd of {who}", lambda: by_pidfd(pid))
    attempt(f"fd of {who}", lambda: by_proc(pid))
    attempt(f"fdinfo of {who}", lambda: os.listdir(f"/proc/{pid}/fdinfo"))
    attempt(f"memory of {who}", lambda: by_mem(pid))
    attempt(f"process_vm_writev of {who}", lambda: by_write(pid))
    attempt(f"ptrace of {who}", lambda: call(101, 16, pid, 0, 0))
print(json.dumps(found))
sys.exit(9)
"""


def test_a_program_cannot_tell_its_own_end(machine):
    result = machine.sbxctl(["run", "-c", FORGE])
    found = json.loads(result.text)
    assert found.pop("own socket") == "reached"
    assert len(found) == 17 and "reached" not in found.values(), found
    assert result.status == 9, result
