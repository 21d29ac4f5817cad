"""The helper as systemd's varlinkctl meets it, which knows nothing of sbxctl and passes no
descriptors. Every answer seen here is held against the interface text too."""

import base64
import json
import pathlib
import re
import uuid

import pytest

from varlink_idl import Interface

SOCKET = "/run/sbxctl/io.sbxctl.Sandbox"
SANDBOX = "io.sbxctl.Sandbox"
SERVICE = "org.varlink.service"
COMMON = pathlib.Path(__file__).parents[2] / "common"
TEXTS = {name: (COMMON / f"{name}.varlink").read_text() for name in (SANDBOX, SERVICE)}
INTERFACES = {name: Interface(text) for name, text in TEXTS.items()}
METHODS = [
    f"{name}.{method}" for name, interface in INTERFACES.items() for method in interface.methods
]
UNKNOWN = "0000000000000000"


@pytest.fixture(autouse=True, scope="module")
def varlinkctl_is_there(machine):
    """It came with systemd 255. Where it must be, its absence is a failure."""
    release = machine.run(["sh", "-c", ". /etc/os-release; echo $VERSION_CODENAME"]).text.strip()
    if release == "bookworm":
        pytest.skip("the systemd of Debian 12 has no varlinkctl")
    machine.run(["varlinkctl", "--version"], check=True)


@pytest.fixture
def stopped_helper(machine):
    """Only the socket is there. Being started often in a short time is not what is tested."""
    machine.run(["systemctl", "stop", "sbxctl-helper.service"], check=True)
    machine.run(["systemctl", "reset-failed", "sbxctl-helper.service"])
    assert machine.run(["systemctl", "is-active", "sbxctl-helper.service"]).text == "inactive\n"


def varlinkctl(machine, *words, user="alice", **more):
    return machine.run(["varlinkctl", *words], user, **more)


def said(machine, *words, **more):
    """What a command that has nothing to complain about prints."""
    result = varlinkctl(machine, *words, **more)
    assert (result.status, result.errors) == (0, ""), result
    return result.text


def split(name):
    interface, _, member = name.rpartition(".")
    return INTERFACES[interface], member


def qualified(method):
    return method if "." in method else f"{SANDBOX}.{method}"


def call(machine, method, parameters=None, *options, **more):
    words = [] if parameters is None else [json.dumps(parameters)]
    answer = json.loads(said(machine, "call", "-j", *options, SOCKET, qualified(method), *words, **more))
    interface, member = split(qualified(method))
    for one in answer if isinstance(answer, list) else [answer]:
        interface.check_answer(member, one)
    return answer


def call_more(machine, method, parameters=None, **more):
    words = [] if parameters is None else [json.dumps(parameters)]
    output = said(machine, "call", "-j", "--more", SOCKET, qualified(method), *words, **more)
    answers = [json.loads(line) for line in output.replace("\x1e", "").splitlines()]
    for answer in answers:
        INTERFACES[SANDBOX].check_answer(method, answer)
    return answers


def error_of(machine, method, parameters=None, user="alice"):
    """The error's name and its parameters, as varlinkctl tells them: with exit status 1, or as a
    success if the error was expected."""
    words = [SOCKET, qualified(method), *([] if parameters is None else [json.dumps(parameters)])]
    result = varlinkctl(machine, "call", "-j", *words, user=user)
    assert result.status == 1, result
    name = re.fullmatch(r"Method call \S+ failed: (\S+)\n", result.errors)[1]
    graceful = varlinkctl(machine, "call", "-j", f"--graceful={name}", *words, user=user)
    assert (graceful.status, graceful.stdout) == (0, result.stdout), graceful
    interface, member = split(name)
    fields = json.loads(result.stdout)
    interface.check_error(member, fields)
    return name, fields


def shell(script, **more):
    return {"script": script, "language": "shell", **more}


def run(machine, script, **more):
    return call(machine, "Run", shell(script, **more))["result"]


def text_of(machine, run_id, name, **part):
    answer = call(machine, "Read", {"id": run_id, "name": name, **part})
    return base64.b64decode(answer["data"], validate=True), answer["bytes"]


def last_run(machine):
    return call(machine, "List")["runs"][0]


