"""A daemon that misbehaves: what dockerd cannot be made to do. Runs inside the test machine, as root.

usage: docker_double.py SOCKET BEHAVIOUR

Every behaviour but those of the version answers `GET /version` as Docker does.
"""

import http.server
import itertools
import json
import os
import socket
import socketserver
import sys
import threading
import time

VERSION = {"ApiVersion": "1.45", "MinAPIVersion": "1.24"}
IMAGE = {"Id": "sha256:" + "0" * 64, "RepoDigests": [], "Config": {"Volumes": None}}
FULL = "write /var/lib/docker/overlay2/x: no space left on device"

ID = "0123456789abcdef" * 4
LONG = b'{"Id":"' + b"x" * 65536


def endless(first, more):
    """An answer that goes on until nobody listens any more."""
    return lambda: itertools.chain([b"HTTP/1.1 200 OK\r\n" + first], itertools.repeat(more))


def raw(*parts):
    return lambda: iter(parts)


def slowly():
    for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b" " * 100000:
        time.sleep(0.5)
        yield bytes([byte])


def connect_from_here():
    """In place of a launcher in a container, its control socket is connected to from the network of the machine."""
    mounts = json.loads(Handler.created)["HostConfig"]["Mounts"]
    Handler.link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    Handler.link.connect(next(mount["Source"] for mount in mounts if mount["Target"] == "/.sbxctl-control"))
    yield b"HTTP/1.1 204 No Content\r\n\r\n"


def image(**changes):
    return {"/images": (200, IMAGE | changes)}


# behaviour: {the path's part: (status, body)}; None is never answered, an exception ends the connection, and what
# a function yields is sent as it is.
BEHAVIOURS = {
    "hangs": {"/_ping": None},
    "hangs-at-create": {"/create": None},
    "too-old": {"/version": (200, VERSION | {"ApiVersion": "1.40"})},
    "only-newer": {"/version": (200, {"ApiVersion": "1.99", "MinAPIVersion": "1.90"}), "/v1.90/images": (404, {"message": "newer"})},
    "no-api": {"/version": (200, {"hello": "world"})},
    "full": {"/create": (500, {"message": FULL})},
    "name-conflict": {"/create": (409, {"message": 'Conflict. The container name "/x" is already in use'})},
    "goes-away": {"/create": ConnectionError},
    "escapes": {"/create": (500, {"message": "bad\n\x1b[31mred\u202e" + "x" * 10000})},
    # Bytes that are no answer, or two at once.
    "two-lengths": {"/images": raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 300\r\n\r\n{}")},
    "cut": {"/images": raw(b"HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n{")},
    "no-http": {"/images": raw(b"SSH-2.0-OpenSSH\r\n")},
    "negative-length": {"/images": raw(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}")},
    "huge-chunk": {"/images": raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}")},
    "endless-headers": {"/images": endless(b"", b"X-A: " + b"a" * 1000 + b"\r\n")},
    "endless-hints": {"/images": endless(b"\r\n", b"HTTP/1.1 100 Continue\r\n\r\n")},
    "endless-chunks": {"/images": endless(b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b" " * 65536 + b"\r\n")},
    "endless-body": {"/images": endless(b"\r\n", LONG)},
    "slow": {"/images": slowly},
    "elsewhere": {"/images": raw(b"HTTP/1.1 302 Found\r\nLocation: file:///etc/shadow\r\nContent-Length: 0\r\n\r\n")},
    # JSON that is not what was asked for.
    "deep": {"/images": raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n" + b'{"a":' * 400000)},
    "no-object": {"/images": (200, "text")},
    "image-without-id": image(Id=None),
    "image-of-another-id": image(Id="../../containers/x"),
    "image-of-another-type": image(Id={"a": 1}, RepoDigests="x", Config=7),
    "image-with-a-terrible-digest": image(RepoDigests=["sbxctl-test/python@\x1b[31m"]),
    "wrong-container-id": {"/create": (201, {"Id": "../../../" + "1" * 55})},
    "short-container-id": {"/create": (201, {"Id": "1"})},
    "no-container-id": {"/create": (201, {})},
    "no-launcher": {"/create": (201, {"Id": ID}), "/start": (204, {}), "/json": (200, IMAGE | {"State": {"Running": True, "Pid": 1}}),
                    "/kill": (204, {})},
    "no-network": {"/create": (201, {"Id": ID}), "/start": connect_from_here, "/kill": (204, {}),
                   "/json": (200, IMAGE | {"State": {"Running": True, "Pid": os.getpid()}})},
    "volume": {"/images": (200, IMAGE | {"Config": {"Volumes": {"/data": {}}}})},
}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "unix"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "/create" in self.path:
            Handler.created = body
        rules = self.server.rules | {}
        for part, what in [*rules.items(), ("/version", (200, VERSION)), ("/images", (200, IMAGE)),
                           ("/containers/json", (200, [])), ("", (404, {"message": "no such thing"}))]:
            if part in self.path:
                break
        if what is None:
            threading.Event().wait()
        if what is ConnectionError:
            self.close_connection = True
            return
        if callable(what):
            self.close_connection = True
            try:
                for part in what():
                    self.wfile.write(part)
            except OSError:
                pass
            return
        status, body = what
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_DELETE = answer


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


path, behaviour = sys.argv[1:]
server = Server(path, Handler)
server.rules = BEHAVIOURS[behaviour]
os.chmod(path, 0o666)
print("listening", flush=True)
server.serve_forever()
