"""What an administrator's rules make of a request, and the kinds of callers that polkit knows."""

import json

import pytest

from agent import Agent
from approvals import (
    every_refusal_is_recorded,
    AUTH_ADMIN, AUTH_SELF, MORE_MEMORY, NO, SEVERAL, YES, Script, allowed, dry_run, no_polkit, refused, remove_rules, rules,
    set_rules, user,
)
from connection import Connection
from terminal import Terminal, answer
from varlink_client import message


# ---- an administrator's word on a part


def test_a_no_on_one_part_denies_all_without_a_dialog(machine):
    for name, part in (("run_resources", "memory of 1 GiB"), ("run_network", "network access")):
        script = Script(machine)
        with rules(machine, **{name: NO}), Agent(machine, script.run(*SEVERAL)) as agent:
            assert (agent.end().status, agent.output, agent.asked) == (126, "", []), agent
            assert f"This machine's policy does not allow {part}" in agent.errors
            assert "Ask the administrator for a polkit rule." in agent.errors
        refused(script, "denied", name.replace("_", "-"))


def test_a_no_on_a_part_outweighs_a_yes_on_the_combination(machine):
    script = Script(machine)
    with rules(machine, run_elevated=YES, run_elevated_admin=YES, run_network=NO):
        with Agent(machine, script.run(*SEVERAL)) as agent:
            assert (agent.end().status, agent.asked) == (126, []), agent
    refused(script, "denied", "run-network")


def test_a_yes_on_a_part_takes_it_out_of_the_dialog(machine):
    script = Script(machine)
    with rules(machine, run_network=YES), Agent(machine, script.run(*SEVERAL)) as agent:
        assert agent.dialog()["action"] == "io.sbxctl.run-resources"
        # The dialog still shows the whole.
        assert "Network: internet, hosts: any, packages: none, memory: 1 GiB" in agent.dialog()["message"]
        agent.dismiss()
        agent.end()
        assert "approval of memory of 1 GiB (default: 512 MiB)\n" in agent.errors
    refused(script, "dismissed", "run-resources")


def test_a_yes_on_every_part_needs_no_dialog(machine):
    script = Script(machine)
    with rules(machine, run_resources=YES), Agent(machine, script.run(*MORE_MEMORY)) as agent:
        assert (agent.end().status, agent.output, agent.asked) == (0, "4\n", []), agent
    allowed(script, "run", "run-resources")


def test_an_administrator_for_a_part_is_one_for_the_combination(machine):
    with user(machine, "carol", 1002, "sudo"), rules(machine, run_network=AUTH_ADMIN):
        script = Script(machine)
        with Agent(machine, script.run(*SEVERAL)) as agent:
            assert agent.dialog()["uids"] == [1002], agent
            agent.grant("alice-pw", "alice")
            assert (agent.end().status, agent.output) == (126, ""), agent
        refused(script, "refused", "run-network", "run-resources", agent.asked[0]["action"][10:])
        script = Script(machine)
        with Agent(machine, script.run(*SEVERAL)) as agent:
            agent.dialog()
            agent.grant("carol-pw", "carol")
            agent.end()
            assert len(agent.asked) == 1, agent
        assert script.decision()[0] == "allowed"


def test_an_administrator_for_one_action_is_asked_on_the_terminal(machine):
    with user(machine, "carol", 1002, "sudo"), rules(machine, run_resources=AUTH_ADMIN):
        script = Script(machine)
        dialog, ended = answer(machine, script.run(*MORE_MEMORY), "alice-pw")
        assert dialog.identity == "carol" and ended.status == 126, ended
        refused(script, "refused", "run-resources")
        script = Script(machine)
        dialog, ended = answer(machine, script.run(*MORE_MEMORY), "carol-pw")
        assert (ended.status, ended.text) == (0, "4\n"), ended
        allowed(script, "run", "run-resources")


def test_a_rule_that_asks_about_every_run_is_asked_on_the_terminal(machine):
    script = Script(machine)
    with rules(machine, run=AUTH_SELF):
        dialog, ended = answer(machine, script.run(), "alice-pw")
    assert dialog.action == "io.sbxctl.run" and (ended.status, ended.text) == (0, "4\n"), ended
    # That somebody has to be asked was learnt by asking without a dialog.
    assert [entry["SBXCTL_DECISION"] for entry in script.decisions()] == ["no-agent", "allowed"]


def test_a_rule_sees_what_is_asked_for(machine):
    condition = (
        'action.lookup("memory") == 1073741824 && action.lookup("network") == "none" && '
        'action.lookup("cpus") == 1 && action.lookup("timeout") == 60 && '
        'action.lookup("engine") == "systemd" && action.lookup("language") == "python" && '
        'action.lookup("script") == "{0.name}" && subject.user == "alice" && '
        'action.lookup("sha256").length == 64 && action.lookup("request").length == 64 '
        f"? {YES} : {NO}"
    )
    script, other = Script(machine), Script(machine)
    with rules(machine, run_resources=condition.format(script)):
        assert machine.run(script.run(*MORE_MEMORY), "alice").text == "4\n"
        assert machine.run(other.run(*MORE_MEMORY), "alice").status == 126
    allowed(script, "run", "run-resources")
    refused(other, "denied", "run-resources")


