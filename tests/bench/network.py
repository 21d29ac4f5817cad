"""What a granted network costs: a download through the proxy next to the same one without a sandbox, and the start of a run.

Runs on the host, with the test machine up. The ways take turns in every round; reported are medians, and medians of the
ratios within a round. Prints one JSON object. Never a test: nothing here passes or fails.
"""

import argparse
import contextlib
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "functional"))

from approvals import YES, rules  # noqa: E402
from conftest import TESTS, Machine  # noqa: E402
from network_lab import Lab  # noqa: E402

SIZE = 1 << 30
# usage: ROUNDS SIZE, as root in the machine.
DOWNLOADS = """
import json, subprocess, sys
ALICE = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "env", "HOME=/home/alice"]
def speed(prefix, scheme):
    curl = ["curl", "-sS", "-o", "/dev/null", "-w", "%{speed_download}", f"{scheme}://good.example/zeros?n=" + sys.argv[2]]
    if prefix:
        script = "import subprocess; subprocess.run(" + repr(curl) + ", check=True)"
        curl = [*prefix, "-c", script]
    return float(subprocess.run(ALICE + curl, stdout=subprocess.PIPE, check=True, cwd="/").stdout)
through = ["sbxctl", "run", "--quiet", "--network"]
print(json.dumps([{scheme: {"direct": speed([], scheme), "through": speed(through, scheme)} for scheme in ("http", "https")}
                  for _ in range(int(sys.argv[1]))]))
"""
# usage: ROUNDS, as root in the machine. From the command to the program's first line, and to the command's end.
STARTS = """
import json, subprocess, sys, time
ALICE = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "env", "HOME=/home/alice"]
UNIT = "sbxctl-egress.service"
def timed(*options, stop=False):
    if stop:
        subprocess.run(["systemctl", "stop", UNIT], check=True, stderr=subprocess.DEVNULL)
    command = [*ALICE, "sbxctl", "run", "--quiet", *options, "-c", "import time; print(time.monotonic())"]
    began = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd="/")
    return float(done.stdout) - began, time.monotonic() - began
timed(), timed("--network")
print(json.dumps([{"without network": timed(), "with network": timed("--network"),
                   "with network, service cold": timed("--network", stop=True)}
                  for _ in range(int(sys.argv[1]))]))
"""


def measure(machine, program, *arguments):
    done = machine.run(["python3", "-c", program, *map(str, arguments)], timeout=600, check=True)
    return json.loads(done.stdout)


def median(rounds, value):
    return statistics.median(value(each) for each in rounds)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    number = parser.parse_args().rounds
    machine = Machine(TESTS / "machine" / "exec", "--release", "trixie")
    lab = Lab(machine)
    with contextlib.ExitStack() as stack:
        stack.callback(lab.stop)
        lab.start()
        stack.enter_context(lab.resolver())
        stack.enter_context(rules(machine, run_network=YES))
        downloads = measure(machine, DOWNLOADS, max(3, number // 4), SIZE)
        starts = measure(machine, STARTS, number)
    result = {"rounds": number, "download": {}, "start": {}}
    for scheme in ("http", "https"):
        result["download"][scheme] = {
            "direct_MB_s": round(median(downloads, lambda r: r[scheme]["direct"]) / 1e6),
            "through_MB_s": round(median(downloads, lambda r: r[scheme]["through"]) / 1e6),
            "ratio": round(median(downloads, lambda r: r[scheme]["through"] / r[scheme]["direct"]), 2),
        }
    for way in ("without network", "with network", "with network, service cold"):
        result["start"][way] = {
            "start_ms": round(median(starts, lambda r: r[way][0]) * 1000, 1),
            "later_ms": round(median(starts, lambda r: r[way][0] - r["without network"][0]) * 1000, 1),
            "whole_ms": round(median(starts, lambda r: r[way][1]) * 1000, 1),
        }
    print(json.dumps(result, indent=2))


main()
