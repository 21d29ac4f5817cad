"""The E2B engine of the test machine, and the stand-in for E2B's cloud that it talks to there, by TLS.

Nothing here knows what a test is about; tests/e2b/README.md tells what the stand-in can be made to do.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import textwrap

ROOT = pathlib.Path(__file__).parents[2]
STAND_IN = "/run/sbxctl-test-e2b"
CONFIG = "/etc/sbxctl/engine-e2b.conf"
CREDENTIAL = "/etc/credstore/e2b-api-key"
UNIT = "sbxctl-engine-e2b.service"
STAND_IN_UNIT = "sbxctl-test-e2b.service"
PORT = 3443
RULES = "/etc/polkit-1/rules.d/05-test-cloud.rules"
ALLOW = """polkit.addRule(function (action, subject) {
    if (action.id == "io.sbxctl.run-cloud") return polkit.Result.YES;
});
"""
HELPER_CONFIG = "/etc/sbxctl/sbxctl.conf.d/70-test-cloud.conf"
# Looked for in every place where it must not be.
KEY = "e2b_5ca1ab1ec0ffeeba5eba11feedfacecafed00d"

# A call of the stand-in's test control; argv: method, path, body.
CALL = """
import http.client, json, socket, sys
connection = http.client.HTTPConnection("stand-in")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect("%s/control")
connection.request(sys.argv[1], sys.argv[2], sys.argv[3] or None)
answer = connection.getresponse()
sys.stdout.write(answer.read().decode())
sys.exit(answer.status != 200)
""" % STAND_IN


class Cloud:
    """The stand-in, by its test control."""

    def __init__(self, machine):
        self.machine = machine

    def call(self, method, path, body=None):
        text = "" if body is None else json.dumps(body)
        return json.loads(self.machine.run(["python3", "-c", CALL, method, path, text], check=True).text)

    def reset(self):
        self.call("POST", "/reset")
        self.call("PATCH", "/settings", {"api_key": KEY, "unknown_fields": True})

    def fault(self, on, do, **fields):
        self.call("POST", "/faults", {"on": on, "do": do} | fields)

    def settings(self, **settings):
        self.call("PATCH", "/settings", settings)

    def live(self):
        return self.call("GET", "/")["live"]

    def counts(self):
        return self.call("GET", "/")

    def operations(self):
        """What was asked of it for runs, in order: the sweeps of a service that starts are left out."""
        return [request["operation"] for request in self.requests() if request["operation"] != "list"]

    def requests(self):
        return self.call("GET", "/requests")

    def wait_until_empty(self, timeout=20):
        self.machine.wait_for(lambda: not self.live(), timeout, "the cloud's sandboxes to be gone")


def configure(machine, **keys):
    """Gives the engine this configuration; those that lead to the stand-in are there unless told."""
    usual = {"ApiUrl": f"https://localhost:{PORT}", "SandboxUrl": f"https://localhost:{PORT}", "Template": "base",
             "CAFile": f"{STAND_IN}/tls/ca.pem"}
    lines = ["[E2B]", *(f"{key}={value}" for key, value in (usual | keys).items())]
    machine.write(CONFIG, "".join(f"{line}\n" for line in lines).encode())
    stop(machine)


def stop(machine):
    machine.run(["systemctl", "stop", UNIT], check=True)
    machine.run(["systemctl", "reset-failed", UNIT])


def start_stand_in(machine):
    archive = subprocess.run(["tar", "-C", str(ROOT / "tests" / "e2b"), "--exclude=sdk", "-c", "."], capture_output=True,
                             check=True).stdout
    machine.run(["systemctl", "stop", STAND_IN_UNIT])
    machine.run(["mkdir", "-p", f"{STAND_IN}/code", "/workspace", os.path.dirname(CREDENTIAL)], check=True)
    machine.run(["tar", "-C", f"{STAND_IN}/code", "-x"], input=archive, check=True)
    # Its sandboxes have no limits of their own, and what runs in them may be made to do harm.
    limits = ["--property=TasksMax=2048", "--property=MemoryMax=2G"]
    machine.run(["systemd-run", "--quiet", "--collect", f"--unit={STAND_IN_UNIT}", "--setenv=PYTHONDONTWRITEBYTECODE=1",
                 *limits, "/usr/bin/python3", f"{STAND_IN}/code/stand_in.py", "--https", f"127.0.0.1:{PORT}", "--tls", f"{STAND_IN}/tls",
                 "--control", f"{STAND_IN}/control", "--directory", "/var/tmp"], check=True)
    machine.wait_for(lambda: machine.run(["test", "-S", f"{STAND_IN}/control"]).status == 0
                     and machine.run(["python3", "-c", CALL, "GET", "/", ""]).status == 0, 20, "the stand-in")
    machine.run(["chmod", "-R", "a+rX", STAND_IN], check=True)


@contextlib.contextmanager
def cloud(machine):
    """The stand-in runs, and the engine knows it and has its key."""
    start_stand_in(machine)
    # A container's mounts are private, and systemd hands a credential over by a mount.
    machine.run(["mount", "--make-rshared", "/"], check=True)
    machine.write(CREDENTIAL, KEY.encode())
    machine.run(["chmod", "600", CREDENTIAL], check=True)
    standing = Cloud(machine)
    standing.reset()
    configure(machine)
    try:
        yield standing
    finally:
        stop(machine)
        machine.run(["systemctl", "stop", STAND_IN_UNIT])
        machine.run(["rm", "-f", CREDENTIAL, CONFIG])


@contextlib.contextmanager
def for_all_runs(machine):
    """The cloud for tests that are about no cloud: nobody is asked, and nothing is counted."""
    machine.write(RULES, ALLOW.encode())
    machine.write(HELPER_CONFIG, b"[Helper]\nEngine=e2b\n[Limits]\nCloudSeconds=1000000\n")
    machine.run(["systemctl", "restart", "polkit.service"], check=True)
    machine.run(["systemctl", "stop", "sbxctl-helper.service"], check=True)
    try:
        with cloud(machine):
            configure(machine, MaxSandboxes=100)
            yield
    finally:
        machine.run(["rm", "-f", RULES, HELPER_CONFIG])
        machine.run(["systemctl", "restart", "polkit.service"])
        machine.run(["systemctl", "stop", "sbxctl-helper.service"])


def inside(machine, code, *arguments, timeout=60):
    """Runs a program as the broker's user against the engine; it prints one JSON value."""
    become = ["setpriv", "--reuid=sbxctl", "--regid=sbxctl", "--clear-groups", "env", "ENGINE=e2b"]
    code = "import json, os, time\nfrom engine_client import *\n" + textwrap.dedent(code)
    result = machine.run([*become, *machine.python(code, *arguments)], timeout=timeout)
    assert result.status == 0, result
    return json.loads(result.stdout)


def refusal(machine, **options):
    """What the engine says instead of making a sandbox."""
    return inside(machine, """
        import sys
        try:
            with Sandbox(**json.loads(sys.argv[1])):
                print("null")
        except EngineError as error:
            print(json.dumps(error.args[0]))
    """, json.dumps(options))
