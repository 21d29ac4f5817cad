"""The connections that wait for runs which no sandbox waits for: one to the engine, one to the egress service."""

import contextlib

import pytest

from approvals import YES, rules
from engines import engine_of

COLD = ["--memory", "511M"]
READS = ["-c", "print('up', flush=True); input()"]


@pytest.fixture(scope="module")
def engine(machine):
    with machine.configured("[Pool]\nSize=1\nKeepTime=10min\n[Helper]\nIdleExit=600s\n"), rules(machine, run_network=YES):
        yield engine_of(machine)


def children(machine, service):
    """Process ids of its connections."""
    pid = machine.run(["systemctl", "show", "-P", "MainPID", f"sbxctl-{service}.service"], check=True).text.strip()
    return machine.run(["pgrep", "-P", pid]).text.split() if pid != "0" else []


def wait_for_spare(machine, service, *over):
    """The process behind the one connection, as soon as those that are `over` are gone."""

    def spare():
        pids = children(machine, service)
        return len(pids) == 1 and pids[0] not in over and pids[0]

    return machine.wait_for(spare, 20, f"one connection to wait at {service}")


def prime(machine, service, *options):
    machine.restart_helper()
    machine.wait_for(lambda: not children(machine, service), 20, "nothing to wait")
    assert machine.sbxctl(["run", *COLD, *options, "-c", "print(4)"]).text == "4\n"
    return wait_for_spare(machine, service)


@contextlib.contextmanager
def running(machine, *options):
    program = machine.popen(["sbxctl", "run", *options, *READS], user="alice")
    assert program.popen.stdout.readline() == b"up\n"
    try:
        yield
    finally:
        program.finish(input=b"\n")


SERVICES = [pytest.param("engine-{}", [], id="engine"), pytest.param("egress", ["--network"], id="egress")]


@pytest.mark.parametrize("service, options", SERVICES)
def test_a_run_has_the_connection_that_waits_and_another_one_is_made(machine, engine, service, options):
    service = service.format(engine.name)
    first = prime(machine, service, *options)
    with running(machine, *COLD, *options):
        assert first in children(machine, service)
    second = wait_for_spare(machine, service, first)
    with running(machine, *COLD, *options):
        assert second in children(machine, service)
    wait_for_spare(machine, service, first, second)


@pytest.mark.parametrize("service, options", SERVICES)
def test_one_whose_service_ended_is_none(machine, engine, service, options):
    service = service.format(engine.name)
    first = prime(machine, service, *options)
    machine.run(["systemctl", "kill", "-s", "KILL", f"sbxctl-{service}.service"], check=True)
    machine.wait_for(lambda: first not in children(machine, service), 10, "the service to end")
    assert machine.sbxctl(["run", *COLD, *options, "-c", "print(4)"]).text == "4\n"
    wait_for_spare(machine, service, first)


def test_none_is_kept_for_longer_nor_keeps_the_helper(machine, engine):
    with machine.configured("[Pool]\nSize=1\nKeepTime=3s\n[Helper]\nIdleExit=1s\n", name="91-test"):
        services = [f"engine-{engine.name}", "egress"]
        assert machine.sbxctl(["run", *COLD, "--network", "-c", "print(4)"]).text == "4\n"
        for service in services:
            wait_for_spare(machine, service)
        pid = machine.main_pid()
        machine.wait_for(lambda: not any(children(machine, service) for service in services), 15, "nothing to wait")
        machine.wait_for(lambda: machine.main_pid() != pid, 10, "the helper to exit")


def test_without_a_pool_none_waits(machine, engine):
    with machine.configured("[Pool]\nSize=0\n", name="91-test"):
        assert machine.sbxctl(["run", *COLD, "--network", "-c", "print(4)"]).text == "4\n"
        for service in (f"engine-{engine.name}", "egress"):
            machine.wait_for(lambda service=service: not children(machine, service), 10, "nothing to wait")
