"""envd's GET and POST /files: the bytes of files, in and out, allowed by the access token or by a signature."""

import base64
import errno
import hashlib
import hmac
import json
import mimetypes
import os
import re
import time
import urllib.parse
import zlib

from sandboxes import UIDS, AgentError

CHUNK = 65536
OCTET_STREAM_SINCE = (0, 5, 7)


class FileError(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status
        self.message = message


def signature_of(path, operation, user, token, expiration=None):
    text = f"{path}:{operation}:{user}:{token}" + (f":{expiration}" if expiration else "")
    return "v1_" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def status_of(error, path):
    if error.errno == errno.ENOENT:
        return FileError(404, f"path '{path}' does not exist")
    if error.errno in (errno.EISDIR, errno.ENOTDIR):
        return FileError(400, f"path '{path}' is a directory")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return FileError(507, "not enough disk space available")
    return FileError(500, f"error opening file '{path}': {error.strerror}")


def write_whole(fd, data):
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view):]


def parts_of(body, content_type):
    """(name, file name, content) of each part of a multipart/form-data body."""
    boundary = re.search(r'boundary="?([^";]+)"?', content_type)
    if not boundary:
        raise FileError(400, "error parsing multipart form: no multipart boundary param in Content-Type")
    pieces = (b"\r\n" + body).split(b"\r\n--" + boundary[1].encode())
    if len(pieces) < 2 or not pieces[-1].startswith(b"--"):
        raise FileError(500, "error reading multipart: unexpected EOF")
    for piece in pieces[1:-1]:
        head, _, content = piece.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        disposition = re.search(r"^content-disposition:(.*)$", head.decode("utf-8", "replace"), re.I | re.M)
        fields = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', disposition[1] if disposition else ""))
        # Browsers and undici percent-encode what would end the quoted string.
        name = fields.get("filename", "").replace("%22", '"').replace("%0D", "\r").replace("%0A", "\n")
        yield fields.get("name"), name, content


class Files:
    def __init__(self, clock):
        self.clock = clock

    async def handle(self, exchange, operation, sandbox):
        try:
            user = self.check(exchange, sandbox, "read" if operation == "files.download" else "write")
            if operation == "files.download":
                await self.download(exchange, sandbox, user)
            else:
                await self.upload(exchange, sandbox, user)
        except FileError as error:
            body = json.dumps({"code": error.status, "message": error.message}).encode()
            await exchange.respond(error.status, {"content-type": "application/json"}, body)

    def check(self, exchange, sandbox, operation):
        """Answers the user whose paths and rights are meant."""
        query = exchange.query
        token = exchange.headers.get("x-access-token")
        if sandbox.secure and token is not None and not hmac.compare_digest(token.encode(), sandbox.token.encode()):
            raise FileError(401, "invalid access token")
        if sandbox.secure and token is None:
            self.check_signature(query, sandbox, operation)
        user = query.get("username") or "user"
        if user not in UIDS:
            raise FileError(401, f"error looking up user '{user}': user: unknown user {user}")
        return user

    def check_signature(self, query, sandbox, operation):
        expiration = query.get("signature_expiration")
        wanted = signature_of(query.get("path", ""), operation, query.get("username", ""), sandbox.token, expiration)
        if not hmac.compare_digest(query.get("signature", "").encode(), wanted.encode()):
            raise FileError(401, "missing signature query parameter" if "signature" not in query else "invalid signature")
        if expiration and int(expiration) < time.time() + self.clock():
            raise FileError(401, "signature is already expired")

    # ---- download

    async def download(self, exchange, sandbox, user):
        path = sandbox.resolve(exchange.query.get("path", ""), user)
        try:
            fd = await sandbox.file("read", user, path)
        except AgentError as error:
            raise status_of(error, path) from None
        with os.fdopen(fd, "rb", 0) as file:
            await self.send(exchange, file, path)

    async def send(self, exchange, file, path):
        size = os.fstat(file.fileno()).st_size
        name = urllib.parse.quote(os.path.basename(path))
        headers = {"content-type": mimetypes.guess_type(path)[0] or "application/octet-stream", "vary": "Accept-Encoding",
                   "content-disposition": f"inline; filename*=utf-8''{name}", "accept-ranges": "bytes"}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", exchange.headers.get("range", ""))
        if wanted and int(wanted[1]) < size:
            first, last = int(wanted[1]), min(int(wanted[2] or size - 1), size - 1)
            file.seek(first)
            await exchange.start(206, headers | {"content-range": f"bytes {first}-{last}/{size}"}, last - first + 1)
            await self.copy(exchange, file, last - first + 1)
        elif "gzip" in exchange.headers.get("accept-encoding", ""):
            await exchange.start(200, headers | {"content-encoding": "gzip"})
            await self.copy(exchange, file, size, zlib.compressobj(1, wbits=31))
        else:
            await exchange.start(200, headers, size)
            await self.copy(exchange, file, size)
        await exchange.finish()

    async def copy(self, exchange, file, size, gzip=None):
        while size > 0 and (data := file.read(min(CHUNK, size))):
            size -= len(data)
            await exchange.message("content", gzip.compress(data) if gzip else data)
        if gzip:
            await exchange.message("content", gzip.flush())

    # ---- upload

    async def upload(self, exchange, sandbox, user):
        kind = exchange.headers.get("content-type", "")
        path = exchange.query.get("path")
        if kind.startswith("multipart/form-data"):
            written = await self.upload_parts(exchange, sandbox, user, kind, path)
        elif kind.startswith("application/octet-stream") and tuple(map(int, sandbox.envd_version.split("."))) >= OCTET_STREAM_SINCE:
            if not path:
                raise FileError(400, "path is required for application/octet-stream uploads")
            written = [await self.upload_stream(exchange, sandbox, user, path)]
        else:
            raise FileError(400, f"unsupported content type: {kind}")
        # Real envd sets no content type here; Go guesses this one.
        await exchange.respond(200, {"content-type": "text/plain; charset=utf-8"}, json.dumps(written).encode())

    async def open(self, sandbox, user, path):
        try:
            return await sandbox.file("write", user, path)
        except AgentError as error:
            raise status_of(error, path) from None

    async def upload_stream(self, exchange, sandbox, user, path):
        path = sandbox.resolve(path, user)
        gzip = zlib.decompressobj(31) if exchange.headers.get("content-encoding") == "gzip" else None
        fd = await self.open(sandbox, user, path)
        try:
            async for data in exchange.chunks():
                write_whole(fd, gzip.decompress(data) if gzip else data)
        except OSError as error:
            raise status_of(error, path) from None
        finally:
            os.close(fd)
        return {"path": path, "name": os.path.basename(path), "type": "file"}

    async def upload_parts(self, exchange, sandbox, user, kind, path):
        parts = [part for part in parts_of(await exchange.body(), kind) if part[0] == "file"]
        targets = [sandbox.resolve(path or name, user) for _, name, _ in parts]
        if len(set(targets)) < len(targets):
            raise FileError(400, "you cannot upload multiple files to the same path in one upload request")
        for target, (_, _, content) in zip(targets, parts):
            fd = await self.open(sandbox, user, target)
            try:
                write_whole(fd, content)
            except OSError as error:
                raise status_of(error, target) from None
            finally:
                os.close(fd)
        return [{"path": target, "name": os.path.basename(target), "type": "file"} for target in targets]
