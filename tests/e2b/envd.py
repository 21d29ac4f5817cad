"""envd, the service that E2B runs in each sandbox: here one for all of them, with each sandbox's agent as its hands.

Calls of the Connect protocol go on to process_service.py and filesystem_service.py, files to files.py.
"""

import base64
import binascii
import errno
import hmac
import json

import connect
import files
import filesystem_service
import process_service
from sandboxes import UIDS, AgentError

UNAUTHORIZED = "unauthorized access, please provide a valid access token or method signing if supported"
RESERVED = {"/init", "/freeze", "/unfreeze", "/collapse", "/fsfreeze", "/fsthaw", "/upgrade"}
METHODS = {  # path: (operation, handler, whether it streams)
    "/process.Process/" + name: ("process." + operation, handler, streams) for name, operation, handler, streams in process_service.METHODS
} | {
    "/filesystem.Filesystem/" + name: ("filesystem." + operation, handler, streams)
    for name, operation, handler, streams in filesystem_service.METHODS
}
PLAIN = {("GET", "/health"): "health", ("GET", "/metrics"): "envd-metrics", ("GET", "/envs"): "envs",
         ("GET", "/files"): "files.download", ("POST", "/files"): "files.upload"}
CODES = {errno.ENOENT: "not_found", errno.EEXIST: "already_exists", errno.ENOTDIR: "invalid_argument", errno.EISDIR: "invalid_argument",
         errno.EACCES: "permission_denied", errno.EPERM: "permission_denied", errno.EROFS: "permission_denied",
         errno.ENOSPC: "resource_exhausted", errno.ESRCH: "not_found"}


def route(method, path):
    if method == "POST" and path in METHODS:
        return METHODS[path][0]
    return PLAIN.get((method, path))


def connect_error(error):
    return connect.ConnectError(CODES.get(error.errno, "internal"), error.strerror)


class Call:
    """What a handler of a Connect call is told: the sandbox, the request, the user, and the stream if it is one."""

    def __init__(self, sandbox, exchange, request, user, stream=None):
        self.sandbox = sandbox
        self.exchange = exchange
        self.request = request
        self.user = user
        self.stream = stream

    def path(self, name="path"):
        return self.sandbox.resolve(self.request.get(name, ""), self.user)


class Envd:
    def __init__(self, settings, writer, clock):
        self.settings = settings
        self.writer = writer
        self.clock = clock
        self.files = files.Files(clock)

    async def handle(self, exchange, operation, sandbox):
        path = exchange.path
        if path in RESERVED:
            await self.json(exchange, 404, {"message": "This endpoint is reserved for the E2B control plane", "path": path, "code": 404})
        elif not self.authorized(exchange, sandbox):
            await self.json(exchange, 401, {"code": 401, "message": UNAUTHORIZED})
        elif operation == "health":
            await exchange.respond(204, {"cache-control": "no-store"})
        elif operation == "envs":
            await self.json(exchange, 200, sandbox.environment)
        elif operation == "envd-metrics":
            await self.json(exchange, 200, {"ts": int(sandbox.started_at), "cpu_count": 2, "cpu_used_pct": 1.5, "mem_total_mib": 512,
                                            "mem_used_mib": 64, "disk_used": 1 << 30, "disk_total": 10 << 30})
        elif operation in ("files.download", "files.upload"):
            await self.files.handle(exchange, operation, sandbox)
        elif operation:
            await self.call(exchange, sandbox)
        else:
            await exchange.respond(404, {"content-type": "text/plain; charset=utf-8"}, b"404 page not found\n")

    def authorized(self, exchange, sandbox):
        """/files looks by itself, since it takes signatures too; /health is everybody's."""
        if not sandbox.secure or exchange.path in ("/health", "/files"):
            return True
        return hmac.compare_digest(exchange.headers.get("x-access-token", "").encode(), sandbox.token.encode())

    async def json(self, exchange, status, body):
        await exchange.respond(status, {"content-type": "application/json"}, json.dumps(body).encode())

    # ---- Connect

    async def call(self, exchange, sandbox):
        _, handler, streams = METHODS[exchange.path]
        kind = exchange.headers.get("content-type", "").partition(";")[0]
        if kind != ("application/connect+json" if streams else "application/json"):
            await exchange.respond(415, {"accept-post": "application/json, application/connect+json"})
        elif streams:
            await self.streaming(exchange, sandbox, handler)
        else:
            await self.unary(exchange, sandbox, handler)

    def user_of(self, exchange):
        scheme, _, value = exchange.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return "user"
        try:
            user = base64.b64decode(value).decode().partition(":")[0]
        except (binascii.Error, ValueError):
            user = "?"
        if user not in UIDS:
            raise connect.ConnectError("unauthenticated", f"invalid username: '{user}'")
        return user

    async def unary(self, exchange, sandbox, handler):
        try:
            request = connect.parsed(await exchange.body())
            answer = await handler(Call(sandbox, exchange, request, self.user_of(exchange)))
        except (connect.ConnectError, AgentError) as error:
            error = error if isinstance(error, connect.ConnectError) else connect_error(error)
            await self.json(exchange, connect.STATUS[error.code], error.body())
            return
        await exchange.respond(200, {"content-type": "application/json"}, self.writer.text(answer))

    async def streaming(self, exchange, sandbox, handler):
        data = await exchange.body()
        stream = connect.Stream(exchange, self.writer)
        await stream.begin()
        try:
            request = connect.parsed(connect.opened(data))
            await handler(Call(sandbox, exchange, request, self.user_of(exchange), stream))
        except connect.ConnectError as error:
            await stream.end(error)
        except AgentError as error:
            await stream.end(connect_error(error))
        else:
            await stream.end()
