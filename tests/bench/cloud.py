"""What a run in the cloud costs next to E2B's SDK for JavaScript, over the same stand-in, by TLS both.

Runs on the host, with the test machine up and the SDK installed. Both upload a script, run it, download what it made, and have the
sandbox removed; they take turns, and in every second pair the other is first. The SDK is measured three times: its whole program, its
calls in a program that just began, and its calls in one that did this before. Prints one JSON object. Never a test: nothing here
passes or fails.
"""

import argparse
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "functional"))

import e2b_engine  # noqa: E402
from approvals import YES, rules  # noqa: E402
from conftest import TESTS, Machine  # noqa: E402

SDK = "/run/sbxctl-test-sdk"
SCRIPT = "open('out.txt', 'w').write('x' * 1000)\nprint(2 + 2)\n"

# usage: PAIRS SDK STAND_IN PORT KEY, as root in the machine.
MEASURE = """
import http.client, json, os, socket, subprocess, sys, time
pairs, sdk, stand_in, port, key = int(sys.argv[1]), *sys.argv[2:]
home = subprocess.run(["mktemp", "-d", "/home/alice/bench-XXXXXX"], stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
os.chown(home, 1000, 1000)
script = f"{home}/script.py"
open(script, "w").write(open(f"{sdk}/script.py").read())
ALICE = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "env", "-i", "HOME=/home/alice", "PATH=/usr/bin:/bin"]
OURS = [*ALICE, "sbxctl", "run", "--quiet", "--engine", "e2b", script]
THEIRS = [*ALICE, f"E2B_API_KEY={key}", f"E2B_API_URL=https://localhost:{port}", f"E2B_SANDBOX_URL=https://localhost:{port}",
          f"NODE_EXTRA_CA_CERTS={stand_in}/tls/ca.pem", "node", f"{sdk}/cloud_sdk.mjs", script, f"{home}/out.txt"]

def control(path, method="GET"):
    connection = http.client.HTTPConnection("stand-in")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(f"{stand_in}/control")
    connection.request(method, path)
    return json.loads(connection.getresponse().read())

def settle():
    # What goes on behind an answer is not the next one's to pay.
    deadline, before = time.monotonic() + 20, None
    while time.monotonic() < deadline:
        now = [len(control("/requests")), control("/")["live"]]
        if now == before and not now[1]:
            return
        before = now
        time.sleep(0.2)

def ours():
    began = time.perf_counter()
    done = subprocess.run(OURS, stdout=subprocess.PIPE, check=True, cwd="/")
    assert done.stdout == b"4\\n", done.stdout
    return {"sbxctl run": (time.perf_counter() - began) * 1000}

warm = subprocess.Popen(THEIRS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/")

def calls_of_warm():
    warm.stdin.write("\\n")
    warm.stdin.flush()
    return float(warm.stdout.readline())

def theirs():
    began = time.perf_counter()
    done = subprocess.run(THEIRS, input="\\n", stdout=subprocess.PIPE, check=True, cwd="/", text=True)
    whole = (time.perf_counter() - began) * 1000
    settle()
    return {"SDK, whole program": whole, "SDK, its calls": float(done.stdout), "SDK, its calls in a warm program": calls_of_warm()}

def operations(way):
    control("/reset", "POST")
    key_settings()
    way()
    settle()
    return [request["operation"] for request in control("/requests") if request["operation"] != "list"]

def key_settings():
    connection = http.client.HTTPConnection("stand-in")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(f"{stand_in}/control")
    connection.request("PATCH", "/settings", json.dumps({"api_key": key}))
    connection.getresponse().read()

ours(), calls_of_warm(), settle()
requests = {"sbxctl": operations(ours), "SDK": operations(calls_of_warm)}
rounds = []
for n in range(pairs):
    both = {}
    for way in (ours, theirs) if n % 2 else (theirs, ours):
        settle()
        both |= way()
    rounds.append(both)
warm.stdin.close()
warm.wait()
subprocess.run(["rm", "-rf", home], check=True)
print(json.dumps({"requests": requests, "rounds": rounds}))
"""


def install(machine):
    here = pathlib.Path(__file__).parent
    archive = subprocess.run(["tar", "-C", str(TESTS / "e2b" / "sdk"), "-c", "node_modules"], capture_output=True, check=True).stdout
    machine.run(["mkdir", "-p", SDK], check=True)
    machine.run(["tar", "-C", SDK, "-x"], input=archive, check=True)
    machine.write(f"{SDK}/cloud_sdk.mjs", (here / "cloud_sdk.mjs").read_bytes())
    machine.write(f"{SDK}/script.py", SCRIPT.encode())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=20)
    pairs = parser.parse_args().pairs
    machine = Machine(TESTS / "machine" / "exec", "--release", "trixie")
    with contextlib.ExitStack() as stack:
        install(machine)
        stack.callback(machine.run, ["rm", "-rf", SDK])
        stack.enter_context(e2b_engine.cloud(machine))
        stack.enter_context(rules(machine, run_cloud=YES))
        arguments = [pairs, SDK, e2b_engine.STAND_IN, e2b_engine.PORT, e2b_engine.KEY]
        done = machine.run(["python3", "-c", MEASURE, *map(str, arguments)], timeout=60 + 20 * pairs, check=True)
    told = json.loads(done.stdout)
    rounds = told["rounds"]
    result = {"pairs": pairs, "requests": told["requests"], "ways": {}}
    for way in rounds[0]:
        times = [each[way] for each in rounds]
        result["ways"][way] = {
            "median_ms": round(statistics.median(times), 1),
            "min_ms": round(min(times), 1),
            "max_ms": round(max(times), 1),
            "sbxctl_to_it": round(statistics.median(each["sbxctl run"] / each[way] for each in rounds), 2),
        }
    print(json.dumps(result, indent=2))


main()
