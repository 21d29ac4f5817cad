"""Scripts and arguments that seem to hold a credential."""

import json

# Put together here so that nobody's search for credentials finds it in this file.
TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3rStU5vW7xY9zA1bC3dE5fG"
HINT = "Have it in a variable that the script reads, and pass that on with --env NAME"


def test_a_script_with_a_token_is_not_run_before_its_caller_insists(machine):
    script = machine.script(f"import sys\nkey = '{TOKEN}'\nprint(len(key))\n")
    refused = machine.sbxctl(["run", script])
    assert (refused.status, refused.text) == (125, "")
    assert refused.errors == (
        "sbxctl: Line 2 of the script seems to hold a GitHub token, so nothing was run.\n"
        f"sbxctl: {HINT}; or run it as it is, with --allow-secrets.\n"
    )
    error = json.loads(machine.sbxctl(["run", "--json", script]).stdout)
    assert error["error"] == "io.sbxctl.Sandbox.SecretsFound" and error["line"] == 2, error
    assert machine.sbxctl(["run", "--allow-secrets", script]).text == f"{len(TOKEN)}\n"
    assert machine.sbxctl(["run", "--env", f"KEY={TOKEN}", "-c", "import os; print(len(os.environ['KEY']))"]).text


def test_no_record_has_a_token_of_the_arguments(machine):
    refused = machine.sbxctl(["run", "-c", "print(4)", TOKEN])
    assert "Argument 1 seems to hold a GitHub token" in refused.errors and TOKEN not in refused.errors
    result = machine.run_json(["--allow-secrets", "-c", "print(4)", "first", TOKEN])
    assert result["status"] == "succeeded"
    arguments = [e["SBXCTL_ARGV"] for e in machine.journal(f"SBXCTL_RUN_ID={result['id']}") if "SBXCTL_ARGV" in e]
    assert arguments == ["first [...]"]
    machine.run(["journalctl", "--sync"], check=True)
    assert TOKEN not in machine.run(["journalctl", "--all", "--output=json", "--since=-5min"]).text


def test_the_administrator_can_refuse_tokens_altogether(machine):
    with machine.configured("[Helper]\nSecrets=refuse\n"):
        error = json.loads(machine.sbxctl(["run", "--json", "--allow-secrets", "-c", f"print('{TOKEN}')"]).stdout)
    assert error["error"] == "io.sbxctl.Sandbox.Rejected" and "Secrets=refuse" in error["reason"], error
    with machine.configured("[Helper]\nSecrets=allow\n"):
        assert machine.sbxctl(["run", "-c", f"print(len('{TOKEN}'))"]).status == 0
