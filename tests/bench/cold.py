"""What a run costs, cold, next to what people would use instead: runs inside the test machine, as root.

Each way runs the same Python program. The ways take turns in every round, so that a busy moment of the machine hits all of
them; reported are medians and their ratio to bare Python of the same round. Prints one JSON object. Never a test: nothing
here passes or fails.
"""

import argparse
import glob
import json
import os
import socket
import statistics
import subprocess
import time

PROGRAM = "print(4)"
SOCKET = "/run/sbxctl/io.sbxctl.Sandbox"
# What sbxctl-engine-systemd asks for, as far as systemd-run can say it.
HARDENING = """
DynamicUser=yes RootDirectory=/usr/lib/sbxctl/root MountAPIVFS=yes BindReadOnlyPaths=/usr
PrivateNetwork=yes PrivateIPC=yes PrivateDevices=yes PrivateMounts=yes PrivatePIDs=yes
ProtectHome=yes ProtectKernelTunables=yes ProtectKernelModules=yes ProtectKernelLogs=yes
ProtectControlGroups=yes ProtectClock=yes ProtectHostname=yes ProtectProc=invisible
NoNewPrivileges=yes CapabilityBoundingSet= RestrictNamespaces=yes RestrictRealtime=yes
RestrictSUIDSGID=yes LockPersonality=yes SystemCallFilter=@system-service
TemporaryFileSystem=/workspace:mode=0777 MemoryMax=512M CPUQuota=100% TasksMax=256
RuntimeMaxSec=60
""".split()


def timed(argv, user=None):
    prefix = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--"] if user else []
    start = time.perf_counter()
    done = subprocess.run(prefix + argv, stdout=subprocess.PIPE, check=True, cwd="/")
    elapsed = time.perf_counter() - start
    assert done.stdout == b"4\n", done.stdout
    return elapsed


def bare():
    return timed(["python3", "-c", PROGRAM], user="1000")


def sbxctl():
    return timed(["sbxctl", "run", "--quiet", "-c", PROGRAM], user="1000")


def sbxctl_docker():
    return timed(["sbxctl", "run", "--quiet", "--engine", "docker", "-c", PROGRAM], user="1000")


class Assistant:
    """One server for all its calls, as an assistant has it; its first call starts it."""

    server = None

    def __call__(self):
        if not self.server:
            self.server = subprocess.Popen(["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "--", "sbxctl", "mcp"],
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/")
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "run_code", "arguments": {"code": PROGRAM},
            "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                      "io.modelcontextprotocol/clientCapabilities": {}}}}
        start = time.perf_counter()
        self.server.stdin.write(json.dumps(call).encode() + b"\n")
        self.server.stdin.flush()
        answer = json.loads(self.server.stdout.readline())
        elapsed = time.perf_counter() - start
        assert answer["result"]["structuredContent"]["stdout"]["text"] == "4\n", answer
        return elapsed


def systemd_run():
    options = [word for value in HARDENING for word in ("-p", value)]
    return timed(["systemd-run", "--quiet", "--pipe", "--wait", "--collect", *options,
                  "python3", "-c", PROGRAM])


def docker_run():
    return timed(["docker", "run", "--rm", "--network=none", "--memory=512m", "--cpus=1",
                  "sbxctl-bench", "python3", "-c", PROGRAM])


def first_output():
    """Seconds from the helper's go to the program's first byte, seen by a plain varlink client."""
    call = {"method": "io.sbxctl.Sandbox.Run", "more": True,
            "parameters": {"script": PROGRAM, "language": "python", "streams": "messages"}}
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(SOCKET)
        link.sendall(json.dumps(call).encode() + b"\0")
        buffer, started = b"", None
        while True:
            data = link.recv(65536)
            assert data, buffer
            buffer += data
            while b"\0" in buffer:
                message, buffer = buffer.split(b"\0", 1)
                reply = json.loads(message).get("parameters", {})
                if reply.get("event") == "started":
                    started = time.perf_counter()
                elif reply.get("event") == "output":
                    return time.perf_counter() - started
                assert reply.get("event") != "finished", message


WAYS = {
    "bare python3": bare,
    "sbxctl run, cold": sbxctl,
    "run_code of sbxctl mcp, cold": Assistant(),
    "sbxctl, go to first output": first_output,
    "systemd-run --pipe --wait, same hardening": systemd_run,
    "sbxctl run --engine docker, cold": sbxctl_docker,
    "docker run --rm --network=none": docker_run,
}


def settle():
    """Waits until the run before has been cleaned up, which goes on behind its answer, so that the next way does not pay."""
    deadline = time.monotonic() + 10
    while glob.glob("/run/sbxctl-engine-docker/run-*") and time.monotonic() < deadline:
        time.sleep(0.01)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    for way in WAYS.values():
        way()
    times = {name: [] for name in WAYS}
    for _ in range(rounds):
        for name, way in WAYS.items():
            settle()
            times[name].append(way())
    base = times["bare python3"]
    median = {name: statistics.median(values) for name, values in times.items()}
    print(json.dumps({
        "rounds": rounds,
        "cpus": os.cpu_count(),
        # Of medians; the same image and the same command.
        "docker_engine_to_docker_run": round(
            median["sbxctl run --engine docker, cold"] / median["docker run --rm --network=none"], 2),
        "run_code_more_than_run_ms": round(
            1000 * (median["run_code of sbxctl mcp, cold"] - median["sbxctl run, cold"]), 1),
        "ways": {
            name: {
                "median_ms": round(median[name] * 1000, 1),
                "min_ms": round(min(values) * 1000, 1),
                "max_ms": round(max(values) * 1000, 1),
                "all_ms": [round(value * 1000, 1) for value in values],
                "ratio_to_bare": round(
                    statistics.median(v / b for v, b in zip(values, base)), 2),
            }
            for name, values in times.items()
        },
    }, indent=2))


main()
