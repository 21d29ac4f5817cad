"""A disk that is full, or fails, at each place where the helper writes: the run gets an honest end, nothing half-written passes for
whole, and the helper goes on."""

import errno
import json

import pytest
from file_faults import preloaded

# Runs one script again and again, each time after `sh -c` of the next step, and tells what there is then. In the machine, since
# there are many steps. What the script makes is the same each time.
PROBE = r"""
import json, os, pathlib, subprocess, sys, time

STATE = pathlib.Path("/var/lib/sbxctl")
SCRIPT = '''
import sys
for name in "abc":
    open(name, "w").write(name * 5000)
print("x" * 3000)
print("e" * 2000, file=sys.stderr)
'''

def sh(command):
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout

def sbxctl(*words):
    done = subprocess.run(["runuser", "-u", "alice", "--", "sbxctl", *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    try:
        return done.returncode, json.loads(done.stdout)
    except ValueError:
        return done.returncode, {"text": done.stdout, "errors": done.stderr}

def kept(directory):
    # Every file with its size and whether all of it is one character, as the script wrote it.
    found = {}
    for path in pathlib.Path(directory).rglob("*"):
        if path.is_file():
            found[str(path.relative_to(directory))] = [path.stat().st_size, len(set(path.read_bytes()) - {10})]
    return found

def pid():
    return sh("systemctl show -P MainPID sbxctl-helper.service").strip()

def staged():
    # What is left there, after some time for the store to remove it.
    end = time.monotonic() + 5
    while (left := os.listdir(STATE / "staging")) and time.monotonic() < end:
        time.sleep(0.05)
    return left

def look(result):
    run_json = None
    directory = result.get("outputDirectory")
    files = kept(directory) if directory and os.path.isdir(directory) else None
    if files and "run.json" in files:
        try:
            run_json = json.loads(pathlib.Path(directory, "run.json").read_text())["status"]
        except ValueError:
            run_json = "torn"
    return {"files": files, "run_json": run_json}

steps, after = json.loads(sys.argv[1])
sbxctl("policy")
told = []
for step in steps:
    before = pid()
    sh(step)
    status, result = sbxctl("run", "--json", "-c", SCRIPT)
    sh(after)
    seen = {"step": step, "exit": status, "result": result, **look(result), "same": pid() == before}
    if "id" in result:
        seen["shown"] = sbxctl("show", "--json", result["id"])[1]
    seen["staging"] = staged()
    answer = sbxctl("run", "--json", "-c", "print(4)")[1]
    seen["next"] = answer.get("status") or answer
    told.append(seen)
sh("systemctl stop sbxctl-helper.service")
for seen in told:
    if "id" in seen["result"]:
        seen["again"] = sbxctl("show", "--json", seen["result"]["id"])[1]
print(json.dumps(told))
"""

FILES = {name: 5000 for name in "abc"}
NOT_RUN = {"io.sbxctl.Sandbox.Failed", "io.sbxctl.Sandbox.AuditUnavailable", "io.sbxctl.Sandbox.QuotaExceeded"}


def probe(machine, steps, after):
    done = machine.run(machine.python(PROBE, json.dumps([steps, after])), timeout=20 + 4 * len(steps))
    assert done.status == 0, done
    return json.loads(done.text)


def check_whole(seen):
    """A result's files are those that the script made, or are named as missing; what is told of them is so."""
    result, files = seen["result"], seen["files"]
    listed = {file["name"]: file["bytes"] for file in result.get("files", [])}
    assert all(FILES[name] == size for name, size in listed.items()), seen
    if files is None:
        assert not result.get("outputDirectory") and not listed and "could not be saved" in result.get("hint", ""), seen
        return
    if result["status"] == "succeeded":
        missing = {file["name"] for file in result.get("skippedFiles", [])}
        assert set(listed) | missing == set(FILES), seen
    assert seen["run_json"] == result["status"], seen
    assert {name: files.get(f"files/{name}") for name in listed} == {name: [5000, 1] for name in listed}, seen
    assert {name for name in files if name.startswith("files/")} == {f"files/{name}" for name in listed}, seen
    for name, size in (("stdout", 3001), ("stderr", 2001)):
        stream = result[name]
        assert files.get(name, [0])[0] == stream["keptBytes"] and stream["bytes"] == size, seen
        assert stream["truncated"] == (stream["keptBytes"] < size), seen


