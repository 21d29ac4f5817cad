"""The policy file as it is installed, held against rules that others learnt the hard way, and against
what the helper really sends."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from agent import Agent
from approvals import every_refusal_is_recorded
from approvals import NO, SEVERAL, YES, Script, dry_run, restart_polkit, rules

POLICY = "/usr/share/polkit-1/actions/io.sbxctl.policy"
LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
# How much a result asks of somebody.
STRENGTH = {"yes": 0, "auth_self": 1, "auth_admin": 2, "no": 3}
# DESIGN.md, section 7. What is changed here is changed there, and reviewed.
EXPECTED = {
    "run": "yes", "run-packages": "yes", "run-network": "auth_self", "run-resources": "auth_self",
    "run-cloud": "auth_self", "run-elevated": "auth_self", "run-image": "auth_admin",
    "manage": "auth_admin", "run-elevated-admin": "auth_admin",
}


@pytest.fixture(scope="module")
def actions(machine):
    policy = ElementTree.fromstring(machine.read(POLICY))
    return {action.get("id"): action for action in policy.iter("action")}


def defaults(action):
    return {kind: action.find("defaults").findtext(kind)
            for kind in ("allow_any", "allow_inactive", "allow_active")}


def test_fault_62_each_action_asks_what_the_design_says(actions):
    assert set(actions) == {f"io.sbxctl.{name}" for name in EXPECTED}
    for name, result in EXPECTED.items():
        assert set(defaults(actions[f"io.sbxctl.{name}"]).values()) == {result}, name


def test_fault_06_no_approval_is_kept_and_none_implies_another(actions):
    for name, action in actions.items():
        assert not [result for result in defaults(action).values() if result.endswith("_keep")], name
        keys = [note.get("key") for note in action.iter("annotate")]
        assert keys == ["org.freedesktop.policykit.owner"], name
        assert action.findtext("annotate") == "unix-user:sbxctl", name


def test_fault_62_somebody_far_away_has_no_more_rights_than_somebody_at_the_machine(actions):
    for name, action in actions.items():
        strength = {kind: STRENGTH[result] for kind, result in defaults(action).items()}
        assert strength["allow_any"] >= strength["allow_inactive"] >= strength["allow_active"], name


def test_a_combination_asks_no_less_than_its_strongest_part(actions):
    def strength(name):
        return STRENGTH[defaults(actions[f"io.sbxctl.{name}"])["allow_any"]]

    parts = [name for name in EXPECTED if name.startswith("run-") and "elevated" not in name]
    for name in parts:
        combination = "run-elevated-admin" if strength(name) == 2 else "run-elevated"
        assert strength(combination) >= strength(name)


def test_each_action_is_described_in_every_language(actions):
    languages = {None, "de", "zh_CN"}
    for name, action in actions.items():
        for kind in ("description", "message"):
            texts = {element.get(LANGUAGE): element.text for element in action.findall(kind)}
            assert set(texts) == languages and all(texts.values()), (name, kind)
            assert len(set(texts.values())) == len(languages), (name, kind)
            variables = {tuple(sorted(re.findall(r"\$\((\w+)\)", text))) for text in texts.values()}
            assert len(variables) == 1, (name, kind)
        assert len(action.findtext("description")) <= 100, name


def used_variables(actions):
    return {
        variable for action in actions.values() for message in action.findall("message")
        for variable in re.findall(r"\$\((\w+)\)", message.text)
    }


def test_every_variable_of_a_message_is_sent(machine, actions):
    names = sorted(used_variables(actions))
    assert len(names) >= 8, names
    for asked_for, word in ((names, "yes"), ([*names, "nothing"], "no")):
        sees = f"{asked_for}.every(function (name) {{ return action.lookup(name); }})"
        with rules(machine, run_network=f"{sees} ? {YES} : {NO}"):
            assert dry_run(machine, "--network")["approvals"]["io.sbxctl.run-network"] == word


def test_polkit_knows_the_file_and_takes_it_without_a_word(machine, actions):
    restart_polkit(machine)
    pid = machine.run(["systemctl", "show", "-P", "MainPID", "polkit.service"]).text.strip()
    known = machine.run(["pkaction"], check=True).text.split()
    assert set(actions) <= set(known)
    said = [entry["MESSAGE"] for entry in machine.journal(f"_PID={pid}")]
    assert not [line for line in said if "sbxctl" in line and "rror" in line], said


def test_fault_60_nothing_switches_the_question_off(machine):
    """No option of the unit, the environment or the configuration runs anything unasked."""
    unit = machine.run(["systemctl", "cat", "sbxctl-helper.service"], check=True).text
    assert "Environment" not in unit
    with rules(machine, run=NO):
        names = ("SYSTEMD_BYPASS_POLKIT", "SBXCTL_NO_POLKIT", "SBXCTL_DEBUG", "POLKIT_BYPASS")
        script = Script(machine)
        command = ["env", *(f"{name}=1" for name in names), *script.run()]
        assert machine.run(command, "alice").status == 126
        assert script.started() == []
    path = "/etc/sbxctl/sbxctl.conf.d/90-approvals.conf"
    machine.run(["systemctl", "stop", "sbxctl-helper.service"], check=True)
    for key in ("Polkit=no", "Authorization=off", "Approval=no"):
        machine.write(path, f"[Helper]\n{key}\n".encode())
        machine.run(["systemctl", "reset-failed", "sbxctl-helper.service", "sbxctl-helper.socket"])
        try:
            assert machine.run(["systemctl", "start", "sbxctl-helper.service"]).status != 0, key
        finally:
            machine.run(["rm", path], check=True)
            machine.run(["systemctl", "stop", "sbxctl-helper.service"])
            machine.run(["systemctl", "reset-failed", "sbxctl-helper.service", "sbxctl-helper.socket"])
            machine.run(["systemctl", "restart", "sbxctl-helper.socket"], check=True)
    assert machine.sbxctl(["run", "-c", "print(4)"]).text == "4\n"


# ---- our own rule, which keeps an administrator's word within a combined dialog


@pytest.mark.parametrize(
    "results, outcome",
    [
        ({}, "dialog"),
        ({"run_elevated": YES}, "allowed"),
        ({"run_elevated": NO}, "refused"),
        # polkit takes a rule that throws for a no.
        ({"run_elevated": "nothing.at.all"}, "refused"),
    ],
    ids=["no rule", "yes", "no", "broken"],
)
def test_a_rule_about_the_combination_itself_counts(machine, results, outcome):
    script = Script(machine)
    with rules(machine, **results), Agent(machine, script.run(*SEVERAL)) as agent:
        if outcome == "dialog":
            assert agent.dialog()["uids"], agent
            agent.dismiss()
            assert agent.end().status == 126
            return
        agent.end()
        assert agent.asked == [], agent
    assert script.decision()[0] == outcome, agent
