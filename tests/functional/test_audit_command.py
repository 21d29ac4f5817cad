"""`sbxctl audit`: an auditor's questions, each answered by one command, on a journal in which an
ordinary user has written records of their own. The commands are those of sbxctl-audit(7)."""

import json
import pathlib
import re
import uuid

import pytest

from approvals import MORE_MEMORY, YES, rules
from conversation import Conversation
from terminal import answer

IDS = dict(
    re.findall(
        r'#define AUDIT_ID_(\w+) "(\w+)"', (pathlib.Path(__file__).parents[2] / "common/audit-ids.h").read_text()
    )
)

# Records by journald's own protocol. It reads who sent one when it takes that, which is over when it takes the next.
SEND = """
import fcntl, json, socket, sys, termios, time
records = json.loads(sys.argv[1])
sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
sock.connect("/run/systemd/journal/socket")
for record in records:
    sock.send("".join(f"{name}={value}\\n" for name, value in record.items()).encode())
sock.send(b"\\n")
while any(fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4))):
    time.sleep(0.001)
"""


def record(event, **fields):
    own = {"MESSAGE": "x", "MESSAGE_ID": IDS[event], "SYSLOG_IDENTIFIER": "sbxctl-helper"}
    return own | {"SBXCTL_" + name: str(value) for name, value in fields.items()}


def forge(machine, *records):
    """By an ordinary user, and by one of the system's, whose records lie in the same file as the helper's."""
    for user in ("bob", "daemon"):
        machine.run(["runuser", "-u", user, "--", *machine.python(SEND, json.dumps(records))], check=True)


def audit(machine, *options, user=None):
    machine.run(["journalctl", "--sync"], check=True)
    done = machine.run(["sbxctl", "audit", "--json", *options], user, check=True)
    return json.loads(done.stdout)


def table(machine, *options):
    """The table as words: a list for each line."""
    machine.run(["journalctl", "--sync"], check=True)
    done = machine.run(["sbxctl", "audit", *options], check=True)
    return [line.split() for line in done.text.splitlines()]


class Story:
    """What happened, and what bob would have an auditor believe."""

    def __init__(self, machine):
        self.machine = machine
        # A second of its own: earlier tests had runs, too.
        self.since = machine.run(
            ["sh", "-c", "now=$(date +%s); until [ $(date +%s) -gt $now ]; do sleep 0.02; done; date '+%F %T'"], check=True
        ).text.strip()
        self.good = machine.run_json(["-c", "print(4)"])["id"]
        self.failed = machine.run_json(["-c", "raise SystemExit(3)"])["id"]
        self.asked = self.dialog()
        refused = machine.sbxctl(["run", *MORE_MEMORY, "-c", "1"])
        assert refused.status == 126, refused
        assert machine.sbxctl(["run", "--engine", "nowhere", "-c", "1"]).status == 125
        with rules(machine, run_network=YES):
            self.connected = machine.run_json(
                ["--network", "--language", "bash", "-c", "curl -s --noproxy x http://127.0.0.1:22/ http://localhost/; true"]
            )["id"]
        self.forged = uuid.uuid4().hex[:16]
        claims = {"RUN_ID": self.forged, "UID": 1000, "USER": "alice", "ENGINE": "systemd"}
        self.claimed = [
            record("REQUEST", **claims, SCRIPT_NAME="forged.py", MEMORY=1, CPUS=1, TIMEOUT=1, NETWORK="internet"),
            record("DECISION", **claims, DECISION="allowed", ACTION="io.sbxctl.run-network", APPROVAL="policy"),
            record("START", **claims),
            record("CONNECTION", **claims, HOST="forged.example", PORT=443, VERDICT="allowed"),
            # and of a true run
            record("END", **claims | {"RUN_ID": self.failed}, RESULT="succeeded", WALL_USEC=9 * 10**12),
            record("MARKED", **claims | {"RUN_ID": self.failed}, VERDICT="accepted"),
            record("PACKAGES", **claims, RESULT="installed", PACKAGES="forged"),
        ]
        forge(machine, *self.claimed)

    def dialog(self):
        script = self.machine.script("print(4)\n", "asked.py")
        _, ended = answer(self.machine, ["sbxctl", "run", "--json", *MORE_MEMORY, script], "alice-pw")
        return json.loads(ended.text)["id"]

    def audit(self, *options):
        told = audit(self.machine, "--since", self.since, *options)
        assert "forged" not in json.dumps(told), told
        return told

    def runs(self, *options):
        return {run.get("id"): run for run in self.audit(*options)["runs"]}


