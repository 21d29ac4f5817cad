"""The audit trail: each run in the journal with all its fields, and nothing runs without it."""

import json

from approvals import NO, NOT_HANDLED, rules


def by_event(machine, run_id):
    found = machine.journal(f"SBXCTL_RUN_ID={run_id}", "_SYSTEMD_UNIT=sbxctl-helper.service")
    assert all("MESSAGE_ID" in entry for entry in found)
    return found


def test_a_run_leaves_request_decision_start_and_end_with_all_fields(machine):
    script = machine.script("open('x', 'w').write('abc')\nprint('hello')\n", name="job.py")
    result = machine.run_json([script, "first", "second"])
    found = by_event(machine, result["id"])
    request, decision, start = found[:3]
    for entry in found[:3]:
        assert entry["SBXCTL_UID"] == "1000" and entry["SBXCTL_USER"] == "alice"
        assert entry["SBXCTL_LANGUAGE"] == "python" and entry["SBXCTL_SCRIPT_NAME"] == "job.py"
        assert entry["SBXCTL_SCRIPT_SHA256"] == result["scriptSha256"]
        assert entry["SBXCTL_NETWORK"] == "none" and entry["SBXCTL_ENGINE"] == (machine.engine or "systemd")
        assert entry["SBXCTL_MEMORY"] == str(512 << 20) and entry["SBXCTL_CPUS"] == "100"
        assert entry["SBXCTL_TIMEOUT"] == "60000000"
        assert int(entry["SBXCTL_PID"]) > 1
        assert entry["PRIORITY"] == "5"
    assert request["SBXCTL_ARGV"] == "first second"
    actions = ["io.sbxctl.run", "io.sbxctl.run-cloud"] if machine.engine == "e2b" else "io.sbxctl.run"
    assert decision["SBXCTL_ACTION"] == actions and decision["SBXCTL_DECISION"] == "allowed"
    end = next(entry for entry in found if entry.get("SBXCTL_RESULT") == "succeeded")
    assert end["SBXCTL_EXIT_CODE"] == "0" and end["SBXCTL_STDOUT_BYTES"] == "6"
    counted = [] if machine.engine == "e2b" else ["MEMORY_PEAK"]  # not in a cloud
    for name in ["WALL_USEC", "CPU_USEC", *counted, "STDERR_BYTES", "SANDBOX_ID"]:
        assert "SBXCTL_" + name in end, name
    saved = next(entry for entry in found if entry.get("SBXCTL_FILES"))
    assert saved["SBXCTL_FILES"] == "1" and saved["SBXCTL_FILE_BYTES"] == "3"
    assert start["MESSAGE_ID"] != end["MESSAGE_ID"]


def test_the_journal_explains_each_record(machine):
    result = machine.run_json(["-c", "print(4)"])
    for entry in by_event(machine, result["id"]):
        shown = machine.run(
            ["journalctl", "-x", "--no-pager", f"MESSAGE_ID={entry['MESSAGE_ID']}",
             f"SBXCTL_RUN_ID={result['id']}"], check=True
        ).text
        assert "Defined-By: sbxctl" in shown, shown
        assert result["id"] in shown.split("Subject:")[1], shown


def test_neither_code_nor_output_nor_environment_is_recorded(machine):
    result = machine.run_json(["--env", "TOKEN=canary-one", "-c", "print('canary-' + 'two')  # canary-three"])
    text = machine.run(["journalctl", "--output=export", "--no-pager", f"SBXCTL_RUN_ID={result['id']}"]).text
    assert result["id"] in text
    assert "canary" not in text


def test_fault_13_hostile_arguments_make_one_printable_record(machine):
    hostile = "a\nMESSAGE=forged\x1b[2J\u202e%s"
    result = machine.run_json(["-c", "print(4)", hostile])
    request = by_event(machine, result["id"])[0]
    assert "\n" not in request["SBXCTL_ARGV"] and "\x1b" not in request["SBXCTL_ARGV"]
    assert "\\x1b" in request["SBXCTL_ARGV"] and "%s" in request["SBXCTL_ARGV"]
    assert "forged" not in request["MESSAGE"]


