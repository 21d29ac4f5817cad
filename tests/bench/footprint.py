"""What the helper itself takes: memory, processes and CPU time. Imported by what runs in the test machine, as root."""

import contextlib
import pathlib
import subprocess
import time

from turns import Case, once, settle
from ways import RUN, USER, sbxctl


def processes():
    """Broker and store."""
    main = subprocess.run(["systemctl", "show", "-P", "MainPID", "sbxctl-helper"], stdout=subprocess.PIPE, text=True, check=True)
    pid = main.stdout.strip()
    return [pid, *subprocess.run(["pgrep", "-P", pid], stdout=subprocess.PIPE, text=True).stdout.split()]


def memory_mib():
    """PSS of broker and store."""
    kilobytes = 0
    for pid in processes():
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


def cpu_ms(n=30):
    """Of broker and store for a warm run, the making of the next sandbox included."""
    def used():
        return sum(int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in processes())
    settle(("systemd",))
    before = used()
    for _ in range(n):
        once(sbxctl(), Case("print(4)"))
        settle(("systemd",))
    return round((used() - before) / n / 1e6, 2)


def memory():
    return {"1 run": memory_with(1), "50 runs": memory_with(50), "idle, pool full": memory_mib()}


def after_idle_exit():
    """How many processes of the product there are, with times so short in the configuration that this need not wait for minutes."""
    def count():
        return len(subprocess.run(["pgrep", "^sbxctl"], stdout=subprocess.PIPE).stdout.splitlines())
    once(sbxctl(), Case("print(4)"))
    before, deadline = count(), time.monotonic() + 60
    while count() and time.monotonic() < deadline:
        time.sleep(0.1)
    return {"after a run": before, "after the idle exit": count()}
