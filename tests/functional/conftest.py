"""The test machine as the functional tests see it.

Tests get the fixture `machine` and talk to the booted machine through tests/machine/exec only, or, with
--virtual-machine, to the other one through tests/vm/exec.
Nothing here may sleep but Machine.wait_for, and nothing may touch the host.
"""

import contextlib
import json
import pathlib
import shlex
import subprocess
import textwrap
import time
import uuid

import docker_engine
import e2b_engine
import engines
import pytest

TESTS = pathlib.Path(__file__).parents[1]

# Modules of this directory that run in the machine, and where they lie there.
INSIDE = (
    "double_listener.py",
    "egress_client.py",
    "egress_double.py",
    "engine_client.py",
    "engine_double.py",
    "package_index.py",
    "varlink_client.py",
)
MODULES = "/run/sbxctl-test-modules"
# Tests count sandboxes and processes: none is to wait for nobody but in the tests of just that.
NO_POOL = "/etc/sbxctl/sbxctl.conf.d/65-test-pool.conf"

# Runs sys.argv[1] times the same in a sandbox and without one, in turn. Prints how many times longer the
# first takes, by medians: so a busy host counts on both sides.
SLOWNESS = """
import json, statistics, subprocess, sys, time

def timed(*command):
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=True)
    return time.monotonic() - began, done.stdout

runs, bare = [], []
for _ in range(int(sys.argv[1])):
    runs.append(timed("sbxctl", "run", "--json", "-c", "print(4)"))
    bare.append(timed("python3", "-c", "print(4)"))
ids = [json.loads(output)["id"] for _, output in runs]
subprocess.run(["sbxctl", "rm", *ids], check=True, stdout=subprocess.DEVNULL)
print(statistics.median(t for t, _ in runs) / statistics.median(t for t, _ in bare))
"""


class Result:
    """How a command in the machine ended. `text` is stdout, decoded; `errors` is stderr, decoded."""

    def __init__(self, argv, status, stdout, stderr):
        self.argv = argv
        self.status = status
        self.stdout = stdout
        self.stderr = stderr

    @property
    def text(self):
        return self.stdout.decode("utf-8", "backslashreplace")

    @property
    def errors(self):
        return self.stderr.decode("utf-8", "backslashreplace")

    def __repr__(self):
        command = shlex.join(str(word) for word in self.argv)
        return f"<{command}: status {self.status}, stdout {self.stdout!r}, stderr {self.stderr!r}>"


class Running:
    """A command that goes on in the machine. Signals go to the command itself, not to the host's
    `docker exec`, whose death the command would not notice."""

    def __init__(self, machine, popen, pid_file):
        self.machine = machine
        self.popen = popen
        self._pid_file = pid_file

    @property
    def pid(self):
        """The process id inside the machine."""
        return int(
            self.machine.wait_for(
                lambda: self.machine.run(["cat", self._pid_file]).text.strip(),
                timeout=10,
                what="the command to start",
            )
        )

    def signal(self, name):
        self.machine.run(["kill", "-s", name, str(self.pid)], check=True)

    def finish(self, input=None, timeout=60):
        stdout, stderr = self.popen.communicate(input, timeout * self.machine.patience)
        return Result(self.popen.args, self.popen.returncode, stdout, stderr)


