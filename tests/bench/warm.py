"""What a run costs that finds a sandbox at hand, next to what people would use instead, and how that grows: runs inside the test
machine, as root.

The ways take turns in every round, so that a busy moment of the machine hits all of them. Before a warm run is measured there is a
sandbox that waits, and before any other one nothing is being made or cleaned up. Prints one JSON object. Never a test: nothing here
passes or fails.
"""

import argparse
import concurrent.futures
import contextlib
import glob
import json
import os
import pathlib
import pwd
import shutil
import statistics
import subprocess
import tempfile
import time

PROGRAM = "print(4)"
USER = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "--", "env", "HOME=/home/alice"]
RUN = ["sbxctl", "run", "--quiet"]
# It is not what waits, so it is made for the run; nothing else is different.
COLD = ["--memory", "511M"]
# Its sandbox waits, but no interpreter that has it.
OWN_INTERPRETER = ["--env", "A=B"]
DOCKER = ["--engine", "docker"]
CONTAINER = ["docker", "run", "--rm", "--network=none", "--memory=512m", "--cpus=1"]
IMAGE = "sbxctl-bench"
# What sbxctl-engine-systemd asks for, as far as systemd-run can say it.
HARDENING = """
DynamicUser=yes RootDirectory=/usr/lib/sbxctl/root MountAPIVFS=yes BindReadOnlyPaths=/usr
PrivateNetwork=yes PrivateIPC=yes PrivateDevices=yes PrivateMounts=yes PrivatePIDs=yes PrivateUsers=yes
ProtectHome=yes ProtectKernelTunables=yes ProtectKernelModules=yes ProtectKernelLogs=yes
ProtectControlGroups=yes ProtectClock=yes ProtectHostname=yes ProtectProc=invisible
NoNewPrivileges=yes CapabilityBoundingSet= RestrictNamespaces=yes RestrictRealtime=yes
RestrictSUIDSGID=yes LockPersonality=yes SystemCallFilter=@system-service
TemporaryFileSystem=/workspace:mode=0777 MemoryMax=512M CPUQuota=100% TasksMax=256
RuntimeMaxSec=60
""".split()
SYSTEMD_RUN = ["systemd-run", "--quiet", "--pipe", "--wait", "--collect",
               *(word for value in HARDENING for word in ("-p", value))]
BWRAP = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
         "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
         "--tmpfs", "/workspace", "--chdir", "/workspace", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin"]
# As tools for assistants do it today: a work directory, mounted, and the program's output read by asyncio.
HELPER = """
import asyncio, pathlib, sys, tempfile
async def main():
    with tempfile.TemporaryDirectory() as work:
        pathlib.Path(work, "script.py").write_text(sys.argv[2])
        process = await asyncio.create_subprocess_exec(
            "docker", "run", "--rm", "--network=none", "--memory=512m", "--cpus=1", "-v", f"{work}:/workspace", "-w", "/workspace",
            sys.argv[1], "python3", "script.py", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
        stdout, _ = await asyncio.wait_for(process.communicate(), 60)
        sys.stdout.write(stdout.decode())
asyncio.run(main())
"""


def timed(argv, expected=b"4\n", **options):
    start = time.perf_counter()
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=True, cwd="/", **options)
    elapsed = time.perf_counter() - start
    assert expected is None or done.stdout == expected, done.stdout[:100]
    return elapsed


def run(*options):
    return [*USER, *RUN, *options, "-c", PROGRAM]


WAYS = {
    "bare python3": [*USER, "python3", "-c", PROGRAM],
    "sbxctl run, warm": run(),
    "sbxctl run, warm, own interpreter": run(*OWN_INTERPRETER),
    "sbxctl run, cold": run(*COLD),
    "systemd-run --pipe --wait, same hardening": [*SYSTEMD_RUN, "python3", "-c", PROGRAM],
    "bwrap, same namespaces": [*USER, *BWRAP, "python3", "-c", PROGRAM],
    "sbxctl run --engine docker, warm": run(*DOCKER),
    "sbxctl run --engine docker, cold": run(*DOCKER, *COLD),
    "docker run --rm --network=none": [*CONTAINER, IMAGE, "python3", "-c", PROGRAM],
    "asyncio helper around docker run": ["python3", "-c", HELPER, IMAGE, PROGRAM],
}


def waiting(engine):
    """How many interpreters wait for a script in a sandbox of that engine."""
    container_user = pwd.getpwnam("sbxctl-sandbox").pw_uid
    n = 0
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes() == b"python3\0/workspace/script\0" and (path.parent / "wchan").read_text() == "wait_for_partner":
                n += (path.stat().st_uid == container_user) == (engine == "docker")
    return n


