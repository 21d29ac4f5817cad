"""The fault switches: what goes wrong, with which call, and how often.

A fault is a JSON object, added through the test control (switchboard.py):

    {"on": "delete", "do": "answer", "status": 500, "times": 2}

on      the operation, as the list of requests names it; shell patterns such as "process.*" or "*" are allowed
do      one of the kinds below
times   how many calls it hits, 1 unless told, -1 for all
skip    how many calls it lets pass first
sandbox only in this sandbox

Kinds, with their fields and what they are unless told:

answer      status 500, body (text, or JSON) and headers, in place of the real answer.
            when "before": nothing is done; "after": it was done, and the client does not learn it. A stream's
            code runs then.
html        status 502: an answer with nginx's page in place of JSON; when as above
rate-limit  429 with Retry-After (retry_after 1, any text; null for none) and RateLimit-* headers
concurrency 429 with the text for too many sandboxes and no Retry-After
redirect    status 302 to location
drop        the connection ends without an answer; when as above
delay       seconds 1, when "before": done late, whether or not the client still waits; "after": told late
merge       fields (JSON) merged into the answer's JSON, null takes a field away; in every item of a list
truncate    bytes 10 of the real answer, then the connection ends
trickle     the answer byte by byte, with seconds 0.1 between them
garbage     data "SSH-2.0-OpenSSH\\r\\n", bytes that are no HTTP
flood       an answer with status 200 that never ends
vanish      the sandbox is lost, when "before" or "after"

In streams (process.start, process.connect, execute, files.download), where after is the number of messages that
still come through (a start, data, end and trailer event, a line, 64 KiB of a file):

cut         the connection ends
stall       nothing more is said, not even that the client is alive
omit        messages whose kind is in kinds (["end", "trailer"]) are left out
insert      hex: these bytes come before the next message
vanish      with after: the sandbox is lost in the middle of the stream
"""

import asyncio
import fnmatch
import json

HTML = """<html>\r
<head><title>{0}</title></head>\r
<body>\r
<center><h1>{0}</h1></center>\r
<hr><center>nginx</center>\r
</body>\r
</html>\r
"""
TOO_MANY = ("you have reached the maximum number of concurrent E2B sandboxes (20). If you need more, please contact support at "
            "'support@e2b.dev'")
