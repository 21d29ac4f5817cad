"""How long results are kept: by age, number and size, never those of a run that goes on, and each removal is recorded."""

from detached import call, detach, good, wait_for

CLEANUP = "MESSAGE_ID=a6f9153cf261463fbc52efd749aae1c3"
WRITE = "open('data', 'w').write('x' * (1200 << 10))"


def finished(machine, script="print(4)"):
    run_id = detach(machine, script)
    assert good(machine, "Attach", id=run_id)["result"]["status"] == "succeeded"
    return run_id


def kept(machine):
    return [run["id"] for run in good(machine, "List")["runs"]]


def removed(machine, run_id):
    """What the journal says about the removal, which is the last thing that happens to a run."""
    assert machine.run(["test", "-e", f"/var/lib/sbxctl/users/1000/{run_id}"]).status != 0
    return machine.wait_for(
        lambda: [entry.get("SBXCTL_REASON") for entry in machine.journal(CLEANUP, f"SBXCTL_RUN_ID={run_id}")
                 if entry.get("SBXCTL_REASON")],
        5, "the record",
    )


def test_what_is_too_old_is_removed_and_when_is_told(machine):
    good(machine, "RemoveAll")
    with machine.configured("[Results]\nMaxAge=3s\n"):
        run_id = finished(machine)
        run = good(machine, "List")["runs"][0]
        assert run["expiresUSec"] == run["endedUSec"] + 3_000_000
        machine.wait_for(lambda: kept(machine) == [], 15, "the result to go")
        assert removed(machine, run_id) == ["it was too old"]


def test_the_oldest_are_removed_when_there_are_too_many_but_none_that_runs(machine):
    good(machine, "RemoveAll")
    with machine.configured("[Results]\nMaxRuns=2\n"):
        running = detach(machine, "import time; time.sleep(60)")
        wait_for(machine, running, "running")
        runs = [finished(machine) for _ in range(4)]
        machine.wait_for(lambda: kept(machine) == [runs[3], runs[2], running], 15, "the oldest to go")
        assert removed(machine, runs[0]) == ["there were too many"]
        good(machine, "Cancel", id=running, kill=True)


def test_who_is_at_the_quota_is_told_before_the_run_what_to_remove(machine):
    good(machine, "RemoveAll")
    with machine.configured("[Results]\nMaxBytes=1M\n"):
        large, small = finished(machine, WRITE), finished
        answer = call(machine, "Run", script="print(4)", language="python")
        assert answer["error"].endswith(".QuotaExceeded") and answer["parameters"]["what"] == "bytes", answer
        assert answer["parameters"]["used"] > answer["parameters"]["limit"] == 1 << 20
        assert f"sbxctl rm {large} (" in answer["parameters"]["hint"]
        assert kept(machine) == [large]
        use = good(machine, "GetPolicy")["results"]
        assert use["runs"] == 1 and use["bytes"] == answer["parameters"]["used"] and use["bytesMax"] == 1 << 20
        # What users remove from their own directory counts no more.
        machine.run(["rm", f"/var/lib/sbxctl/users/1000/{large}/files/data"], user="alice", check=True)
        small(machine)


def test_the_oldest_make_room_where_that_is_configured(machine):
    good(machine, "RemoveAll")
    with machine.configured("[Results]\nMaxBytes=2M\nWhenFull=remove-oldest\n"):
        runs = [finished(machine, WRITE) for _ in range(3)]
        machine.wait_for(lambda: kept(machine) == [runs[2]], 15, "the oldest to go")
        assert removed(machine, runs[0]) == ["there was no room for others"]
