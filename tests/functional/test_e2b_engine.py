"""The E2B engine by its own protocol, against a stand-in for E2B's cloud that really runs the code."""

import json

import e2b_engine
import pytest

# What one run asks of the cloud.
STRAIGHT = ["create", "get", "files.upload", "process.start", "process.start", "delete", "get"]


@pytest.fixture(scope="module")
def standing(machine):
    with e2b_engine.cloud(machine) as cloud:
        yield cloud


@pytest.fixture
def cloud(standing):
    standing.reset()
    return standing


def inside(machine, code, *arguments, timeout=60):
    """Runs a program as the broker's user against the engine; it prints one JSON value."""
    command = ["setpriv", "--reuid=sbxctl", "--regid=sbxctl", "--clear-groups", "env", "ENGINE=e2b"]
    result = machine.run([*command, *machine.python(code, *arguments)], timeout=timeout)
    assert result.status == 0, result
    return json.loads(result.stdout)


def test_run_goes_there_and_its_files_come_home(machine, cloud):
    told = inside(machine, """
        import json, os
        from engine_client import *
        with Sandbox() as sandbox:
            done = sandbox.put("script.py", b"import sys; open('out.txt', 'w').write(open('in.txt').read().upper()); "
                                            b"print('to stdout'); print('to stderr', file=sys.stderr); sys.exit(3)", 0o755)
            sandbox.put("in.txt", b"some input")
            output = sandbox.run(["python3", "script.py"])
            files = sorted(os.listdir(sandbox.workspace))
            content = open(os.open("out.txt", os.O_RDONLY, dir_fd=sandbox.workspace)).read()
            ended = sandbox.kill()
            print(json.dumps([output.exited, output.stdout.decode(), output.stderr.decode(), files, content, ended,
                              [p["phase"] for p in sandbox.progress]]))
    """)
    exited, stdout, stderr, files, content, ended, phases = told
    assert exited[:2] == [1, 3]
    assert (stdout, stderr) == ("to stdout\n", "to stderr\n")
    assert files == ["in.txt", "out.txt", "script.py"]
    assert content == "SOME INPUT"
    assert ended["why"] == "exit" and ended["cleaned"]
    assert phases == ["create"]
    cloud.wait_until_empty()
    machine.wait_for(lambda: len(cloud.operations()) >= len(STRAIGHT), 10, "the last of the requests")
    assert cloud.operations() == STRAIGHT
