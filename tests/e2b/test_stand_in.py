"""What the stand-in promises beyond the SDK's calls: it ends what it started, tells no secret, speaks HTTP/2 and TLS."""

import json
import pathlib
import subprocess
import time

from conftest import HERE, KEY, StandIn, envelope, opened, text_of, wait_for

MARK = "71.0421"  # a duration that no other sleep on this machine has


def marked_processes():
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if arguments[:2] == [b"sleep", MARK.encode()]:
            found.append(entry.parent.name)
    return found


def begin_sleeping(sandbox):
    """A command that leaves a child behind, in a session of its own, which no signal to a group reaches."""
    call = sandbox.begin_start(f"trap '' TERM; setsid sleep {MARK} & echo up; wait")
    response = call.response()
    data = b""
    while len(opened(data)[0]) < 2:
        data += response.read1()
    wait_for(marked_processes)
    return call


def test_delete_ends_all_that_ran(stand_in, sandbox):
    call = begin_sleeping(sandbox)
    assert stand_in.call("DELETE", "/sandboxes/" + sandbox.id).status == 204
    assert marked_processes() == []
    call.leave()


def test_life_clock_ends_all_that_ran(stand_in):
    sandbox = stand_in.create(timeout=1)
    began = time.monotonic()
    call = begin_sleeping(sandbox)
    wait_for(lambda: not stand_in.overview()["live"])
    assert time.monotonic() - began >= 0.9
    assert marked_processes() == []
    assert stand_in.call("GET", "/sandboxes/" + sandbox.id).status == 404
    assert stand_in.overview()["expired"] == 1
    call.leave()


def test_client_that_leaves_stops_nothing_but_the_time_limit_does(stand_in, sandbox):
    call = sandbox.begin_start(f"exec sleep {MARK}", **{"Connect-Timeout-Ms": "1000"})
    wait_for(marked_processes)
    call.leave()
    wait_for(lambda: any(request.get("client_left") for request in stand_in.requests()))
    assert marked_processes() != []
    wait_for(lambda: not marked_processes())


def test_time_limit_reaches_the_leader_alone(sandbox):
    messages = sandbox.start(f"sleep {MARK} & wait", **{"Connect-Timeout-Ms": "500"})
    assert messages[-1][1]["error"]["code"] == "deadline_exceeded"
    assert marked_processes() != []


def test_keepalive_while_nothing_is_said(sandbox):
    messages = sandbox.start("sleep 1.5", **{"Keepalive-Ping-Interval": "1"})
    assert (0, {"event": {"keepalive": {}}}) in [(flags, message) for flags, message in messages]


def test_end_events_leave_zero_values_out(sandbox):
    ends = {script: sandbox.start(script)[-2][1]["event"]["end"] for script in ("exit 0", "exit 3", "kill -9 $$", "exec nothing-there")}
    assert ends["exit 0"] == {"exited": True, "status": "exit status 0"}
    assert ends["exit 3"] == {"exitCode": 3, "exited": True, "status": "exit status 3", "error": "exit status 3"}
    assert ends["kill -9 $$"] == {"exitCode": -1, "status": "signal: killed", "error": "signal: killed"}
    assert ends["exec nothing-there"]["exitCode"] == 127


def test_output_of_any_bytes_and_size(sandbox):
    assert len(text_of(sandbox.start("head -c 20000000 /dev/zero"))) == 20000000


def test_token_is_asked_for_and_no_secret_is_listed(stand_in, sandbox):
    token = sandbox.headers.pop("X-Access-Token")
    assert sandbox.call("POST", "/process.Process/List", {}).status == 401
    assert sandbox.call("GET", "/files?path=x").status == 401
    assert sandbox.call("GET", "/health").status == 204
    assert stand_in.call("GET", "/v2/sandboxes", **{"X-API-KEY": "e2b_9999"}).status == 401
    listed = str(stand_in.requests())
    assert token not in listed and KEY not in listed and "e2b_9999" not in listed
    assert stand_in.requests()[0]["headers"]["x-api-key"] == "(secret)"


