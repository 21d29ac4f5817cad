"""Thousands of runs leave nothing behind, and the next one is as fast as the first."""

import json

import pytest

FAILING = 2000

# Run as alice: sys.argv[1] failing runs, two at a time, whose results are removed again. Prints how many
# ended in which status.
FAIL = """
import collections, concurrent.futures, json, subprocess, sys

PLAIN = [
    (["-c", "raise SystemExit(1)"], "failed"),
    (["-c", "1 / 0"], "failed"),
    (["-c", "this is no Python"], "failed"),
    (["--language", "shell", "-c", "no-such-command"], "failed"),
    (["-c", "import os; os.kill(os.getpid(), 11)"], "killed"),
    (["-c", "import os; os.kill(os.getpid(), 9)"], "killed"),
    (["-c", "import os\\nif os.fork(): os._exit(1)\\nwhile True: pass"], "failed"),
    (["-c", "import os; os.makedirs('a/b'); open('a/b/c', 'w').write('c'); raise SystemExit(1)"], "failed"),
]
SLOW = [
    (["--timeout", "300ms", "-c", "while True: pass"], "timed_out"),
    (["--memory", "32M", "-c", "bytearray(1 << 30)"], "out_of_memory"),
]

def run(i):
    arguments, expected = SLOW[i // 50 % 2] if i % 50 == 0 else PLAIN[i % len(PLAIN)]
    done = subprocess.run(["sbxctl", "run", "--json", *arguments], stdin=subprocess.DEVNULL, capture_output=True)
    result = json.loads(done.stdout)
    if result.get("status") != expected:
        print(arguments, done, file=sys.stderr)
    return result["id"], result["status"]

ended = collections.Counter()
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    for start in range(0, int(sys.argv[1]), 100):
        batch = list(pool.map(run, range(start, min(start + 100, int(sys.argv[1])))))
        ended.update(status for _, status in batch)
        subprocess.run(["sbxctl", "rm", *(i for i, _ in batch)], check=True, stdout=subprocess.DEVNULL)
print(json.dumps(ended))
"""

# Run as root: what a run could leave behind, counted.
COUNT = """
import glob, json, os, subprocess

def show(unit):
    return int(subprocess.check_output(["systemctl", "show", "-P", "MainPID", unit]))

def lines(*command):
    return len(subprocess.check_output(command).splitlines())

def field(pid, name):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith(name + ":"):
            return int(line.split()[1])

# Of this machine, in each hierarchy; another one may share the file system.
OWN_CGROUPS = [
    "/sys/fs/cgroup/" + controller + os.path.dirname(path)
    for controller in ("memory", "pids", "cpu", "systemd")
    for path in [line.split(":")[2] for line in open("/proc/1/cgroup").read().splitlines()
                 if controller in line.split(":")[1].replace("name=", "").split(",")]
]
assert len(OWN_CGROUPS) == 4

broker, engine = show("sbxctl-helper.service"), show("sbxctl-engine-systemd.service")
store, = map(int, subprocess.check_output(["pgrep", "-P", str(broker)]).split())
services = {"broker": broker, "store": store, "engine": engine, "PID 1": 1}
print(json.dumps({
    "pids": [broker, store, engine],
    "memory": {name: field(pid, "VmRSS") for name, pid in services.items()},
    "left": {
        "descriptors": {name: len(os.listdir(f"/proc/{pid}/fd")) for name, pid in services.items()},
        "mounts": {name: lines("cat", f"/proc/{pid}/mountinfo") for name, pid in services.items()},
        "units": lines("systemctl", "list-units", "--all", "--plain", "--no-legend", "sbxctl-run-*"),
        "failed units": lines("systemctl", "--failed", "--plain", "--no-legend"),
        "cgroups": lines("find", *OWN_CGROUPS, "-type", "d", "-name", "*sbxctl-run*"),
        "engine processes": subprocess.run(["pgrep", "-c", "-P", str(engine)], capture_output=True).stdout.decode(),
        "zombies": lines("sh", "-c", "ps -eo stat= | grep Z || true"),
        "staging": os.listdir("/var/lib/sbxctl/staging"),
        "results": len(os.listdir("/var/lib/sbxctl/users/1000")),
        "engine directory": os.listdir("/run/sbxctl-engine-systemd"),
        "of systemd": sorted(glob.glob("/run/systemd/*/*sbxctl-run*") + glob.glob("/run/credentials/*sbxctl-run*")),
        "dynamic users": len(os.listdir("/run/systemd/dynamic-uid")),
        "temporary": sorted(glob.glob("/tmp/*sbxctl-run*") + glob.glob("/var/tmp/*sbxctl-run*")),
    },
}))
"""


def python(machine, code, *arguments, user=None, timeout=60):
    done = machine.run(["python3", "-c", code, *map(str, arguments)], user, timeout=timeout)
    assert done.status == 0 and done.errors == "", done
    return json.loads(done.text)


def count(machine):
    """What is there once everything of the last run is gone."""
    machine.wait_for(
        lambda: not machine.run(["systemctl", "list-units", "--all", "--no-legend", "sbxctl-run-*"]).text,
        timeout=10,
        what="the last run to be gone",
    )
    return python(machine, COUNT)


@pytest.mark.long
def test_case_08_two_thousand_failing_runs_leave_nothing_and_the_next_is_as_fast(machine):
    # Of those that are kept the oldest make room, once there are many.
    assert machine.sbxctl(["rm", "--all"]).status == 0
    python(machine, FAIL, 20, user="alice", timeout=120)
    slowness_before = machine.slowness(50)
    before = count(machine)
    ended = python(machine, FAIL, FAILING, user="alice", timeout=1800)
    slowness_after = machine.slowness(50)
    after = count(machine)

    print(json.dumps([before, after]), slowness_before, slowness_after)
    assert sum(ended.values()) == FAILING and set(ended) == {
        "failed", "killed", "timed_out", "out_of_memory"
    }
    assert after["pids"] == before["pids"]
    # A service of an earlier test may have ended meanwhile, of which PID 1 had some.
    were, are = (counted["left"].pop("descriptors") for counted in (before, after))
    assert all(are[name] <= were[name] for name in were), (were, are)
    assert after["left"] == before["left"]
    for name, kib in after["memory"].items():
        assert kib < before["memory"][name] + 4096, (name, before, after)
    assert slowness_after < 3 * slowness_before
