"""The deny matrix: who may have what, the same over every way in. And the interface itself: each of
its methods has a rule, none takes anybody's name."""

import json
import re

import pytest

from approvals import every_refusal_is_recorded
from approvals import HELPER, NO, Script, rules, user
from connection import Connection
from varlink_client import message
from varlink_idl import Interface

SANDBOX = "io.sbxctl.Sandbox"
BIG = 3000000000

# What a request asks for above the defaults.
RISKS = {
    "nothing": {},
    "network": {"network": "internet"},
    "memory": {"memoryBytes": 1 << 30},
    "time": {"timeoutUSec": 120_000_000},
    "several": {"network": "internet", "memoryBytes": 1 << 30},
    "too much": {"memoryBytes": 1 << 40},
}
OPTIONS = {
    "nothing": [],
    "network": ["--network"],
    "memory": ["--memory", "1G"],
    "time": ["--timeout", "2min"],
    "several": ["--network", "--memory", "1G"],
    "too much": ["--memory", "1T"],
}
RISKY = ["network", "memory", "time", "several"]
CALLERS = ["alice", "carol", "root", "nobody", "a big number"]


def expected(caller, risk):
    """The error's name. carol is an administrator: that gives her nothing here."""
    if risk == "too much":
        return "AboveCeiling"
    if caller == "a big number":
        return "Denied"
    if caller == "root" or risk == "nothing":
        return None
    return "ApprovalRequired"


def command_as(caller):
    if caller == "a big number":
        return ["setpriv", f"--reuid={BIG}", f"--regid={BIG}", "--clear-groups"], None
    if caller == "carol":
        return ["setpriv", "--reuid=carol", "--regid=carol", "--init-groups"], None
    if caller == "nobody":
        return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"], None
    return [], caller


def name_of(error):
    return error and error.removeprefix(f"{SANDBOX}.")


# Each way in returns the error's name, or None when there was none.


def by_sbxctl(machine, caller, risk, script):
    prefix, as_user = command_as(caller)
    command = [*prefix, "sbxctl", "run", "--json", "--no-ask-password", *OPTIONS[risk], "-c", script.text]
    done = machine.run(command, as_user)
    answer = json.loads(done.stdout)
    assert (done.status == 0) == ("error" not in answer), done
    return name_of(answer.get("error"))


def by_varlink(machine, caller, risk, script, content, **flags):
    prefix, as_user = command_as(caller)
    parameters = {"language": "python", "scriptName": script.name, **RISKS[risk], **content}
    fd = script.text if "scriptFd" in content else ""
    request = message("Run", **flags, **parameters)
    done = machine.run([*prefix, *machine.python(CALL, fd)], as_user, request, check=True)
    return name_of(json.loads(done.stdout).get("error"))


def by_text(machine, caller, risk, script):
    return by_varlink(machine, caller, risk, script, {"script": script.text})


def by_descriptor(machine, caller, risk, script):
    return by_varlink(machine, caller, risk, script, {"scriptFd": 0})


def with_more(machine, caller, risk, script):
    content = {"script": script.text, "streams": "messages", "allowInteractiveAuthentication": True}
    return by_varlink(machine, caller, risk, script, content, more=True)


WAYS = (by_sbxctl, by_text, by_descriptor, with_more)

# Sends its input, with a sealed memfd for the script if there is one; prints the last answer.
CALL = """
import sys
from varlink_client import *
link = connect()
send_fds(link, sys.stdin.buffer.read(), [sealed(text.encode()) for text in sys.argv[1:] if text])
while (last := answer(link)).get("continues"):
    pass
print(json.dumps(last))
"""


@pytest.fixture(scope="module")
def carol(machine):
    with user(machine, "carol", 1002, "sudo"):
        yield


