"""Rules of administrators: the examples do what they say, and ours keeps a combined dialog as strict
as its parts. All of them are loaded by the real polkitd."""

import json

import pytest

from dialogs import answer

NETWORK, RESOURCES, CLOUD = (f"io.sbxctl.run-{name}" for name in ("network", "resources", "cloud"))
NO_NETWORK_HERE = "cannot give a sandbox access to the network"
RULES = "/etc/polkit-1/rules.d"
MARKED = "io.sbxctl.manage"


def rule(condition, result):
    return f"polkit.addRule(function (action, subject) {{ if ({condition}) {result}; }});\n"


def about(action, more="true"):
    return f'action.id == "{action}" && {more}'


class Rules:
    """Rule files of this machine's administrator, by their names."""

    def __init__(self, machine):
        self.machine = machine
        self.paths = set()
        self.marker = None

    def add(self, name, text):
        self.paths.add(f"{RULES}/{name}")
        self.machine.write(f"{RULES}/{name}", text.encode())
        self.wait_until_loaded()

    def add_example(self, name):
        """As the man page says it."""
        path = f"{RULES}/{name}"
        self.paths.add(path)
        self.machine.run(["cp", f"/usr/share/sbxctl/polkit/{name}", path], check=True)
        self.wait_until_loaded()

    def wait_until_loaded(self):
        """polkitd loads all files again at each change. This one is the last change, and gives an
        answer that it did not give before, about an action that nothing else here is about."""
        self.marker = "NO" if self.marker == "YES" else "YES"
        path = f"{RULES}/99-test-marker.rules"
        self.paths.add(path)
        self.machine.write(path, rule(about(MARKED), f"return polkit.Result.{self.marker}").encode())
        check = ["sh", "-c", f"exec pkcheck --action-id {MARKED} --process $$"]
        status = {"YES": 0, "NO": 1}[self.marker]
        self.machine.wait_for(
            lambda: self.machine.run(check, "alice").status == status, 10, "the rules to be loaded"
        )

    def remove(self):
        """Also what a rule file has changed in the JavaScript that all share: so polkitd starts
        again, as often as there are tests."""
        self.machine.run(["rm", "-f", *self.paths], check=True)
        self.machine.run(["systemctl", "reset-failed", "polkit"])
        self.machine.run(["systemctl", "restart", "polkit"], check=True)


@pytest.fixture
def rules(machine):
    rules = Rules(machine)
    yield rules
    rules.remove()


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
    """An engine named e2b that is there, and hangs up."""
    unit, path = "sbxctl-test-e2b.service", "/run/sbxctl/engine/e2b"
    machine.run(["systemctl", "reset-failed", unit])
    machine.run(["systemd-run", f"--unit={unit}", "python3", "-c", HANGS_UP], check=True)
    machine.wait_for(lambda: machine.run(["chown", "sbxctl:", path]).status == 0, 10, "the engine")
    yield
    machine.run(["systemctl", "stop", unit], check=True)
    machine.run(["rm", path], check=True)


def approvals(machine, args, user="alice"):
    """What polkit says now to each action that the run needs."""
    planned = machine.sbxctl(["run", "--dry-run", "--json", *args, "-c", "print(4)"], user)
    return json.loads(planned.stdout)["approvals"]


def run(machine, args, user="alice"):
    """A run without anybody to ask."""
    return machine.sbxctl(["run", *args, "-c", "print(4)"], user)


def decision(machine, user):
    """The newest one about that user."""
    return machine.journal("_SYSTEMD_UNIT=sbxctl-helper.service", f"SBXCTL_USER={user}",
                           "MESSAGE_ID=7c9922b19e4245d8a32d5f8b3a00d2f0")[-1]


def run_at_terminal(machine, args, password, lang="C.UTF-8"):
    return answer(machine, ["sbxctl", "run", *args, "-c", "print(4)"], password, lang=lang)


# ---- the examples


