"""The cloud's key is in nothing that the helper answers, whatever it is asked for and whatever the cloud says, and
nothing makes the engine trace its requests. What a run leaves on the machine is looked through in test_e2b_runs.py.
"""

import base64
import json
import pathlib

import pytest
from approvals import YES, remove_rules, set_rules
from e2b_engine import KEY, UNIT, stop
from varlink_idl import Interface

TEXT = pathlib.Path(__file__).parents[2] / "common" / "io.sbxctl.Sandbox.varlink"
METHODS = Interface(TEXT.read_text()).methods
PROGRAM = "import os, sys; print(dict(os.environ)); sys.stdout.flush(); open('made', 'w').write('x')"
RUN = {"engine": "e2b", "script": PROGRAM, "language": "python", "streams": "messages"}

# As alice, asks each of a list, and prints every byte that comes. argv: [[method, more, parameters], ...].
ASK = """
import json, sys
from varlink_client import become, connect, message, send_fds
become(1000)
for method, more, parameters in json.loads(sys.argv[1]):
    heard = b""
    with connect() as link:
        send_fds(link, message(method, more, **parameters), [])
        while not heard.endswith(b"\\0") or json.loads(heard[:-1].rpartition(b"\\0")[2]).get("continues"):
            piece = link.recv(1 << 20)
            assert piece, (method, heard)
            heard += piece
    sys.stdout.buffer.write(heard)
"""


@pytest.fixture(autouse=True, scope="module")
def cloud_is_allowed(machine):
    set_rules(machine, run_cloud=YES)
    yield
    remove_rules(machine)


def ask(machine, *calls):
    """The replies: as they came, and as values."""
    heard = machine.run(machine.python(ASK, json.dumps(calls)), check=True).stdout
    return heard, [json.loads(reply) for reply in heard.split(b"\0")[:-1]]


