"""An approval is for the one request it was given for: not for the next, not for a part of it, and
nothing that is sent meanwhile changes what it was given for."""

import hashlib
import json

from agent import Agent
from approvals import every_refusal_is_recorded
from approvals import MORE_MEMORY, Script, allowed, dry_run
from connection import PROGRAM as CONNECTION
from connection import Connection
from terminal import Terminal
from varlink_client import message

CALL = {"script": "print(4)\n", "language": "python", "allowInteractiveAuthentication": True}


class AgentConnection(Connection):
    """A connection whose process has an agent."""

    def __init__(self, machine, user="alice"):
        self._agent = Agent(machine, machine.python(CONNECTION, "null"), user)
        self.machine = machine
        self.answers, self.closed, self.pid = [], False, None
        self._read = self._taken = 0
        self.wait(lambda: self.pid, 20, "the connection")

    def __exit__(self, *_):
        self._agent.__exit__()

    def command(self, **command):
        self._agent.input(json.dumps(command) + "\n")

    def wait(self, predicate, timeout, what):
        def taken():
            *lines, _ = self._agent.output[self._taken :].split("\n")
            for line in lines:
                self._taken += len(line) + 1
                self.take(json.loads(line))
            return predicate()

        return self._agent.wait(taken, timeout, what)

    @property
    def agent(self):
        return self._agent


# ---- one approval, one run


def test_fault_74_an_approval_covers_no_other_run_from_the_same_shell(machine):
    first, second, third = Script(machine), Script(machine, "print(5)\n"), Script(machine)
    commands = [
        first.run(*MORE_MEMORY), second.run("--memory", "1536M"), first.run(*MORE_MEMORY),
        third.run("--network"),
    ]
    line = "; ".join(" ".join(command) for command in commands)
    with Terminal(machine, ["sh", "-c", line]) as terminal:
        shown = []
        for password in ("alice-pw", "wrong", "alice-pw", "wrong"):
            shown.append(terminal.dialog())
            terminal.type(password + "\n")
        terminal.end()
    assert (terminal.status, terminal.text) == (126, "4\n4\n"), terminal
    assert "memory: 1 GiB" in shown[0].message and "memory: 1.5 GiB" in shown[1].message
    assert [entry["SBXCTL_DECISION"] for entry in first.decisions()] == ["allowed", "allowed"]
    assert second.decision() == ("refused", {"io.sbxctl.run-resources"})
    assert second.started() == []


def test_fault_74_an_approval_covers_no_other_run_of_the_same_process(machine):
    """Not even the very same request again, over the very same connection."""
    with AgentConnection(machine) as connection:
        for number in range(1, 4):
            connection.begin("Run", CALL | {"memoryBytes": 1 << 30})
            connection.agent.dialog(number)
            if number == 3:
                connection.agent.refuse()
                assert connection.next()["error"] == "io.sbxctl.Sandbox.Denied"
            else:
                connection.agent.grant()
                assert connection.next()["parameters"]["result"]["status"] == "succeeded"
        assert len(connection.agent.asked) == 3


def test_fault_06_an_approval_covers_no_other_process(machine):
    """Nor does an answered dialog leave any authorization with polkit."""
    script, other = Script(machine), Script(machine)
    with Agent(machine, script.run(*MORE_MEMORY)) as agent:
        agent.dialog()
        agent.grant()
        assert agent.end().status == 0, agent
        assert machine.run(other.run(*MORE_MEMORY), "alice").status == 126
        kept = machine.run(["pkcheck", "--list-temp"], "alice")
        assert "io.sbxctl" not in kept.text + kept.errors, kept


# ---- what was shown is what is run


