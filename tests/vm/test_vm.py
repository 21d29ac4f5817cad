"""What only the virtual machine can show: cgroup v2, the distribution's own kernel, and a reboot."""

import json
import pathlib
import re
import subprocess

import pytest

REBOOT = pathlib.Path(__file__).with_name("reboot")
WAIT = "import sys; print('up', flush=True); sys.stdin.read()"
SLEEP = "import time; print('up', flush=True); time.sleep(600)"
CGROUPS = "/sys/fs/cgroup"


def units(machine):
    listed = machine.run(
        ["systemctl", "list-units", "--all", "--plain", "--no-legend", "sbxctl-run-*"], check=True
    ).text
    return [line.split()[0] for line in listed.splitlines()]


def start(machine, script, *options):
    """Starts a run that says "up", and returns it with its unit."""
    machine.wait_for(lambda: not units(machine), 10, "earlier runs to be gone")
    running = machine.popen(["sbxctl", "run", *options, "-c", script], user="alice")
    assert running.popen.stdout.readline() == b"up\n"
    (unit,) = units(machine)
    return running, unit


def files_of(machine, unit, *names):
    """The words in these files of the unit's control group."""
    group = machine.run(["systemctl", "show", "-P", "ControlGroup", unit], check=True).text.strip()
    return [machine.read(f"{CGROUPS}{group}/{name}").decode().split() for name in names]


def runs(machine):
    return json.loads(machine.sbxctl(["ps", "--all", "--json"]).stdout)["runs"]


def last_run(machine):
    return runs(machine)[0]["id"]


def result_of(machine, run_id):
    return json.loads(machine.read(f"/var/lib/sbxctl/users/1000/{run_id}/run.json", "alice"))


# ---- the machine


def test_there_is_cgroup_v2_and_no_other(machine):
    mounted = [line.split() for line in machine.read("/proc/self/mounts").decode().splitlines()]
    assert [(m[1], m[2]) for m in mounted if m[2].startswith("cgroup")] == [(CGROUPS, "cgroup2")]
    controllers = machine.read(f"{CGROUPS}/cgroup.controllers").decode().split()
    assert {"cpu", "memory", "pids"} <= set(controllers)


def test_kernel_and_systemd_are_debians(machine):
    kernel = machine.run(["uname", "-r"], check=True).text.strip()
    assert re.fullmatch(r"[\d.]+\+deb13-cloud-amd64", kernel)
    owner = machine.run(["dpkg", "-S", f"/boot/vmlinuz-{kernel}"], check=True).text
    assert owner.startswith(f"linux-image-{kernel}:")
    assert machine.run(["systemctl", "--version"]).text.startswith("systemd 257 ")
    assert machine.run(["systemd-detect-virt"]).text == "qemu\n"


def test_users_have_sessions(machine):
    """A run's caller is here what it is on a workstation: somebody who logged in."""
    group = machine.run(["cat", "/proc/self/cgroup"], "alice").text
    assert re.match(r"0::/user\.slice/user-1000\.slice/session-\w+\.scope", group), group


# ---- limits and counters


def test_limits_are_those_of_the_control_group(machine):
    running, unit = start(machine, WAIT, "--memory", "256M", "--cpus", "1")
    memory, swap, tasks, cpu = files_of(
        machine, unit, "memory.max", "memory.swap.max", "pids.max", "cpu.max"
    )
    assert running.finish(b"").status == 0
    assert memory == [str(256 << 20)] and swap == ["0"] and tasks == ["256"]
    quota, period = map(int, cpu)
    assert quota == period


