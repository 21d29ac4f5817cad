"""A client of the egress protocol (helper/egress/protocol.h), and what it takes to use the way out.

Stands in for the broker and for a program in a sandbox: it runs inside the test machine as root, makes
a network namespace of its own with nothing but loopback, and hands a socket that listens in it to
sbxctl-egress, as the user sbxctl. Needs nothing but Python.
"""

import contextlib
import ctypes
import http.server
import json
import os
import pwd
import socket
import struct
import subprocess
import threading
import time

VERSION = 1
SOCKET = "/run/sbxctl/egress"
PROXY = ("127.0.0.1", 3128)
CLONE_NEWNET = 0x40000000

START = {
    "allowedNames": ["*"],
    "deniedNames": [],
    "ports": [80, 443],
    "allowedAddresses": [],
    "deniedAddresses": [],
    "granted": [],
    "connections": 256,
    "bytes": 10 << 30,
    "idleUSec": 60_000_000,
}

_libc = ctypes.CDLL(None, use_errno=True)


class EgressError(Exception):
    """The process's error message; also stands for a connection that it closed."""


def _check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _in_thread(function):
    """Runs it in a thread of its own, since a namespace is a thread's."""
    done = []

    def work():
        try:
            done.append((function(), None))
        except BaseException as error:
            done.append((None, error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    value, error = done[0]
    if error:
        raise error
    return value


class Namespace:
    """A network namespace with loopback, like a sandbox's."""

    def __init__(self):
        def make():
            _check(_libc.unshare(CLONE_NEWNET))
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            return os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY | os.O_CLOEXEC)

        self.fd = _in_thread(make)

    def call(self, function):
        """What function() returns when it runs in the namespace."""

        def enter():
            _check(_libc.setns(self.fd, CLONE_NEWNET))
            return function()

        return _in_thread(enter)

    def listen(self):
        return self.call(lambda: socket.create_server(PROXY, backlog=512))

    def connect(self, address=PROXY, timeout=10):
        """A socket that is connected within the namespace."""

        def connect():
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            sock.settimeout(timeout)
            sock.connect(address)
            return sock

        return self.call(connect)

    def run(self, argv, **options):
        """Runs a program in the namespace; options are those of subprocess.run."""
        options = {"capture_output": True, "timeout": 60} | options
        return self.call(lambda: subprocess.run(argv, **options))

    def close(self):
        os.close(self.fd)


class Egress:
    """The way out of one run. `start` are members of the first message other than START's."""

    def __init__(self, listener=None, **start):
        self.namespace = Namespace()
        self.sock = self._connect()
        listener = self.namespace.listen() if listener is None else listener
        message = {"type": "start", "version": VERSION, "runId": os.urandom(16).hex()} | START | start
        self.send(message, [listener.fileno()])
        listener.close()
        message = self.receive()
        if message["type"] != "ready":
            raise EgressError(message)
        self.records = []

    @staticmethod
    def _connect():
        """The kernel remembers who connected."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        os.seteuid(pwd.getpwnam("sbxctl").pw_uid)
        try:
            sock.connect(SOCKET)
        finally:
            os.seteuid(0)
        return sock

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, message, fds=()):
        socket.send_fds(self.sock, [json.dumps(message).encode()], fds)

    def receive(self, timeout=10):
        """The next message; EgressError at the end of file."""
        self.sock.settimeout(timeout)
        data = self.sock.recv(65536)
        if not data:
            raise EgressError("end of file")
        return json.loads(data)

    def record(self, timeout=10):
        """The next record of a connection."""
        message = self.receive(timeout)
        assert message["type"] == "connection", message
        self.records.append(message)
        return message

    def finish(self, timeout=10):
        """Ends it. Returns the last word; records that came before are added to .records."""
        self.send({"type": "finish", "version": VERSION})
        while True:
            message = self.receive(timeout)
            if message["type"] == "finished":
                return message
            assert message["type"] == "connection", message
            self.records.append(message)

    def pid(self):
        """The run's process: the youngest of the service's."""
        shown = subprocess.run(["systemctl", "show", "-P", "MainPID", "sbxctl-egress.service"], capture_output=True)
        service = int(shown.stdout)
        children = open(f"/proc/{service}/task/{service}/children").read().split()
        return int(children[-1])

    def close(self):
        """Hangs up, as a crash of the broker would."""
        self.sock.close()
        self.namespace.close()

    # ---- as a program in the sandbox

    def open(self, timeout=10):
        return self.namespace.connect(timeout=timeout)

    def exchange(self, data, timeout=10):
        """Sends bytes and returns all that comes until the other end closes."""
        with self.open(timeout) as sock:
            sock.sendall(data)
            return read_all(sock)

    def connect(self, authority):
        """CONNECT. Returns the status line and the socket, behind the head."""
        sock = self.open()
        sock.sendall(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        head = read_head(sock)
        return head.split(b"\r\n")[0].decode(), sock

    def get(self, url, fields="", method="GET", body=b""):
        """A plain request for a URL. Returns status line, head and body."""
        host = url.split("/")[2]
        request = f"{method} {url} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n".encode() + body
        head, _, rest = self.exchange(request).partition(b"\r\n\r\n")
        return head.split(b"\r\n")[0].decode(), head.decode(), rest

    def socks(self, host, port, command=1):
        """SOCKS5 with the name (or the address, as bytes) sent as such. Returns the reply's code and the
        socket."""
        sock = self.open()
        sock.sendall(b"\5\1\0")
        assert read_exactly(sock, 2) == b"\5\0"
        if isinstance(host, bytes):
            address = {4: b"\1", 16: b"\4"}[len(host)] + host
        else:
            address = b"\3" + bytes([len(host.encode())]) + host.encode()
        sock.sendall(b"\5" + bytes([command]) + b"\0" + address + struct.pack("!H", port))
        return read_exactly(sock, 10)[1], sock


def read_exactly(sock, size):
    data = b""
    while len(data) < size:
        chunk = sock.recv(size - len(data))
        if not chunk:
            raise EOFError(data)
        data += chunk
    return data


def read_all(sock):
    data = b""
    while chunk := sock.recv(1 << 16):
        data += chunk
    return data


def read_head(sock):
    """Up to the empty line, and not one byte more."""
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        data += read_exactly(sock, 1)
    return data


class _Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _answer(self):
        size = int(self.headers.get("Content-Length", 0))
        seen = {
            "method": self.command,
            "path": self.path,
            "fields": self.headers.items(),
            "body": self.rfile.read(size).decode("latin-1"),
            "peer": self.client_address[0],
        }
        data = json.dumps(seen).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.server.seen.append(seen)

    do_GET = do_POST = do_PUT = do_HEAD = _answer

    def log_message(self, *_):
        pass


class _Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        """Connections that are reset are what tests are about."""


@contextlib.contextmanager
def web_server(address="127.0.0.1", port=0, handler=_Echo):
    """A web server on an address of the machine (outside of any sandbox), which tells what it was asked.
    Its .port is the one it got, .seen what came."""
    with _Server((address, port), handler) as server:
        server.seen = []
        server.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def names(**addresses):
    """Names of the machine in /etc/hosts, e.g. names(**{"good.example": "127.0.0.1"})."""
    with open("/etc/hosts") as file:
        before = file.read()
    # In its place: in a container the file is a mount.
    with open("/etc/hosts", "a") as file:
        file.writelines(f"{address} {name}\n" for name, address in addresses.items())
    try:
        yield
    finally:
        with open("/etc/hosts", "w") as file:
            file.write(before)


def throughput(sock, size):
    """Bytes per second of reading @size bytes."""
    buffer = bytearray(1 << 20)
    began = time.monotonic()
    left = size
    while left > 0:
        n = sock.recv_into(buffer, min(len(buffer), left))
        if n == 0:
            raise EOFError(f"{left} bytes are missing")
        left -= n
    return size / (time.monotonic() - began)