def parts(value):
    """Every text in a reply, and what is in it by base64."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield base64.b64decode(item) if name == "data" else name.encode()
            yield from parts(item)
    elif isinstance(value, list):
        for item in value:
            yield from parts(item)
    elif isinstance(value, str):
        yield value.encode()


def has_no_key(heard, replies):
    """Nor most of it."""
    piece = KEY[8:-8].encode()
    assert piece not in heard
    assert not [part for part in parts(replies) if piece in part]
    # In hexadecimal digits it might have been looked for as it is.
    assert piece.hex().encode() not in heard.lower()


def test_key_is_in_no_reply_of_any_method(machine, cloud):
    heard, replies = ask(machine, ["Run", True, RUN])
    assert replies[-1]["parameters"]["result"]["status"] == "succeeded"
    run_id = replies[-1]["parameters"]["result"]["id"]
    usual = {"id": run_id, "name": "made", "image": "python:3", "verdict": "accepted", "key": "0" * 64, **RUN}
    flags = {"Run": [{"dryRun": True}, {"engine": "none"}, {"template": "base; x"}],
             "GetEngines": [{}, {"probe": True}],
             "Read": [{}, {"name": "stdout"}, {"name": "script"}, {"name": "none"}], "Describe": [{}, {"id": "0" * 16}]}
    calls = []
    # What removes comes last.
    for method in sorted(METHODS, key=lambda name: (name == "RemoveAll", name.startswith("Remove"))):
        given = {name: usual[name] for name in METHODS[method][0] if name in usual}
        calls += [[method, more, given | flag] for more in (False, True) for flag in flags.get(method, [{}])]
    more, values = ask(machine, *calls)
    heard, replies = heard + more, replies + values
    has_no_key(heard, replies)
    assert {"Rejected", "NoSuchRun", "NoSuchFile"} <= {reply.get("error", "").rpartition(".")[2] for reply in replies}
    assert "E2B_SANDBOX" in str([*parts(replies)])


def test_key_is_in_no_reply_about_a_run_that_goes_on(machine, cloud):
    detached = {name: RUN[name] for name in RUN if name != "streams"} | {"script": "print(4, flush=True); import time; time.sleep(1)"}
    heard, replies = ask(machine, ["Run", False, detached | {"detach": True}])
    one = {"id": replies[-1]["parameters"]["id"]}
    more, values = ask(machine, ["Describe", False, one], ["List", True, {"active": True}], ["GetEngines", False, {"probe": True}],
                       ["Attach", True, one], ["Read", False, one | {"name": "stdout"}])
    has_no_key(heard + more, replies + values)
    assert values[-1]["parameters"]["data"] == "NAo=" and len(values) > 6


SAID = f"there is no such key as {KEY} here"
ECHOES = {
    "create": {"on": "create", "do": "answer", "status": 400, "body": {"code": 400, "message": SAID}},
    "life": {"on": "get", "do": "answer", "status": 403, "body": SAID},
    "collect": {"on": "process.start", "do": "answer", "status": 500, "body": f"<html>{SAID}</html>", "skip": 1},
    "list": {"on": "list", "do": "answer", "status": 403, "body": SAID},
    "id": {"on": "create", "do": "merge", "fields": {"sandboxID": KEY}},
}

@pytest.mark.parametrize("echo", ECHOES)
def test_key_that_the_cloud_says_back_goes_no_further(machine, cloud, echo):
    cloud.fault(**ECHOES[echo])
    heard, replies = ask(machine, ["GetEngines", False, {"probe": True}], ["Run", True, RUN])
    has_no_key(heard, replies)
    told = b"did not say which" if echo == "id" else b"there is no such key as *"
    assert any(told in part for part in parts(replies)), heard
    cloud.wait_until_empty()


# Whatever libraries beneath could take for a wish to tell more; and a place where the engine may write.
PLACE = "/run/sbxctl-test-trace"
TRACES = f"""[Service]
ReadWritePaths={PLACE}
WorkingDirectory={PLACE}
Environment=HOME={PLACE} CURL_HOME={PLACE} SSLKEYLOGFILE={PLACE}/keys
Environment=CURL_VERBOSE=1 CURL_DEBUG=1 CURL_TRACE=all LIBCURL_DEBUG=1 CURLOPT_VERBOSE=1 DEBUG=* E2B_DEBUG=true
Environment=OPENSSL_TRACE=ALL GNUTLS_DEBUG_LEVEL=99 NGHTTP2_DEBUG=1 LIBSSH2_DEBUG=1 SYSTEMD_LOG_LEVEL=debug
LogLevelMax=debug
"""


@pytest.mark.long  # the engine is configured anew
def test_no_environment_makes_the_engine_trace(machine, cloud):
    drop_in = f"/run/systemd/system/{UNIT}.d/trace.conf"
    machine.run(["mkdir", "-p", drop_in.rpartition("/")[0]], check=True)
    machine.write(drop_in, TRACES.encode())
    machine.run(["sh", "-c", "mkdir $0 && chmod 777 $0 && echo verbose >$0/.curlrc", PLACE], check=True)
    since = machine.run(["date", "+@%s"], check=True).text.strip()
    try:
        machine.run(["systemctl", "daemon-reload"], check=True)
        stop(machine)
        cloud.fault(**ECHOES["collect"])
        heard, replies = ask(machine, ["Run", True, RUN], ["GetEngines", False, {"probe": True}])
        cloud.wait_until_empty()
        stop(machine)
        written = machine.run(["find", PLACE, "-type", "f"], check=True).text.split()
    finally:
        machine.run(["rm", "-r", drop_in, PLACE], check=True)
        machine.run(["systemctl", "daemon-reload"], check=True)
        stop(machine)
    has_no_key(heard, replies)
    assert written == [f"{PLACE}/.curlrc"]
    machine.run(["journalctl", "--sync"], check=True)
    said = machine.run(["journalctl", "--all", "--output=export", f"--since={since}", "--unit", UNIT], check=True).stdout
    # All that it says, which is its stdout and stderr, was seen.
    assert b"Started" in said and len(said) > 1000
    has_no_key(said, [])
    assert b"x-api-key" not in said.lower() and b"HTTP/" not in said
