"""Each part of the machine that a run hangs on is killed, stopped for a while and restarted in each phase of a run. Whatever was
hit: nothing stays behind, what is told about the run is true, what a finished program made is kept, and the next run works."""

import time

import docker_engine
import pytest
from crash_phases import PHASES
from engines import Docker, Systemd
from file_faults import preloaded

# What systemd or the caller does with it.
FAULTS = ("kill", "stop", "restart")
STOPPED = 20  # seconds
PATIENCE = 10  # seconds in which all must be true

# How a run may end whose client, broker, ... was hit; "none" for one that never was a run. Where nothing is said it succeeds.
ENDED = {"cancelled", "lost", "killed"}
NEVER_RAN = {"none", "denied"}


class Component:
    """A part that can be hit. `unit` is the service that is restarted."""

    def __init__(self, unit=None):
        self.unit = unit

    def pids(self, machine, held):
        pid = machine.main_pid(self.unit)
        return [pid] if pid else []

    def restart(self, machine, held):
        machine.run(["systemctl", "restart", self.unit], check=True)


class Client(Component):
    def pids(self, machine, held):
        return [held.pid]

    def restart(self, machine, held):
        machine.run(["kill", "-TERM", str(held.pid)])


class Engine(Component):
    """The service with all its processes."""

    def pids(self, machine, held):
        return held.engine.service_pids()

    def restart(self, machine, held):
        machine.run(["systemctl", "restart", held.engine.service], check=True)


class Launcher(Component):
    """That of the run, where there is one; nobody restarts it, so it's asked to end."""

    def pids(self, machine, held):
        units = held.engine.sandboxes()
        return [pid for unit in units if (pid := machine.main_pid(unit))]

    def restart(self, machine, held):
        if pids := self.pids(machine, held):
            machine.run(["kill", "-TERM", *map(str, pids)])


COMPONENTS = {
    "client": Client(),
    "broker": Component("sbxctl-helper.service"),
    "engine": Engine(),
    "launcher": Launcher(),
    "dockerd": Component("docker.service"),
    "journald": Component("systemd-journald.service"),
    "polkitd": Component("polkit.service"),
}
UNITS = ("sbxctl-helper.service", "docker.service", "polkit.service", "systemd-journald.service")


class SystemdEngine(Systemd):
    options = ("--engine", "systemd")

    def service_pids(self):
        pid = self.main_pid()
        return [pid, *self.children()] if pid else []


class DockerEngine(Docker):
    options = ("--engine", "docker")
    service_pids = SystemdEngine.service_pids

    def nothing_left(self):
        # A daemon that was hit may need some time.
        return self.machine.run(["docker", "info"]).status == 0 and super().nothing_left()


@pytest.fixture(scope="module")
def double(machine):
    with preloaded(machine) as double:
        yield double


@pytest.fixture(scope="module")
def engines(machine):
    made = {"systemd": SystemdEngine(machine)}

    def get(name):
        if name == "docker" and name not in made:
            docker_engine.use_machine_as_image(machine)
            made[name] = DockerEngine(machine)
        return made[name]

    return get


def hit(machine, component, fault, held):
    """Returns when the part is back, or gone for good."""
    if fault == "restart":
        component.restart(machine, held)
        return
    pids = [str(pid) for pid in component.pids(machine, held)]
    if not pids:
        return
    machine.run(["kill", f"-{fault.upper()}", *pids], check=True)
    if fault == "stop":
        time.sleep(STOPPED)  # the fault itself
        machine.run(["kill", "-CONT", *pids], check=True)


def expected(name, fault, phase):
    """The set of words of which one is how the run ends."""
    finished = phase in ("collecting", "recording")
    if fault == "stop":
        return {"succeeded"}
    if name == "client":
        return {"succeeded"} if finished else NEVER_RAN if phase == "approving" else ENDED
    if name == "broker":
        # The next one saves what is to be saved.
        if finished:
            return {"succeeded"}
        return NEVER_RAN if phase == "approving" else ENDED
    if name == "engine" and phase == "starting":
        # The one that comes next takes what the last one has not.
        return {"succeeded"}
    if name == "engine" and phase == "running":
        return {"lost", "killed"}
    if name == "launcher" and phase == "running" and fault == "kill":
        return {"lost", "killed"}
    if name == "dockerd" and phase in ("starting", "running"):
        return {"succeeded", "lost", "killed", "failed", "rejected"}
    if name == "polkitd" and phase == "approving":
        return NEVER_RAN
    return {"succeeded"}


def is_over(held):
    run = held.result()
    return run is None or run["status"] not in ("queued", "starting", "running")


def nothing_left(machine, held):
    return held.engine.nothing_left() and machine.run(["ls", "-A", "/var/lib/sbxctl/staging"], check=True).text == ""


def check(machine, name, fault, phase, held):
    machine.wait_for(lambda: is_over(held), PATIENCE, "the run's end")
    ended = held.finish()
    run = held.result()
    status = run["status"] if run else "none"
    assert status in expected(name, fault, phase), (run, ended)
    client_lives = not (name == "client" and fault != "stop") and not (name == "broker" and fault != "stop")
    if status == "succeeded":
        assert machine.read(f"{run['outputDirectory']}/files/out", user="alice") == b"whole"
        assert machine.read(f"{run['outputDirectory']}/stdout", user="alice") == b"up\ndone\n"
    if client_lives:
        assert (ended.status == 0) == (status == "succeeded"), (run, ended)
    machine.wait_for(lambda: nothing_left(machine, held), PATIENCE, "everything of the run to be gone")
    machine.wait_for(
        lambda: machine.sbxctl(["run", *held.engine.options, "-c", "print(4)"]).text == "4\n", PATIENCE, "the next run to work"
    )


def run_cell(machine, double, engines, name, fault, phase):
    machine.run(["systemctl", "reset-failed", *UNITS])
    engine = engines("docker" if name == "dockerd" else "systemd")
    with PHASES[phase](machine, engine, double) as held:
        try:
            hit(machine, COMPONENTS[name], fault, held)
        finally:
            held.release()
        check(machine, name, fault, phase, held)


# Where most was found: a run's own chain, and those whose answers it waits for.
FAST = [
    ("broker", "kill", "queued"),
    ("broker", "kill", "collecting"),
    ("broker", "kill", "recording"),
    ("broker", "restart", "running"),
    ("engine", "kill", "starting"),
    ("launcher", "kill", "running"),
    ("client", "kill", "collecting"),
    ("journald", "kill", "running"),
    ("polkitd", "kill", "approving"),
]


def ids(cell):
    return "-".join(cell)


@pytest.mark.parametrize("cell", FAST, ids=ids)
def test_what_is_hit_leaves_nothing_and_the_truth(machine, double, engines, cell):
    run_cell(machine, double, engines, *cell)


REST = [
    cell for cell in ((name, fault, phase) for name in COMPONENTS for phase in PHASES for fault in FAULTS) if cell not in FAST
]


@pytest.mark.long  # half of them stop something for 20 s
@pytest.mark.parametrize("cell", REST, ids=ids)
def test_whatever_is_hit_leaves_nothing_and_the_truth(machine, double, engines, cell):
    run_cell(machine, double, engines, *cell)
