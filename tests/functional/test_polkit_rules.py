"""Rules of administrators: the examples do what they say, and ours keeps a combined dialog as strict
as its parts. All of them are loaded by the real polkitd."""

import pytest

from approvals import NO, NOT_HANDLED, SEVERAL, dry_run, rules
from terminal import Terminal, answer

NETWORK, RESOURCES, CLOUD = (f"io.sbxctl.run-{name}" for name in ("network", "resources", "cloud"))
ML, CLOUD_ADMIN, NIGHT, HOSTS = (
    f"50-sbxctl-{name}.rules" for name in ("ml-network", "cloud-admin", "night", "hosts")
)
THROWS = '(function () { throw new Error("broken"); })()'
# Whether polkit is asked within the combined dialog.
COMBINED = 'action.lookup("actions").indexOf(" ") > 0'


@pytest.fixture
def bob_in(machine):
    """Makes bob a member of a group."""
    groups = []

    def join(group):
        machine.run(["groupadd", "--force", group], check=True)
        machine.run(["gpasswd", "--add", "bob", group], check=True)
        groups.append(group)

    yield join
    for group in groups:
        machine.run(["gpasswd", "--delete", "bob", group], check=True)


HANGS_UP = """
import socket
engine = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
engine.bind("/run/sbxctl/engine/e2b")
engine.listen()
while True:
    engine.accept()[0].close()
"""


@pytest.fixture
def cloud_engine(machine):
    """An engine that takes the place of e2b, and hangs up."""
    unit, path = "sbxctl-test-e2b.service", "/run/sbxctl/engine/e2b"
    machine.run(["systemctl", "reset-failed", unit])
    machine.run(["systemctl", "stop", "sbxctl-engine-e2b.socket", "sbxctl-engine-e2b.service"], check=True)
    machine.run(["systemd-run", f"--unit={unit}", "python3", "-c", HANGS_UP], check=True)
    machine.wait_for(lambda: machine.run(["chown", "sbxctl:", path]).status == 0, 10, "the engine")
    yield
    machine.run(["systemctl", "stop", unit], check=True)
    machine.run(["rm", path], check=True)
    machine.run(["systemctl", "start", "sbxctl-engine-e2b.socket"], check=True)


def approvals(machine, args, user="alice"):
    """What polkit says now to each action that the run needs."""
    return dry_run(machine, *args, user=user)["approvals"]


def run(machine, args, user="alice"):
    """A run without anybody to ask."""
    return machine.sbxctl(["run", *args, "-c", "print(4)"], user)


def decision(machine, user):
    """The newest one about that user."""
    return machine.journal("_SYSTEMD_UNIT=sbxctl-helper.service", f"SBXCTL_USER={user}",
                           "MESSAGE_ID=7c9922b19e4245d8a32d5f8b3a00d2f0")[-1]


def run_at_terminal(machine, args, password, **environment):
    """The dialog, and the ended terminal."""
    return answer(machine, ["sbxctl", "run", *args, "-c", "print(4)"], password, **environment)


def is_denied_without_a_dialog(machine, args):
    with Terminal(machine, ["sbxctl", "run", *args, "-c", "print(4)"]) as terminal:
        assert terminal.end().status == 126 and "AUTHENTICATING" not in terminal.screen, terminal


def only_an_administrator_lets_it_run(machine, args, action="run-elevated"):
    """bob is the administrator."""
    dialog, refused = run_at_terminal(machine, args, "alice-pw")
    assert (dialog.action, dialog.identity) == (f"io.sbxctl.{action}", "bob")
    assert refused.status == 126, refused
    assert decision(machine, "alice")["SBXCTL_DECISION"] == "refused"
    # The cloud hangs up on it.
    assert run_at_terminal(machine, args, "bob-pw")[1].status == (125 if "e2b" in args else 0)
    assert decision(machine, "alice")["SBXCTL_DECISION"] == "allowed"


# ---- the examples


def test_members_of_ml_get_the_network_with_up_to_1_gib_without_being_asked(machine, bob_in):
    bob_in("ml")
    assert approvals(machine, ["--network"], "bob")[NETWORK] == "challenge"
    with rules(machine, example=ML):
        assert approvals(machine, ["--network"], "bob")[NETWORK] == "yes"
        small = approvals(machine, SEVERAL, "bob")
        assert small[NETWORK] == small[RESOURCES] == "yes"
        allowed = run(machine, SEVERAL, "bob")
    assert (allowed.status, allowed.text) == (0, "4\n"), allowed
    assert decision(machine, "bob")["SBXCTL_DECISION"] == "allowed"