def settle(wanted=("systemd", "docker")):
    """Waits until what comes behind an answer is done: the run before is cleaned up, and the next sandboxes are there."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        cleaned = len(glob.glob("/run/sbxctl-engine-docker/run-*")) <= 1
        if cleaned and all(waiting(engine) for engine in wanted):
            return
        time.sleep(0.01)
    for engine in wanted:  # a busy machine may have failed to make one
        timed(run("--engine", engine))


def quantile(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def summary(values, base=None):
    result = {"median_ms": round(statistics.median(values) * 1000, 1), "p90_ms": round(quantile(values, 0.9) * 1000, 1),
              "p99_ms": round(quantile(values, 0.99) * 1000, 1), "min_ms": round(min(values) * 1000, 1)}
    if base:
        result["ratio_to_bare"] = round(statistics.median(v / b for v, b in zip(values, base)), 2)
    return result


def ratio(a, b):
    """Of pairs, as both of one round had the same machine."""
    return round(statistics.median(x / y for x, y in zip(a, b)), 2)


def measure_ways(rounds):
    ways = {name: argv for name, argv in WAYS.items() if shutil.which("bwrap") or "bwrap" not in name}
    times = {name: [] for name in ways}
    for engine in ("systemd", "docker"):
        timed(run("--engine", engine))
    for _ in range(rounds):
        for name, argv in ways.items():
            settle()
            times[name].append(timed(argv))
    return times


def rate(argv, n=8):
    """Runs a second, of so many that begin at once."""
    settle()
    began = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        list(pool.map(lambda _: timed(argv), range(n)))
    return n / (time.perf_counter() - began)


def in_a_row(n):
    return [timed(run()) for _ in range(n)]


OUTPUT = "import sys\nfor _ in range(100):\n    sys.stdout.buffer.write(bytes(1 << 20))"


def output_of_100_mb():
    pairs = {"sbxctl": [*USER, *RUN, "-c", OUTPUT], "systemd-run": [*SYSTEMD_RUN, "python3", "-c", OUTPUT]}
    times = {name: [] for name in pairs}
    for _ in range(5):
        for name, argv in pairs.items():
            settle()
            times[name].append(timed(["sh", "-c", '"$@" >/dev/null', "sh", *argv], b""))
    return {name: summary(values) for name, values in times.items()} | {"ratio": ratio(times["sbxctl"], times["systemd-run"])}


def output_files(n):
    script = f"for n in range({n}):\n    open(str(n), 'w').write(str(n))"
    settle()
    return round(statistics.median(timed([*USER, *RUN, "-c", script], b"") for _ in range(5)) * 1000, 1)


def input_of_100_mb():
    script = "import os\nprint(os.stat('big').st_size)"
    with tempfile.NamedTemporaryFile() as big:
        os.truncate(big.name, 0)
        subprocess.run(["dd", "if=/dev/urandom", f"of={big.name}", "bs=1M", "count=100", "status=none"], check=True)
        os.chmod(big.name, 0o644)
        command = [*USER, *RUN, "--file", f"{big.name}:big", "-c", script]
        return round(statistics.median(timed(command, b"104857600\n") for _ in range(5)) * 1000, 1)


def helper_processes():
    main = subprocess.run(["systemctl", "show", "-P", "MainPID", "sbxctl-helper"], stdout=subprocess.PIPE, text=True, check=True)
    pid = main.stdout.strip()
    children = subprocess.run(["pgrep", "-P", pid], stdout=subprocess.PIPE, text=True).stdout.split()
    return [pid, *children]


def memory_mib():
    """PSS of broker and store."""
    kilobytes = 0
    for pid in helper_processes():
        with contextlib.suppress(OSError):
            text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
            kilobytes += int(next(line for line in text.splitlines() if line.startswith("Pss:")).split()[1])
    return round(kilobytes / 1024, 1)


def memory_with(n):
    """While so many runs go, each small enough for all to go at once."""
    command = [*USER, *RUN, "--memory", "64M", "-c", "print(1, flush=True); input()"]
    sleepers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/") for _ in range(n)]
    for sleeper in sleepers:
        sleeper.stdout.readline()
    used = memory_mib()
    for sleeper in sleepers:
        sleeper.communicate(b"\n")
    return used


def cpu_of_helper(n=30):
    """Milliseconds of broker and store for a warm run, the making of the next sandbox included."""
    def used():
        return sum(int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in helper_processes())
    settle(("systemd",))
    before = used()
    for _ in range(n):
        timed(run())
        settle(("systemd",))
    return round((used() - before) / n / 1e6, 2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    times = measure_ways(rounds)
    bare = times["bare python3"]
    row = in_a_row(200)
    ours, helper = [], []
    for _ in range(3):
        ours.append(rate(run()))
        helper.append(rate(WAYS["asyncio helper around docker run"]))
    result = {
        "rounds": rounds,
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "ways": {name: summary(values, bare) for name, values in times.items()},
        "ratios": {
            "warm, to bare python3": ratio(times["sbxctl run, warm"], bare),
            "warm, own interpreter, to bare python3": ratio(times["sbxctl run, warm, own interpreter"], bare),
            "docker engine, warm, to docker run": ratio(times["sbxctl run --engine docker, warm"], times["docker run --rm --network=none"]),
            "cold, to systemd-run": ratio(times["sbxctl run, cold"], times["systemd-run --pipe --wait, same hardening"]),
            "docker engine, cold, to docker run": ratio(times["sbxctl run --engine docker, cold"], times["docker run --rm --network=none"]),
            "99th percentile of warm to its median": round(
                quantile(times["sbxctl run, warm"], 0.99) / statistics.median(times["sbxctl run, warm"]), 2),
            "8 at once, runs a second, to the asyncio helper": ratio(ours, helper),
        },
        "8 at once, runs a second": {"sbxctl": round(statistics.median(ours), 1), "asyncio helper": round(statistics.median(helper), 1)},
        "200 in a row": summary(row),
        "100 MB of output": output_of_100_mb(),
        "output files, ms": {str(n): output_files(n) for n in (1, 100, 1000)},
        "100 MB of input, ms": input_of_100_mb(),
        "helper, MiB": {"1 run": memory_with(1), "50 runs": memory_with(50), "idle, pool full": memory_mib()},
        "helper, CPU ms of a warm run": cpu_of_helper(),
    }
    print(json.dumps(result, indent=2))


main()