@pytest.fixture(scope="module")
def story(machine):
    return Story(machine)


def test_who_ran_what(story):
    runs = story.runs()
    run = runs[story.good]
    assert run["user"] == "alice" and run["uid"] == 1000 and run["verdict"] == "succeeded"
    assert run["engine"] == (story.machine.engine or "systemd") and len(run["scriptSha256"]) == 64
    assert runs[story.failed]["verdict"] == "failed"
    assert story.forged not in runs
    rows = table(story.machine, "--since", story.since)
    assert rows[0] == ["WHEN", "USER", "RUN", "VERDICT", "ENGINE", "SCRIPT"]
    assert [row[3] for row in rows].count(story.good) == 1


def test_with_which_rights(story):
    run = story.runs("--rights")[story.asked]
    assert run["memoryBytes"] == 1 << 30 and run["network"] == "none" and run["timeoutUSec"] == 60_000_000
    assert story.runs("--rights")[story.connected]["network"] == "internet"
    row = next(row for row in table(story.machine, "--rights", "--since", story.since) if story.asked in row)
    assert row[3:] == [story.asked, "1", "GiB", "1", "60", "s", "none"]


def test_who_approved_it(story):
    runs = story.runs("--approvals")
    assert runs[story.asked]["approval"] == "dialog" and runs[story.asked]["approvedBy"] == "alice"
    assert "io.sbxctl.run-resources" in runs[story.asked]["actions"]
    assert runs[story.good]["approval"] == "policy" and "approvedBy" not in runs[story.good]
    assert [run["verdict"] for run in runs.values() if run["decision"] == "no-agent"] == ["denied"]
    rows = {row[3]: row[4:] for row in table(story.machine, "--approvals", "--since", story.since)}
    assert rows[story.asked] == ["allowed", "alice", "run,", "run-resources"]
    assert rows[story.good] == ["allowed", "policy", "alone", "run"]


def test_which_hosts_were_reached(story):
    connections = story.audit("--connections")["connections"]
    told = {(entry["id"], entry["host"], entry["port"], entry["verdict"]) for entry in connections}
    assert told == {(story.connected, "127.0.0.1", 22, "refused"), (story.connected, "localhost", 80, "refused")}
    (only,) = story.audit("--connections", "--host", "local*")["connections"]
    assert only["host"] == "localhost" and only["user"] == "alice" and only["rule"]
    assert list(story.runs("--host", "127.0.0.1")) == [story.connected]


def test_what_failed_and_why(story):
    runs = story.audit("--failures")["runs"]
    assert [run["verdict"] for run in runs] == ["failed", "denied", "rejected"]
    assert runs[0]["id"] == story.failed and runs[0]["exitCode"] == 3
    assert runs[0]["reason"] == "The program ended with exit status 3."
    assert runs[2]["field"] == "engine" and "nowhere" in runs[2]["reason"]
    shown = table(story.machine, "--failures", "--since", story.since)
    assert ["failed", "The", "program", "ended", "with", "exit", "status", "3."] in [row[4:] for row in shown]


def test_what_it_cost_per_user(story):
    (alice,) = story.audit("--usage")["users"]
    runs = [run for run in story.runs().values() if "wallUSec" in run]
    assert alice["user"] == "alice" and alice["runs"] == len(runs) == 4
    for key in ("wallUSec", "cpuUSec"):
        assert alice[key] == sum(run[key] for run in runs), key
    assert story.audit("--usage", "--user", "bob")["users"] == []


