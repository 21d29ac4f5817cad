"""The test control of the stand-in: where tests switch faults, change settings and ask what happened.

Plain HTTP with JSON on a socket of its own, which no client of E2B knows. Calls:

GET    /                all at once: created, deleted, expired, vanished (counts), live (ids of those
                        in which something may still run), settings, faults
POST   /faults          one fault or a list of them, see faults.py
DELETE /faults          none any more
PATCH  /settings        some settings, see SETTINGS below
GET    /requests        every request that came, in order: operation, method, path, query, headers without their
                        secrets, http version, sandbox, status, bytes received and sent, finished, client_left, took
GET    /sandboxes       every sandbox that ever was: id, what was asked for, seconds, started, ended, how it ended
                        (deleted, expired, vanished)
POST   /sandboxes/ID/vanish   lose it, as E2B loses one with its machine
POST   /reset           remove all sandboxes and faults, restore the settings, forget requests and counts
"""

import json
import re

SETTINGS = {
    # The only key that is accepted.
    "api_key": "e2b_0000",
    # Whether HTTP/2 is offered to clients that name the host in TLS.
    "http2": True,
    # Whether /v2/ is there; without it as with self-hosted servers.
    "v2": True,
    # What each sandbox says to be its envd; below 0.5.7 no upload by octet-stream.
    "envd_version": "0.6.13",
    # Templates, and whether they carry the code interpreter.
    "templates": {"base": False, "code-interpreter-v1": True},
    # Concurrent sandboxes, seconds that one may be asked to live, entries of a page of the list.
    "max_sandboxes": 20,
    "max_timeout": 3600,
    "page": 100,
    # A sandbox lives no longer than this many seconds, and create says nothing about it.
    "clamp_create": None,
    # Calls of the control plane in a second before 429, really counted; null for no end.
    "rate": None,
    # Seconds by which the server's clock is wrong.
    "clock_offset": 0,
    # Fields nobody knows yet in every JSON object, and protojson's spaces.
    "unknown_fields": False,
    "whitespace": True,
}


class Switchboard:
    def __init__(self, edge, sandboxes, settings, switches):
        self.edge = edge
        self.sandboxes = sandboxes
        self.settings = settings
        self.switches = switches
        self.at_start = dict(settings)

    async def handle(self, exchange):
        try:
            given = json.loads(await exchange.body() or b"null")
            status, body = 200, await self.act(exchange.method, exchange.path, given)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            status, body = 400, {"error": f"{type(error).__name__}: {error}"}
        await exchange.respond(status, {"content-type": "application/json"}, json.dumps(body).encode())

    async def act(self, method, path, given):
        call = (method, path)
        if call == ("GET", "/"):
            return self.overview()
        if call == ("POST", "/faults"):
            for fault in given if isinstance(given, list) else [given]:
                self.switches.add(fault)
        elif call == ("DELETE", "/faults"):
            self.switches.clear()
        elif call == ("PATCH", "/settings"):
            if unknown := given.keys() - SETTINGS.keys():
                raise ValueError(f"unknown settings: {', '.join(unknown)}")
            self.settings.update(given)
        elif call == ("GET", "/requests"):
            return self.edge.requests
        elif call == ("GET", "/sandboxes"):
            return self.sandboxes.history
        elif method == "POST" and (match := re.fullmatch("/sandboxes/([a-z0-9]+)/vanish", path)):
            await self.sandboxes.vanish(self.sandboxes.live[match[1]])
        elif call == ("POST", "/reset"):
            await self.reset()
        else:
            raise ValueError(f"no such call: {method} {path}")
        return self.overview()

    def overview(self):
        sandboxes = self.sandboxes
        return {"created": sandboxes.created, "deleted": sandboxes.deleted, "expired": sandboxes.expired, "vanished": sandboxes.vanished,
                "live": [*sandboxes.live, *sandboxes.ending], "settings": self.settings, "faults": self.switches.given}

    async def reset(self):
        await self.sandboxes.end_all()
        self.switches.clear()
        self.settings.update(self.at_start)
        self.edge.requests.clear()
        self.sandboxes.history.clear()
        self.sandboxes.created = self.sandboxes.deleted = self.sandboxes.expired = self.sandboxes.vanished = 0
