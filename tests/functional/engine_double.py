"""An engine that misbehaves as a test wants it to (helper/engine/protocol.h, helper/launch/protocol.h).

Runs inside the test machine as root, since the broker believes nobody else, and listens as the engine
`double`. It is the engine and, from `ready` on, the launcher, too. Nothing is really run.
"""

import array
import ctypes
import json
import os
import shutil
import socket
import struct
import tempfile

from double_listener import PATIENCE, accept, listening
from engine_client import CODE, EXEC, EXITED, EXITED_LAYOUT, GO, LISTEN, LISTENING, PUT, PUT_DONE, PUT_DONE_LAYOUT
from engine_client import READY, SIGNAL, VERSION, WARM

PATH = "/run/sbxctl/engine/double"

libc = ctypes.CDLL(None, use_errno=True)


def attach(sock, data, fds=()):
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sock.sendmsg([data], rights)


kept = []


def one_of(pair):
    """The number of one of two sockets, or of the only one, that stay open until the double ends."""
    kept.append(pair)
    return (pair[0] if isinstance(pair, tuple) else pair).fileno()


def make_workspace():
    """A directory fd of a tmpfs that nobody else has."""
    place = tempfile.mkdtemp(dir="/root")
    try:
        if libc.mount(b"tmpfs", place.encode(), b"tmpfs", 0, b"size=16m,mode=0777") < 0:
            raise OSError(ctypes.get_errno(), "mount")
        fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        libc.umount2(place.encode(), 2)  # MNT_DETACH: it stays for whoever has it open
        return fd
    finally:
        os.rmdir(place)


class Launcher:
    """The launcher's end of a control socket."""

    def __init__(self, sock, workspace):
        self.sock = sock
        self.workspace = workspace
        self.stdio = ()

    def say(self, kind, body=b"", version=VERSION, fds=()):
        attach(self.sock, struct.pack("=II", version, kind) + body, fds)

    def hear(self):
        """The type, body and fds of the next packet; None at the end of file."""
        data, fds, _, _ = socket.recv_fds(self.sock, 65536, 4)
        return (struct.unpack_from("=II", data)[1], data[8:], fds) if data else None

    def put_done(self, error=0, stat=None, **more):
        if stat is None:
            fields = [0] * 6
        else:
            changed, modified = divmod(stat.st_ctime_ns, 10**9), divmod(stat.st_mtime_ns, 10**9)
            fields = [stat.st_ino, stat.st_size, *changed, *modified]
        self.say(PUT_DONE, struct.pack(PUT_DONE_LAYOUT, error, 0, *fields), **more)

    def take_put(self):
        """Makes the file, and returns its stat."""
        kind, body, (source,) = self.hear()
        assert kind == PUT, kind
        name = body[16:-1].decode()
        copy = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=self.workspace)
        with open(source, "rb") as content, open(copy, "wb") as target:
            content.seek(0)
            shutil.copyfileobj(content, target)
            target.flush()
            return os.fstat(target.fileno())

    def take_go(self):
        """Takes the put of the script and the go."""
        self.put_done(stat=self.take_put())
        kind, _, self.stdio = self.hear()
        assert kind == GO, kind

    def print(self, text, stream=1):
        os.write(self.stdio[stream], text.encode())

    def hang_up_streams(self):
        for fd in self.stdio:
            os.close(fd)
        self.stdio = ()

    def exited(self, kind=CODE, value=0, cpu=1000, leftovers=0, scratch=0, file_bytes=0, alone=0, **more):
        fields = (kind, value, cpu, leftovers, scratch, file_bytes, 0, alone)
        self.say(EXITED, struct.pack(EXITED_LAYOUT, *fields), **more)


class Sandbox:
    """One connection of the broker."""

    def __init__(self, sock):
        self.sock = sock
        self.start = self.hear()
        assert self.start["type"] == "start", self.start
        self.launcher = None

    def say(self, kind, fds=(), version=VERSION, **members):
        attach(self.sock, json.dumps({"type": kind, "version": version, **members}).encode(), fds)

    def say_bytes(self, data, fds=()):
        attach(self.sock, data, fds)

    def hear(self):
        """The next message; None at the end of file."""
        try:
            data = self.sock.recv(65536)
        except ConnectionResetError:  # it hung up on something that it had not read
            data = b""
        return json.loads(data) if data else None

    def ready(self, fds=None, **members):
        """Says that it is ready, with a workspace and a launcher's socket unless told otherwise."""
        if fds is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.settimeout(PATIENCE)
            workspace = make_workspace()
            self.launcher = Launcher(ours, workspace)
            fds = [workspace, theirs.fileno()]
        self.say("ready", fds, sandboxId="double-1", **members)

    def go(self):
        """A good engine until the program would run. Returns the launcher."""
        self.ready()
        self.launcher.take_go()
        return self.launcher

    def ended(self, why="exit", cleaned=True, **members):
        self.say("ended", why=why, cleaned=cleaned, **members)

    def finish(self):
        """A good engine from there to the end: takes the kill, says how it ended."""
        message = self.hear()
        assert message["type"] == "kill", message
        self.ended(oomKills=0, cpuUSec=1000, memoryPeakBytes=1 << 20, leftovers=0)
        self.hung_up()

    def hung_up(self):
        """Waits for the broker to close the connection."""
        while self.hear() is not None:
            pass

    def flood(self, send):
        """Calls it until the broker hung up."""
        try:
            while True:
                send()
        except (BrokenPipeError, ConnectionResetError):
            pass


def serve(*scenarios):
    """Listens, says so, and plays each scenario with one connection, in turn."""
    with listening(PATH) as listener:
        for scenario in scenarios:
            scenario(Sandbox(accept(listener)))