def check(seen):
    assert seen["same"], f"the helper ended: {seen}"
    assert seen["staging"] == [] and seen["next"] == "succeeded", (seen["step"], seen["staging"], seen["next"])
    result = seen["result"]
    if "status" not in result:
        assert result.get("error") in NOT_RUN and result["reason"] and seen["exit"] == 125, seen
        return
    assert result["reason"] and seen["exit"] == {"succeeded": 0}.get(result["status"], 125), seen
    check_whole(seen)
    assert seen["shown"].get("status") == result["status"], seen
    # What could not be written may be lost, and is said to be.
    assert seen["again"].get("status") in (result["status"], "lost"), seen


def is_plain(seen):
    result = seen["result"]
    return result.get("status") == "succeeded" and len(result.get("files", [])) == 3 and not result["stdout"]["truncated"]


# ---- disks that are really full


@pytest.fixture
def small_disk(machine):
    """/var/lib/sbxctl is a small file system of its own."""
    machine.run(["systemctl", "stop", "sbxctl-helper.service"], check=True)
    machine.run(["mount", "-t", "tmpfs", "-o", "size=4m,nr_inodes=400,mode=0711", "tmpfs", "/var/lib/sbxctl"], check=True)
    machine.run(["chown", "sbxctl:sbxctl", "/var/lib/sbxctl"], check=True)
    machine.run(["systemctl", "reset-failed", "sbxctl-helper.service"])
    yield
    machine.run(["systemctl", "stop", "sbxctl-helper.service"], check=True)
    machine.run(["umount", "/var/lib/sbxctl"], check=True)
    machine.restart_helper()


# Of all that is free, so much is left.
FILL_BYTES = "rm -f /var/lib/sbxctl/fill; cd /var/lib/sbxctl; head -c $(($(stat -f -c '%a * %S' .) - {} * 4096)) /dev/zero >fill"
FILL_NODES = "cd /var/lib/sbxctl; mkdir fill; for i in $(seq $(($(stat -f -c %d .) - {}))); do : >fill/$i; done"
EMPTY = "rm -rf /var/lib/sbxctl/fill"


@pytest.mark.parametrize("fill", [FILL_BYTES, FILL_NODES], ids=["bytes", "inodes"])
def test_a_full_disk_is_told_and_survived(machine, small_disk, fill):
    told = probe(machine, [fill.format(left) for left in range(0, 22, 2)], EMPTY)
    for seen in told:
        check(seen)
    assert not is_plain(told[0]) and is_plain(told[-1]), told


# ---- calls that fail


@pytest.fixture(scope="module")
def double(machine):
    with preloaded(machine) as double:
        yield double


def plans(double, process, calls, mode, error, numbers):
    return [double.command(process, calls, number=number, mode=mode, error=error) for number in numbers]


CALLS = "write,create,overwrite,fsync,rename"
# So many of them a run makes at most, in each process; the last ones then do nothing.
MANY = {"broker": 48, "store": 48}


@pytest.mark.long
@pytest.mark.parametrize("process", ["broker", "store"])
def test_a_disk_that_fills_at_any_call_is_told_and_survived(machine, double, process):
    told = probe(machine, plans(double, process, CALLS, "from", errno.ENOSPC, range(0, MANY[process], 4)), double.end)
    for seen in told:
        check(seen)
    assert not is_plain(told[0]) and is_plain(told[-1]), told


@pytest.mark.long  # each call for itself
@pytest.mark.parametrize("mode", ["once", "from"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO], ids=["ENOSPC", "EIO"])
@pytest.mark.parametrize("process", ["broker", "store"])
def test_each_call_that_fails_is_told_and_survived(machine, double, process, error, mode):
    told = probe(machine, plans(double, process, CALLS, mode, error, range(MANY[process])), double.end)
    for seen in told:
        check(seen)
    assert not all(map(is_plain, told)) and is_plain(told[-1]), told
