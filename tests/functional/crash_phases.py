"""Runs that are held in one phase of their life, for the tests that kill something meanwhile. Each phase is a context that gives a
Held; `release` lets the run go on, if it still can."""

import contextlib
import json
import uuid

from agent import Agent

# What comes of it is whole only if it was not ended before.
PROGRAM = """
import sys
print("up", flush=True)
sys.stdin.readline()
open("out", "w").write("whole")
print("done")
"""
SLEEP = "import time; print('up', flush=True); time.sleep(600)"


class Held:
    """One run with its client. `release` may be called once."""

    def __init__(self, machine, engine):
        self.machine = machine
        self.engine = engine
        self.name = f"{uuid.uuid4().hex}.py"
        self.script = machine.script(PROGRAM, self.name)
        self.command = ["sbxctl", "run", *engine.options, self.script]
        self.let_go = lambda: None
        self.running = self.ended = None

    def start(self):
        self.running = self.machine.popen(self.command, user="alice")
        return self

    @property
    def pid(self):
        return self.running.pid

    def is_up(self):
        assert self.running.popen.stdout.readline() == b"up\n"

    def release(self):
        self.let_go()
        self.go_on()

    def go_on(self):
        """Lets the program end."""
        with contextlib.suppress(BrokenPipeError):
            self.running.popen.stdin.write(b"\n")
            self.running.popen.stdin.flush()

    def finish(self):
        """How the client ended; one that is there still gets some time."""
        self.ended = self.ended or self.running.finish(timeout=30)
        return self.ended

    def result(self):
        """What the helper tells about the run; None if there never was one."""
        listed = self.machine.sbxctl(["ps", "--all", "--json"])
        runs = json.loads(listed.stdout).get("runs", []) if listed.status == 0 else []
        return next((run for run in runs if run.get("scriptName") == self.name), None)

    def is_in(self, status):
        run = self.result()
        return run and run["status"] == status


class HeldByAgent(Held):
    """One whose approval waits for a person."""

    def start(self):
        self.command[2:2] = ["--memory", "600M"]
        self.agent = Agent(self.machine, self.command)
        self.agent.input("\n")
        self.agent.dialog()
        self.let_go = self.agent.grant
        return self

    @property
    def pid(self):
        return self.agent.pid

    def go_on(self):
        """It has its input already, which one that ended could not be given."""

    def finish(self):
        self.agent.end(30)
        self.agent.__exit__()
        return self.agent


@contextlib.contextmanager
def stopped(machine, pids):
    """Processes that do nothing as long as the context lasts, but for being killed."""
    try:
        machine.run(["kill", "-STOP", *map(str, pids)], check=True)
        yield
    finally:
        machine.run(["kill", "-CONT", *map(str, pids)])


@contextlib.contextmanager
def queued(machine, engine, double):
    with machine.configured("[Queue]\nRunsPerUser=1\n"):
        first = machine.popen(["sbxctl", "run", *engine.options, "-c", SLEEP], user="alice")
        assert first.popen.stdout.readline() == b"up\n"
        held = Held(machine, engine).start()
        machine.wait_for(lambda: held.is_in("queued"), 10, "the run to wait")
        # It may be gone with what was hit.
        held.let_go = lambda: machine.run(["kill", "-KILL", str(first.pid)])
        yield held
        first.finish()


@contextlib.contextmanager
def approving(machine, engine, double):
    yield HeldByAgent(machine, engine).start()


@contextlib.contextmanager
def starting(machine, engine, double):
    # It is there once something has asked it.
    machine.sbxctl(["run", *engine.options, "-c", "print(4)"])
    with contextlib.ExitStack() as stack:
        stack.enter_context(stopped(machine, [engine.main_pid()]))
        # The last run's may just be ending; now it stays until it is reaped, and can be stopped.
        if children := engine.children():
            stack.enter_context(stopped(machine, children))
        held = Held(machine, engine).start()
        held.let_go = stack.close
        machine.wait_for(lambda: held.is_in("starting"), 10, "the run to start")
        yield held


@contextlib.contextmanager
def running(machine, engine, double):
    held = Held(machine, engine).start()
    held.is_up()
    yield held


@contextlib.contextmanager
def collecting(machine, engine, double):
    held = Held(machine, engine).start()
    held.is_up()
    stores = machine.run(["pgrep", "-P", str(machine.main_pid())], check=True).text.split()
    with contextlib.ExitStack() as stack:
        stack.enter_context(stopped(machine, stores))
        held.go_on()
        machine.wait_for(engine.nothing_left, 20, "the program to end")
        held.let_go = stack.close
        yield held


@contextlib.contextmanager
def recording(machine, engine, double):
    """All is saved; the index is not told yet."""
    held = Held(machine, engine).start()
    held.is_up()
    # Not the one that comes after it.
    double.plan("broker", "rename,overwrite", ".json", mode="wait", pid=machine.main_pid())
    held.go_on()
    machine.wait_for(double.is_held, 20, "the broker to write its record")
    held.let_go = double.clear
    yield held


PHASES = {phase.__name__: phase for phase in (queued, approving, starting, running, collecting, recording)}
