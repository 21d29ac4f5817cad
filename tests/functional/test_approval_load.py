"""Many calls that are given up leave nothing in the helper or in polkit, and hold up nobody."""

import json
import time

import pytest

from agent import Agent
from approvals import every_refusal_is_recorded
from approvals import MORE_MEMORY, Script

# Makes argv[1] connections, each with a call that is given up at another moment, and tells the
# longest time that connecting and calling took.
CYCLES = """
import sys, time
from varlink_client import *
calls = [message("Run", script="print(4)", language="python", memoryBytes=1 << 30,
                 allowInteractiveAuthentication=True), message("GetPolicy")]
worst = 0
for i in range(int(sys.argv[1])):
    began = time.monotonic()
    link = connect()
    link.sendall(calls[i % 2])
    if i % 7 == 0:
        time.sleep(i % 5 / 1000)
    if i % 10 == 0:
        link.recv(65536)
    link.close()
    worst = max(worst, time.monotonic() - began)
print(worst)
"""
# The same with a dialog open each time; argv[1] programs, as the agent's only child.
DIALOGS = """
import sys
from varlink_client import *
request = message("Run", more=True, script="print(4)", language="python", memoryBytes=1 << 30,
                  allowInteractiveAuthentication=True)
opened = 0
for i in range(int(sys.argv[1])):
    link = connect()
    link.sendall(request)
    opened += answer(link).get("parameters", {}).get("event") == "approval"
    link.close()
print(opened, flush=True)
"""
BOBS = "for i in $(seq 20); do sbxctl run -c 'print(4)' || exit 1; done"


def measure(machine, unit):
    """Open descriptors and KiB of resident memory of a service's main process."""
    pid = machine.run(["systemctl", "show", "-P", "MainPID", unit], check=True).text.strip()
    look = f"ls /proc/{pid}/fd | wc -l; sed -n 's/^VmRSS:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/{pid}/status"
    fds, rss = machine.run(["sh", "-c", look], check=True).text.split()
    return pid, int(fds), int(rss)


# Descriptors that may be more than before. polkit 126 itself keeps one for each process that was an
# agent's; here that is one, however many dialogs it had.
SPARE = {"sbxctl-helper.service": 0, "polkit.service": 1}


def measure_all(machine):
    return {unit: measure(machine, unit) for unit in SPARE}


def holds(machine, before, growth_kib):
    """Both services are the same processes still, with no descriptor more."""

    def settled():
        return all(
            after[1] <= before[unit][1] + SPARE[unit] for unit, after in measure_all(machine).items()
        )

    machine.wait_for(settled, 10, f"descriptors to be closed: {before}, {measure_all(machine)}")
    for unit, (pid, _, rss) in measure_all(machine).items():
        assert pid == before[unit][0], unit
        assert rss < before[unit][2] + growth_kib, (unit, rss, before)


def abort(machine, cycles, dialogs, growth_kib):
    """Aborted calls without an agent and with one, while bob goes on with his work."""
    # What is grown once stays: the same in small comes first.
    machine.run(machine.python(CYCLES, 300), "alice", check=True, timeout=120)
    with Agent(machine, machine.python(DIALOGS, 20)) as agent:
        agent.end(120)
    machine.sbxctl(["run", "-c", "print(4)"], user="bob")
    before = measure_all(machine)
    bob = machine.popen(["sh", "-c", BOBS], user="bob")
    machine.run(machine.python(CYCLES, cycles), "alice", check=True, timeout=1200)
    with Agent(machine, machine.python(DIALOGS, dialogs)) as agent:
        agent.end(1200)
        opened = int(agent.output)
        agent.wait(lambda: len(agent.closed) == len(agent.asked), 30, "every dialog to be closed")
    assert 0 < opened <= dialogs, agent
    served = bob.finish(timeout=1200)
    assert (served.status, served.text) == (0, "4\n" * 20), served
    holds(machine, before, growth_kib)
    # No dialog is taken for open any more.
    script = Script(machine)
    with Agent(machine, script.run(*MORE_MEMORY)) as agent:
        agent.dialog()
        agent.grant()
        assert (agent.end().status, agent.output) == (0, "4\n"), agent


def test_fault_09_aborted_calls_leave_nothing(machine):
    abort(machine, 1000, 50, 4096)


@pytest.mark.long
def test_fault_09_ten_thousand_aborted_calls_leave_nothing(machine):
    abort(machine, 9000, 1000, 8192)


def test_bob_waits_for_no_dialog_of_alices(machine):
    with Agent(machine, Script(machine).run(*MORE_MEMORY)) as agent:
        agent.dialog()
        began = time.monotonic()
        done = machine.run(machine.python(CYCLES, 50), "bob", check=True)
        assert float(done.stdout) < 5, done
        plan = machine.sbxctl(["run", "--dry-run", "--json", *MORE_MEMORY, "-c", "1"], user="bob")
        assert json.loads(plan.stdout)["approvals"]["io.sbxctl.run-resources"] == "challenge"
        assert time.monotonic() - began < 30
        agent.dismiss()
        assert agent.end().status == 126, agent
