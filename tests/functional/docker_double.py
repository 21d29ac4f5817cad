"""A daemon that misbehaves: what dockerd cannot be made to do. Runs inside the test machine, as root.

usage: docker_double.py SOCKET BEHAVIOUR

Every behaviour but those of the version answers `GET /version` as Docker does.
"""

import http.server
import json
import os
import socketserver
import sys
import threading

VERSION = {"ApiVersion": "1.45", "MinAPIVersion": "1.24"}
IMAGE = {"Id": "sha256:" + "0" * 64, "RepoDigests": [], "Config": {"Volumes": None}}
FULL = "write /var/lib/docker/overlay2/x: no space left on device"

# behaviour: {the path's part: (status, body)}; None is never answered, an exception ends the connection.
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
    "volume": {"/images": (200, IMAGE | {"Config": {"Volumes": {"/data": {}}}})},
}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "unix"

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
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
