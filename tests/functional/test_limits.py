"""Every limit acts, is explained, and is felt by nobody else."""

import json

import pytest


def run(machine, code, *options, timeout=120):
    return machine.run_json([*options, machine.script(code)], timeout=timeout)


# ---- Memory ----


def test_files_in_the_workspace_count_as_memory_and_are_told_apart(machine):
    code = """
block = b"x" * (1 << 20)
with open("big", "wb") as f:
    for _ in range(200):
        f.write(block)
bytearray(1 << 30)
"""
    result = run(machine, code)
    assert result["status"] == "out_of_memory"
    assert "200 MiB" in result["reason"] and "files" in result["reason"], result["reason"]
    assert result["files"][0]["bytes"] == 200 << 20


def test_script_i_150_mb_gzip_log_is_counted_under_the_default_memory(machine):
    make = """
import gzip, os, sys
with gzip.open(sys.argv[1], "wb", 0) as f:
    line = os.urandom(74).hex().encode()[:99] + b"\\n"
    for _ in range(1500000):
        f.write(line)
"""
    path = f"{machine.directory()}/log.gz"
    machine.run(["python3", "-c", make, path], user="alice", check=True, timeout=120)
    count = "import gzip; print(sum(1 for _ in gzip.open('log.gz')))"
    result = machine.run_json(["--file", path, "-c", count], timeout=180)
    assert result["status"] == "succeeded", result
    assert result["stdout"]["text"] == "1500000\n"
    assert result["files"] == []


def test_more_memory_than_the_default_needs_an_approval_and_less_is_taken(machine):
    assert machine.sbxctl(["run", "--memory", "1G", "-c", "1"]).status == 126
    result = machine.run_json(["--memory", "64M", "-c", "bytearray(100 << 20)"])
    assert result["status"] == "out_of_memory" and "64 MiB" in result["reason"]


# ---- CPU and time ----


def test_cpu_quota_holds_a_busy_program_back(machine):
    code = """
import os, time
if os.fork() == 0:
    end = time.monotonic() + 2
    while time.monotonic() < end: pass
    os._exit(0)
end = time.monotonic() + 2
while time.monotonic() < end: pass
os.wait()
"""
    result = run(machine, code, "--cpus", "0.5")
    usage = result["usage"]
    assert result["status"] == "succeeded"
    assert usage["cpuUSec"] < 0.75 * usage["wallUSec"], usage


def test_the_clock_starts_at_go(machine):
    result = machine.run_json(["--timeout", "1s", "-c", "import time; time.sleep(0.7)"])
    assert result["status"] == "succeeded" and result["usage"]["waitUSec"] > 0


# ---- Tasks ----


def test_case_16_fork_bomb_is_contained_and_explained(machine):
    code = """
import os, sys
while True:
    try:
        os.fork()
    except OSError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
"""
    result = run(machine, code, "--timeout", "10s")
    assert result["status"] in ("failed", "timed_out")
    assert "256" in result["reason"] and "processes" in result["reason"], result["reason"]
    assert machine.sbxctl(["run", "-c", "print(4)"], user="bob").text == "4\n"


def test_case_17_two_hundred_busy_threads_are_cancelled_within_a_second(machine):
    code = """
import threading
go = threading.Event()
def busy():
    go.wait()
    while True: pass
for _ in range(200):
    threading.Thread(target=busy, daemon=True).start()
print("up", flush=True)
go.set()
threading.Event().wait()
"""
    running = machine.popen(["sbxctl", "run", machine.script(code)], user="alice")
    assert running.popen.stdout.readline() == b"up\n"
    running.signal("INT")
    ended = running.finish(timeout=20)
    assert ended.status == 130
    runs = json.loads(machine.sbxctl(["ps", "--all", "--json"]).stdout)
    last = (runs["runs"] if isinstance(runs, dict) else runs)[0]
    assert last["status"] == "cancelled"


# ---- Space ----


def test_case_16_twenty_gigabytes_are_stopped_at_the_workspace(machine):
    code = """
block = b"x" * (1 << 20)
with open("big", "wb") as f:
    try:
        for _ in range(20000):
            f.write(block)
    except OSError as error:
        print(error.errno, flush=True)
        raise
"""
    result = run(machine, code)
    assert result["stdout"]["text"] == "28\n"  # ENOSPC
    assert result["status"] == "failed"
    assert "workspace" in result["hint"] and "256 MiB" in result["hint"], result