@pytest.fixture
def helper_says(machine):
    """Records that count as the helper's: of its user, in its unit, which a drop-in gives another program."""
    drop_in = "/run/systemd/system/sbxctl-helper.service.d/50-test.conf"
    program = f"{drop_in.rpartition('/')[0]}/send.py"

    def say(*records):
        machine.run(["mkdir", "-p", drop_in.rpartition("/")[0]], check=True)
        machine.write(program, SEND.replace("json.loads(sys.argv[1])", repr(records)).encode())
        lines = ["[Service]", "Type=oneshot", "Restart=no", "RootDirectory=", "BindReadOnlyPaths=", "ExecStart="]
        machine.write(drop_in, "\n".join([*lines, f"ExecStart=python3 {program}", ""]).encode())
        machine.run(["systemctl", "daemon-reload"], check=True)
        machine.run(["systemctl", "stop", "sbxctl-helper.service"], check=True)
        machine.run(["systemctl", "start", "sbxctl-helper.service"], check=True)

    yield say
    machine.run(["rm", "-r", drop_in.rpartition("/")[0]], check=True)
    machine.run(["systemctl", "daemon-reload"], check=True)
    machine.restart_helper()


def test_what_an_accepted_task_cost(machine, story):
    for run_id, verdict in [(story.failed, "rejected"), (story.asked, "rejected"),
                            (story.asked, "accepted"), (story.good, "accepted")]:  # the last word on a run counts
        assert machine.sbxctl(["mark", run_id, verdict]).status == 0
    (alice,) = story.audit("--usage")["users"]
    assert (alice["accepted"], alice["rejected"]) == (2, 1)
    assert alice["perAccepted"]["cpuUSec"] == alice["cpuUSec"] // 2
    assert set(story.runs("--verdict", "accepted")) == {story.asked, story.good}
    row = next(row for row in table(machine, "--usage", "--since", story.since) if row[0] == "alice")
    assert row[-4:-3] == ["2"] and row[-1] == "CPU"


def test_which_runs_have_no_end_record(machine, story, helper_says):
    lost = uuid.uuid4().hex[:16]
    running = machine.popen(["sbxctl", "run", "-c", "print(4, flush=True); input()"], "alice")
    try:
        assert running.popen.stdout.read(2) == b"4\n"
        now = story.audit("--unfinished")["runs"]
        assert [run["verdict"] for run in now] == ["running"]
    finally:
        running.finish(b"\n")
    assert story.audit("--unfinished")["runs"] == []
    helper_says(record("START", RUN_ID=lost, UID=1001, USER="bob", ENGINE="systemd"))
    (run,) = story.audit("--unfinished")["runs"]
    assert (run["id"], run["user"], run["verdict"]) == (lost, "bob", "unfinished")


def test_whether_a_record_was_forged(machine, story):
    records = audit(machine, "--forged", "--since", story.since)["records"]
    assert len(records) == 2 * len(story.claimed)
    assert {entry["sender"]["user"] for entry in records} == {"bob", "daemon"}
    assert all(entry["sender"]["command"].startswith("python3") for entry in records)
    assert {entry["event"] for entry in records} == {
        "request", "decision", "start", "connection", "end", "marked", "packages",
    }
    shown = machine.run(["sbxctl", "audit", "--forged", "--since", story.since], check=True).text
    assert "bob (python3" in shown and f"start of run {story.forged} of alice" in shown


def test_everything_about_one_run(machine, story):
    rows = table(machine, "--run", story.asked[:10])
    assert [row[4] for row in rows[1:]][:3] == ["request", "decision", "start"] and "end" in [row[4] for row in rows]
    assert {row[3] for row in rows[1:]} == {story.asked}


# ---- filters, follow, and who may see it