class Machine:
    # Every time limit of a test is multiplied by it.
    patience = 1

    def __init__(self, *entry, engine=None):
        """`entry` is the command that runs others in the machine, without its options. With `engine`,
        each `sbxctl run` that names none uses it instead of the machine's default."""
        self._entry = [str(word) for word in entry]
        self.engine = engine

    def _command(self, argv, user, tty=False):
        if self.engine and list(argv[:2]) == ["sbxctl", "run"] and "--engine" not in argv:
            argv = ["sbxctl", "run", "--engine", self.engine, *argv[2:]]
        return [
            *self._entry,
            "--user",
            user or "root",
            *(["--tty"] if tty else []),
            "--",
            *argv,
        ]

    def run(self, argv, user=None, input=None, timeout=60, check=False, tty=False):
        """Runs a command as root or `user`. Without input it reads end of file. With `check`,
        a status other than 0 fails the test."""
        stdin = {"input": input} if input is not None else {"stdin": subprocess.DEVNULL}
        done = subprocess.run(
            self._command(argv, user, tty),
            capture_output=True,
            timeout=timeout * self.patience,
            **stdin,
        )
        result = Result(argv, done.returncode, done.stdout, done.stderr)
        assert not check or result.status == 0, result
        return result

    def popen(self, argv, user=None, silent=False):
        """Starts a command and returns at once; stdin, stdout and stderr are pipes, which somebody has to read.
        A `silent` one has no output."""
        pid_file = f"/tmp/pid-{uuid.uuid4()}"
        entry = self._command(argv, user)
        at = entry.index("--") + 1
        output = " >/dev/null 2>&1" if silent else ""
        wrapped = ["sh", "-c", f'echo $$ >"$0"; exec "$@"{output}', pid_file]
        popen = subprocess.Popen(
            [*entry[:at], *wrapped, *entry[at:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        return Running(self, popen, pid_file)

    def write(self, path, content, user=None):
        self.run(["sh", "-c", 'cat >"$0"', path], user, input=content, check=True)

    def read(self, path, user=None):
        return self.run(["cat", "--", path], user, check=True).stdout

    def python(self, code, *arguments):
        """The command of a program in the machine, which can import the modules of INSIDE."""
        environment = [f"PYTHONPATH={MODULES}", "PYTHONDONTWRITEBYTECODE=1"]
        return ["env", *environment, "python3", "-c", textwrap.dedent(code), *map(str, arguments)]

    def install_modules(self):
        self.run(["mkdir", "-p", MODULES], check=True)
        for name in INSIDE:
            self.write(f"{MODULES}/{name}", pathlib.Path(__file__).with_name(name).read_bytes())

    def directory(self, user="alice"):
        """A fresh directory in that user's home."""
        made = self.run(["mktemp", "-d", f"/home/{user}/test-XXXXXX"], user, check=True)
        return made.text.strip()

    def script(self, text, name="script.py", user="alice"):
        """Writes a script into a fresh directory of the user and returns its path."""
        path = f"{self.directory(user)}/{name}"
        self.write(path, text.encode() if isinstance(text, str) else text, user)
        return path

    def journal(self, *matches):
        """The journal's entries that match, oldest first, e.g. journal("SBXCTL_RUN_ID=...")."""
        self.run(["journalctl", "--sync"], check=True)
        lines = self.run(["journalctl", "--output=json", "--all", "--no-pager", *matches]).stdout
        return [json.loads(line) for line in lines.splitlines()]

    def wait_for(self, predicate, timeout, what):
        """Polls until the predicate returns something true, and returns that."""
        timeout *= self.patience
        deadline = time.monotonic() + timeout
        while not (value := predicate()):
            assert time.monotonic() < deadline, f"waited {timeout} s in vain for {what}"
            time.sleep(0.05)
        return value

    def sbxctl(self, args, user="alice", input=None, timeout=60, tty=False):
        return self.run(["sbxctl", *args], user, input, timeout, tty=tty)

    def slowness(self, number, user="alice"):
        """How many times longer a short run takes than the bare interpreter, by the medians of so
        many of each. The results are removed again."""
        command = ["python3", "-c", SLOWNESS, str(number)]
        return float(self.run(command, user, timeout=20 + 2 * number, check=True).text)

    def main_pid(self, unit="sbxctl-helper.service"):
        """The main process of a service; 0 if it does not run."""
        return int(self.run(["systemctl", "show", "-P", "MainPID", unit], check=True).text)

    def descriptors(self, pid):
        """How many that process has open."""
        return len(self.run(["ls", f"/proc/{pid}/fd"], check=True).text.split())

    def memory(self, pid, field="VmRSS"):
        """That process's memory in KiB, by a field of /proc/<pid>/status; VmHWM is the peak."""
        status = self.read(f"/proc/{pid}/status").decode()
        return int(next(line for line in status.splitlines() if line.startswith(field)).split()[1])

    @contextlib.contextmanager
    def configured(self, text, name="90-test"):
        """The helper with one more drop-in, as long as the context lasts."""
        path = f"/etc/sbxctl/sbxctl.conf.d/{name}.conf"
        self.write(path, text.encode())
        try:
            self.restart_helper()
            yield
        finally:
            self.run(["rm", path], check=True)
            self.restart_helper()

    def restart_helper(self):
        """It starts anew when somebody connects, however often that was in a short time."""
        self.run(["systemctl", "stop", "sbxctl-helper.service"], check=True)
        self.run(["systemctl", "reset-failed", "sbxctl-helper.service"])

    def run_json(self, args, user="alice", input=None, timeout=60):
        """The result object of `sbxctl run --json`, however the run ended."""
        result = self.sbxctl(["run", "--json", *args], user, input, timeout)
        try:
            return json.loads(result.stdout)
        except ValueError:
            pytest.fail(f"not a JSON result: {result}")


class VirtualMachine(Machine):
    # Its processor is emulated.
    patience = 10


def pytest_addoption(parser):
    parser.addoption("--machine-release", default="trixie", help="which test machine to use")
    parser.addoption("--engine", help="let runs that name no engine use this one")
    parser.addoption("--pool", action="store_true", help="leave the pool of waiting sandboxes as it is")
    parser.addoption("--virtual-machine", action="store_true", help="use the one of tests/vm instead")


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes minutes; runs with `tests/run --all` only")


def pytest_collection_modifyitems(config, items):
    not_over = engines.NOT_OVER.get(config.getoption("--engine"), ())
    left_out = [item for item in items if item.name in not_over]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item.name not in not_over]


@pytest.fixture(scope="session")
def machine(request):
    engine = request.config.getoption("--engine")
    if request.config.getoption("--virtual-machine"):
        machine = VirtualMachine(TESTS / "vm" / "exec", engine=engine)
    else:
        release = request.config.getoption("--machine-release")
        machine = Machine(TESTS / "machine" / "exec", "--release", release, engine=engine)
    answer = machine.run(["true"])
    if answer.status != 0:
        pytest.exit(answer.errors, returncode=1)
    machine.install_modules()
    if not request.config.getoption("--pool"):
        request.addfinalizer(lambda: machine.run(["rm", "-f", NO_POOL]))
        machine.write(NO_POOL, b"[Pool]\nSize=0\n")
        machine.restart_helper()
    if engine == "docker":
        docker_engine.use_machine_as_image(machine)
    if engine == "e2b":
        with e2b_engine.for_all_runs(machine):
            yield machine
    else:
        yield machine


@pytest.fixture(scope="module")
def standing_cloud(machine):
    with e2b_engine.cloud(machine) as cloud:
        yield cloud


@pytest.fixture
def cloud(standing_cloud):
    """E2B's cloud as far as the machine can tell, with nothing in it and no fault."""
    standing_cloud.reset()
    return standing_cloud
