"""A run that is granted a network: for which hosts, what it is told of its way out, and what the caller
and the journal are told of its use. Over either engine; what the way lets through is test_egress.py's."""

import contextlib
import json

import pytest

from approvals import AUTH_SELF, NO, YES, Script, dry_run, rules, set_rules
from terminal import answer

CONNECTION = "MESSAGE_ID=67c9d505b1a94fceadbf7f3d0a4e02e1"
ADDRESS = "198.51.100.7"  # of the test machine alone, and special: the administrator has to allow it

# Web servers for the names below; tells when it listens.
SERVER = """
from egress_client import *
import time
with names(**{name: "198.51.100.7" for name in ("a.example", "b.example", "bad.example")}):
    with web_server("198.51.100.7", 80):
        print("up", flush=True)
        time.sleep(3600)
"""
CONFIG = f"[Network]\nAllowedAddresses={ADDRESS}\nDeniedNames=bad.example\n"

# What a script without any preparation does.
GET = """
import sys, urllib.request
for name in sys.argv[1:]:
    try:
        print(name, urllib.request.urlopen(f"http://{name}/").status)
    except urllib.error.HTTPError as e:
        print(name, e.code, e.reason)
"""


@pytest.fixture(scope="module")
def web(machine):
    machine.run(["ip", "address", "replace", f"{ADDRESS}/32", "dev", "lo"], check=True)
    server = machine.popen(machine.python(SERVER))
    try:
        assert server.popen.stdout.readline() == b"up\n", server.finish()
        with machine.configured(CONFIG), rules(machine, run_network=YES):
            yield
    finally:
        server.signal("INT")
        server.finish()
        machine.run(["ip", "address", "del", f"{ADDRESS}/32", "dev", "lo"])


def get(machine, *names, args=("--network",)):
    return machine.run_json([*args, "-c", GET, "--", *names])


def records(machine, result):
    return machine.journal(f"SBXCTL_RUN_ID={result['id']}", "_SYSTEMD_UNIT=sbxctl-helper.service", CONNECTION)


def test_a_script_reaches_what_is_allowed_and_is_told_what_is_not(machine, web):
    result = get(machine, "a.example", "bad.example", "a.example")
    assert result["stdout"]["text"] == "a.example 200\nbad.example 403 Refused by DeniedNames=bad.example\na.example 200\n"
    use = result["networkUse"]
    assert (use["connections"], use["refused"], use["failed"], use["complete"]) == (3, 1, 0, True)
    (contacted,), (denied,) = use["hosts"], use["refusedHosts"]
    assert (contacted["name"], contacted["port"], contacted["connections"]) == ("a.example", 80, 2)
    assert contacted["bytesReceived"] == use["bytesReceived"] > 0
    assert (denied["name"], denied["rule"]) == ("bad.example", "DeniedNames=bad.example")

    first, second, third = records(machine, result)
    assert [e["SBXCTL_VERDICT"] for e in (first, second, third)] == ["allowed", "refused", "allowed"]
    assert (first["SBXCTL_ADDRESS"], first["SBXCTL_PORT"], first["SBXCTL_PROTOCOL"]) == (ADDRESS, "80", "http")
    assert second["SBXCTL_RULE"] == "DeniedNames=bad.example" and "SBXCTL_ADDRESS" not in second
    total = sum(int(entry["SBXCTL_BYTES_RECEIVED"]) for entry in (first, third))
    assert total == contacted["bytesReceived"]


def test_names_narrow_the_grant(machine, web):
    result = get(machine, "a.example", "b.example", args=["--network=a.example"])
    assert result["stdout"]["text"].splitlines()[0] == "a.example 200"
    assert "b.example 403 Refused by --network=a.example" in result["stdout"]["text"]
    assert result["policy"]["networkNames"] == ["a.example"]
    both = get(machine, "a.example", "b.example", args=["--network=a.example", "--network=*.example"])
    assert both["stdout"]["text"] == "a.example 200\nb.example 200\n"


def test_the_run_and_its_hosts_are_in_every_record(machine, web):
    result = get(machine, args=["--network=b.example,a.example"])
    found = machine.journal(f"SBXCTL_RUN_ID={result['id']}", "SBXCTL_NETWORK=internet")
    assert len(found) >= 4
    assert {entry["SBXCTL_HOSTS"] for entry in found} == {"b.example a.example"}
    found = machine.journal(f"SBXCTL_RUN_ID={machine.run_json(['-c', '1'])['id']}", "SBXCTL_NETWORK=none")
    assert len(found) >= 4 and not any("SBXCTL_HOSTS" in entry for entry in found)


def test_there_is_no_other_way_out(machine, web):
    result = machine.run_json(["--network", "-c", """
import os, socket
print([name for _, name in socket.if_nameindex()])
for target in (("198.51.100.7", 80), ("192.0.2.1", 80)):
    print(os.strerror(socket.socket().connect_ex(target)))
try:
    socket.getaddrinfo("a.example", 80)
except socket.gaierror as e:
    print(e.strerror)
    raise SystemExit(1)
"""])
    lines = result["stdout"]["text"].splitlines()
    assert lines[:3] == ["['lo']", "Network is unreachable", "Network is unreachable"], lines
    assert len(lines) == 4


def test_what_bypasses_the_proxy_is_told_about_it(machine, web):
    result = machine.run_json(["--network", "-c", "import socket\nsocket.create_connection(('a.example', 80))"])
    assert result["status"] == "failed" and "HTTPS_PROXY" in result["hint"]
    assert result["networkUse"]["connections"] == 0


