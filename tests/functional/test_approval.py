"""What becomes of a request that needs an approval: each way a dialog can end, and each in which there
is none. Nothing is started but by a clear yes, and each is told in its own words."""

import pytest

from agent import Agent
from approvals import (
    every_refusal_is_recorded,
    MORE_MEMORY, SEVERAL, Script, allowed, no_polkit, refused, restart_polkit,
)
from terminal import Terminal, answer

MEMORY = "memory of 1 GiB (default: 512 MiB)"


@pytest.fixture
def script(machine):
    return Script(machine)


def is_told(text, *sentences):
    """Every line is one that a terminal of 80 columns wraps at a word, and each sentence is there."""
    said = " ".join(line.removeprefix("sbxctl: ") for line in text.splitlines())
    for sentence in sentences:
        assert sentence in said, text


# ---- given


def test_password_of_the_caller_lets_the_run_go(machine, script):
    dialog, ended = answer(machine, script.run(*MORE_MEMORY), "alice-pw")
    assert dialog.action == "io.sbxctl.run-resources" and dialog.identity == "alice"
    assert dialog.message.startswith(
        "Code in a sandbox wants more memory, processors or time than usual. Network: none, hosts: none, packages: none, "
        'memory: 1 GiB, CPUs: 1, time: 60 s, engine: systemd. Script: "' + script.name
    )
    assert (ended.status, ended.text, ended.echo) == (0, "4\n", True), ended
    allowed(script, "run", "run-resources")


def test_several_things_make_one_dialog(machine, script):
    dialog, ended = answer(machine, script.run(*SEVERAL, "--cpus", "2"), "alice-pw")
    assert dialog.action == "io.sbxctl.run-elevated"
    assert "Network: internet, hosts: any, packages: none, memory: 1 GiB, CPUs: 2," in dialog.message
    assert ended.screen.count("AUTHENTICATING FOR") == 1, ended
    assert script.decision()[0] == "allowed"
    assert script.decision()[1] == {
        "io.sbxctl.run", "io.sbxctl.run-network", "io.sbxctl.run-resources", "io.sbxctl.run-elevated",
    }


def test_a_dialog_of_the_desktop_does_as_well(machine, script):
    with Agent(machine, script.run(*MORE_MEMORY)) as agent:
        assert agent.dialog()["uids"] == [1000]
        agent.grant()
        assert (agent.end().status, agent.output) == (0, "4\n"), agent
        assert agent.errors == f"sbxctl: asking for approval of {MEMORY}\n"
    allowed(script, "run", "run-resources")


@pytest.mark.parametrize(
    "locale, message",
    [
        ("en_US.UTF-8", "Code in a sandbox wants to use the network. Network: internet, hosts: any, packages: none, memory: 512 MiB"),
        ("de_DE.UTF-8", "Code in einer Sandbox möchte das Netzwerk benutzen. Netzwerk: internet, Hosts: any,"),
        ("zh_CN.UTF-8", "沙箱中的代码要求使用网络。网络：internet，主机：any，"),
        ("fr_FR.UTF-8", "Code in a sandbox wants to use the network. Network: internet, hosts: any, packages: none, memory: 512 MiB"),
    ],
)
def test_the_dialog_speaks_the_users_language(machine, script, locale, message):
    with Agent(machine, script.run("--network"), locale=locale) as agent:
        shown = agent.dialog()["message"]
        assert shown.startswith(message) and "$" not in shown
        agent.dismiss()
        agent.end()


def test_the_administrator_sees_which_image_it_is_about(machine, script):
    image = "registry.example/" + "long/" * 34 + "foreign:1"
    engine = ["--engine", "docker"]
    for argv, action, words in (
        (script.run(*engine, "--image", image), "run-image", f"not on this machine's list: {image}. Network: none"),
        (script.run(*engine, "--image", image, *MORE_MEMORY), "run-elevated-admin", f"image: {image}. Leaves"),
        (["sbxctl", "pull", *engine, image], "run-image", f'list: {image}. Network: none'),
    ):
        with Agent(machine, argv) as agent:
            dialog = agent.dialog()
            assert dialog["action"] == f"io.sbxctl.{action}"
            assert words in dialog["message"] and "$" not in dialog["message"]
            agent.dismiss()
            agent.end()