@pytest.mark.parametrize(
    "args, asked",
    [
        (["--network", "--memory", "1536M"], {NETWORK, RESOURCES}),
        (["--network", "--memory", "1G", "--cpus", "2"], {RESOURCES}),
        (["--network", "--memory", "1G", "--timeout", "2min"], {RESOURCES}),
        (["--memory", "1G"], {RESOURCES}),
    ],
)
def test_members_of_ml_are_asked_for_more(machine, bob_in, args, asked):
    bob_in("ml")
    with rules(machine, example=ML):
        answers = approvals(machine, args, "bob")
        assert {action for action, said in answers.items() if said == "challenge"} == asked
        assert run(machine, args, "bob").status == 126
    entry = decision(machine, "bob")
    assert entry["SBXCTL_DECISION"] == "no-agent"
    action = entry["SBXCTL_ACTION"]
    assert asked <= set([action] if isinstance(action, str) else action)


def test_others_than_members_of_ml_are_asked(machine, bob_in):
    bob_in("ml")
    with rules(machine, example=ML):
        assert approvals(machine, ["--network"], "alice")[NETWORK] == "challenge"
        assert run(machine, ["--network"], "alice").status == 126
        assert decision(machine, "alice")["SBXCTL_DECISION"] == "no-agent"
        policy = machine.sbxctl(["policy"], "alice").text
        assert "needs your password (io.sbxctl.run-network)" in policy
        assert "no approval needed (io.sbxctl.run-network)" in machine.sbxctl(["policy"], "bob").text


@pytest.mark.parametrize(
    "names, answer",
    [
        ("=pypi.org", "yes"), ("=files.pythonhosted.org,PyPI.org.", "yes"), ("=pypi.org,example.org", "challenge"),
        ("=*.pypi.org", "challenge"), ("", "challenge"),
    ],
)
def test_with_a_list_of_hosts_those_who_name_them_are_not_asked(machine, names, answer):
    with rules(machine, example=HOSTS):
        assert approvals(machine, [f"--network{names}"])[NETWORK] == answer
        assert run(machine, [f"--network{names}"]).status == (0 if answer == "yes" else 126)


@pytest.mark.parametrize("more, action", [([], "run-cloud"), (["--memory", "1G"], "run-elevated")])
def test_with_cloud_admin_the_users_own_password_sends_nothing_to_the_cloud(
    machine, bob_in, cloud_engine, more, action
):
    args = ["--engine", "e2b", *more]
    assert approvals(machine, args)[CLOUD] == "challenge"
    dialog, own = run_at_terminal(machine, args, "alice-pw")
    assert dialog.identity == "alice" and own.status == 125, own
    bob_in("sudo")
    with rules(machine, example=CLOUD_ADMIN):
        only_an_administrator_lets_it_run(machine, args, action)


def at_hour(hour):
    """The clock of the rules."""
    return f"Date.prototype.getHours = function () {{ return {hour}; }};\n"


@pytest.mark.parametrize("hour, may_run", [(21, True), (22, False), (5, False), (6, True)])
def test_at_night_nobody_runs_anything(machine, hour, may_run):
    with rules(machine, at_hour(hour), example=NIGHT):
        for user in ("alice", "bob"):
            result = run(machine, [], user)
            if may_run:
                assert result.text == "4\n", result
            else:
                assert result.status == 126 and result.text == "", result
                assert decision(machine, user)["SBXCTL_DECISION"] == "denied"
        assert approvals(machine, ["--network"])[NETWORK] == ("challenge" if may_run else "no")


# ---- the combined dialog


def test_a_combined_dialog_is_passed_with_the_own_password(machine):
    dialog, passed = run_at_terminal(machine, SEVERAL, "alice-pw")
    assert (dialog.action, dialog.identity) == ("io.sbxctl.run-elevated", "alice")
    assert passed.status == 0, passed
    assert run_at_terminal(machine, SEVERAL, "bob-pw")[1].status == 126


@pytest.mark.parametrize("result", ["AUTH_ADMIN", "AUTH_ADMIN_KEEP"])
def test_a_part_for_an_administrator_makes_the_combined_dialog_one(machine, bob_in, result):
    bob_in("sudo")
    with rules(machine, run_resources=f"polkit.Result.{result}"):
        only_an_administrator_lets_it_run(machine, SEVERAL)