@pytest.mark.parametrize("risk", RISKS)
@pytest.mark.parametrize("caller", CALLERS)
def test_fault_17_every_way_in_has_the_same_verdict(machine, carol, caller, risk):
    wanted = expected(caller, risk)
    script = Script(machine)
    verdicts = {way.__name__: way(machine, caller, risk, script) for way in WAYS}
    assert verdicts == dict.fromkeys(verdicts, wanted), verdicts
    decisions = {entry["SBXCTL_DECISION"] for entry in script.decisions()}
    if wanted is None:
        assert decisions == {"allowed"}
    else:
        # With "more" somebody might have been asked.
        words = {"AboveCeiling": set(), "Denied": {"unidentified"},
                 "ApprovalRequired": {"approval-required", "no-agent"}}
        assert decisions == words[wanted]
        assert script.started() == []


@pytest.mark.parametrize("caller", CALLERS)
def test_a_dry_run_tells_the_verdict_of_the_run(machine, carol, caller):
    prefix, as_user = command_as(caller)
    for risk in RISKS:
        done = machine.run([*prefix, "sbxctl", "run", "--dry-run", "--json", *OPTIONS[risk], "-c", "1"], as_user)
        answer = json.loads(done.stdout)
        wanted = expected(caller, risk)
        if wanted == "AboveCeiling":
            assert name_of(answer["error"]) == wanted
            continue
        words = set(answer["approvals"].values())
        if wanted == "Denied":
            assert words == {"no"}
        elif wanted == "ApprovalRequired":
            assert words == {"yes", "challenge"} and answer["approvals"]["io.sbxctl.run"] == "yes"
        else:
            assert words == {"yes"}


@pytest.mark.parametrize("risk", RISKY)
def test_an_administrators_no_holds_over_every_way_in(machine, risk):
    with rules(machine, run_network=NO, run_resources=NO):
        for way in WAYS:
            script = Script(machine)
            assert way(machine, "alice", risk, script) == "Denied"
            assert script.started() == []


def test_varlinkctl_has_the_same_verdicts(machine):
    if machine.run(["which", "varlinkctl"]).status != 0:
        version = machine.run(["systemctl", "--version"], check=True).text.split()[1]
        assert int(version) < 255, "varlinkctl is missing"
        return
    for caller in ("alice", "root"):
        for risk, parameters in RISKS.items():
            text = json.dumps({"script": "print(4)", "language": "python", **parameters})
            done = machine.run(
                ["varlinkctl", "call", "/run/sbxctl/io.sbxctl.Sandbox", f"{SANDBOX}.Run", text], caller
            )
            wanted = expected(caller, risk)
            assert (done.status == 0) == (wanted is None), done
            assert wanted is None or f"{SANDBOX}.{wanted}" in done.errors, done


def test_fault_07_a_caller_who_is_gone_is_nobody(machine):
    """Whatever the moment, nothing runs for a process that hung up, and the helper lives."""
    helper = machine.run(["systemctl", "show", "-P", "MainPID", "sbxctl-helper.service"]).text
    script = Script(machine)
    request = message("Run", script=script.text, scriptName=script.name, memoryBytes=1 << 30,
                      allowInteractiveAuthentication=True)
    machine.run(machine.python(GONE), "alice", request, check=True, timeout=120)
    machine.wait_for(lambda: machine.sbxctl(["run", "-c", "print(4)"]).text == "4\n", 20, "the helper")
    assert machine.run(["systemctl", "show", "-P", "MainPID", "sbxctl-helper.service"]).text == helper
    assert {entry["SBXCTL_DECISION"] for entry in script.decisions()} <= {
        "no-agent", "unidentified", "unavailable"}  # the last by polkit's own word that it is gone
    assert script.started() == []
    assert {entry["SBXCTL_UID"] for entry in script.records()} == {"1000"}


# Sends its input from a process that ends at once, with the connection or without it.
GONE = """
import sys, time
from varlink_client import *
request = sys.stdin.buffer.read()
for i in range(100):
    link = socket.socket(socket.AF_UNIX)
    pid = os.fork()
    if pid == 0:
        connect(link).sendall(request)
        time.sleep(i % 10 / 1000)
        os._exit(0)
    os.waitpid(pid, 0)
    if i % 2:
        link.settimeout(5)
    link.close()
"""


# ---- the interface