def test_members_of_ml_get_the_network_with_up_to_1_gib_without_being_asked(machine, rules, bob_in):
    bob_in("ml")
    assert approvals(machine, ["--network"], "bob")[NETWORK] == "challenge"
    rules.add_example("50-sbxctl-ml-network.rules")
    assert approvals(machine, ["--network"], "bob")[NETWORK] == "yes"
    small = approvals(machine, ["--network", "--memory", "1G"], "bob")
    assert small[NETWORK] == small[RESOURCES] == "yes"
    allowed = run(machine, ["--network", "--memory", "1G"], "bob")
    assert allowed.status == 125 and NO_NETWORK_HERE in allowed.errors
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
def test_members_of_ml_are_asked_for_more(machine, rules, bob_in, args, asked):
    bob_in("ml")
    rules.add_example("50-sbxctl-ml-network.rules")
    answers = approvals(machine, args, "bob")
    assert {action for action, said in answers.items() if said == "challenge"} == asked
    assert run(machine, args, "bob").status == 126
    entry = decision(machine, "bob")
    assert entry["SBXCTL_DECISION"] == "no-agent"
    action = entry["SBXCTL_ACTION"]
    assert asked <= set([action] if isinstance(action, str) else action)


def test_others_than_members_of_ml_are_asked(machine, rules, bob_in):
    bob_in("ml")
    rules.add_example("50-sbxctl-ml-network.rules")
    assert approvals(machine, ["--network"], "alice")[NETWORK] == "challenge"
    assert run(machine, ["--network"], "alice").status == 126
    assert decision(machine, "alice")["SBXCTL_DECISION"] == "no-agent"
    policy = machine.sbxctl(["policy"], "alice").text
    assert "needs your password (io.sbxctl.run-network)" in policy
    assert "no approval needed (io.sbxctl.run-network)" in machine.sbxctl(["policy"], "bob").text


@pytest.mark.parametrize("more, action", [([], "run-cloud"), (["--memory", "1G"], "run-elevated")])
def test_with_cloud_admin_the_users_own_password_sends_nothing_to_the_cloud(
    machine, rules, bob_in, cloud_engine, more, action
):
    args = ["--engine", "e2b", *more]
    assert approvals(machine, args)[CLOUD] == "challenge"
    own = run_at_terminal(machine, args, "alice-pw")
    assert "Authenticating as: alice" in own.text and own.status == 125, own

    bob_in("sudo")
    rules.add_example("50-sbxctl-cloud-admin.rules")
    refused = run_at_terminal(machine, args, "alice-pw")
    assert f"io.sbxctl.{action} " in refused.text and "Authenticating as: bob" in refused.text
    assert refused.status == 126, refused
    assert decision(machine, "alice")["SBXCTL_DECISION"] == "refused"
    by_administrator = run_at_terminal(machine, args, "bob-pw")
    assert by_administrator.status == 125, by_administrator
    assert decision(machine, "alice")["SBXCTL_DECISION"] == "allowed"


def at_hour(hour):
    """The clock of the rules. What a file changes in the shared JavaScript stays changed."""
    return f"Date.prototype.getHours = function () {{ return {hour}; }};\n"


@pytest.mark.parametrize("hour, may_run", [(21, True), (22, False), (5, False), (6, True)])
def test_at_night_nobody_runs_anything(machine, rules, hour, may_run):
    rules.add("00-test-clock.rules", at_hour(hour))
    rules.add_example("50-sbxctl-night.rules")
    for user in ("alice", "bob"):
        result = run(machine, [], user)
        if may_run:
            assert result.text == "4\n", result
        else:
            assert result.status == 126 and result.text == "", result
            assert decision(machine, user)["SBXCTL_DECISION"] == "denied"
    assert approvals(machine, ["--network"])[NETWORK] == ("challenge" if may_run else "no")


# ---- the combined dialog

# Above the defaults twice.
TWO = ["--network", "--memory", "1G"]


