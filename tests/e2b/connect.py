"""The Connect protocol with JSON, as connect-go serves it: unary calls, and streams of enveloped messages."""

import json
import random
import struct

COMPRESSED = 1
END_OF_STREAM = 2
STATUS = {"canceled": 499, "unknown": 500, "invalid_argument": 400, "deadline_exceeded": 504, "not_found": 404, "already_exists": 409,
          "permission_denied": 403, "resource_exhausted": 429, "failed_precondition": 400, "aborted": 409, "out_of_range": 400,
          "unimplemented": 501, "internal": 500, "unavailable": 503, "data_loss": 500, "unauthenticated": 401}


class ConnectError(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code
        self.message = message

    def body(self):
        return {"code": self.code, "message": self.message}


def envelope(payload, flags=0):
    return struct.pack(">BI", flags, len(payload)) + payload


def opened(data):
    """The one message that a streaming request consists of."""
    if len(data) < 5:
        raise ConnectError("invalid_argument", "protocol error: incomplete envelope: unexpected EOF")
    flags, length = struct.unpack(">BI", data[:5])
    if flags:
        raise ConnectError("internal", "protocol error: sent compressed message without compression support")
    if length != len(data) - 5:
        raise ConnectError("invalid_argument", f"protocol error: promised {length} bytes in enveloped message, got {len(data) - 5} bytes")
    return data[5:]


def parsed(data):
    if not data:
        raise ConnectError("invalid_argument", "zero-length payload is not a valid JSON object")
    try:
        message = json.loads(data)
    except ValueError as error:
        raise ConnectError("invalid_argument", f"unmarshal message: {error}") from error
    if not isinstance(message, dict):
        raise ConnectError("invalid_argument", "unmarshal message: proto: syntax error: unexpected token")
    return message


class Writer:
    """JSON as protojson writes it: zero values left out by the caller, and spaces that nobody may rely on."""

    def __init__(self, settings):
        self.settings = settings

    def text(self, message):
        if self.settings["unknown_fields"] and isinstance(message, dict):
            message = {"fieldOfTomorrow": {"a": [1, None, True]}, **message}
        space = random.choice(("", " ")) if self.settings["whitespace"] else ""
        return json.dumps(message, separators=("," + space, ":" + space)).encode()


class Stream:
    """The answer of a server-streaming call. Status 200 is on the way before the first message."""

    def __init__(self, exchange, writer):
        self.exchange = exchange
        self.writer = writer

    async def begin(self):
        await self.exchange.start(200, {"content-type": "application/connect+json", "connect-accept-encoding": "gzip"})

    async def send(self, kind, message):
        await self.exchange.message(kind, envelope(self.writer.text(message)))

    async def end(self, error=None):
        trailer = {"error": error.body()} if error else {}
        await self.exchange.message("trailer", envelope(self.writer.text(trailer), END_OF_STREAM))
        await self.exchange.finish()