def test_a_rule_that_fails_is_no_yes(machine):
    script = Script(machine)
    with rules(machine, run_resources="nothing.at.all"):
        assert machine.run(script.run(*MORE_MEMORY), "alice").status == 126
    assert script.started() == []


# ---- what polkit says now is shown, and asked for nothing


POLICIES = {
    "yes": ({"run_network": YES, "run_resources": YES}, "no approval needed"),
    "challenge": ({}, "needs your password"),
    "no": ({"run_network": NO, "run_resources": NO}, "not allowed"),
}


@pytest.mark.parametrize("word", POLICIES)
def test_policy_and_dry_run_tell_what_polkit_says(machine, word):
    results, shown = POLICIES[word]
    with rules(machine, **results):
        policy = json.loads(machine.sbxctl(["policy", "--json"]).stdout)
        text = machine.sbxctl(["policy"]).text
        plan = dry_run(machine, *SEVERAL)
        plan_text = machine.sbxctl(["run", "--dry-run", *SEVERAL, "-c", "1"])
    expected = {"io.sbxctl.run": "yes", "io.sbxctl.run-network": word, "io.sbxctl.run-resources": word}
    assert plan["approvals"] == expected
    assert policy["approvals"].items() >= expected.items()
    for name in ("network", "resources"):
        assert f"{shown} (io.sbxctl.run-{name})" in text
        assert f"io.sbxctl.run-{name}: {shown}\n" in plan_text.text, plan_text
    assert "nothing was run" in plan_text.errors
    assert all(len(line) <= 80 for line in text.splitlines()), text


def test_policy_and_dry_run_without_polkit_promise_nothing(machine):
    with no_polkit(machine):
        policy = json.loads(machine.sbxctl(["policy", "--json"]).stdout)
        text = machine.sbxctl(["policy"]).text
        plan = dry_run(machine, *SEVERAL)
    assert set(policy["approvals"].values()) == set(plan["approvals"].values()) == {"no"}
    assert "not allowed (io.sbxctl.run-network)" in text


def test_an_administrators_action_is_told_as_such(machine):
    policy = json.loads(machine.sbxctl(["policy", "--json"]).stdout)
    assert policy["approvals"]["io.sbxctl.run-image"] == "administrator"
    assert policy["approvals"]["io.sbxctl.run-cloud"] == "challenge"
    assert "needs an administrator (io.sbxctl.run-image)" in machine.sbxctl(["policy"]).text


def test_a_rule_about_amounts_holds_for_the_plan(machine):
    rule = f'action.lookup("memory") <= 1073741824 ? {YES} : {NO}'
    with rules(machine, run_resources=rule):
        for memory, word in (("1G", "yes"), ("1025M", "no")):
            assert dry_run(machine, "--memory", memory)["approvals"]["io.sbxctl.run-resources"] == word


# ---- callers


def test_a_login_session_without_a_seat_can_approve(machine):
    script = Script(machine)
    with Agent(machine, script.run(*MORE_MEMORY), session=True) as agent:
        assert agent.dialog()["uids"] == [1000]
        agent.grant()
        assert (agent.end().status, agent.output) == (0, "4\n"), agent
    allowed(script, "run", "run-resources")
    assert all(entry["SBXCTL_SESSION"] for entry in script.records())


def test_a_login_session_without_a_seat_is_asked_on_its_terminal(machine):
    script = Script(machine)
    with Terminal(machine, script.run(*MORE_MEMORY), session=True) as terminal:
        assert terminal.dialog().identity == "alice"
        terminal.type("alice-pw\n")
        assert (terminal.end().status, terminal.text) == (0, "4\n"), terminal
    allowed(script, "run", "run-resources")


# An environment of somebody who sits at the machine.
SEATED = {
    "XDG_SEAT": "seat0", "XDG_VTNR": "1", "XDG_SESSION_ID": "1", "XDG_SESSION_CLASS": "user",
    "XDG_SESSION_TYPE": "x11", "XDG_RUNTIME_DIR": "/run/user/0", "USER": "root", "LOGNAME": "root",
    "HOME": "/root", "SUDO_UID": "0", "SUDO_USER": "root", "PKEXEC_UID": "0",
}


@pytest.mark.parametrize("session", [False, True], ids=["no session", "login session"])
def test_fault_26_the_environment_of_a_caller_changes_nothing(machine, session):
    active = "subject.local || subject.user == 'root'"
    script = Script(machine)
    with rules(machine, run_resources=f"{active} ? {YES} : {AUTH_SELF}"):
        with Agent(machine, script.run(*MORE_MEMORY), session=session, **SEATED) as agent:
            assert agent.dialog()["uids"] == [1000]
            agent.dismiss()
            assert agent.end().status == 126, agent
    refused(script, "dismissed", "run-resources")
    entry = script.decisions()[0]
    assert (entry["SBXCTL_UID"], entry["SBXCTL_USER"]) == ("1000", "alice")
    assert entry.get("SBXCTL_SESSION") != "1"