class Live:
    """A run with streams that goes on; varlinkctl prints each answer as it comes."""

    def __init__(self, machine, script, user="alice"):
        self.running = machine.popen(
            ["varlinkctl", "call", "-j", "-E", SOCKET, f"{SANDBOX}.Run",
             json.dumps(shell(script, streams="messages"))],
            user,
        )
        self.id = self.until("started")["id"]
        self.until("output")

    def next(self):
        line = self.running.popen.stdout.readline()
        answer = json.loads(line.lstrip(b"\x1e"))
        INTERFACES[SANDBOX].check_answer("Run", answer)
        return answer

    def until(self, event):
        while (answer := self.next())["event"] != event:
            pass
        return answer


@pytest.fixture
def live(machine):
    live = Live(machine, "echo up; exec sleep 600")
    yield live
    varlinkctl(machine, "call", SOCKET, f"{SANDBOX}.Cancel", json.dumps({"id": live.id}))
    live.running.finish()


# ---- what the service is


def test_info_names_the_service_and_its_interfaces(machine):
    info = json.loads(said(machine, "info", "-j", SOCKET))
    INTERFACES[SERVICE].check_answer("GetInfo", info)
    assert info["vendor"] == "sbxctl" and info["version"]
    assert info["interfaces"] == [SANDBOX, SERVICE]


def test_list_interfaces_names_both(machine):
    assert said(machine, "list-interfaces", SOCKET).split() == [SANDBOX, SERVICE]


def test_all_interfaces_are_introspected_without_a_warning(machine):
    shown = said(machine, "introspect", SOCKET)
    assert re.findall(r"^interface (\S+)$", shown, re.MULTILINE) == [SANDBOX, SERVICE]


@pytest.mark.parametrize("name", INTERFACES)
def test_interface_text_is_the_documented_one(machine, name):
    described = json.loads(said(machine, "introspect", "-j", SOCKET, name))
    assert described == {"description": TEXTS[name]}


@pytest.mark.parametrize("name", INTERFACES)
def test_interface_text_is_valid(machine, name):
    path = f"/tmp/{name}.varlink"
    machine.write(path, TEXTS[name].encode())
    shown = said(machine, "validate-idl", path, user=None)
    assert f"interface {name}\n" in shown
    # What it shows is a text again, and says the same.
    machine.write(path, shown.encode())
    assert said(machine, "validate-idl", path, user=None) == shown


def test_broken_interface_text_is_not_valid(machine):
    machine.write("/tmp/broken.varlink", TEXTS[SANDBOX].replace("id: string", "id: strin").encode())
    assert varlinkctl(machine, "validate-idl", "/tmp/broken.varlink", user=None).status != 0


def test_methods_that_support_more_say_so(machine):
    shown = said(machine, "introspect", SOCKET, SANDBOX)
    assert re.findall(r"^# \[Supports 'more' flag\]\nmethod (\w+)", shown, re.MULTILINE) == [
        "Run", "Attach", "List", "PullImage",
    ]


def test_every_declared_method_is_listed(machine):
    assert said(machine, "list-methods", SOCKET).split() == sorted(METHODS)


@pytest.mark.parametrize("method", METHODS)
def test_every_declared_method_has_code(machine, method):
    result = varlinkctl(machine, "call", SOCKET, method, '{"noSuchParameter":1}')
    assert result.status == 1
    assert result.errors.endswith("failed: org.varlink.service.InvalidParameter\n")
    assert json.loads(result.stdout) == {"parameter": "noSuchParameter"}


# ---- socket activation


@pytest.mark.parametrize(
    "words",
    [["info"], ["list-interfaces"], ["introspect"], ["list-methods"]],
    ids=lambda words: words[0],
)
def test_stopped_helper_is_started_to_describe_itself(machine, stopped_helper, words):
    assert SANDBOX in said(machine, *words, SOCKET)
    assert machine.run(["systemctl", "is-active", "sbxctl-helper.service"]).text == "active\n"


def test_stopped_helper_is_started_to_run(machine, stopped_helper):
    assert run(machine, "echo hello")["stdout"]["text"] == "hello\n"


def test_helper_that_nobody_passed_a_listening_socket_does_not_serve(machine):
    for user in ("alice", "root"):
        result = varlinkctl(machine, "info", "exec:/usr/lib/sbxctl/sbxctl-helper", user=user)
        assert result.status == 1, result
        assert "Failed to issue org.varlink.service.GetInfo() varlink call" in result.errors
    assert SANDBOX in said(machine, "info", SOCKET)


# ---- a run, without a descriptor