def curl(stand_in, *arguments):
    options = ["--silent", "--show-error", "--fail-with-body", "--noproxy", "*", "--cacert", stand_in.ca, "-H", "X-API-KEY: " + KEY]
    return subprocess.run(["curl", *options, *arguments], capture_output=True, timeout=30, check=True).stdout


def test_http2_over_tls_with_the_test_ca(stand_in, sandbox, tmp_path):
    data = tmp_path / "data"
    data.write_bytes(bytes(range(256)) * 40000)
    there = [item for name, value in sandbox.headers.items() for item in ("-H", f"{name}: {value}")] + ["-H", "E2b-Sandbox-Port: 49983"]
    files = stand_in.https + "/files?path=data"
    curl(stand_in, "--http2", *there, "-H", "content-type: application/octet-stream", "-T", data, "-X", "POST", files)
    assert curl(stand_in, "--http2", *there, files) == data.read_bytes()
    request = {"process": {"cmd": "/bin/sh", "args": ["-c", "sha256sum < data; exit 4"]}, "stdin": False}
    (tmp_path / "start").write_bytes(envelope(request))
    answer = curl(stand_in, "--http2", *there, "-H", "content-type: application/connect+json", "--data-binary", f"@{tmp_path}/start",
                  stand_in.https + "/process.Process/Start")
    messages, rest = opened(answer)
    assert rest == b"" and messages[-1] == (2, {}) and messages[-2][1]["event"]["end"]["exitCode"] == 4
    assert {request["http"] for request in stand_in.requests() if request["operation"].startswith(("files", "process"))} == {"2"}
    assert curl(stand_in, "--http1.1", *there, files) == data.read_bytes()


def test_names_of_the_domain_lead_to_the_sandbox(stand_in, sandbox):
    port = stand_in.https.rpartition(":")[2]
    host = f"49983-{sandbox.id}.e2b.test"
    told = curl(stand_in, "--resolve", f"{host}:{port}:127.0.0.1", "-w", "%{http_code}", f"https://{host}:{port}/health")
    assert told == b"204"
    api = curl(stand_in, "--resolve", f"api.e2b.test:{port}:127.0.0.1", f"https://api.e2b.test:{port}/sandboxes/{sandbox.id}")
    assert sandbox.id.encode() in api
    shared = curl(stand_in, "--resolve", f"sandbox.e2b.test:{port}:127.0.0.1", "-H", f"E2b-Sandbox-Id: {sandbox.id}", "-H",
                  "E2b-Sandbox-Port: 49983", "-w", "%{http_code}", f"https://sandbox.e2b.test:{port}/health")
    assert shared == b"204"


def test_stream_over_http2_that_is_cut(stand_in, sandbox, tmp_path):
    stand_in.fault("process.start", "cut", after=2)
    (tmp_path / "start").write_bytes(envelope({"process": {"cmd": "/bin/echo", "args": ["x"]}}))
    headers = [item for name, value in sandbox.headers.items() for item in ("-H", f"{name}: {value}")]
    command = ["curl", "--silent", "--http2", "--cacert", stand_in.ca, *headers, "-H", "E2b-Sandbox-Port: 49983", "-H",
               "content-type: application/connect+json", "--data-binary", f"@{tmp_path}/start", stand_in.https + "/process.Process/Start"]
    done = subprocess.run(command, capture_output=True, timeout=30, check=False)
    assert done.returncode != 0 and len(opened(done.stdout)[0]) == 2


def test_killed_stand_in_leaves_no_sandbox(tmp_path):
    command = ["/usr/bin/python3", HERE / "stand_in.py", "--http", "127.0.0.1:0", "--control", tmp_path / "control", "--directory", tmp_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        ready = json.loads(process.stdout.readline()) | {"https": "", "ca": ""}
        call = begin_sleeping(StandIn(process, ready).create())
        process.kill()
    wait_for(lambda: not marked_processes())
    call.leave()
