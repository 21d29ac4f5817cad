"""A client of the engine and launcher protocols (helper/engine/protocol.h, helper/launch/protocol.h).

Stands in for the broker in the tests of an engine: it runs inside the test machine as the user
sbxctl, so it needs nothing but Python. Must not know anything about one particular engine.
"""

import collections
import json
import os
import selectors
import socket
import struct
import threading
import time

VERSION = 1
READY, PUT, PUT_DONE, GO, EXITED, BYE, LISTEN, LISTENING, WARM, RELEASE = range(1, 11)
CODE, SIGNAL, EXEC = 1, 2, 3
PUT_DONE_LAYOUT = "=iIQQqqqq"
EXITED_LAYOUT = "=IiQIIQII"

# The engine that is meant where none is named.
ENGINE = os.environ.get("ENGINE", "systemd")
IMAGE = os.environ.get("IMAGE", "")

START = {
    "ownerUid": 1000,
    "cpuPercent": 100,
    "tasks": 64,
    "workspaceInodes": 1000,
    "memoryBytes": 256 << 20,
    "workspaceBytes": 64 << 20,
    "scratchBytes": 16 << 20,
    "lifetimeUSec": 60_000_000,
    "network": False,
}
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/workspace", "LANG": "C.UTF-8"}

Exited = collections.namedtuple("Exited", "kind value cpu_usec leftovers")
PutDone = collections.namedtuple(
    "PutDone", "error inode size ctime_sec ctime_nsec mtime_sec mtime_nsec"
)
Output = collections.namedtuple("Output", "exited stdout stderr usec")


class EngineError(Exception):
    """The engine's error message; also stands for a connection that it closed."""


def now():
    return time.monotonic_ns() // 1000


def read_all(fds, timeout):
    """Reads several pipes to their ends, and closes them."""
    data = {fd: b"" for fd in fds}
    deadline = time.monotonic() + timeout
    with selectors.DefaultSelector() as selector:
        for fd in fds:
            selector.register(fd, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError("the program's output did not end")
            for key, _ in ready:
                chunk = os.read(key.fd, 65536)
                data[key.fd] += chunk
                if not chunk:
                    selector.unregister(key.fd)
                    os.close(key.fd)
    return list(data.values())


class Launcher:
    """The broker's end of a launcher's control socket."""

    def __init__(self, sock):
        self.sock = sock

    def receive(self, expected, layout, timeout=30):
        """Returns the fields behind the header, and the fds."""
        self.sock.settimeout(timeout)
        data, fds, _, _ = socket.recv_fds(self.sock, 65536, 4)
        if not data:
            raise EOFError("the launcher is gone")
        version, kind = struct.unpack_from("=II", data)
        assert (version, kind) == (VERSION, expected), (version, kind)
        return struct.unpack_from(layout, data, 8), fds

    def ready(self):
        (uid, gid, pid_namespace, _), fds = self.receive(READY, "=IIII")
        (workspace,) = fds
        return uid, gid, pid_namespace, workspace

    def send(self, kind, body=b"", fds=()):
        socket.send_fds(self.sock, [struct.pack("=II", VERSION, kind) + body], fds)

    def send_put(self, name, source, size, mode=0o644):
        body = struct.pack("=IIQ", mode, 0, size) + os.fsencode(name) + b"\0"
        self.send(PUT, body, [source])

    def put(self, name, content, mode=0o644):
        source = os.memfd_create("input")
        try:
            os.write(source, content)
            self.send_put(name, source, len(content), mode)
        finally:
            os.close(source)
        fields, _ = self.receive(PUT_DONE, PUT_DONE_LAYOUT)
        return PutDone(fields[0], *fields[2:])

    def listen(self):
        """A socket that listens on the sandbox's loopback."""
        self.send(LISTEN)
        (error, _), fds = self.receive(LISTENING, "=iI")
        assert error == 0, os.strerror(error)
        return socket.socket(fileno=fds[0])

    def go(self, argv, env=None, directory="/workspace"):
        """Starts a program and returns what to wait with: the far ends of its stdin, stdout, stderr."""
        env = ENVIRONMENT if env is None else env
        words = [*argv, *(f"{k}={v}" for k, v in env.items()), directory]
        body = struct.pack("=II", len(argv), len(env))
        body += b"".join(os.fsencode(word) + b"\0" for word in words)
        stdin, stdout, stderr = os.pipe(), os.pipe(), os.pipe()
        self.send(GO, body, [stdin[0], stdout[1], stderr[1]])
        for fd in (stdin[0], stdout[1], stderr[1]):
            os.close(fd)
        return stdin[1], stdout[0], stderr[0]

    def exited(self, timeout=30):
        fields, _ = self.receive(EXITED, EXITED_LAYOUT, timeout)
        return Exited(*fields[:4])

    def run(self, argv, stdin=b"", timeout=30, **options):
        """Runs a program to its end."""
        began = now()
        to, out, err = self.go(argv, **options)
        writer = threading.Thread(target=feed, args=(to, stdin))
        writer.start()
        stdout, stderr = read_all([out, err], timeout)
        writer.join()
        return Output(self.exited(timeout), stdout, stderr, now() - began)

    def bye(self):
        self.send(BYE)


def feed(fd, data):
    try:
        while data:
            data = data[os.write(fd, data) :]
    except BrokenPipeError:
        pass
    finally:
        os.close(fd)


class Sandbox(Launcher):
    """A sandbox of the engine with that name."""

    def __init__(self, engine=ENGINE, **options):
        self.engine = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        began = now()
        self.engine.connect(f"/run/sbxctl/engine/{engine}")
        self.tell({"type": "start", "version": VERSION, "runId": os.urandom(16).hex(), "image": IMAGE} | START | options)
        self.progress = []
        while True:
            message, fds = self.receive_message()
            if message["type"] == "error":
                raise EngineError(message)
            if message["type"] == "ready":
                break
            assert message["type"] == "progress", message
            self.progress.append(message)
        self.ready_usec = now() - began
        self.id = message["sandboxId"]
        self.message = message
        self.workspace, control = fds
        super().__init__(socket.socket(fileno=control))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def tell(self, message):
        self.engine.send(json.dumps(message).encode())

    def hear(self, timeout=30):
        """What it says once it is ready; its progress is only noted."""
        while (answer := self.receive_message(timeout))[0]["type"] == "progress":
            self.progress.append(answer[0])
        return answer

    def receive_message(self, timeout=30):
        self.engine.settimeout(timeout)
        data, fds, _, _ = socket.recv_fds(self.engine, 65536, 4)
        if not data:
            raise EngineError("end of file")
        return json.loads(data), fds

    def kill(self, grace_usec=0):
        """Ends the sandbox. Returns what the engine says about its end."""
        self.tell({"type": "kill", "version": VERSION, "graceUSec": grace_usec})
        return self.ended()

    def ended(self, timeout=30):
        message, _ = self.hear(timeout)
        assert message["type"] == "ended", message
        if message.get("stands"):
            last, _ = self.hear(timeout)
            assert last["type"] == "removed", last
            message["cleaned"] = last["cleaned"]
        return message

    def python(self, code, **options):
        return self.run(["python3", "-c", code], **options)

    def close(self):
        """Hangs up, as a crash of the broker would."""
        self.engine.close()
        self.sock.close()
        if self.workspace >= 0:
            os.close(self.workspace)
            self.workspace = -1