def test_run_answers_once_with_the_result(machine):
    answer = call(machine, "Run", shell("echo out; echo err >&2; exit 3"))
    result = answer["result"]
    assert (answer["event"], answer["id"]) == ("finished", result["id"])
    assert (result["status"], result["exitCode"]) == ("failed", 3)
    assert (result["stdout"]["text"], result["stderr"]["text"]) == ("out\n", "err\n")


def test_parameters_may_come_on_standard_input(machine):
    # Longer than an argument of a command can be.
    script = "# " + "x" * 200_000 + "\necho long"
    output = said(
        machine, "call", "-j", SOCKET, f"{SANDBOX}.Run", input=json.dumps(shell(script)).encode()
    )
    assert json.loads(output)["result"]["stdout"]["text"] == "long\n"


def test_everything_that_a_run_takes_comes_as_text(machine):
    result = run(
        machine,
        'cat; cat a/text bytes; printf "%s\\n" "$NAME" "$@"; basename "$0"; cp bytes copy',
        scriptName="given.sh",
        arguments=["one", "t w o", ""],
        environment={"NAME": "välue"},
        stdin="from stdin\n",
        inputs=[
            {"name": "a/text", "content": "täxt\n"},
            {"name": "bytes", "contentBase64": base64.b64encode(b"bytes\n").decode()},
        ],
        memoryBytes=64 << 20,
        timeoutUSec=5_000_000,
        streams="none",
    )
    assert result["stdout"]["text"] == (
        "from stdin\ntäxt\nbytes\nvälue\none\nt w o\n\ngiven.sh\n"
    ), result
    assert [(file["name"], file["bytes"]) for file in result["files"]] == [("copy", 6)]
    assert result["policy"]["memoryBytes"] == 64 << 20
    assert text_of(machine, result["id"], "copy") == (b"bytes\n", 6)


def assert_told_in_order(answers, out, err):
    assert [answer["event"] for answer in answers[-2:]] == ["output", "finished"]
    events = [answer["event"] for answer in answers if answer["event"] not in ("queued", "progress")]
    assert events == ["started", *["output"] * (len(events) - 2), "finished"]
    assert {answer["id"] for answer in answers if "id" in answer} == {answers[-1]["result"]["id"]}
    streams = {"stdout": b"", "stderr": b""}
    for answer in answers:
        if answer["event"] == "output":
            streams[answer["stream"]] += base64.b64decode(answer["data"], validate=True)
    assert streams == {"stdout": out, "stderr": err}


BYTES = """
import sys
sys.stdout.buffer.write(bytes(range(256)) * 200)
sys.stderr.buffer.write(bytes(range(256)))
"""


def test_more_tells_of_the_start_the_output_and_the_end(machine):
    answers = call_more(
        machine, "Run", {"script": BYTES, "language": "python", "streams": "messages"}
    )
    assert_told_in_order(answers, bytes(range(256)) * 200, bytes(range(256)))


def test_collect_gathers_the_same_in_a_list(machine):
    answers = call(
        machine, "Run", {"script": BYTES, "language": "python", "streams": "messages"}, "--collect"
    )
    assert_told_in_order(answers, bytes(range(256)) * 200, bytes(range(256)))


# What JSON must escape, what systemd's does not take at all, and what is no UTF-8.
ODD = "a\x01\x7f\x85\u2028\ufdd0\ufffe\U0001ffff\U0010fffe\U0001f600b".encode() + b"\xff\xed\xa0\x80"


def test_whatever_a_program_prints_the_result_can_be_read(machine):
    script = f"import sys; sys.stdout.buffer.write({ODD!r} + bytes(1))"
    result = call(machine, "Run", {"script": script, "language": "python"})["result"]
    replaced = "\ufffd"
    text = result["stdout"]["text"]
    assert text.startswith(f"a\x01\x7f\x85\u2028{replaced}"), result
    assert "\U0001f600b" in text and text.endswith(replaced)
    assert text_of(machine, result["id"], "stdout") == (ODD + bytes(1), len(ODD) + 1)


def test_whatever_a_file_is_called_it_is_named_and_read(machine):
    script = f"open({ODD!r}, 'w').write('content')"
    result = call(machine, "Run", {"script": script, "language": "python"})["result"]
    name = result["files"][0]["name"]
    assert text_of(machine, result["id"], name) == (b"content", 7)


def test_output_comes_while_the_script_runs_and_cancel_ends_it(machine, live):
    assert call(machine, "Describe", {"id": live.id})["result"]["status"] == "running"
    assert call(machine, "Cancel", {"id": live.id}) == {}
    assert live.until("finished")["result"]["status"] == "cancelled"
    assert live.running.finish().status == 0