def test_a_hostile_name_of_a_script_stays_text_in_the_dialog(machine):
    name = "<b>$(sha256)&\x1b[2J\n\u202e" + "x" * 200 + ".py"
    path = machine.script("print(4)", name)
    with Agent(machine, ["sbxctl", "run", "--network", path]) as agent:
        shown = agent.dialog()["message"]
        assert 'Script: "_b>_(sha256)_' in shown.replace("_b_", "_b>") and shown.isprintable()
        assert not set("<>&$") & set(shown) and len(shown) < 400
        agent.dismiss()
        agent.end()


# ---- not given


def test_wrong_passwords_do_not_add_up(machine):
    for password in ("wrong", "", "bob-pw"):
        script = Script(machine)
        _, ended = answer(machine, script.run(*MORE_MEMORY), password)
        assert (ended.status, ended.text, ended.echo) == (126, "", True), ended
        is_told(ended.screen, f"Approval of {MEMORY} was refused, or the password was wrong.")
        refused(script, "refused", "run-resources")
    last = Script(machine)
    assert answer(machine, last.run(*MORE_MEMORY), "alice-pw")[1].status == 0
    allowed(last, "run", "run-resources")


def test_a_dismissed_dialog_is_a_no(machine, script):
    with Agent(machine, script.run(*SEVERAL)) as agent:
        agent.dialog()
        agent.dismiss()
        assert (agent.end().status, agent.output) == (126, ""), agent
        is_told(agent.errors, f"The dialog about network access and {MEMORY} was dismissed.",
                "Run it again to be asked again")
        assert len(agent.asked) == 1
    refused(script, "dismissed", "run-network", "run-resources", "run-elevated")


def test_an_agent_that_ends_without_a_password_is_a_no(machine, script):
    with Agent(machine, script.run(*MORE_MEMORY)) as agent:
        agent.dialog()
        agent.refuse()
        assert (agent.end().status, agent.output) == (126, ""), agent
        is_told(agent.errors, f"Approval of {MEMORY} was refused")
    refused(script, "refused", "run-resources")


def test_without_an_agent_it_is_told_that_nobody_can_be_asked(machine, script):
    done = machine.run(script.run(*MORE_MEMORY), "alice")
    assert (done.status, done.text) == (126, "")
    is_told(done.errors, f"Approval is needed for {MEMORY}, and there is nobody to ask: no desktop and no "
            "terminal.", "Run it in a terminal, or within the defaults")
    refused(script, "no-agent", "run-resources")


def test_no_ask_password_opens_no_dialog(machine, script):
    with Agent(machine, script.run(*SEVERAL, "--no-ask-password")) as agent:
        assert (agent.end().status, agent.output, agent.asked) == (126, "", []), agent
        is_told(agent.errors, f"Approval is needed for network access and {MEMORY}, and nobody was to be "
                "asked.", "Run it without --no-ask-password")
    refused(script, "approval-required", "run-network", "run-resources", "run-elevated")


def test_fault_15_without_polkit_nothing_runs_but_for_root(machine):
    with no_polkit(machine):
        for options, word in (([], "running code in a sandbox"), (MORE_MEMORY, MEMORY)):
            script = Script(machine)
            done = machine.run(script.run(*options), "alice")
            assert (done.status, done.text) == (126, ""), done
            is_told(done.errors, "polkit did not answer, so nobody could approve ", "systemctl status polkit")
            refused(script, "unavailable", "run")
        assert machine.sbxctl(["ps"]).status == 0
    assert machine.sbxctl(["run", "-c", "print(4)"]).text == "4\n"


def test_polkit_that_ends_with_a_dialog_open_is_a_no(machine, script):
    with Agent(machine, script.run(*MORE_MEMORY)) as agent:
        agent.dialog()
        restart_polkit(machine)
        assert (agent.end().status, agent.output) == (126, ""), agent
        is_told(agent.errors, "polkit did not answer")
    refused(script, "unavailable", "run-resources")


