"""What the properties of a sandbox's unit cost: by how much less time of the processor a program gets to its start without each of
them. Runs inside the test machine, as root; see tests/bench/properties. Never a test.

The time is that of the process that PID 1 forks for a unit, which makes the namespaces and mounts and becomes the program: unlike
the time on the clock it does not depend on what else the machine does.
"""

import statistics
import subprocess
import sys

from ways import HARDENING, SYSTEMD_RUN

# The launcher has a filter of its own, and with PrivatePIDs= the program is not that process but a child of it.
LEFT_OUT = ("SystemCallFilter", "LockPersonality", "PrivatePIDs")
# What a unit without them would not run for, or be another one.
NEEDED = ("RootDirectory", "BindReadOnlyPaths", "WorkingDirectory", "TemporaryFileSystem=/workspace", "RuntimeMaxSec", "BindLogSockets")
FILTERS = ("RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID")
LIMITS = ("MemoryMax", "CPUQuota", "TasksMax")


def milliseconds(properties):
    options = [word for value in properties for word in ("-p", value)]
    done = subprocess.run([*SYSTEMD_RUN, *options, "cat", "/proc/self/schedstat"], stdout=subprocess.PIPE, check=True, cwd="/")
    return int(done.stdout.split()[0]) / 1e6


def main():
    rounds = int(sys.argv[1])
    every = [value for value in [*HARDENING, "TemporaryFileSystem=/workspace:mode=0777"] if not value.startswith(LEFT_OUT)]
    names = {value.split("=")[0] for value in every if not value.startswith((*NEEDED, *FILTERS, *LIMITS))}
    left_out = {f"{name}=": (f"{name}=",) for name in sorted(names)}
    left_out |= {"system call filters of Restrict*=": FILTERS, "limits": LIMITS, "all of these": (*names, *FILTERS, *LIMITS)}
    ways = {"": every} | {way: [value for value in every if value.startswith(NEEDED) or not value.startswith(prefixes)]
                          for way, prefixes in left_out.items()}
    times = {way: [] for way in ways}
    for n in range(rounds):
        for way in ways if n % 2 == 0 else reversed(ways):
            times[way].append(milliseconds(ways[way]))
    whole = statistics.median(times.pop(""))
    print(f"{whole:.1f} ms of CPU time; less without")
    less = {way: whole - statistics.median(values) for way, values in times.items()}
    for way, value in sorted(less.items(), key=lambda item: -item[1]):
        print(f"  {way:36} {value:5.1f} ms")


main()