def test_case_16_a_million_empty_files_are_contained_and_explained(machine):
    code = """
import os
n = 0
try:
    for n in range(1000000):
        os.close(os.open(f"f{n}", os.O_CREAT | os.O_WRONLY))
except OSError as error:
    print(error.errno, n > 50000)
    raise
"""
    result = run(machine, code, timeout=180)
    assert result["stdout"]["text"] == "28 True\n", result
    assert "workspace" in result["hint"]
    assert len(result["files"]) == 1000
    assert any("more files than are kept" in s["reason"] for s in result["skippedFiles"])


@pytest.mark.parametrize("place", ["/dev/shm", "/tmp"])
def test_case_16_scratch_is_filled_and_nobody_notices(machine, place):
    code = f"""
block = b"x" * (1 << 20)
written = 0
try:
    with open("{place}/big", "wb") as f:
        while True:
            written += f.write(block)
except OSError as error:
    print(error.errno, written >> 20)
"""
    result = run(machine, code)
    errno, written = result["stdout"]["text"].split()
    assert errno == "28" and 60 <= int(written) <= 64


# ---- Output ----


def test_case_11_five_gigabytes_are_passed_on_with_small_memory(machine):
    code = """
import os
block = b"x" * (1 << 20)
for _ in range(1024):
    view = memoryview(block)
    while view:
        view = view[os.write(1, view):]
"""
    helper = machine.run(
        ["systemctl", "show", "-P", "MainPID", "sbxctl-helper.service"], check=True
    ).text.strip()
    script = machine.script(code)
    counted = machine.run(
        ["sh", "-c", f"sbxctl run {script} | wc -c"], user="alice", check=True, timeout=120
    )
    assert counted.text == f"{1 << 30}\n"
    peak = machine.run(["sed", "-n", "s/^VmHWM:[^0-9]*\\([0-9]*\\).*/\\1/p", f"/proc/{helper}/status"])
    assert peak.text == "" or int(peak.text) < 32 * 1024


def test_case_12_colours_and_carriage_returns_are_live_and_raw_in_the_file(machine):
    code = r"import sys; sys.stderr.write('\x1b[31m10%\r20%\r\x1b[0m\n')"
    live = machine.sbxctl(["run", "-c", code])
    assert b"\x1b[31m10%\r20%\r\x1b[0m\n" in live.stderr
    result = machine.run_json(["-c", code])
    assert machine.read(result["stderr"]["path"], user="alice") == b"\x1b[31m10%\r20%\r\x1b[0m\n"


# ---- What goes in ----


@pytest.mark.parametrize(
    "make, word",
    [
        ("head -c 1048577 /dev/zero | tr '\\0' '#' >script.py", "1 MiB"),
        ("truncate -s 300M data; echo 'print(4)' >script.py", "256 MiB"),
    ],
    ids=["script", "input"],
)
def test_too_large_scripts_and_inputs_are_rejected_with_the_rule(machine, make, word):
    directory = machine.directory()
    machine.run(["sh", "-c", f"cd {directory} && {make} && touch data"], user="alice", check=True)
    refused = machine.sbxctl(["run", "--file", f"{directory}/data", f"{directory}/script.py"])
    assert refused.status == 125 and word in refused.errors, refused


def test_too_many_arguments_are_rejected_with_what_to_do(machine):
    refused = machine.sbxctl(["run", "-c", "print(4)", "x" * 33000])
    assert refused.status == 125 and "--file" in refused.errors


# ---- Places ----


def test_case_22_files_are_collected_wherever_people_write_them_or_a_hint_says_where(machine):
    code = """
import os
for path in ("./a.png", os.path.expanduser("~/b.png"), "/workspace/c.png", "/mnt/data/d.png", "/tmp/e.png"):
    open(path, "w").write(path)
"""
    result = run(machine, code)
    assert result["status"] == "succeeded", result
    assert [f["name"] for f in result["files"]] == ["a.png", "b.png", "c.png", "d.png"]
    assert "/tmp" in result["hint"] and "/workspace" in result["hint"]