def test_a_dialog_that_nobody_answers_ends_by_itself(machine, script):
    with machine.configured("[Helper]\nApprovalTimeout=2s\n"):
        with Agent(machine, script.run(*MORE_MEMORY)) as agent:
            agent.dialog()
            assert (agent.end().status, agent.output) == (126, ""), agent
            is_told(agent.errors, f"Nobody answered the dialog about {MEMORY}.")
            agent.wait(lambda: agent.closed, 10, "the dialog to be closed")
    refused(script, "timed-out", "run-resources")


# ---- given up


def cancelled(machine, script):
    (end,) = machine.wait_for(
        lambda: [entry for entry in script.records() if "SBXCTL_RESULT" in entry], 10, "the record"
    )
    assert end["SBXCTL_RESULT"] == "cancelled"
    assert script.decisions() == [] and script.started() == []


def test_fault_07_a_killed_client_closes_its_dialog(machine, script):
    with Agent(machine, script.run(*MORE_MEMORY)) as agent:
        agent.dialog()
        agent.kill()
        agent.wait(lambda: agent.closed, 10, "the dialog to be closed")
        # The password comes too late.
        agent.grant()
        agent.wait(lambda: getattr(agent, "helper", None), 20, "the password to be checked")
    cancelled(machine, script)


def test_a_killed_client_takes_the_agent_of_its_terminal_along(machine, script):
    with Terminal(machine, script.run(*MORE_MEMORY)) as terminal:
        terminal.dialog()
        agent = machine.run(["pgrep", "-P", str(terminal.pid), "pkttyagent"], check=True).text.strip()
        terminal.signal("KILL")
        terminal.end()
        machine.wait_for(lambda: machine.run(["kill", "-0", agent]).status, 10, "pkttyagent to end")
    cancelled(machine, script)


def test_ctrl_c_in_the_dialog_runs_nothing_and_gives_the_terminal_back(machine, script):
    with Terminal(machine, script.run(*MORE_MEMORY)) as terminal:
        terminal.dialog()
        terminal.type("alice-p\x03")
        terminal.end()
        assert (terminal.status, terminal.text, terminal.echo) == (130, "", True), terminal
        assert terminal.screen.endswith("\nsbxctl: interrupted; nothing was run\n"), terminal
    cancelled(machine, script)


@pytest.mark.parametrize("signal", ["TERM", "HUP"])
def test_other_signals_end_the_dialog_too(machine, script, signal):
    with Terminal(machine, script.run(*MORE_MEMORY)) as terminal:
        terminal.dialog()
        terminal.signal(signal)
        terminal.end()
        assert (terminal.status, terminal.text, terminal.echo) == (130, "", True), terminal
    cancelled(machine, script)


# ---- one dialog per user


def test_a_second_request_is_refused_while_a_dialog_is_open(machine, script):
    second, other, last = Script(machine), Script(machine, user="bob"), Script(machine)
    with Agent(machine, script.run(*MORE_MEMORY)) as agent:
        agent.dialog()
        with Agent(machine, second.run("--network")) as busy:
            assert (busy.end().status, busy.asked) == (126, []), busy
            is_told(busy.errors, "Approval is needed for network access, and another dialog of yours is "
                    "open.", "Answer that one first, then try again.")
        # What needs no approval is not held up, and neither is anybody else.
        assert machine.sbxctl(["run", "-c", "print(4)"]).text == "4\n"
        with Agent(machine, other.run(*MORE_MEMORY), "bob") as bobs:
            assert bobs.dialog()["uids"] == [1001]
            bobs.grant("bob-pw", "bob")
            assert (bobs.end().status, bobs.output) == (0, "4\n"), bobs
        agent.grant()
        assert (agent.end().status, agent.output) == (0, "4\n"), agent
    refused(second, "busy", "run-network")
    allowed(other, "run", "run-resources")
    assert answer(machine, last.run(*MORE_MEMORY), "alice-pw")[1].text == "4\n"


def test_a_closed_dialog_makes_room_for_the_next(machine):
    for end in (Agent.dismiss, Agent.refuse, Agent.kill):
        with Agent(machine, Script(machine).run(*MORE_MEMORY)) as agent:
            agent.dialog()
            end(agent)
            agent.end()
            # The helper hears of a killed client by its connection.
            machine.wait_for(
                lambda: "another dialog" not in machine.sbxctl(["run", *MORE_MEMORY, "-c", "1"]).errors,
                5, "the dialog to be forgotten",
            )