def test_fault_22_nothing_sent_while_the_dialog_is_open_changes_the_run(machine):
    script = Script(machine)
    harmless = CALL | {"script": script.text, "scriptName": script.name, "memoryBytes": 1 << 30}
    other = CALL | {"script": "print('other')", "network": "internet", "memoryBytes": 2 << 30}
    with AgentConnection(machine) as connection, Connection(machine) as second:
        connection.begin("Run", harmless)
        shown = connection.agent.dialog()["message"]
        # On the same connection: whole calls, with descriptors, and half of one.
        connection.begin("Run", other)
        connection.send(message("List"), fds=20)
        connection.send(b'{"method":"io.sbxctl.Sandbox.Run","parameters":{"memoryBytes":')
        # On another one: of the same user, while it is their turn to answer the dialog.
        assert second.run(**{**other, "allowInteractiveAuthentication": True})["error"].endswith("Busy")
        assert second.run(script="print('between')")["parameters"]["result"]["status"] == "succeeded"
        second.send(b"x" * 100000, fds=200)
        assert len(connection.agent.asked) == 1 and connection.answers == []
        connection.agent.grant()
        answer = connection.next()
        assert "error" not in answer, answer
        result = answer["parameters"]["result"]
        assert result["stdout"]["text"] == "4\n"
    sha256 = hashlib.sha256(script.text.encode()).hexdigest()
    assert f"SHA-256 {sha256}." in shown and f"Request: {result['requestSha256'][:16]}." in shown
    assert result["scriptSha256"] == sha256
    assert result["policy"]["memoryBytes"] == 1 << 30 and result["policy"]["network"] == "none"
    for entry in script.records():
        if "SBXCTL_MEMORY" in entry:
            assert entry["SBXCTL_MEMORY"] == str(1 << 30) and entry["SBXCTL_NETWORK"] == "none"
            assert entry["SBXCTL_SCRIPT_SHA256"] == sha256
    allowed(script, "run", "run-resources")


def test_fault_22_a_file_that_changes_while_the_dialog_is_open_changes_nothing(machine):
    script = Script(machine)
    with Agent(machine, script.run("--file", script.path + ":copy.py", *MORE_MEMORY)) as agent:
        shown = agent.dialog()["message"]
        machine.write(script.path, b"print('changed')\n", "alice")
        agent.grant()
        assert (agent.end().status, agent.output) == (0, "4\n"), agent
    assert f"SHA-256 {hashlib.sha256(script.text.encode()).hexdigest()}." in shown


def test_one_number_follows_a_request_everywhere(machine):
    script = Script(machine)
    options = [*MORE_MEMORY, "--env", "A=1", "--file", script.path + ":in.py"]
    plan = machine.run(script.run("--dry-run", "--json", *options), "alice", check=True)
    digest = json.loads(plan.stdout)["requestSha256"]
    text = machine.run(script.run("--dry-run", *options), "alice", check=True).text
    assert f"request       {digest}\n" in text
    with Agent(machine, script.run("--json", *options)) as agent:
        assert f"Request: {digest[:16]}." in agent.dialog()["message"]
        agent.grant()
        agent.end()
    result = json.loads(agent.output)
    assert result["requestSha256"] == digest
    assert result["scriptSha256"] == machine.run(["sha256sum", script.path]).text.split()[0]
    kept = json.loads(machine.sbxctl(["show", "--json", result["id"]]).stdout)
    assert kept.get("result", kept)["requestSha256"] == digest
    about = [entry for entry in script.records() if "SBXCTL_SCRIPT_SHA256" in entry]
    assert len(about) >= 4, about
    assert {entry["SBXCTL_REQUEST_SHA256"] for entry in about} == {digest}
    assert {entry["SBXCTL_SCRIPT_SHA256"] for entry in about} == {result["scriptSha256"]}


def test_whatever_is_asked_for_is_in_the_number(machine):
    variants = [
        [], ["--memory", "1G"], ["--cpus", "2"], ["--timeout", "2min"], ["--network"], ["--env", "A=1"],
        ["--env", "A=2"], ["--env", "A=1", "--env", "B="], ["--language", "shell"],
    ]
    digests = [dry_run(machine, *options)["requestSha256"] for options in variants]
    for arguments in (["a"], ["a", ""], ["a b"], ["a", "b"]):
        done = machine.sbxctl(["run", "--dry-run", "--json", "-c", "1", *arguments])
        digests.append(json.loads(done.stdout)["requestSha256"])
    assert len(set(digests)) == len(digests)
    assert digests[0] == dry_run(machine)["requestSha256"]


def test_cancel_ends_a_run_whose_dialog_is_open(machine):
    script = Script(machine)
    parameters = CALL | {"script": script.text, "scriptName": script.name, "memoryBytes": 1 << 30}
    with AgentConnection(machine) as connection, Connection(machine) as second:
        connection.begin("Run", parameters, more=True)
        connection.agent.dialog()
        asking = connection.next()["parameters"]
        assert asking["event"] == "approval" and asking["action"] == "io.sbxctl.run-resources"
        assert asking["phase"] == "asking for approval of memory of 1 GiB (default: 512 MiB)"
        second.begin("Cancel", {"id": asking["id"]})
        assert second.next().get("error") is None
        end = connection.next()["parameters"]
        assert (end["event"], end["result"]["status"]) == ("finished", "cancelled")
        connection.agent.wait(lambda: connection.agent.closed, 10, "the dialog to be closed")
    assert script.decisions() == [] and script.started() == []
