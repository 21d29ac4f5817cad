"""The web servers of network_lab.py: run in the test machine, and tell in a log what reached them.

usage: lab_server.py DIRECTORY ADDRESS...

Serves http on ports 80 and 8080 and https on 443 of each address, with DIRECTORY/certificate.pem and its key, files of
DIRECTORY/www, and a recorder of raw bytes on port 81. It ends with its standard input.
The log, DIRECTORY/seen, has a JSON object per line: {at, port} for a connection, with {method, path, fields} for a request,
{raw} for what the recorder got, byte for byte as latin-1.
"""

import functools
import hashlib
import http.server
import json
import os
import socket
import socketserver
import ssl
import sys
import threading
import time
import urllib.parse

ZEROS = bytes(1 << 20)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"

# What the recorder answers a path with, for those who parse answers. None: nothing, and it hangs up.
REPLIES = {
    "/nothing": None,
    "/half": b"HTTP/1.1 200 OK\r\nContent-Le",
    "/no-http": b"SSH-2.0-OpenSSH_9.2\r\n",
    "/bad-status": b"HTTP/1.1 99999 Odd\r\n\r\n",
    "/bare-lf": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
    "/two-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 200\r\n\r\nok",
    "/folded": b"HTTP/1.1 200 OK\r\nX-One: a\r\n b: c\r\nContent-Length: 2\r\n\r\nok",
    "/long-head": b"HTTP/1.1 200 OK\r\n" + b"X-Filler: " + b"a" * (8 << 20) + b"\r\n\r\nok",
    "/many-fields": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100000 + b"\r\nok",
    "/continues": b"HTTP/1.1 100 Continue\r\n\r\n" * 100000 + OK,
    "/connection": b"HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=9\r\nX-Kept: 2\r\n\r\nok",
    "/early": b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n",
}


class Log:
    def __init__(self, path):
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, **entry):
        os.write(self.fd, json.dumps(entry).encode() + b"\n")


class Web(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 120

    def setup(self):
        super().setup()
        self.at, self.port = self.connection.getsockname()[:2]
        self.server.log.write(at=self.at.removeprefix("::ffff:"), port=self.port)

    def log_message(self, *_):
        pass

    def parse_request(self):
        good = super().parse_request()
        if good:
            self.server.log.write(
                at=self.at.removeprefix("::ffff:"), port=self.port, method=self.command, path=self.path,
                fields=self.headers.items(),
            )
        return good

    def answer(self, body, status=200, **fields):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if url.path == "/hello":
            self.answer(f"hello from {self.headers['Host']}\n".encode())
        elif url.path == "/redirect":
            self.answer(b"", 302, Location=query["to"])
        elif url.path == "/zeros":
            self.zeros(int(query["n"]))
        elif url.path == "/drip":
            self.drip(int(query["n"]), float(query["every"]))
        else:
            super().do_GET()

    def zeros(self, left):
        self.send_response(200)
        self.send_header("Content-Length", str(left))
        self.end_headers()
        self.wfile.flush()
        while left > 0:
            self.connection.sendall(ZEROS[:left])
            left -= len(ZEROS)

    def drip(self, number, every):
        """A byte now and then, until end of file."""
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        for _ in range(number):
            self.wfile.write(b".")
            self.wfile.flush()
            time.sleep(every)
        self.close_connection = True

    def chunks(self):
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline() not in (b"\r\n", b""):
            pass

    def pieces(self):
        left = int(self.headers.get("Content-Length", 0))
        while left > 0 and (piece := self.rfile.read(min(left, 1 << 20))):
            left -= len(piece)
            yield piece

    def do_PUT(self):
        size, digest = 0, hashlib.sha256()
        chunked = "chunked" in self.headers.get("Transfer-Encoding", "")
        for piece in self.chunks() if chunked else self.pieces():
            size += len(piece)
            digest.update(piece)
        self.answer(json.dumps({"size": size, "sha256": digest.hexdigest()}).encode())

    do_POST = do_PUT


class Recorder(socketserver.BaseRequestHandler):
    """Keeps what comes until nothing more does for half a second, having answered the first head."""

    def handle(self):
        at, port = self.request.getsockname()[:2]
        self.request.settimeout(0.5)
        got, answered = b"", False
        try:
            while data := self.request.recv(65536):
                got += data
                if not answered and b"\r\n\r\n" in got:
                    answered = True
                    if not self.answer(got):
                        break
        except OSError:
            pass
        self.server.log.write(at=at.removeprefix("::ffff:"), port=port, raw=got.decode("latin-1"))

    def answer(self, got):
        path = got.split(b" ")[1].decode("latin-1")
        reply = REPLIES.get(path, OK)
        if reply is None:
            return False
        self.request.sendall(reply)
        return path not in REPLIES


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, address, port, handler, log, context=None):
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.log = log
        self.context = context
        super().__init__((address, port), handler)

    def finish_request(self, request, client_address):
        # In the connection's own thread: who does not shake hands holds up nobody.
        if self.context:
            request.settimeout(120)
            request = self.context.wrap_socket(request, server_side=True)
        try:
            self.RequestHandlerClass(request, client_address, self)
        finally:
            if self.context:
                request.close()

    def handle_error(self, *_):
        pass


def main(directory, *addresses):
    log = Log(f"{directory}/seen")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{directory}/certificate.pem", f"{directory}/key.pem")
    web = functools.partial(Web, directory=f"{directory}/www")
    servers = []
    for address in addresses:
        servers += [
            Server(address, 80, web, log),
            Server(address, 8080, web, log),
            Server(address, 443, web, log, context),
            Server(address, 81, Recorder, log),
        ]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print("up", flush=True)
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