def test_what_is_above_the_defaults_is_refused_and_recorded(machine):
    refused = machine.sbxctl(["run", "--network", "-c", "print(4)"])
    assert refused.status == 126 and refused.text == ""
    assert "approval" in refused.errors
    machine.run(["journalctl", "--sync"])
    entry = machine.journal("SBXCTL_DECISION=no-agent", "_SYSTEMD_UNIT=sbxctl-helper.service")[-1]
    assert entry["SBXCTL_ACTION"] == "io.sbxctl.run-network"


def test_an_administrators_no_is_final_and_leaves_one_decision(machine):
    with rules(machine, run=f"subject.user == 'bob' ? {NO} : {NOT_HANDLED}"):
        denied = machine.sbxctl(["run", "-c", "print(4)"], user="bob")
        assert denied.status == 126 and denied.text == "" and "policy" in denied.errors
        assert machine.sbxctl(["run", "-c", "print(4)"], user="alice").status == 0
        entry = machine.journal("SBXCTL_DECISION=denied", "_SYSTEMD_UNIT=sbxctl-helper.service")[-1]
        assert entry["SBXCTL_USER"] == "bob"
        assert machine.run(["ls", f"/var/lib/sbxctl/users/1001/{entry['SBXCTL_RUN_ID']}"]).status != 0
    assert machine.sbxctl(["run", "-c", "print(4)"], user="bob").status == 0


def test_without_journald_nothing_runs(machine):
    units = ["systemd-journald.socket", "systemd-journald-dev-log.socket", "systemd-journald.service"]
    machine.run(["systemctl", "stop", *units])
    machine.run(["rm", "-f", "/run/systemd/journal/socket"])
    try:
        refused = machine.sbxctl(["run", "-c", "open('x', 'w'); print(4)"])
        assert refused.status == 125 and refused.text == ""
        assert "journal" in refused.errors
    finally:
        machine.run(["systemctl", "start", *units], check=True)
        machine.wait_for(
            lambda: machine.sbxctl(["run", "-c", "print(4)"]).text == "4\n", 20, "the journal to be back"
        )


# Run as root: refused and dry requests of a user of their own, then one that runs.
FLOOD = """
from varlink_client import *
become(61099)

def run(**parameters):
    return call("Run", script="print(4)", language="python", **parameters)

errors = [run(**parameters).get("error") for parameters in (
    {"engine": "nowhere"}, {"dryRun": True, "memoryBytes": 1 << 40}, {"memoryBytes": 1 << 30}) for _ in range(60)]
print(json.dumps({"errors": errors, "good": run(arguments=["a", "b"])["parameters"]["result"]}))
"""


def test_a_flood_of_refusals_is_counted_and_hides_no_run_that_starts(machine):
    restart = ["systemctl", "restart", "sbxctl-helper.service"]
    machine.run(restart, check=True)
    since = machine.run(["date", "+%s.%N"], check=True).text.strip()
    done = machine.run(machine.python(FLOOD), check=True)
    found = json.loads(done.text)
    assert None not in found["errors"] and len(found["errors"]) == 180  # each of them was refused
    machine.run(restart, check=True)
    told = machine.journal("SBXCTL_UID=61099", "_SYSTEMD_UNIT=sbxctl-helper.service", f"--since=@{since}")
    good = [entry for entry in told if entry.get("SBXCTL_RUN_ID") == found["good"]["id"]]
    counted = [int(entry["SBXCTL_HELD_BACK"]) for entry in told if "SBXCTL_HELD_BACK" in entry]
    refused = [entry for entry in told if entry not in good and "SBXCTL_HELD_BACK" not in entry]
    assert len(refused) == 100  # none of them was put to polkit
    assert sum(counted) == 80 and len(counted) <= 2
    request, decision, start = good[:3]
    assert request["SBXCTL_ARGV"] == "a b" and decision["SBXCTL_DECISION"] == "allowed"
    assert len({entry["MESSAGE_ID"] for entry in (request, decision, start)}) == 3
    assert [entry["SBXCTL_RESULT"] for entry in good if "SBXCTL_EXIT_CODE" in entry] == ["succeeded"]
