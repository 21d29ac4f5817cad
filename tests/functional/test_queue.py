"""The queue: whose turn it is, what those who wait are told, and what runs may have together."""

import contextlib

from detached import call, detach, follow, followed, good, next_place, status_of, wait_for

BOB = 1001
SLEEP = "import time; time.sleep(60)"


@contextlib.contextmanager
def queue(machine, text):
    """With that section [Queue]; all runs that are left are ended."""
    with machine.configured(f"[Queue]\n{text}\n"):
        try:
            yield
        finally:
            for uid in (1000, BOB):
                for run in good(machine, "List", uid, active=True)["runs"]:
                    good(machine, "Cancel", uid, id=run["id"], kill=True)
            machine.wait_for(
                lambda: not any(good(machine, "List", uid, active=True)["runs"] for uid in (1000, BOB)), 20, "all to have ended",
            )


def end(machine, run_id, uid=1000):
    good(machine, "Cancel", uid, id=run_id, kill=True)


def test_who_waits_is_told_how_many_come_first_and_why(machine):
    with queue(machine, "Runs=4\nRunsPerUser=1"):
        first, second, third = (detach(machine, SLEEP) for _ in range(3))
        following = follow(machine, third)
        assert next_place(following) == [1, 2, "Another run of yours has its turn."]
        end(machine, first)
        wait_for(machine, second, "running")
        while next_place(following)[:2] != [0, 1]:
            pass
        end(machine, second)
        wait_for(machine, third, "running")
        end(machine, third)
        seen = followed(following)
    assert seen["events"][-2:] == ["started", "finished"] and seen["status"] == "cancelled"


def test_many_runs_of_one_user_do_not_hold_up_the_one_of_another(machine):
    with queue(machine, "Runs=1"):
        alices = [detach(machine, SLEEP) for _ in range(8)]
        bobs = detach(machine, "print(4)", uid=BOB)
        end(machine, alices[0])
        assert good(machine, "Attach", BOB, id=bobs)["result"]["status"] == "succeeded"
        wait_for(machine, alices[1], "running")
        assert {status_of(machine, one) for one in alices[2:]} == {"queued"}


def test_promised_memory_stays_within_the_limit(machine):
    with queue(machine, "Runs=8\nRunsPerUser=8\nMemory=1G"):
        runs = [detach(machine, SLEEP) for _ in range(3)]
        for one in runs[:2]:
            wait_for(machine, one, "running")
        following = follow(machine, runs[2])
        assert good(machine, "GetPolicy")["queue"]["memoryBytes"] == 1 << 30
        machine.wait_for(lambda: following.pid, 10, "the follower")
        end(machine, runs[0])
        wait_for(machine, runs[2], "running")
        end(machine, runs[2])
        assert followed(following)["places"][0][2] == "The machine's memory for runs is taken: 1 GiB of 1 GiB."


def test_what_could_never_start_is_rejected_at_once(machine):
    with queue(machine, "Memory=256M"):
        answer = call(machine, "Run", script="print(4)", language="python")
        assert answer["error"].endswith(".Rejected") and answer["parameters"]["field"] == "memoryBytes"
        assert "256 MiB together" in answer["parameters"]["reason"]
        assert good(machine, "Run", script="print(4)", language="python", memoryBytes=128 << 20)["result"]["status"] == "succeeded"


def test_a_run_that_waits_can_be_cancelled(machine):
    with queue(machine, "Runs=1"):
        first, second = detach(machine, SLEEP), detach(machine, "print(4)")
        good(machine, "Cancel", id=second)
        result = good(machine, "Attach", id=second)["result"]
        assert result["status"] == "cancelled" and "before it started" in result["reason"]
        end(machine, first)


def test_a_full_queue_says_how_long_it_is(machine):
    with queue(machine, "Runs=1\nRunsPerUser=1\nQueuedPerUser=2\nQueued=3"):
        for _ in range(3):
            detach(machine, SLEEP)
        answer = call(machine, "Run", script="print(4)", language="python")
        assert answer["error"].endswith(".QueueFull")
        assert answer["parameters"]["queued"] == answer["parameters"]["limit"] == 2
        detach(machine, SLEEP, uid=BOB)
        answer = call(machine, "Run", BOB, script="print(4)", language="python")
        assert answer["parameters"]["queued"] == answer["parameters"]["limit"] == 3
        assert "all users" in answer["parameters"]["reason"]


def test_files_of_runs_that_wait_are_bounded(machine):
    with queue(machine, "Runs=1\nInputSizePerUser=100K"):
        first = detach(machine, SLEEP)
        wait_for(machine, first, "running")
        content = "x" * (60 << 10)
        detach(machine, "print(4)", inputs=[{"name": "a", "content": content}])
        answer = call(machine, "Run", script="print(4)", language="python", inputs=[{"name": "a", "content": content}])
        assert answer["error"].endswith(".QueueFull") and "memory" in answer["parameters"]["reason"]
        detach(machine, "print(4)", uid=BOB, inputs=[{"name": "a", "content": content}])


def test_the_end_of_an_engine_refuses_all_that_wait_one_after_the_other(machine):
    with queue(machine, "Runs=1\nRunsPerUser=1\nQueuedPerUser=20"):
        waiting = [detach(machine, SLEEP) for _ in range(20)]
        wait_for(machine, waiting[0], "running")
        machine.run(["systemctl", "stop", "sbxctl-engine-systemd.socket", "sbxctl-engine-systemd.service"], check=True)
        try:
            machine.wait_for(lambda: good(machine, "List", active=True)["runs"] == [], 20, "all to be refused")
        finally:
            machine.run(["systemctl", "start", "sbxctl-engine-systemd.socket"], check=True)
        last = good(machine, "Describe", id=waiting[-1])["result"]
        assert last["status"] == "rejected" and "engine" in last["reason"] and last["hint"]
    assert machine.sbxctl(["run", "-c", "print(4)"]).text == "4\n"
