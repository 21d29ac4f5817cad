"""SIGKILL of engine and helper at each point of a run in the cloud: what costs money is removed as soon as the service is there again."""

import json

import pytest
from approvals import YES, remove_rules, set_rules
from e2b_engine import UNIT

pytestmark = pytest.mark.long  # whoever is killed has to come back

# What is made to take long, and how it is seen to have begun.
POINTS = {
    "create": {"on": "create", "do": "delay", "seconds": 3},
    "upload": {"on": "files.upload", "do": "delay", "seconds": 60},
    "run": {"on": "process.start", "do": "stall", "after": 1},
    "download": {"on": "process.start", "do": "delay", "seconds": 60, "skip": 1},
    "delete": {"on": "delete", "do": "delay", "seconds": 60},
}
VICTIMS = {
    "engine": lambda machine: machine.run(["systemctl", "kill", "--signal=KILL", UNIT], check=True),
    "helper": lambda machine: machine.run(["kill", "-9", str(machine.main_pid())], check=True),
}


@pytest.fixture(autouse=True, scope="module")
def cloud_is_allowed(machine):
    set_rules(machine, run_cloud=YES)
    yield
    remove_rules(machine)


def has_begun(cloud, fault):
    return cloud.operations().count(fault["on"]) > fault.get("skip", 0)


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("point", POINTS)
def test_no_kill_leaves_a_sandbox(machine, cloud, point, victim):
    fault = POINTS[point]
    cloud.fault(**fault)
    machine.run(["systemctl", "reset-failed", "sbxctl-helper.service", UNIT])
    running = machine.popen(["sbxctl", "run", "--engine", "e2b", "--json", "-c", "open('made', 'w').write('x')"], "alice")
    machine.wait_for(lambda: has_begun(cloud, fault), 20, f"the {point}")
    VICTIMS[victim](machine)
    cloud.call("DELETE", "/faults")
    machine.wait_for(lambda: len(cloud.call("GET", "/sandboxes")) == 1, 20, "the sandbox")
    cloud.wait_until_empty(45)
    told = running.finish()
    assert told.status != 0 or json.loads(told.stdout)["status"] in ("succeeded", "lost"), told
    # By somebody's asking, long before its own clock.
    (made,) = cloud.call("GET", "/sandboxes")
    assert made["how"] == "deleted" and made["ended"] - made["started"] < 45, made
    assert cloud.operations().count("create") == 1