def test_counters_of_the_control_group_are_in_the_result(machine):
    work = """
import sys
held = bytearray(b"x") * (200 << 20)
for _ in range(3_000_000):
    pass
del held
print("up", flush=True)
sys.stdin.read()
"""
    running, unit = start(machine, work)
    peak, cpu, events = files_of(machine, unit, "memory.peak", "cpu.stat", "memory.events")
    assert running.finish(b"").status == 0
    result = result_of(machine, last_run(machine))
    usage = result["usage"]
    assert int(peak[0]) <= usage["memoryPeakBytes"] < 300 << 20
    assert int(peak[0]) > 200 << 20
    # The counter holds what the sandbox's making used, too, and the result does not: so it is less
    # than the counter at the end, and no more than one CPU gives in the program's time.
    assert 0 < usage["cpuUSec"] <= 1.1 * usage["wallUSec"]
    seen = int(cpu[cpu.index("usage_usec") + 1])
    assert usage["cpuUSec"] > 0.3 * seen
    assert events[events.index("oom_kill") + 1] == "0" and result["oomKills"] == 0


def test_oom_kills_are_counted_one_by_one(machine):
    script = """
import subprocess, sys
for _ in range(3):
    subprocess.run([sys.executable, "-c", "bytearray(2 << 30)"])
"""
    result = machine.run_json(["-c", script])
    assert (result["status"], result["oomKills"]) == ("succeeded", 3)
    assert 400 << 20 < result["usage"]["memoryPeakBytes"] <= 512 << 20


def test_out_of_memory_leaves_the_next_run_alone(machine):
    assert machine.run_json(["-c", "bytearray(2 << 30)"])["status"] == "out_of_memory"
    result = machine.run_json(["-c", "print(4)"])
    assert (result["status"], result["oomKills"]) == ("succeeded", 0)


# ---- a reboot, last: it takes a minute or more


def broken_records(machine):
    found = machine.run(["find", "/var/lib/sbxctl/index", "-name", "*.bad"]).text
    return set(found.splitlines())


class Reboot:
    """A run that was under way, and one that had ended, when the machine went down."""

    def __init__(self, machine, *how):
        running, _ = start(machine, "open('x', 'w').write('x')\n" + SLEEP)
        self.interrupted = last_run(machine)
        self.ended = machine.run_json(["-c", "open('out', 'w').write('kept'); print('kept')"])
        self.in_order = how == ("--orderly",)
        broken_before = broken_records(machine)
        subprocess.run([REBOOT, *how], stdin=subprocess.DEVNULL, check=True, timeout=1200)
        self.client = running.finish()
        self.units = units(machine)
        # The first call starts the helper, which tidies up.
        self.runs = {run["id"]: run for run in runs(machine)}
        self.broken = broken_records(machine) - broken_before


@pytest.fixture(scope="module", params=["--power-cut", "--orderly"])
def reboot(machine, request):
    return Reboot(machine, request.param)


def test_after_a_reboot_nothing_of_the_run_is_left(machine, reboot):
    assert reboot.client.status not in (0, 1)
    assert reboot.units == []
    assert machine.run(["ls", "-A", "/var/lib/sbxctl/staging"], check=True).text == ""
    assert machine.run(["ls", "-A", "/run/sbxctl/engine-systemd"]).text == ""


def test_after_a_reboot_the_next_run_works(machine, reboot):
    assert machine.sbxctl(["run", "-c", "print(4)"]).text == "4\n"
    assert machine.run(["systemctl", "--failed", "--no-legend"], check=True).text == ""


def test_after_a_reboot_the_run_is_lost(reboot):
    """Where the machine goes down in order, the helper may still see the caller go."""
    run = reboot.runs.get(reboot.interrupted)
    assert run, reboot.runs.keys()
    assert run["status"] in (("lost", "cancelled") if reboot.in_order else ("lost",)), run
    assert run["reason"]


def test_after_a_reboot_the_record_of_an_ended_run_is_as_it_was(reboot):
    assert reboot.runs[reboot.ended["id"]]["status"] == "succeeded"


def test_after_a_reboot_the_files_of_an_ended_run_are_as_they_were(machine, reboot):
    """Like any program's, they may still be on their way to the disk when the power goes."""
    if not reboot.in_order:
        return
    run = reboot.ended
    assert result_of(machine, run["id"]) == run
    assert machine.read(run["stdout"]["path"], "alice") == b"kept\n"
    assert machine.read(run["files"][0]["path"], "alice") == b"kept"


def test_after_a_reboot_no_record_is_broken(reboot):
    assert reboot.broken == set()
