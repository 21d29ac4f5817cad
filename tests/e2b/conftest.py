"""A stand-in for the tests in this directory, and a plain client of it that notices every byte."""

import base64
import http.client
import json
import os
import pathlib
import struct
import subprocess
import sys
import time

import pytest

HERE = pathlib.Path(__file__).parent
sys.dont_write_bytecode = True
KEY = "e2b_0000"
PATIENCE = 20


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    def json(self):
        return json.loads(self.body)


class Call:
    """One request whose answer is read as far as the test wants."""

    def __init__(self, address, method, path, body=None, headers=()):
        host, _, port = address.rpartition(":")
        self.connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
        data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        self.connection.request(method, path, data, {"content-type": "application/json"} | dict(headers))

    def answer(self):
        with self.connection:
            return Answer(self.connection.getresponse())

    def response(self):
        return self.connection.getresponse()

    def leave(self):
        self.connection.close()


# http.client's connections are no context managers.
http.client.HTTPConnection.__enter__ = lambda self: self
http.client.HTTPConnection.__exit__ = lambda self, *error: self.close()


def envelope(message):
    data = json.dumps(message).encode()
    return struct.pack(">BI", 0, len(data)) + data


def opened(data):
    """(flags, message) of each envelope, and what is left over."""
    messages = []
    while len(data) >= 5:
        flags, length = struct.unpack(">BI", data[:5])
        if len(data) < 5 + length:
            break
        messages.append((flags, json.loads(data[5:5 + length])))
        data = data[5 + length:]
    return messages, data


class Sandbox:
    def __init__(self, stand_in, created):
        self.stand_in = stand_in
        self.id = created["sandboxID"]
        self.headers = {"E2b-Sandbox-Id": self.id, "X-Access-Token": created["envdAccessToken"]}

    def begin(self, method, path, body=None, port=49983, **headers):
        return Call(self.stand_in.http, method, path, body, self.headers | {"E2b-Sandbox-Port": str(port)} | headers)

    def call(self, *arguments, **options):
        return self.begin(*arguments, **options).answer()

    def begin_start(self, script, **headers):
        request = {"process": {"cmd": "/bin/bash", "args": ["-c", script]}, "stdin": False}
        return self.begin("POST", "/process.Process/Start", envelope(request), **{"content-type": "application/connect+json"} | headers)

    def start(self, script, **headers):
        """The messages of a whole stream; an end of the connection too early is http.client's exception."""
        answer = self.begin_start(script, **headers).answer()
        assert answer.status == 200
        messages, rest = opened(answer.body)
        assert rest == b""
        return messages

    def execute(self, code):
        lines = self.call("POST", "/execute", {"code": code}, port=49999).body.splitlines()
        return [json.loads(line) for line in lines]


class StandIn:
    def __init__(self, process, ready):
        self.process = process
        self.http = ready["http"].removeprefix("http://")
        self.https = ready["https"]
        self.ca = ready["ca"]
        self.test_control = ready["control"]

    def begin(self, method, path, body=None, **headers):
        return Call(self.http, method, path, body, {"X-API-KEY": KEY} | headers)

    def call(self, *arguments, **options):
        return self.begin(*arguments, **options).answer()

    def create(self, template="base", **request):
        answer = self.call("POST", "/v2/sandboxes", {"templateID": template, "timeout": 60} | request)
        assert answer.status == 201, answer.body
        return Sandbox(self, answer.json())

    def control(self, method, path, body=None):
        answer = Call(self.test_control, method, path, body).answer()
        assert answer.status == 200, answer.body
        return answer.json()

    def fault(self, on, do, **fields):
        self.control("POST", "/faults", {"on": on, "do": do} | fields)

    def settings(self, **changes):
        self.control("PATCH", "/settings", changes)

    def overview(self):
        return self.control("GET", "/")

    def requests(self):
        return self.control("GET", "/requests")


@pytest.fixture(scope="session")
def running(tmp_path_factory):
    directory = tmp_path_factory.mktemp("stand-in")
    command = ["/usr/bin/python3", HERE / "stand_in.py", "--http", "127.0.0.1:0", "--https", "127.0.0.1:0", "--control", "127.0.0.1:0",
               "--tls", directory / "tls"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}) as process:
        yield StandIn(process, json.loads(process.stdout.readline()))
        process.terminate()
        assert process.wait(PATIENCE) == 0


@pytest.fixture
def stand_in(running):
    yield running
    running.control("POST", "/reset")


@pytest.fixture
def sandbox(stand_in):
    return stand_in.create()


def wait_for(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def text_of(messages, kind="stdout"):
    """What a program printed."""
    pieces = [message["event"]["data"].get(kind, "") for _, message in messages if "data" in message.get("event", {})]
    return b"".join(map(base64.b64decode, pieces)).decode()