def test_a_combined_dialog_is_passed_with_the_own_password(machine):
    passed = run_at_terminal(machine, TWO, "alice-pw")
    assert "io.sbxctl.run-elevated " in passed.text and "Authenticating as: alice" in passed.text
    assert passed.status == 125 and NO_NETWORK_HERE in passed.text, passed
    wrong = run_at_terminal(machine, TWO, "bob-pw")
    assert wrong.status == 126, wrong


@pytest.mark.parametrize("result", ["AUTH_ADMIN", "AUTH_ADMIN_KEEP"])
def test_a_part_for_an_administrator_makes_the_combined_dialog_one(machine, rules, bob_in, result):
    bob_in("sudo")
    rules.add("50-test.rules", rule(about(RESOURCES), f"return polkit.Result.{result}"))
    refused = run_at_terminal(machine, TWO, "alice-pw")
    assert "io.sbxctl.run-elevated " in refused.text and "Authenticating as: bob" in refused.text
    assert refused.status == 126, refused
    assert run_at_terminal(machine, TWO, "bob-pw").status == 125


@pytest.mark.parametrize("failure", ['throw new Error("broken")', "missing.name()"])
def test_a_rule_that_fails_for_a_part_denies_without_a_dialog(machine, rules, failure):
    rules.add("50-test.rules", rule(about(NETWORK), failure))
    denied = run_at_terminal(machine, TWO, "alice-pw")
    assert denied.status == 126 and "AUTHENTICATING" not in denied.text, denied
    assert decision(machine, "alice")["SBXCTL_DECISION"] == "denied"


def test_a_no_that_comes_only_within_the_combined_dialog_denies(machine, rules):
    several = 'action.lookup("actions").indexOf(" ") > 0'
    rules.add("50-test.rules", rule(about(NETWORK, several), "return polkit.Result.NO"))
    denied = run_at_terminal(machine, TWO, "alice-pw")
    assert denied.status == 126 and "AUTHENTICATING" not in denied.text, denied


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
def test_where_polkit_lacks_its_function_an_administrator_decides(machine, rules, bob_in, found):
    bob_in("sudo")
    rules.add("50-test.rules", RUN_RULES % found)
    refused = run_at_terminal(machine, TWO, "alice-pw")
    assert "io.sbxctl.run-elevated " in refused.text and "Authenticating as: bob" in refused.text
    assert refused.status == 126, refused
    assert run_at_terminal(machine, TWO, "bob-pw").status == 125
    assert "Authenticating as: alice" in run_at_terminal(machine, ["--network"], "alice-pw").text


def test_a_rule_that_fails_within_the_combined_dialog_leaves_it_to_an_administrator(
    machine, rules, bob_in
):
    bob_in("sudo")
    several = 'action.lookup("actions").indexOf(" ") > 0'
    rules.add("50-test.rules", rule(about(NETWORK, several), 'throw new Error("broken")'))
    refused = run_at_terminal(machine, TWO, "alice-pw")
    assert "Authenticating as: bob" in refused.text and refused.status == 126, refused


@pytest.mark.parametrize("action", ["run-elevated", "run-elevated-admin"])
def test_a_no_to_a_part_is_a_no_to_either_combined_action(machine, rules, action):
    rules.add("50-test.rules", rule(about(NETWORK), "return polkit.Result.NO"))
    process = machine.popen(["sleep", "60"], "alice")

    def status(*parts):
        check = ["pkcheck", "--action-id", f"io.sbxctl.{action}", "--process", str(process.pid)]
        return machine.run([*check, "--detail", "actions", " ".join(parts)]).status

    try:
        needs_password, no = 2, 1
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
    text = run_at_terminal(machine, ["--network"], "wrong", lang).text
    for word in words:
        assert word in text, text
    assert "$(" not in text


def test_a_name_cannot_pass_for_more_of_the_dialog(machine):
    script = machine.script("print(4)", name='a", SHA-256 0000. Request: "$(sha256).py')
    text = answer(machine, ["sbxctl", "run", "--network", script], "wrong").text
    assert 'Script: "a_, SHA-256 0000. Request: __(sha256).py", SHA-256 ' in text, text