def test_dry_run_answers_with_a_plan_and_runs_nothing(machine):
    before = last_run(machine)
    answer = call(machine, "Run", shell("echo", dryRun=True, network="internet"))
    assert answer["event"] == "planned" and "result" not in answer
    assert answer["plan"]["approvals"]["io.sbxctl.run-network"] == "challenge"
    assert last_run(machine) == before


def test_kept_run_is_listed_described_read_and_removed(machine):
    result = run(machine, "echo 0123456789; echo err >&2; echo content > file")
    listed = last_run(machine)
    assert listed["id"] == result["id"]
    assert listed.items() <= result.items()
    assert call(machine, "Describe", {"id": result["id"]})["result"] == result
    assert call_more(machine, "List")[0]["run"] == listed
    assert text_of(machine, result["id"], "stdout") == (b"0123456789\n", 11)
    assert text_of(machine, result["id"], "stderr") == (b"err\n", 4)
    assert text_of(machine, result["id"], "file") == (b"content\n", 8)
    script = text_of(machine, result["id"], "script")[0]
    assert script == b"echo 0123456789; echo err >&2; echo content > file"
    assert text_of(machine, result["id"], "stdout", offset=3, length=4) == (b"3456", 11)
    assert text_of(machine, result["id"], "stdout", offset=11) == (b"", 11)
    assert call(machine, "Remove", {"id": result["id"]}) == {}
    assert last_run(machine)["id"] != result["id"]
    assert error_of(machine, "Describe", {"id": result["id"]})[0] == f"{SANDBOX}.NoSuchRun"


def test_policy_and_engines_are_told(machine):
    policy = call(machine, "GetPolicy")
    assert policy["defaults"]["network"] == "none"
    assert policy["defaults"]["memoryBytes"] <= policy["ceiling"]["memoryBytes"]
    assert policy["approvals"]["io.sbxctl.run-network"]
    assert call(machine, "GetPolicy", {"approvals": True}) == policy
    assert call(machine, "GetPolicy", {"approvals": False}) == {**policy, "approvals": {}}
    engines = call(machine, "GetEngines", {})
    assert policy["engine"] == engines["default"] and engines["default"] in engines["engines"]


def test_quiet_says_nothing(machine):
    assert said(machine, "call", "--quiet", SOCKET, f"{SANDBOX}.GetEngines") == ""


# ---- errors


@pytest.mark.parametrize(
    "method, parameters, error, fields",
    [
        ("Describe", {"id": UNKNOWN}, f"{SANDBOX}.NoSuchRun", {"id": UNKNOWN}),
        ("Cancel", {"id": UNKNOWN}, f"{SANDBOX}.NoSuchRun", {"id": UNKNOWN}),
        ("Remove", {"id": "../x"}, f"{SANDBOX}.NoSuchRun", {"id": "../x"}),
        ("Read", {"id": "", "name": "stdout"}, f"{SANDBOX}.NoSuchRun", {"id": ""}),
        ("Describe", None, f"{SERVICE}.InvalidParameter", {"parameter": "id"}),
        ("Describe", {"id": 7}, f"{SERVICE}.InvalidParameter", {"parameter": "id"}),
        ("Describe", {"id": None}, f"{SERVICE}.InvalidParameter", {"parameter": "id"}),
        ("List", {"all": True}, f"{SERVICE}.InvalidParameter", {"parameter": "all"}),
        ("GetPolicy", {"approvals": "no"}, f"{SERVICE}.InvalidParameter", {"parameter": "approvals"}),
        ("Run", shell("echo", network="all"), f"{SERVICE}.InvalidParameter", {"parameter": "network"}),
        ("Run", shell("echo", inputs={}), f"{SERVICE}.InvalidParameter", {"parameter": "inputs"}),
        ("Run", shell("echo", scriptFd=0), f"{SANDBOX}.Rejected", {"field": "script"}),
        ("Run", shell("echo", language="cobol"), f"{SANDBOX}.Rejected", {"field": "language"}),
        ("Run", shell("echo", inputs=[{"name": "../x", "content": ""}]), f"{SANDBOX}.Rejected",
         {"field": "inputs"}),
        ("Run", shell("echo", memoryBytes=1 << 50), f"{SANDBOX}.AboveCeiling",
         {"field": "memoryBytes", "requested": 1 << 50}),
        ("Run", shell("echo", network="internet"), f"{SANDBOX}.ApprovalRequired",
         {"action": "io.sbxctl.run-network"}),
        ("Run", shell("echo", engine="nowhere"), f"{SANDBOX}.Rejected", {"field": "engine"}),
        (f"{SANDBOX}.Nothing", None, f"{SERVICE}.MethodNotFound",
         {"method": f"{SANDBOX}.Nothing"}),
        ("io.sbxctl.Nothing.List", None, f"{SERVICE}.InterfaceNotFound",
         {"interface": "io.sbxctl.Nothing"}),
    ],
)
def test_error_is_typed(machine, method, parameters, error, fields):
    name, told = error_of(machine, method, parameters)
    assert name == error
    assert told.items() >= fields.items()


