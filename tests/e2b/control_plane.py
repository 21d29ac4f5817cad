"""E2B's control plane: creates, lists, prolongs, pauses and removes sandboxes. REST with JSON and an X-API-KEY.

Paths, statuses and texts are those of E2B's API as its JavaScript SDK 2.51.0 and its published server use it.
"""

import base64
import datetime
import json
import re
import time
import urllib.parse

CLIENT_ID = "6532622b"
PREFIX = "e2b_"
KEY_TEXT = "Invalid API key, please visit https://e2b.dev/docs/api-key to get your API key"
ROUTES = [  # operation, method, path; what is named in the path is handed to the handler
    ("create", "POST", r"/v2/sandboxes"),
    ("create-v1", "POST", r"/sandboxes"),
    ("list", "GET", r"/v2/sandboxes"),
    ("list-v1", "GET", r"/sandboxes"),
    ("metrics-of-all", "GET", r"/sandboxes/metrics"),
    ("get", "GET", r"/sandboxes/(?P<id>[^/]+)"),
    ("delete", "DELETE", r"/sandboxes/(?P<id>[^/]+)"),
    ("timeout", "POST", r"/sandboxes/(?P<id>[^/]+)/timeout"),
    ("refreshes", "POST", r"/sandboxes/(?P<id>[^/]+)/refreshes"),
    ("pause", "POST", r"/sandboxes/(?P<id>[^/]+)/pause"),
    ("connect", "POST", r"/v2/sandboxes/(?P<id>[^/]+)/connect"),
    ("connect-v1", "POST", r"/sandboxes/(?P<id>[^/]+)/connect"),
    ("network", "PUT", r"/sandboxes/(?P<id>[^/]+)/network"),
    ("metrics", "GET", r"/sandboxes/(?P<id>[^/]+)/metrics"),
    ("logs", "GET", r"/v2/sandboxes/(?P<id>[^/]+)/logs"),
    ("api-health", "GET", r"/health"),
]
V2_ONLY = {"create", "list", "connect", "logs"}


class ApiError(Exception):
    def __init__(self, status, message, headers=None):
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or {}


def route(method, path):
    """(operation, parameters), or (None, {}) for what the API does not have."""
    for operation, wanted, pattern in ROUTES:
        if method == wanted and (match := re.fullmatch(pattern, path)):
            return operation, match.groupdict()
    return None, {}


def unescaped(text):
    return urllib.parse.unquote_plus(text)


def parse_metadata(value):
    """The server unescapes the whole filter once more, and then each part again."""
    pairs = (pair.partition("=") for pair in unescaped(value).split("&") if pair)
    return {unescaped(key): unescaped(text) for key, _, text in pairs}