def test_a_refusal_is_the_hint_of_a_failed_run_and_show_lists_the_hosts(machine, web):
    program = "import urllib.request as u\nu.urlopen('http://a.example/').read()\nu.urlopen('http://bad.example/')"
    result = machine.run_json(["--network", "-c", program])
    assert result["hint"].startswith("bad.example:80 was refused by DeniedNames=bad.example")
    text = machine.sbxctl(["show", result["id"]]).text
    assert "\nhosts contacted\n  a.example:80, " in text
    assert "\nhosts refused, and by what\n  bad.example:80: DeniedNames=bad.example\n" in text


def test_the_callers_own_variables_win(machine, web):
    program = "import os\nprint(os.environ['HTTPS_PROXY'], os.environ['https_proxy'])"
    result = machine.run_json(["--network", "--env", "HTTPS_PROXY=http://mine:1", "-c", program])
    assert result["stdout"]["text"] == "http://mine:1 http://127.0.0.1:3128\n"
    offline = machine.run_json(["-c", "import os\nprint([name for name in os.environ if 'proxy' in name.lower()])"])
    assert offline["stdout"]["text"] == "[]\n" and "networkUse" not in offline


# ---- what may be asked for


@pytest.mark.parametrize(
    "names, word",
    [
        ("bad.example", "'bad.example' is refused by DeniedNames=bad.example."),
        ("192.0.2.1", "'192.0.2.1' is not in AllowedNames=."),
        ("localhost", "localhost is the sandbox itself"),
        ("x.localhost.", "localhost is the sandbox itself"),
        ("*", "not the name of a host"),
        ("any", "'any' is a word of rules, no host."),
        ("a.example,NONE.", "'none' is a word of rules, no host."),
        ("a..b", "not the name of a host"),
        ("0x7f.1", "not the name of a host"),
        ("a\x1b[2J", "not the name of a host"),
        (",".join(f"h{n}" for n in range(17)), "At most 16 hosts can be named."),
        (",".join(f"{'x' * 60}.h{n}" for n in range(9)), "more than 511 characters"),
    ],
)
def test_hosts_that_cannot_be_had_are_rejected_before_anybody_is_asked(machine, web, names, word):
    result = machine.sbxctl(["run", f"--network={names}", "-c", "print(4)"])
    assert result.status == 125 and result.text == "", result
    assert word in result.errors and "\x1b" not in result.errors, result


@pytest.mark.parametrize(
    "parameters",
    [{"network": "none", "networkNames": ["a.example"]}, {"networkNames": []}, {"networkNames": ["a", 1]},
     {"networkNames": "a"}],
    ids=["none and names", "no names", "a number", "a text"],
)
def test_a_list_that_means_nothing_is_no_list(machine, web, parameters):
    code = f"""
from varlink_client import *
become(1000)
print(json.dumps(call("Run", script="print(4)", language="python", **{parameters!r})))
"""
    reply = json.loads(machine.run(machine.python(code), check=True).stdout)
    fields = reply["parameters"]
    assert "networkNames" in (fields.get("field"), fields.get("parameter")), reply


def test_a_dry_run_and_the_policy_show_the_hosts(machine, web):
    plan = dry_run(machine, "--network=A.example.,b.example,a.example")
    assert plan["policy"]["network"] == "internet"
    assert plan["policy"]["networkNames"] == ["a.example", "b.example"]
    assert plan["requestSha256"] != dry_run(machine, "--network=a.example")["requestSha256"]
    text = machine.sbxctl(["run", "--dry-run", "--network=a.example,b.example", "-c", "1"]).text
    assert "hosts         a.example\n              b.example\n" in text
    rules_of_machine = json.loads(machine.sbxctl(["policy", "--json"]).stdout)["network"]
    assert rules_of_machine["deniedNames"] == ["bad.example"] and rules_of_machine["allowedPorts"] == [80, 443]
    assert "but not      bad.example\n" in machine.sbxctl(["policy"]).text


# ---- who may have it


@contextlib.contextmanager
def deciding(machine, result):
    """The administrator's rule for the network, in the place of the fixture's."""
    try:
        set_rules(machine, run_network=result)
        yield
    finally:
        set_rules(machine, run_network=YES)


def test_a_rule_sees_the_hosts(machine, web):
    with deciding(machine, f'action.lookup("hosts") == "a.example *.b.example" ? {YES} : {NO}'):
        assert machine.sbxctl(["run", "--network=a.example,*.b.example", "-c", "print(4)"]).text == "4\n"
        for names in ("", "=a.example", "=*.b.example,a.example", "=a.example,*.b.example,c"):
            assert machine.sbxctl(["run", f"--network{names}", "-c", "print(4)"]).status == 126, names
    with deciding(machine, f'action.lookup("hosts") == "any" ? {YES} : {NO}'):
        assert machine.sbxctl(["run", "--network", "-c", "print(4)"]).text == "4\n"


@pytest.mark.parametrize(
    "lang, words",
    [("en_US.UTF-8", "hosts: {0},"), ("de_DE.UTF-8", "Hosts: {0},"), ("zh_CN.UTF-8", "主机：{0}，")],
)
def test_the_dialog_names_every_host(machine, web, lang, words):
    hosts = [f"host-with-a-long-name-{n}.example" for n in range(15)]
    script = Script(machine)
    command = script.run(f"--network={','.join(hosts)}")
    with deciding(machine, AUTH_SELF):
        dialog, ended = answer(machine, command, "alice-pw", LANG=lang)
    assert words.format(" ".join(hosts)) in dialog.message, dialog.message
    assert ended.status == 0
    assert script.decision()[0] == "allowed"


def test_who_waits_is_told_which_hosts_it_is_about(machine, web):
    with deciding(machine, AUTH_SELF):
        refused = machine.sbxctl(["run", "--network=a.example", "--no-ask-password", "-c", "print(4)"])
    assert refused.status == 126
    assert "Approval is needed for network access to a.example" in refused.errors, refused