def test_active_run_is_neither_read_nor_removed(machine, live):
    for method, more in (("Remove", {}), ("Read", {"name": "stdout"})):
        error = error_of(machine, method, {"id": live.id, **more})
        assert error == (f"{SANDBOX}.RunActive", {"id": live.id})


def test_missing_file_is_an_error(machine):
    run_id = run(machine, "echo")["id"]
    for name in ("nothing", "../script", "/etc/passwd", ""):
        error = error_of(machine, "Read", {"id": run_id, "name": name})
        assert error == (f"{SANDBOX}.NoSuchFile", {"name": name})


def test_run_of_another_user_is_as_unknown_as_no_run(machine):
    run_id = run(machine, "echo secret")["id"]
    for method, more in (("Describe", {}), ("Cancel", {}), ("Remove", {}), ("Read", {"name": "stdout"})):
        error = error_of(machine, method, {"id": run_id, **more}, user="bob")
        assert error == (f"{SANDBOX}.NoSuchRun", {"id": run_id})
    assert run_id not in [one["id"] for one in call(machine, "List", user="bob")["runs"]]
    assert text_of(machine, run_id, "stdout")[0] == b"secret\n"


# ---- without waiting


def call_oneway(machine, method, parameters):
    words = ["call", "--oneway", SOCKET, f"{SANDBOX}.{method}", json.dumps(parameters)]
    assert said(machine, *words) == ""


def test_oneway_cancel_ends_the_run(machine, live):
    call_oneway(machine, "Cancel", {"id": live.id})
    assert live.until("finished")["result"]["status"] == "cancelled"


def test_oneway_remove_removes(machine):
    run_id = run(machine, "echo")["id"]
    call_oneway(machine, "Remove", {"id": run_id})
    machine.wait_for(
        lambda: run_id not in [one["id"] for one in call(machine, "List")["runs"]],
        5, "the run to be removed",
    )


def test_wrong_oneway_calls_do_no_harm(machine):
    call(machine, "GetEngines")
    before = machine.main_pid()
    for method, parameters in (
        ("Describe", {}), ("Nothing", {}), ("Run", {"script": 7}), ("List", {}), ("GetPolicy", {}),
    ):
        call_oneway(machine, method, parameters)
    call(machine, "GetEngines")
    assert machine.main_pid() == before != 0


def test_oneway_run_has_no_caller_and_comes_to_nothing(machine):
    """It is cancelled; or denied, if polkit would be asked about a process that is gone."""
    name = f"{uuid.uuid4()}.sh"
    call_oneway(machine, "Run", shell("sleep 60", scriptName=name))
    ends = machine.wait_for(
        lambda: [
            entry.get("SBXCTL_RESULT") or entry["SBXCTL_DECISION"]
            for entry in machine.journal(
                "_SYSTEMD_UNIT=sbxctl-helper.service", f"SBXCTL_SCRIPT_NAME={name}"
            )
            if "SBXCTL_RESULT" in entry or entry.get("SBXCTL_DECISION", "allowed") != "allowed"
        ],
        10, "the record of the end",
    )
    assert ends in (["cancelled"], ["unidentified"], ["unavailable"])


def test_caller_who_gives_up_takes_the_run_along(machine):
    before = last_run(machine)["id"]
    result = varlinkctl(
        machine, "call", "--timeout=1", SOCKET, f"{SANDBOX}.Run", json.dumps(shell("sleep 60"))
    )
    assert result.status == 1 and "Timer expired" in result.errors, result
    last = machine.wait_for(
        lambda: (one := last_run(machine))["id"] != before and "endedUSec" in one and one, 5,
        "the run to be over",
    )
    assert (last["status"], last["language"]) == ("cancelled", "shell")
