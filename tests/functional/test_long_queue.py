"""Five hundred runs of three users wait for two places: nobody is held up, and nothing grows."""

import collections
import json

import pytest

pytestmark = pytest.mark.long  # hundreds of sandboxes

USERS = (1000, 1001, 61201)
RUNS = 500
SHOWN_MS = 50
MEMORY_KIB = 32 << 10
# What each run has in the journal (common/audit-ids.h).
RECORDS = {
    "request": "fb8bd6932dac4502ae98329f2e783dff",
    "decision": "7c9922b19e4245d8a32d5f8b3a00d2f0",
    "start": "c7f8a404b9ee4d8bb6094ea10fa1280f",
    "end": "1834b2776f894c5bbc2a0cf09d629307",
}

# Run as root: each user detaches its part, all of one user before those of the next; then it is looked at them until all have ended.
# Prints the results of all, how long a list took (milliseconds), before and meanwhile, and the helper's peak of memory.
QUEUE = """
import json, os, statistics, subprocess, sys, time
import varlink_client as client

users, number = json.loads(sys.argv[1]), int(sys.argv[2])

def as_user(uid, work):
    # What `work` returns, in a process that is that user.
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        client.become(uid)
        with os.fdopen(write, "w") as out:
            json.dump(work(), out)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as said:
        value = json.load(said)
    os.waitpid(pid, 0)
    return value

def call(link, method, **parameters):
    link.sendall(client.message(method, **parameters))
    answer = client.answer(link)
    assert "error" not in answer, answer
    return answer["parameters"]

def detach():
    with client.connect() as link:
        return [call(link, "Run", script="print(4)", language="python", detach=True)["id"] for _ in range(number)]

def look():
    # As `ps` does: who is active.
    began = time.monotonic()
    with client.connect() as link:
        runs = call(link, "List", active=True, limit=250)["runs"]
    return [(time.monotonic() - began) * 1000, len(runs)]

def results():
    with client.connect() as link:
        found, after = [], {}
        while True:
            page = call(link, "List", limit=250, **after)
            found += page["runs"]
            if "next" not in page:
                return found
            after = {"after": page["next"]}

def memory():
    pid = subprocess.check_output(["systemctl", "show", "-P", "MainPID", "sbxctl-helper.service"], text=True).strip()
    return int(next(line for line in open(f"/proc/{pid}/status") if line.startswith("VmHWM")).split()[1])

before = [as_user(users[0], look)[0] for _ in range(9)]
ids = {uid: as_user(uid, detach) for uid in users}
times, left = [], True
while left:
    seen = [as_user(uid, look) for uid in users]
    times += [ms for ms, _ in seen]
    left = sum(n for _, n in seen)
    time.sleep(0.2)
peak = memory()
found = {uid: [run for run in as_user(uid, results) if run["id"] in set(ids[uid])] for uid in users}
print(json.dumps({"ids": ids, "runs": found, "before": statistics.median(before), "meanwhile": statistics.median(times),
                  "peak": peak}))
"""


def most_behind(starts, users):
    """By how many starts a user was ever ahead of one who still had runs that waited, from the moment all were waiting on."""
    left = collections.Counter(user for _, user in starts)
    had, worst = collections.Counter(), 0
    for _, user in starts:
        had[user] += 1
        left[user] -= 1
        waiting = [other for other in users if left[other]]
        if waiting:
            worst = max(worst, had[user] - min(had[other] for other in waiting))
    return worst


def test_five_hundred_runs_of_three_users_take_turns(machine):
    number = -(-RUNS // len(USERS))
    text = "[Queue]\nRuns=2\nRunsPerUser=2\nQueued=1000\nQueuedPerUser=1000\n"
    with machine.configured(text):
        since = machine.run(["date", "+%s.%N"]).text.strip()
        said = machine.run(machine.python(QUEUE, json.dumps(USERS), number), timeout=900)
        assert said.status == 0, said
    told = json.loads(said.text)
    runs = {int(uid): found for uid, found in told["runs"].items()}
    assert {uid: len(found) for uid, found in runs.items()} == dict.fromkeys(USERS, number)
    assert {run["status"] for found in runs.values() for run in found} == {"succeeded"}
    assert told["peak"] < MEMORY_KIB
    assert told["meanwhile"] < max(SHOWN_MS, 3 * told["before"]), (told["before"], told["meanwhile"])

    # All waited once the last user's were there; what started before tells nothing.
    starts = sorted((run["startedUSec"], uid) for uid, found in runs.items() for run in found)
    all_there = min(run["startedUSec"] for run in runs[USERS[-1]])
    assert most_behind([start for start in starts if start[0] >= all_there], USERS) <= 3

    ids = {run_id for of_user in told["ids"].values() for run_id in of_user}
    events = collections.Counter()
    for entry in machine.journal("_SYSTEMD_UNIT=sbxctl-helper.service", f"--since=@{since}"):
        if entry.get("SBXCTL_RUN_ID") in ids:
            events[entry["MESSAGE_ID"]] += 1
    assert {name: events[message_id] for name, message_id in RECORDS.items()} == dict.fromkeys(RECORDS, len(ids))