def served(machine):
    with Connection(machine) as connection:
        connection.begin("org.varlink.service.GetInterfaceDescription", {"interface": SANDBOX})
        return Interface(connection.next()["parameters"]["description"])


# What each method may do without polkit; a new one needs a line here and a row in the table of
# authorize.c (test-authorize holds that one against the interface text).
WITHOUT_POLKIT = {"Attach", "List", "Describe", "Cancel", "Remove", "RemoveAll", "Mark", "Read", "GetPolicy", "GetEngines",
                  "ListLayers", "RemoveLayer"}


def test_fault_19_every_method_that_is_served_has_a_rule(machine):
    methods = served(machine).methods
    assert set(methods) == WITHOUT_POLKIT | {"Run", "PullImage"}
    samples = {"Attach": {"id": "0" * 16}, "Mark": {"id": "0" * 16, "verdict": "accepted"}, "Describe": {"id": "0" * 16},
               "Cancel": {"id": "0" * 16}, "Remove": {"id": "0" * 16},
               "Read": {"id": "0" * 16, "name": "stdout"}, "Run": {"script": "1", "language": "python"},
               "PullImage": {"image": "no-such/image:1", "engine": "docker"}, "RemoveLayer": {"key": "0" * 64}}
    with rules(machine, run=NO, run_image=NO), Connection(machine) as connection:
        for method in methods:
            connection.begin(method, samples.get(method, {}))
            answer = connection.next()
            if method in ("Run", "PullImage"):
                assert name_of(answer["error"]) == "Denied", answer
            elif method in samples:
                assert name_of(answer["error"]) in ("NoSuchRun", "NoSuchLayer"), answer
            else:
                assert "error" not in answer, answer


@pytest.mark.parametrize("method", ["Nothing", "run", "RUN", "Run ", "", "GetApproval", "Approve", "Run.Run"])
def test_fault_19_a_method_that_is_not_in_the_interface_is_not_found(machine, method):
    with Connection(machine) as connection:
        connection.begin(f"{SANDBOX}.{method}", {"script": "1"})
        assert re.fullmatch(
            r"org\.varlink\.service\.(MethodNotFound|InterfaceNotFound|InvalidParameter)",
            connection.next()["error"],
        )


PRINCIPAL = re.compile(
    r"^(.*(uid|gid|pid|user|group|owner|principal|identity|session|seat|sender|caller|subject|account|cookie))$",
    re.IGNORECASE,
)


def names(interface, declared, seen=()):
    """All names of fields below a type."""
    if isinstance(declared, tuple):
        yield from names(interface, declared[1], seen)
    elif isinstance(declared, dict):
        for name, kind in declared.items():
            yield name
            yield from names(interface, kind, seen)
    elif isinstance(declared, str) and declared in interface.types and declared not in seen:
        yield from names(interface, interface.types[declared], (*seen, declared))


def test_fault_20_no_parameter_names_another_principal(machine):
    interface = served(machine)
    parameters = {
        name for arguments, _ in interface.methods.values() for name in names(interface, arguments)
    }
    assert len(parameters) > 15, parameters
    assert not {name for name in parameters if PRINCIPAL.match(name)}
    for name in ("uid", "ownerUid", "asUser", "peerPid", "group"):
        assert PRINCIPAL.match(name)


def test_the_record_of_a_refusal_names_the_caller_and_nothing_else_was_done(machine):
    script = Script(machine, user="bob")
    with rules(machine, run=NO):
        assert machine.run(script.run(), "bob").status == 126
    request, decision = script.records()
    assert decision["SBXCTL_DECISION"] == "denied" and "SBXCTL_DECISION" not in request
    assert (decision["SBXCTL_UID"], decision["SBXCTL_USER"]) == ("1001", "bob")
    run_id = decision["SBXCTL_RUN_ID"]
    everything = machine.journal(f"SBXCTL_RUN_ID={run_id}", HELPER)
    assert [entry["__CURSOR"] for entry in everything] == [request["__CURSOR"], decision["__CURSOR"]]
