"""Ways that take turns with a case, the times that they take, and what is told of those. Imported by what runs in the test machine,
as root."""

import concurrent.futures
import contextlib
import dataclasses
import glob
import os
import pathlib
import pwd
import statistics
import subprocess
import tempfile
import time

from ways import INPUT, WAYS, sbxctl


@dataclasses.dataclass
class Case:
    """What each way runs, and what it has to print."""

    program: str
    printed: bytes = b"4\n"
    ways: tuple = tuple(WAYS)
    at_once: int = 1
    input: str = ""  # a file for the program
    has_output: bool = False  # files
    reader: str = ""  # a command that reads what the program prints, and prints something itself


def timed(argv, printed, folder="/"):
    start = time.perf_counter()
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=True, cwd=folder)
    elapsed = time.perf_counter() - start
    assert done.stdout == printed, done.stdout[:100]
    return elapsed


@contextlib.contextmanager
def shared_folder(case):
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o777)
        if case.input:
            os.link(case.input, f"{folder}/{INPUT}")
        yield folder


def once(way, case):
    """Seconds from a way's begin to its end; of several at once, until the last of them has ended."""
    with shared_folder(case) as folder:
        shared = folder if case.input or case.has_output else None
        argv = way(case.program, shared, bool(case.input))
        if case.reader:
            argv = ["bash", "-o", "pipefail", "-c", f'"$@" | {case.reader}', "bash", *argv]
        if case.at_once == 1:
            return timed(argv, case.printed, folder)
        start = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(case.at_once) as pool:
            list(pool.map(lambda _: timed(argv, case.printed, folder), range(case.at_once)))
        return time.perf_counter() - start


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
        cleaned = len(glob.glob("/run/sbxctl-engine-docker/run-*")) <= waiting("docker")
        if cleaned and all(waiting(engine) for engine in wanted):
            return
        time.sleep(0.01)
    for engine in wanted:  # a busy machine may have failed to make one
        once(sbxctl("--engine", engine), Case("print(4)"))


def in_turn(case, rounds, more=None):
    """The times of each way. In every second round the first is last, so that nobody always comes behind the same one."""
    ways = {name: lambda way=WAYS[name]: once(way, case) for name in case.ways} | (more or {})
    times = {name: [] for name in ways}
    for n in range(rounds):
        for name in ways if n % 2 == 0 else reversed(ways):
            settle()
            times[name].append(ways[name]())
    return times


def quantile(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def summary(values):
    return {"median_ms": round(statistics.median(values) * 1000, 1), "p90_ms": round(quantile(values, 0.9) * 1000, 1),
            "p99_ms": round(quantile(values, 0.99) * 1000, 1), "min_ms": round(min(values) * 1000, 1)}


def ratio(times, way, peer):
    """Of pairs, as both of one round had the same machine."""
    return round(statistics.median(x / y for x, y in zip(times[way], times[peer])), 2)


def told(times):
    """The ways of a case, each with its ratio to the first one."""
    first = next(iter(times))
    return {name: summary(values) | {"ratio": ratio(times, name, first)} for name, values in times.items()}
