"""An interpreter that waits in its sandbox makes no difference to a script: the same scripts are run by one and by one that
was started for them, and what they print, how they end and which files they leave is compared."""

import base64
import json

import pytest
from engines import engine_of
from same_scripts import SCRIPTS, parts

# usage: WAITS, with the scripts on standard input, as root in the machine; prints what became of each. "script" is the name
# that code without a file has.
RUN = r"""
import base64, json, os, pathlib, shutil, subprocess, sys, tempfile, time

waits = sys.argv[1] == "waits"
USER = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "env", "HOME=/home/alice"]

def waiting():
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == b"python3\0/workspace/script\0" and (path.parent / "wchan").read_text() == "wait_for_partner":
                return True
        except OSError:
            pass

def prime():
    subprocess.run([*USER, "sbxctl", "run", "--quiet", "-c", "pass"], stdin=subprocess.DEVNULL, cwd="/", check=True)

def await_interpreter():
    for _ in range(6):  # a busy machine may fail to make a sandbox
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if waiting():
                return
            time.sleep(0.02)
        prime()
    raise TimeoutError("no interpreter waits")

def last_usage():
    listed = subprocess.run([*USER, "sbxctl", "ps", "--all", "--json"], capture_output=True, check=True, cwd="/")
    return json.loads(listed.stdout)["runs"][0]["usage"]

def decoded(data):
    return base64.b64decode(data)

def tree(top):
    return {str(path.relative_to(top)): [oct(path.lstat().st_mode), path.read_text("latin-1") if path.is_file() else ""]
            for path in sorted(top.rglob("*"))}

def run(code, stdin, files):
    top = pathlib.Path(tempfile.mkdtemp(dir="/home/alice"))
    try:
        (top / "in").mkdir()
        (top / "in/script").write_bytes(code)
        options = []
        for number, (name, content) in enumerate(files.items()):
            (top / f"in/{number}").write_bytes(content)
            options += ["--file", f"{top}/in/{number}:{name}"]
        subprocess.run(["chown", "-R", "1000:1000", top], check=True)
        if waits:
            await_interpreter()
        command = [*USER, "sbxctl", "run", "--quiet", "--language", "python", *options, "-o", f"{top}/out", f"{top}/in/script"]
        done = subprocess.run(command, input=stdin, capture_output=True, cwd="/", timeout=60)
        out = top / "out"
        usage = last_usage()
        return usage["warm"], usage["warmInterpreter"], {"status": done.returncode, "stdout": done.stdout.decode("latin-1"),
                "stderr": done.stderr.decode("latin-1").replace(str(top), "TOP"), "files": tree(out) if out.exists() else {}}
    finally:
        shutil.rmtree(top)

prime()
print(json.dumps({name: run(decoded(code), decoded(stdin), {n: decoded(c) for n, c in files.items()})
                  for name, (code, stdin, files) in json.load(sys.stdin).items()}))
"""
# What has to be started for its script, as it would see a difference, or its script is too long.
NOT_WAITED_FOR = {
    "is longer than a pipe",
    "has bytes that are none",
    "has a NUL",
    "says its encoding",
    "says UTF-8",
    "has a byte order mark",
    "has a user's site",
}


def encoded(data):
    return base64.b64encode(data).decode()


def run_all(machine, way):
    """Of each script: whether it found a sandbox and an interpreter at hand, and what became of it."""
    scripts = {}
    for name, entry in SCRIPTS.items():
        code, stdin, files = parts(entry)
        scripts[name] = [encoded(code), encoded(stdin), {n: encoded(c) for n, c in files.items()}]
    done = machine.run(["python3", "-c", RUN, way], input=json.dumps(scripts).encode(), timeout=400)
    assert done.status == 0, done.errors
    return json.loads(done.stdout)


def test_no_script_can_tell_an_interpreter_that_waited_from_one_that_was_started_for_it(machine):
    with machine.configured("[Pool]\nSize=1\n[Helper]\nIdleExit=600s\n"):
        waited = run_all(machine, "waits")
    with machine.configured("[Pool]\nSize=0\n[Helper]\nIdleExit=600s\n"):
        started = run_all(machine, "started")
    assert not any(warm or interpreter for warm, interpreter, _ in started.values())
    assert {name for name, (_, interpreter, _) in waited.items() if not interpreter} == NOT_WAITED_FOR
    assert len(SCRIPTS) - len(NOT_WAITED_FOR) >= 60
    different = {name: (waited[name][2], started[name][2]) for name in SCRIPTS if waited[name][2] != started[name][2]}
    assert not different, json.dumps(different, indent=1)


def test_each_run_has_hashes_of_its_own(machine):
    with machine.configured("[Pool]\nSize=1\n"):
        said = set()
        for _ in range(4):
            result = machine.run(["sbxctl", "run", "--quiet", "-c", "print(hash('x'))"], user="alice")
            said.add(result.text)
    assert len(said) == 4


@pytest.mark.parametrize(
    "options",
    [["--env", "A=B"], ["--language", "shell"], ["--memory", "256M"]],
    ids=["environment", "language", "memory"],
)
def test_a_run_that_says_more_has_an_interpreter_started_for_it(machine, options):
    with machine.configured("[Pool]\nSize=1\n"):
        machine.run(["sbxctl", "run", "--quiet", "-c", "pass"], user="alice", check=True)
        machine.wait_for(lambda: machine.run(["pgrep", "-f", "^python3 /workspace/script$"]).status == 0, 20, "an interpreter")
        code = "echo 4" if "shell" in options else "print(4)"
        result = machine.run(["sbxctl", "run", "--quiet", *options, "-c", code], user="alice", check=True)
        assert "4" in result.text
        runs = json.loads(machine.sbxctl(["ps", "--all", "--json"]).stdout)["runs"]
        assert not runs[0]["usage"]["warmInterpreter"]


def test_the_interpreter_can_be_had_without(machine):
    with machine.configured("[Pool]\nSize=1\nInterpreter=no\n"):
        machine.run(["sbxctl", "run", "--quiet", "-c", "pass"], user="alice", check=True)
        machine.wait_for(lambda: any("sbxctl-launch" in line for line in engine_of(machine).processes()), 20, "a sandbox")
        assert machine.run(["pgrep", "-f", "^python3 /workspace/script$"]).status != 0