def test_filters_hold_together(machine, story):
    assert set(story.runs("--verdict", "failed")) == {story.failed}
    assert set(story.runs("--verdict", "failed", "--user", "1000")) == {story.failed}
    assert story.runs("--verdict", "failed", "--user", "bob") == {}
    assert story.runs("--engine", "docker" if story.machine.engine != "docker" else "systemd") == {}
    assert audit(machine, "--until", "2001-01-01")["runs"] == []
    (entry,) = story.audit("--event", "end", "--run", story.failed)["records"]
    assert entry["result"] == "failed" and entry["runId"] == story.failed


@pytest.mark.parametrize(
    "options, said",
    [
        (["--since", "yesteryear"], "is no time"),
        (["--event", "birthday"], "there is no event 'birthday'"),
        (["--rights", "--forged"], "only one table"),
        (["--follow", "--usage"], "go with no other table"),
        (["extra"], "too many arguments"),
    ],
)
def test_what_is_not_understood_is_told(machine, options, said):
    done = machine.sbxctl(["audit", *options])
    assert done.status == 64 and said in done.errors, done


# Prints what a command says, line by line, until its input ends.
FOLLOW = """
import json, subprocess, sys
process = subprocess.Popen(json.loads(sys.argv[1])[0], stdout=subprocess.PIPE, text=True)
print(json.dumps({"pid": process.pid}), flush=True)
for line in process.stdout:
    print(json.dumps({"line": line}), flush=True)
"""


class Follower(Conversation):
    def __init__(self, machine, *options):
        self.lines, self.pid = [], None
        super().__init__(machine, FOLLOW, [["sbxctl", "audit", "--follow", *options]], "root")
        self.wait(lambda: self.pid, 20, "sbxctl audit to start")

    def take(self, event):
        if "line" in event:
            self.lines.append(event["line"])
        else:
            self.pid = event["pid"]


def test_follow_shows_records_as_they_come_and_no_forged_ones(machine):
    with Follower(machine, "--json", "--user", "alice") as follower:
        machine.wait_for(
            lambda: machine.run(["cat", f"/proc/{follower.pid}/wchan"]).status == 0
            and "inotify" in machine.run(["sh", "-c", f"readlink /proc/{follower.pid}/fd/*"]).text,
            20, "it to wait for the journal",
        )
        forge(machine, record("START", RUN_ID="0" * 16, UID=1000, USER="alice"))
        run_id = machine.run_json(["-c", "print(4)"])["id"]
        follower.wait(lambda: any('"end"' in line for line in follower.lines), 20, "the record of the end")
        told = [json.loads(line) for line in follower.lines]
        assert [entry["event"] for entry in told][:3] == ["request", "decision", "start"]
        assert {entry["runId"] for entry in told} == {run_id}
        machine.run(["kill", str(follower.pid)], check=True)


def test_users_see_their_own_runs_and_nobody_elses(machine, story):
    own = {run["id"]: run for run in audit(machine, user="alice")["runs"]}
    assert own[story.failed]["verdict"] == "failed" and own[story.failed]["exitCode"] == 3
    assert {run["user"] for run in own.values()} == {"alice"} and story.forged not in own
    bobs = machine.run_json(["-c", "print(4)"], user="bob")["id"]
    told = audit(machine, user="bob")["runs"]
    assert bobs in {run["id"] for run in told} and {run["user"] for run in told} == {"bob"}
    assert audit(machine, "--usage", user="bob")["users"][0]["user"] == "bob"
    for option in ("--approvals", "--forged", "--follow"):
        refused = machine.sbxctl(["audit", option], user="bob")
        assert refused.status == 126 and "systemd-journal" in refused.errors, refused


def test_the_group_of_the_journal_may_see_all(machine, story):
    machine.run(["gpasswd", "--add", "bob", "systemd-journal"], check=True)
    try:
        assert story.good in {run["id"] for run in audit(machine, user="bob")["runs"] if "id" in run}
    finally:
        machine.run(["gpasswd", "--delete", "bob", "systemd-journal"], check=True)
