"""What the tests of approvals share: the administrator's side (rules, polkit itself), and what the
journal and the machine say afterwards."""

import contextlib
import functools
import json
import uuid

import pytest

RULES = "/etc/polkit-1/rules.d"
EXAMPLES = "/usr/share/sbxctl/polkit"
MORE_MEMORY = ["--memory", "1G"]
SEVERAL = ["--memory", "1G", "--network"]
NO, YES = "polkit.Result.NO", "polkit.Result.YES"
AUTH_SELF, AUTH_ADMIN = "polkit.Result.AUTH_SELF", "polkit.Result.AUTH_ADMIN"
NOT_HANDLED = "polkit.Result.NOT_HANDLED"
HELPER = "_SYSTEMD_UNIT=sbxctl-helper.service"


# ---- the administrator


def restart_polkit(machine):
    """It has read its rules when it has its name on the bus again."""
    machine.run(["systemctl", "reset-failed", "polkit.service"])
    machine.run(["systemctl", "restart", "polkit.service"], check=True)


def set_rules(machine, text="", example=None, **results):
    """A rule for each action (its name's last part, with _ for -): a result, or a JavaScript expression
    of `action` and `subject`. Before them `text`, and an example of ours as the man page says it."""
    lines = "".join(
        f'if (action.id == "io.sbxctl.{name.replace("_", "-")}") return {result};\n'
        for name, result in results.items()
    )
    text += f"polkit.addRule(function (action, subject) {{\n{lines}}});\n"
    machine.write(f"{RULES}/10-test.rules", text.encode())
    if example:
        machine.run(["cp", f"{EXAMPLES}/{example}", RULES], check=True)
    restart_polkit(machine)


def remove_rules(machine):
    machine.run(["sh", "-c", f"rm -f {RULES}/10-test.rules {RULES}/50-sbxctl-*.rules"], check=True)
    restart_polkit(machine)


@contextlib.contextmanager
def rules(machine, *text, **results):
    try:
        set_rules(machine, *text, **results)
        yield
    finally:
        remove_rules(machine)


@pytest.fixture(autouse=True, scope="module")
def every_refusal_is_recorded(machine):
    """For the modules that import it: by default only so many of a user are."""
    with machine.configured("[Helper]\nAuditRefusals=1000000\n", "80-records"):
        yield


@contextlib.contextmanager
def no_polkit(machine):
    """Not even started when it is asked for."""
    machine.run(["systemctl", "mask", "--runtime", "--now", "polkit.service"], check=True)
    try:
        yield
    finally:
        machine.run(["systemctl", "unmask", "--runtime", "polkit.service"], check=True)
        restart_polkit(machine)


@contextlib.contextmanager
def user(machine, name, uid, *groups):
    """Somebody whose password is NAME-pw."""
    options = ["--groups", ",".join(groups)] if groups else []
    machine.run(["userdel", "--remove", name])  # of a test that was killed
    machine.run(["useradd", "--create-home", "--uid", str(uid), *options, name], check=True)
    try:
        machine.run(["chpasswd"], input=f"{name}:{name}-pw\n".encode(), check=True)
        yield
    finally:
        machine.run(["userdel", "--remove", name])


# ---- one request


class Script:
    """A script that no other request was about, so that the journal tells what became of this one."""

    def __init__(self, machine, text="print(4)\n", user="alice"):
        self.machine = machine
        self.user = user
        self.text = text
        self.name = f"{uuid.uuid4().hex}.py"

    @functools.cached_property
    def path(self):
        return self.machine.script(self.text, self.name, self.user)

    def run(self, *options):
        """The command that runs it."""
        return ["sbxctl", "run", *options, self.path]

    def records(self):
        return self.machine.journal(f"SBXCTL_SCRIPT_NAME={self.name}", HELPER)

    def decisions(self):
        return [entry for entry in self.records() if "SBXCTL_DECISION" in entry]

    def decision(self):
        """The one decision about it: the word, and the set of the actions."""
        (entry,) = self.decisions()
        actions = entry["SBXCTL_ACTION"]
        return entry["SBXCTL_DECISION"], {actions} if isinstance(actions, str) else set(actions)

    def started(self):
        """Whatever of a sandbox of it is or was there: records, directories, units."""
        records = self.records()
        run_ids = {entry["SBXCTL_RUN_ID"] for entry in records}
        if not run_ids:
            return []
        patterns = [f"/var/lib/sbxctl/{place}/*{run_id}*" for run_id in run_ids
                    for place in ("users/*", "staging")]
        units = [f"sbxctl-run-{run_id}.service" for run_id in run_ids]
        look = f"ls -d {' '.join(patterns)} 2>/dev/null; systemctl list-units --all --plain --no-legend "
        return [
            *(entry["MESSAGE"] for entry in records if "starts" in entry["MESSAGE"]),
            *self.machine.run(["sh", "-c", look + " ".join(units)]).text.splitlines(),
            *(entry["MESSAGE"]
              for entry in self.machine.journal("_PID=1", *(f"UNIT={unit}" for unit in units))),
        ]


def refused(script, decision, *actions):
    """It was decided once, so, and nothing of it was started."""
    assert script.decision() == (decision, {f"io.sbxctl.{action}" for action in actions})
    assert script.started() == []


def allowed(script, *actions):
    assert script.decision() == ("allowed", {f"io.sbxctl.{action}" for action in actions})
    assert script.started() != []


def dry_run(machine, *options, user="alice"):
    done = machine.sbxctl(["run", "--dry-run", "--json", *options, "-c", "1"], user)
    assert done.status == 0, done
    return json.loads(done.stdout)