REASONS = {400: "Bad Request", 500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Time-out"}
FOREVER = 86400


def merged(value, fields):
    if isinstance(value, list):
        return [merged(item, fields) for item in value]
    value = {**value, **fields}
    return {name: item for name, item in value.items() if name not in fields or fields[name] is not None}


class Fault:
    """One kind of fault at one call. Hooks: before the call is handled, at a whole answer, at each message."""

    def __init__(self, given, sandboxes, sandbox):
        self.given = given
        self.sandboxes = sandboxes
        self.sandbox = sandbox
        self.seen = 0

    def get(self, name, default=None):
        return self.given.get(name, default)

    def is_before(self):
        return self.get("when", "before") == "before"

    async def before(self, exchange):
        """True if the call has been answered and is not to be handled."""
        return False

    async def answer(self, exchange, status, headers, body):
        return status, headers, body

    async def message(self, exchange, kind, data):
        return data


class Answer(Fault):
    def made(self):
        body = self.get("body", {"code": self.get("status", 500), "message": "Internal Server Error"})
        text = body if isinstance(body, str) else json.dumps(body)
        kind = "text/plain" if isinstance(body, str) else "application/json"
        return self.get("status", 500), {"content-type": kind} | self.get("headers", {}), text.encode()

    async def before(self, exchange):
        if not self.is_before():
            return False
        await exchange.respond(*self.made())
        return True

    async def answer(self, exchange, status, headers, body):
        return self.made()

    async def message(self, exchange, kind, data):
        exchange.faults = []
        await exchange.respond(*self.made())
        exchange.done()


class Html(Answer):
    def made(self):
        status = self.get("status", 502)
        return status, {"content-type": "text/html", "server": "nginx"}, HTML.format(f"{status} {REASONS.get(status, '')}").encode()


class RateLimit(Answer):
    def made(self):
        wait = self.get("retry_after", 1)
        headers = {"content-type": "application/json", "ratelimit-limit": "5", "ratelimit-remaining": "0", "ratelimit-reset": str(wait)}
        if wait is not None:
            headers["retry-after"] = str(wait)
        return 429, headers, json.dumps({"code": 429, "message": "Rate limit exceeded"}).encode()


class Concurrency(Answer):
    def made(self):
        return 429, {"content-type": "application/json"}, json.dumps({"code": 429, "message": TOO_MANY}).encode()


class Redirect(Answer):
    def made(self):
        return self.get("status", 302), {"location": self.get("location", "http://127.0.0.1:9/")}, b""


class Drop(Fault):
    async def before(self, exchange):
        if self.is_before():
            exchange.cut()
        return False

    async def answer(self, exchange, status, headers, body):
        exchange.cut()

    async def message(self, exchange, kind, data):
        return await self.answer(exchange, None, None, data)


class Delay(Fault):
    async def before(self, exchange):
        if self.is_before():
            # What the client sent is here, so that its going away stops nothing.
            await exchange.read_ahead()
            await asyncio.sleep(self.get("seconds", 1))
        return False

    async def answer(self, exchange, status, headers, body):
        if not self.is_before():
            await asyncio.sleep(self.get("seconds", 1))
        return status, headers, body


class Merge(Fault):
    async def answer(self, exchange, status, headers, body):
        return status, headers, json.dumps(merged(json.loads(body), self.get("fields", {}))).encode()


class Truncate(Fault):
    async def answer(self, exchange, status, headers, body):
        await exchange.start(status, headers, len(body))
        await exchange.write(body[:self.get("bytes", 10)])
        exchange.cut()


class Trickle(Fault):
    async def answer(self, exchange, status, headers, body):
        await exchange.start(status, headers, len(body))
        for byte in body:
            await exchange.write(bytes([byte]))
            await asyncio.sleep(self.get("seconds", 0.1))
        await exchange.finish()
        exchange.done()


class Garbage(Fault):
    async def before(self, exchange):
        await exchange.raw(self.get("data", "SSH-2.0-OpenSSH\r\n").encode())


class Flood(Fault):
    async def before(self, exchange):
        await exchange.start(200, {"content-type": "application/json"})
        while True:
            await exchange.write(b" " * 65536)


class Stream(Fault):
    """Acts once, when as many messages as it was told have come through."""

    async def message(self, exchange, kind, data):
        self.seen += 1
        if self.seen == self.get("after", 0) + 1:
            return await self.act(exchange, data)
        return data


class Cut(Stream):
    async def act(self, exchange, data):
        await exchange.send_head()
        exchange.cut()


class Stall(Stream):
    async def act(self, exchange, data):
        await exchange.send_head()
        await asyncio.wait([asyncio.ensure_future(exchange.gone.wait())], timeout=FOREVER)
        exchange.cut()


class Insert(Stream):
    async def act(self, exchange, data):
        return bytes.fromhex(self.get("hex", "")) + data


class Omit(Fault):
    async def message(self, exchange, kind, data):
        return b"" if kind in self.get("kinds", ["end", "trailer"]) else data


class Vanish(Stream):
    async def before(self, exchange):
        if "after" not in self.given and self.is_before():
            await self.lose()
        return False

    async def answer(self, exchange, status, headers, body):
        if "after" not in self.given and not self.is_before():
            await self.lose()
        return status, headers, body

    async def message(self, exchange, kind, data):
        return await super().message(exchange, kind, data) if "after" in self.given else data

    async def act(self, exchange, data):
        await exchange.send_head()
        await self.lose()
        exchange.cut()

    async def lose(self):
        # A call that creates has none before it is through: then it is the newest.
        sandbox = self.sandbox or next(reversed(self.sandboxes.live.values()), None)
        if sandbox:
            await self.sandboxes.vanish(sandbox)


KINDS = {"answer": Answer, "html": Html, "rate-limit": RateLimit, "concurrency": Concurrency, "redirect": Redirect, "drop": Drop,
         "delay": Delay, "merge": Merge, "truncate": Truncate, "trickle": Trickle, "garbage": Garbage, "flood": Flood, "cut": Cut,
         "stall": Stall, "omit": Omit, "insert": Insert, "vanish": Vanish}


class Switches:
    """The faults that are switched on."""

    def __init__(self, sandboxes):
        self.sandboxes = sandboxes
        self.given = []

    def add(self, fault):
        if fault.get("do") not in KINDS or not isinstance(fault.get("on"), str):
            raise ValueError(f"a fault has on, and do, one of {', '.join(KINDS)}")
        self.given.append({"times": 1, "skip": 0} | fault)

    def clear(self):
        self.given = []

    def take(self, operation, sandbox):
        """The faults of one call, which then count as used."""
        taken = []
        for fault in self.given:
            if not fnmatch.fnmatchcase(operation or "", fault["on"]) or fault["times"] == 0:
                continue
            if "sandbox" in fault and (sandbox is None or sandbox.id != fault["sandbox"]):
                continue
            if fault["skip"]:
                fault["skip"] -= 1
                continue
            fault["times"] -= 1 if fault["times"] > 0 else 0
            taken.append(KINDS[fault["do"]](fault, self.sandboxes, sandbox))
        return taken