class ControlPlane:
    def __init__(self, sandboxes, settings, writer, clock, limiter):
        self.sandboxes = sandboxes
        self.settings = settings
        self.writer = writer
        self.clock = clock
        self.limiter = limiter
        self.starting = 0

    async def handle(self, exchange, operation, parameters):
        headers = {}
        try:
            headers = self.check(exchange, operation)
            handler = getattr(self, "do_" + operation.removesuffix("-v1").replace("-", "_"))
            exchange.v1 = operation.endswith("-v1")
            status, body, more = await handler(exchange, **parameters)
            headers |= more
        except ApiError as error:
            status, body = error.status, {"code": error.status, "message": error.message}
            headers |= error.headers
        if body is None:
            await exchange.respond(status, headers)
            return
        await exchange.respond(status, {"content-type": "application/json; charset=utf-8"} | headers, self.text(body))

    def text(self, body):
        if isinstance(body, list):
            return b"[" + b",".join(self.writer.text(item) for item in body) + b"]"
        return self.writer.text(body)

    def check(self, exchange, operation):
        """Refuse whom the API would refuse; answers the headers that tell of the rate limit."""
        if operation is None or (operation in V2_ONLY and not self.settings["v2"]):
            raise ApiError(404, "no matching operation was found")
        if operation == "api-health":
            return {}
        key = exchange.headers.get("x-api-key")
        if not key:
            raise ApiError(401, "authorization header is missing")
        if not key.startswith(PREFIX) or key != self.settings["api_key"]:
            raise ApiError(401, KEY_TEXT)
        allowed, headers = self.limiter.take()
        if not allowed:
            raise ApiError(429, "Rate limit exceeded", headers)
        return headers

    async def json_of(self, exchange):
        data = await exchange.body()
        try:
            body = json.loads(data or b"{}")
        except ValueError as error:
            raise ApiError(400, f"validation error: {error}") from error
        if not isinstance(body, dict):
            raise ApiError(400, "validation error: value must be an object")
        return body

    def find(self, name):
        sandbox = self.sandboxes.live.get(name.split("-")[0])
        if sandbox is None:
            raise ApiError(404, f'Sandbox "{name}" doesn\'t exist or you don\'t have access to it')
        return sandbox

    def seconds_of(self, value):
        """How long a sandbox may be asked to live."""
        if not isinstance(value, int) or isinstance(value, bool):
            raise ApiError(400, "validation error: field 'timeout' must be an integer")
        if value <= 0:
            raise ApiError(400, "Timeout must be greater than 0")
        return value

    # ---- create

    async def do_create(self, exchange):
        request = await self.json_of(exchange)
        self.check_create(request)
        seconds = self.seconds_of(request.get("timeout", 15 if exchange.v1 else 300))
        if seconds > self.settings["max_timeout"]:
            raise ApiError(400, f"Timeout cannot be greater than {self.settings['max_timeout'] // 3600} hours")
        limit = self.settings["max_sandboxes"]
        if len(self.sandboxes.live) + self.starting >= limit:
            raise ApiError(429, f"you have reached the maximum number of concurrent E2B sandboxes ({limit}). If you need more, "
                                "please contact support at 'support@e2b.dev'")
        self.starting += 1
        try:
            request["secure"] = bool(request.get("secure")) if exchange.v1 else True
            sandbox = await self.sandboxes.create(request, min(seconds, self.settings["clamp_create"] or seconds))
        finally:
            self.starting -= 1
        return 201, self.short(sandbox), {}

    def check_create(self, request):
        template = request.get("templateID")
        if not isinstance(template, str) or not template:
            raise ApiError(400, "validation error: property \"templateID\" is missing")
        if template not in self.settings["templates"]:
            raise ApiError(404, f"template '{template}' not found")
        for name in ("metadata", "envVars"):
            values = request.get(name) or {}
            if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
                raise ApiError(400, f"validation error: property \"{name}\" must be an object of strings")
        self.check_network(request.get("network") or {})

    def check_network(self, network):
        if any(re.search("[a-z]", name) for name in network.get("allowOut") or []) and "0.0.0.0/0" not in (network.get("denyOut") or []):
            raise ApiError(400, "When specifying allowed domains in allow out, you must include 'ALL_TRAFFIC' in deny out to block all "
                                "other traffic.")

    def short(self, sandbox):
        public = (sandbox.network or {}).get("allowPublicTraffic", True)
        return {"templateID": sandbox.template, "sandboxID": sandbox.id, "clientID": CLIENT_ID, "alias": sandbox.template,
                "envdVersion": sandbox.envd_version, "domain": None,
                **({"envdAccessToken": sandbox.token} if sandbox.secure else {}),
                "trafficAccessToken": None if public else sandbox.traffic_token}

    # ---- information

    def listed(self, sandbox):
        return {"templateID": sandbox.template, "sandboxID": sandbox.id, "clientID": CLIENT_ID, "alias": sandbox.template,
                "startedAt": self.moment(sandbox.started_at), "endAt": self.moment(sandbox.end_at), "cpuCount": 2, "memoryMB": 512,
                "diskSizeMB": 10240, "state": sandbox.state, "envdVersion": sandbox.envd_version, "metadata": sandbox.metadata}

    def moment(self, seconds):
        shifted = datetime.datetime.fromtimestamp(seconds + self.clock(), datetime.timezone.utc)
        return shifted.isoformat().replace("+00:00", "Z")

    async def do_get(self, exchange, id):
        sandbox = self.find(id)
        return 200, self.listed(sandbox) | {
            "domain": None, "allowInternetAccess": sandbox.allow_internet, "network": sandbox.network or {},
            "lifecycle": {"autoResume": bool((sandbox.request.get("autoResume") or {}).get("enabled")),
                          "onTimeout": "pause" if sandbox.request.get("autoPause") else "kill"},
            **({"envdAccessToken": sandbox.token} if sandbox.secure else {})}, {}

    def matching(self, query):
        wanted = parse_metadata(query.get("metadata", ""))
        states = query.get("state", "running,paused").split(",")
        return [sandbox for sandbox in self.sandboxes.live.values()
                if wanted.items() <= sandbox.metadata.items() and sandbox.state in states
                and query.get("template", sandbox.template) == sandbox.template]

    async def do_list(self, exchange):
        query = exchange.query
        if exchange.v1:
            return 200, [self.listed(sandbox) for sandbox in self.matching(query | {"state": "running"})], {}
        found = sorted(self.matching(query), key=lambda sandbox: (sandbox.started_at, sandbox.id), reverse=query.get("order") != "asc")
        limit, start = self.page_of(query)
        page = found[start:start + limit]
        headers = {"x-total-running": str(sum(sandbox.state == "running" for sandbox in found))}
        if start + limit < len(found):
            headers["x-next-token"] = base64.urlsafe_b64encode(f"{start + limit}__next".encode()).decode()
        return 200, [self.listed(sandbox) for sandbox in page], headers

    def page_of(self, query):
        try:
            limit = min(int(query.get("limit", 100)), self.settings["page"])
            token = query.get("nextToken")
            start = int(base64.urlsafe_b64decode(token).decode().removesuffix("__next")) if token else 0
        except ValueError as error:
            raise ApiError(400, "invalid next token") from error
        if limit < 1:
            raise ApiError(400, "validation error: parameter \"limit\" must be at least 1")
        return limit, start

    async def do_metrics(self, exchange, id):
        sandbox = self.find(id)
        now = int(sandbox.started_at + self.clock())
        return 200, [{"timestamp": self.moment(sandbox.started_at), "timestampUnix": now, "cpuCount": 2, "cpuUsedPct": 1.5,
                      "memUsed": 64 << 20, "memTotal": 512 << 20, "memCache": 8 << 20, "diskUsed": 1 << 30, "diskTotal": 10 << 30}], {}

    async def do_metrics_of_all(self, exchange):
        ids = exchange.query.get("sandbox_ids", "").split(",")
        found = {id: (await self.do_metrics(exchange, id))[1][0] for id in ids if id in self.sandboxes.live}
        return 200, {"sandboxes": found}, {}

    async def do_logs(self, exchange, id):
        self.find(id)
        return 200, {"logs": []}, {}

    async def do_api_health(self, exchange):
        return 200, {"status": "ok"}, {}

    # ---- life cycle

    async def do_delete(self, exchange, id):
        await self.sandboxes.delete(self.find(id))
        return 204, None, {}

    async def do_timeout(self, exchange, id):
        seconds = self.seconds_of((await self.json_of(exchange)).get("timeout"))
        sandbox = self.find(id)
        if sandbox.state != "running":
            raise ApiError(404, f'Sandbox "{id}" doesn\'t exist or you don\'t have access to it')
        self.prolong(sandbox, seconds)
        return 204, None, {}

    def prolong(self, sandbox, seconds):
        """More than the plan allows is silently made less, unlike at create."""
        sandbox.live_for(min(seconds, self.settings["max_timeout"]), lambda: self.sandboxes.later(self.sandboxes.expire(sandbox)))

    def extend(self, sandbox, seconds):
        """Only ever later."""
        if time.time() + seconds > sandbox.end_at:
            self.prolong(sandbox, seconds)

    async def do_refreshes(self, exchange, id):
        seconds = (await self.json_of(exchange)).get("duration", 15)
        self.extend(self.find(id), max(seconds, 15))
        return 204, None, {}

    async def do_pause(self, exchange, id):
        await self.json_of(exchange)
        sandbox = self.find(id)
        if sandbox.state == "paused":
            raise ApiError(409, f"Sandbox '{id}' is already paused")
        await sandbox.freeze(True)
        sandbox.timer.cancel()
        return 204, None, {}

    async def do_connect(self, exchange, id):
        request = await self.json_of(exchange)
        if exchange.v1 and "timeout" not in request:
            raise ApiError(400, "validation error: property \"timeout\" is missing")
        seconds = self.seconds_of(request.get("timeout", 300))
        sandbox = self.find(id)
        if sandbox.state == "running":
            self.extend(sandbox, seconds)
            return 200, self.short(sandbox), {}
        await sandbox.freeze(False)
        self.prolong(sandbox, seconds)
        return 201, self.short(sandbox), {}

    async def do_network(self, exchange, id):
        request = await self.json_of(exchange)
        self.check_network(request)
        sandbox = self.find(id)
        sandbox.allow_internet = request.pop("allow_internet_access", None)
        sandbox.network = request
        return 204, None, {}
