"""What stands before the control plane and the sandboxes: finds out whom a request is for, and lists what came.

The fault switches act here, so that a call is the same to its handler whether or not something goes wrong with it.
"""

import ipaddress
import json
import re
import time

import code_interpreter
import control_plane
import envd
from sandboxes import SandboxGone

ENVD_PORT = 49983
INTERPRETER_PORT = 49999
SECRET = {"x-api-key", "x-access-token", "authorization", "e2b-traffic-access-token"}


def host_of(exchange):
    host = exchange.headers.get("host", "")
    return re.sub(r":\d+$", "", host).strip("[]").lower()


def is_address(host):
    try:
        ipaddress.ip_address(host)
        return True
    except ValueError:
        return host == "localhost"


def addressee(exchange):
    """(sandbox id, port) of a request to a sandbox, None of one to the control plane.

    Headers count only where E2B's proxy looks at them: with an address, localhost or sandbox.DOMAIN as the host."""
    host = host_of(exchange)
    if is_address(host) or host.startswith("sandbox."):
        name = exchange.headers.get("e2b-sandbox-id")
        if name is None and not host.startswith("sandbox."):
            return None
        port = exchange.headers.get("e2b-sandbox-port", "")
        return name or "", int(port) if port.isdigit() else 0
    if match := re.match(r"(\d+)-([a-z0-9]+)\.", host):
        return match[2], int(match[1])
    return None


class Edge:
    def __init__(self, sandboxes, settings, writer, clock, switches, limiter):
        self.sandboxes = sandboxes
        self.settings = settings
        self.switches = switches
        self.control_plane = control_plane.ControlPlane(sandboxes, settings, writer, clock, limiter)
        self.envd = envd.Envd(settings, writer, clock)
        self.interpreter = code_interpreter.CodeInterpreter(writer)
        # What came, in its order; for the tests to look at.
        self.requests = []

    async def handle(self, exchange):
        target = addressee(exchange)
        operation, parameters = self.operation_of(exchange, target)
        sandbox = self.sandboxes.live.get(target[0].split("-")[0] if target else parameters.get("id", "").split("-")[0])
        entry = self.record(exchange, operation, target[0] if target else parameters.get("id"))
        faults = self.switches.take(operation, sandbox)
        try:
            for fault in faults:
                if await fault.before(exchange):
                    return
            exchange.faults = faults
            if target:
                await self.in_sandbox(exchange, operation, *target)
            else:
                await self.control_plane.handle(exchange, operation, parameters)
        except SandboxGone:
            exchange.cut()
        finally:
            entry |= {"status": exchange.status, "received": exchange.received, "sent": exchange.sent, "finished": exchange.finished,
                      "client_left": exchange.gone.is_set(), "took": time.monotonic() - entry["began"]}

    def operation_of(self, exchange, target):
        if not target:
            return control_plane.route(exchange.method, exchange.path)
        routes = {ENVD_PORT: envd.route, INTERPRETER_PORT: code_interpreter.route}
        return (routes[target[1]](exchange.method, exchange.path) if target[1] in routes else None), {}

    def record(self, exchange, operation, sandbox):
        """A secret is not listed, only whether it came."""
        headers = {name: "(secret)" if name in SECRET else value for name, value in exchange.headers.items()}
        entry = {"operation": operation, "method": exchange.method, "path": exchange.path, "query": exchange.query, "headers": headers,
                 "http": exchange.version, "sandbox": sandbox, "time": time.time(), "began": time.monotonic(), "status": None,
                 "finished": False}
        self.requests.append(entry)
        return entry

    async def in_sandbox(self, exchange, operation, name, port):
        if not re.fullmatch("[a-z0-9]+", name) or not port:
            text = b"Invalid sandbox ID" if port else b"missing header: E2b-Sandbox-Port"
            await exchange.respond(400, {"content-type": "text/plain"}, text)
            return
        sandbox = self.sandboxes.live.get(name)
        if sandbox is None or sandbox.state == "paused":
            await self.unreachable(exchange, {"sandboxId": name, "message": "The sandbox was not found", "code": 502})
        elif port == ENVD_PORT:
            await self.envd.handle(exchange, operation, sandbox)
        elif self.refused_traffic(exchange, sandbox):
            body = b'{"message":"Traffic access token is missing or wrong","code":403}'
            await exchange.respond(403, {"content-type": "application/json"}, body)
        elif port == INTERPRETER_PORT and self.settings["templates"].get(sandbox.template):
            await self.interpreter.handle(exchange, operation, sandbox)
        else:
            await self.unreachable(exchange, {"sandboxId": name, "message": "The sandbox is running but port is not open", "port": port,
                                              "code": 502})

    def refused_traffic(self, exchange, sandbox):
        public = (sandbox.network or {}).get("allowPublicTraffic", True)
        return not public and exchange.headers.get("e2b-traffic-access-token") != sandbox.traffic_token

    async def unreachable(self, exchange, body):
        if "Mozilla" in exchange.headers.get("user-agent", "") and "json" not in exchange.headers.get("accept", ""):
            await exchange.respond(502, {"content-type": "text/html; charset=utf-8"}, b"<!DOCTYPE html><title>Sandbox not found</title>")
            return
        await exchange.respond(502, {"content-type": "application/json; charset=utf-8"}, json.dumps(body).encode())