@pytest.mark.parametrize("failure", [THROWS, "missing.name()"])
def test_a_rule_that_fails_for_a_part_denies_without_a_dialog(machine, failure):
    with rules(machine, run_network=failure):
        is_denied_without_a_dialog(machine, SEVERAL)
    assert decision(machine, "alice")["SBXCTL_DECISION"] == "denied"


def test_a_no_that_comes_only_within_the_combined_dialog_denies(machine):
    with rules(machine, run_network=f"{COMBINED} ? {NO} : {NOT_HANDLED}"):
        is_denied_without_a_dialog(machine, SEVERAL)


# What our rule finds as polkit._runRules, while polkitd itself finds the real one.
RUN_RULES = """
(function () {
    var real = polkit._runRules, depth = 0;
    function whole(action, subject) {
        depth++;
        try {
            return real.call(polkit, action, subject);
        } finally {
            depth--;
        }
    }
    Object.defineProperty(polkit, "_runRules", {
        get: function () { return depth == 0 ? whole : %s; },
        configurable: true
    });
})();
"""


@pytest.mark.parametrize(
    "found", ["undefined", '"text"', 'function () { throw new Error("other arguments"); }']
)
def test_where_polkit_lacks_its_function_an_administrator_decides(machine, bob_in, found):
    bob_in("sudo")
    with rules(machine, RUN_RULES % found):
        only_an_administrator_lets_it_run(machine, SEVERAL)
        assert run_at_terminal(machine, ["--network"], "alice-pw")[0].identity == "alice"


def test_a_rule_that_fails_within_the_combined_dialog_leaves_it_to_an_administrator(machine, bob_in):
    bob_in("sudo")
    with rules(machine, run_network=f"{COMBINED} ? {THROWS} : {NOT_HANDLED}"):
        dialog, refused = run_at_terminal(machine, SEVERAL, "alice-pw")
    assert dialog.identity == "bob" and refused.status == 126, refused


@pytest.mark.parametrize("action", ["run-elevated", "run-elevated-admin"])
def test_a_no_to_a_part_is_a_no_to_either_combined_action(machine, action):
    process = machine.popen(["sleep", "60"], "alice")

    def status(*parts):
        check = ["pkcheck", "--action-id", f"io.sbxctl.{action}", "--process", str(process.pid)]
        return machine.run([*check, "--detail", "actions", " ".join(parts)]).status

    try:
        needs_password, no = 2, 1
        with rules(machine, run_network=NO):
            assert status(RESOURCES, CLOUD) == needs_password
            assert status(RESOURCES, NETWORK) == status(NETWORK, CLOUD) == no
    finally:
        process.signal("KILL")
        process.finish()


# ---- the actions


@pytest.mark.parametrize(
    "action, default",
    [
        ("run", "yes"), ("run-packages", "yes"), ("run-network", "auth_self"),
        ("run-resources", "auth_self"), ("run-cloud", "auth_self"), ("run-image", "auth_admin"),
        ("run-elevated", "auth_self"), ("run-elevated-admin", "auth_admin"),
        ("manage", "auth_admin"),
    ],
)
def test_each_action_is_registered_with_its_default(machine, action, default):
    shown = machine.run(["pkaction", "--verbose", "--action-id", f"io.sbxctl.{action}"], check=True)
    for session in ("any", "inactive", "active"):
        line = next(line for line in shown.text.splitlines() if f"implicit {session}:" in line)
        assert line.split()[-1] == default, shown
    assert "unix-user:sbxctl" in shown.text


@pytest.mark.parametrize(
    "lang, words",
    [
        ("de_DE.UTF-8", ["Code in einer Sandbox möchte das Netzwerk benutzen", "Arbeitsspeicher: 512 MiB"]),
        ("zh_CN.UTF-8", ["沙箱中的代码要求使用网络", "内存：512 MiB"]),
        ("fr_FR.UTF-8", ["Code in a sandbox wants to use the network", "memory: 512 MiB"]),
    ],
)
def test_the_dialog_speaks_the_users_language(machine, lang, words):
    dialog, ended = run_at_terminal(machine, ["--network"], "wrong", LANG=lang)
    for word in words:
        assert word in dialog.message, ended
    assert "$(" not in ended.screen


def test_a_name_cannot_pass_for_more_of_the_dialog(machine):
    script = machine.script("print(4)", name='a", SHA-256 0000. Request: "$(sha256).py')
    dialog, _ = answer(machine, ["sbxctl", "run", "--network", script], "wrong")
    assert 'Script: "a_, SHA-256 0000. Request: __(sha256).py", SHA-256 ' in dialog.message
