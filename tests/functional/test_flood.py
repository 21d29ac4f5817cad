"""A program that prints without end, a reader who is slow, and users who ask without end: nobody else is
held up by them."""

import concurrent.futures
import json

import pytest

# Prints sys.argv[1] bytes.
FLOOD = """
import os, sys
block, left = b"x" * (1 << 20), int(sys.argv[1])
while left:
    left -= os.write(1, block[:left])
"""

# Run as alice: reads what `sbxctl run sys.argv[2:]` prints, at sys.argv[1] bytes a second.
SLOW_READER = """
import json, os, resource, subprocess, sys, time

program = subprocess.Popen(["sbxctl", "run", *sys.argv[2:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
rate, received, began = int(sys.argv[1]), 0, time.monotonic()
while data := os.read(program.stdout.fileno(), 65536):
    if received == 0:
        print("flows", flush=True)
    received += len(data)
    time.sleep(max(0, received / rate - (time.monotonic() - began)))
errors = program.stderr.read().decode()
program.wait()
print(json.dumps({
    "received": received,
    "errors": errors,
    "status": program.returncode,
    "peak": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss,
}))
"""

SMALL = 32 * 1024  # KiB
CONFIGURATION = "[Defaults]\nTimeout=280s\n[Queue]\nRunsPerUser=4\n"


def slowness_for_both_users(machine):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return max(pool.map(lambda user: machine.slowness(5, user), ("alice", "bob")))


@pytest.mark.parametrize(
    "size, rate",
    [(200_000_000, 20_000_000), pytest.param(5_000_000_000, 40_000_000, marks=pytest.mark.long)],
    ids=["200 MB", "5 GB"],
)
def test_case_11_a_flood_to_a_slow_reader_takes_little_memory_and_holds_up_nobody(machine, size, rate):
    script = machine.script(FLOOD, name="flood.py")
    with machine.configured(CONFIGURATION):
        alone = slowness_for_both_users(machine)
        flood = machine.popen(["python3", "-c", SLOW_READER, str(rate), script, str(size)], "alice")
        assert flood.popen.stdout.readline() == b"flows\n"
        beside = slowness_for_both_users(machine)
        assert flood.popen.poll() is None, "the flood was over too early to be felt"
        reader = json.loads(flood.finish(timeout=280).stdout)
        peak = machine.memory(machine.main_pid(), "VmHWM")

    print(f"broker {peak} KiB, client {reader['peak']} KiB, slowness alone {alone}, beside it {beside}")
    assert reader["status"] == 0 and reader["received"] == size, reader
    assert peak < SMALL and reader["peak"] < SMALL
    assert beside < 4 * alone
    assert "of output on stdout, 8 MiB are kept" in reader["errors"], reader
    runs = json.loads(machine.sbxctl(["ps", "-a", "--json"]).stdout)["runs"]
    run = next(run for run in runs if run["scriptName"] == "flood.py")  # the newest comes first
    result = json.loads(machine.sbxctl(["show", "--json", run["id"]]).stdout)
    assert result["stdout"]["bytes"] == size
    assert result["stdout"]["truncated"] and result["stdout"]["keptBytes"] == 8 << 20


# Asks for the policy on sys.argv[1] connections at once, again and again.
ASK_WITHOUT_END = """
import selectors, socket, sys

CALL = b'{"method": "io.sbxctl.Sandbox.GetPolicy"}' + bytes(1)
selector = selectors.DefaultSelector()
for _ in range(int(sys.argv[1])):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect("/run/sbxctl/io.sbxctl.Sandbox")
    connection.sendall(CALL)
    selector.register(connection, selectors.EVENT_READ)
asked = 0
while True:
    for key, _ in selector.select():
        if key.fileobj.recv(65536).endswith(bytes(1)):
            key.fileobj.sendall(CALL)
            asked += 1
            if asked == 100:
                print("asks", flush=True)
"""


def test_users_who_ask_without_end_do_not_keep_polkit_from_others(machine):
    """The bus lets the helper wait for 128 answers."""
    floods = []
    for uid in ("100001", "100002", "100003"):
        asker = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "python3", "-c",
                 ASK_WITHOUT_END, "62"]
        floods.append(machine.popen(asker))
    for flood in floods:
        assert flood.popen.stdout.readline() == b"asks\n"
    runs = [machine.sbxctl(["run", "-c", "print(4)"], "bob") for _ in range(3)]
    for flood in floods:
        assert flood.popen.poll() is None, "the flood was over too early to be felt"
        flood.signal("KILL")
        flood.finish()
    assert [(run.status, run.text) for run in runs] == [(0, "4\n")] * 3, runs