def test_root_is_allowed_what_the_ceiling_allows(machine):
    script = Script(machine)
    done = machine.run(script.run(*MORE_MEMORY), "root")
    assert (done.status, done.text) == (0, "4\n"), done
    allowed(script, "run", "run-resources")
    assert machine.sbxctl(["run", "--memory", "1T", "-c", "1"], user="root").status == 125
    assert set(dry_run(machine, *SEVERAL, user="root")["approvals"].values()) == {"yes"}


@pytest.mark.parametrize("uid", [2147483648, 3000000000, 4000000000, 4294967294])
def test_fault_05_a_number_that_polkit_takes_for_another_is_refused(machine, uid):
    """Whatever the rules say."""
    prefix = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    with rules(machine, run=YES, run_resources=YES):
        script = Script(machine)
        for options, about in (([], "running code in a sandbox"), (MORE_MEMORY, "running code in a sandbox")):
            name = f"{script.name[:-3]}-{len(options)}"
            done = machine.run([*prefix, "sbxctl", "run", *options, "-c", "print(4)"])
            assert (done.status, done.text) == (126, ""), done
            assert f"cannot be identified safely, so nobody could approve {about}" in done.errors, name
        dry = machine.run([*prefix, "sbxctl", "run", "--dry-run", "--json", *SEVERAL, "-c", "1"])
        assert set(json.loads(dry.stdout)["approvals"].values()) == {"no"}
        policy = machine.run([*prefix, "sbxctl", "policy", "--json"])
        assert set(json.loads(policy.stdout)["approvals"].values()) == {"no"}
    entries = machine.journal("SBXCTL_DECISION=unidentified", f"SBXCTL_UID={uid}")
    assert len(entries) >= 2 and {entry["SBXCTL_ACTION"] for entry in entries} == {"io.sbxctl.run"}
    assert machine.run(["ls", f"/var/lib/sbxctl/users/{uid}"]).status != 0


def test_fault_58_polkit_is_asked_about_the_callers_process(machine):
    script = Script(machine)
    helper = machine.run(["systemctl", "show", "-P", "MainPID", "sbxctl-helper.service"]).text.strip()
    with Agent(machine, script.run(*MORE_MEMORY)) as agent:
        details = agent.dialog()["details"]
        assert details["polkit.subject-pid"] == str(agent.pid) != details["polkit.caller-pid"]
        helper = machine.run(["systemctl", "show", "-P", "MainPID", "sbxctl-helper.service"]).text.strip()
        assert details["polkit.caller-pid"] == helper
        agent.dismiss()
        agent.end()
    (entry,) = script.decisions()
    assert entry["SBXCTL_PID"] == str(agent.pid)


PROXY = """
import sys, threading
from varlink_client import *
listener = socket.create_server(sys.argv[1], family=socket.AF_UNIX)
os.chmod(sys.argv[1], 0o666)
print("up", flush=True)
near = listener.accept()[0]
far = connect()
def copy(source, sink):
    while data := source.recv(65536):
        sink.sendall(data)
    sink.shutdown(socket.SHUT_WR)
threading.Thread(target=copy, args=(near, far)).start()
copy(far, near)
"""


def test_fault_59_what_comes_through_a_proxy_is_the_proxys(machine):
    """Its rights are those of the proxy's user, and the record names nobody else."""
    for owner, decision in (("bob", "denied"), ("root", "allowed")):
        path = f"/tmp/proxy-{owner}"
        machine.run(["rm", "-f", path])
        proxy = machine.popen(machine.python(PROXY, path), user=owner)
        assert proxy.popen.stdout.readline() == b"up\n"
        script = Script(machine)
        request = message("Run", script="1", scriptName=script.name, memoryBytes=1 << 30)
        bob = f"subject.user == 'bob' ? {NO} : {YES}"
        with rules(machine, run_resources=bob):
            machine.run(["socat", "-t10", "-", f"UNIX-CONNECT:{path}"], "alice", request)
        proxy.finish()
        (entry,) = script.decisions()
        assert (entry["SBXCTL_DECISION"], entry["SBXCTL_USER"]) == (decision, owner)


def test_fault_12_a_rule_that_is_taken_away_counts_for_nothing_at_once(machine):
    with Connection(machine) as connection:
        set_rules(machine, run_resources=YES)
        try:
            first = connection.run(memoryBytes=1 << 30)
            assert first["parameters"]["result"]["status"] == "succeeded", first
        finally:
            remove_rules(machine)
        second = connection.run(memoryBytes=1 << 30)
        assert second["error"] == "io.sbxctl.Sandbox.ApprovalRequired", second
