"""What runs in a sandbox of the stand-in as its process 1: starts processes and touches files at the stand-in's word.

Started by sandboxes.py in new namespaces of processes and mounts, as root. One socket, the file descriptor in argv: a
line of JSON a request, file descriptors beside it. When the socket closes this ends, and the kernel then kills
everything in the sandbox. Standard library alone.
"""

import errno
import fcntl
import json
import os
import selectors
import shutil
import signal
import socket
import stat
import struct
import sys
import termios

KINDS = {stat.S_IFREG: "FILE_TYPE_FILE", stat.S_IFDIR: "FILE_TYPE_DIRECTORY", stat.S_IFLNK: "FILE_TYPE_SYMLINK"}
NAMES = {0: "root", 1000: "user"}


def loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        flags = struct.pack("16sh", b"lo", 1)  # IFF_UP
        fcntl.ioctl(any_socket, 0x8914, flags.ljust(40, b"\0"))  # SIOCSIFFLAGS


def start_process(request, fds):
    argv, env, cwd, uid, pty = (request[key] for key in ("argv", "env", "cwd", "uid", "pty"))
    if not os.path.isdir(cwd):
        raise NotADirectoryError(errno.ENOTDIR, f"cwd '{cwd}' does not exist")
    pid = os.fork()
    if pid:
        return {"pid": pid}
    try:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        for target, fd in enumerate(fds if not pty else fds * 3):
            os.dup2(fd, target)
        if pty:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.closerange(3, 256)
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        os.chdir(cwd)
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        # Real envd starts everything through a shell, so this is how a missing program shows.
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def entry_of(path):
    found = os.lstat(path)
    entry = {"name": os.path.basename(path), "type": KINDS.get(stat.S_IFMT(found.st_mode), "FILE_TYPE_UNSPECIFIED"), "path": path,
             "size": found.st_size, "mode": stat.S_IMODE(found.st_mode), "permissions": stat.filemode(found.st_mode),
             "owner": NAMES.get(found.st_uid, str(found.st_uid)), "group": NAMES.get(found.st_gid, str(found.st_gid)),
             "modified": found.st_mtime}
    if stat.S_ISLNK(found.st_mode):
        entry["symlinkTarget"] = os.path.realpath(path)
    return entry


def list_directory(path, depth):
    entries = []
    for name in sorted(os.listdir(path)):
        entry = entry_of(os.path.join(path, name))
        entries.append(entry)
        if depth > 1 and entry["type"] == "FILE_TYPE_DIRECTORY":
            entries += list_directory(entry["path"], depth - 1)
    return entries


def make_parents(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)


def move(source, destination):
    make_parents(destination)
    os.rename(source, destination)
    return entry_of(destination)


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def make_directory(path):
    os.makedirs(path)
    return entry_of(path)


def open_for_reading(path):
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise IsADirectoryError(errno.EISDIR, f"path '{path}' is a directory")
    return fd


def open_for_writing(path):
    make_parents(path)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK, 0o644)


def freeze(stopped):
    try:
        os.kill(-1, signal.SIGSTOP if stopped else signal.SIGCONT)
    except ProcessLookupError:
        pass


FILE_OPERATIONS = {"stat": entry_of, "list": list_directory, "make": make_directory, "move": move, "remove": remove,
                   "read": open_for_reading, "write": open_for_writing}


def act(request, fds):
    """The result, and file descriptors to send along with it."""
    operation = request["op"]
    if operation == "start":
        return start_process(request, fds), []
    if operation == "signal":
        return os.kill(request["pid"], request["signal"]), []
    if operation == "freeze":
        return freeze(request["stopped"]), []
    os.setegid(request["uid"])
    os.seteuid(request["uid"])
    try:
        result = FILE_OPERATIONS[operation](*request["arguments"])
    finally:
        os.seteuid(0)
        os.setegid(0)
    return (None, [result]) if operation in ("read", "write") else (result, [])


class Agent:
    def __init__(self, control):
        self.control = control
        self.buffer = b""
        self.fds = []

    def send(self, message, fds=()):
        data = json.dumps(message).encode() + b"\n"
        try:
            sent = socket.send_fds(self.control, [data], list(fds))
            if sent < len(data):
                self.control.sendall(data[sent:])
        except (BrokenPipeError, ConnectionResetError):
            os._exit(0)

    def answer(self, line):
        request = json.loads(line)
        fds, self.fds = self.fds[:request.get("fds", 0)], self.fds[request.get("fds", 0):]
        sent = []
        try:
            result, sent = act(request, fds)
            self.send({"id": request["id"], "result": result, "fds": len(sent)}, sent)
        except OSError as error:
            self.send({"id": request["id"], "errno": error.errno or errno.EIO, "error": error.strerror or str(error)})
        finally:
            for fd in [*fds, *sent]:
                os.close(fd)

    def receive(self):
        try:
            data, fds, _, _ = socket.recv_fds(self.control, 65536, 8)
        except ConnectionResetError:
            data = b""
        if not data:
            os._exit(0)
        self.fds += fds
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        for line in lines:
            self.answer(line)

    def reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            self.send({"exited": pid, "status": os.waitstatus_to_exitcode(status)})

    def run(self):
        wakeup, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(waker)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        selector = selectors.DefaultSelector()
        selector.register(self.control, selectors.EVENT_READ, self.receive)
        selector.register(wakeup, selectors.EVENT_READ, lambda: os.read(wakeup, 512))
        while True:
            for key, _ in selector.select():
                key.data()
            self.reap()


os.umask(0o022)
control_fd = int(sys.argv[1])
os.set_inheritable(control_fd, False)
if sys.argv[2] == "isolated":
    loopback_up()
agent = Agent(socket.socket(fileno=control_fd))
agent.send({"ready": True})
agent.run()
