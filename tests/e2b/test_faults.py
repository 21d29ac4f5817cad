"""Each fault switch does what faults.py says, once and no more than that."""

import http.client
import json
import socket
import time

import pytest

from conftest import opened, text_of, wait_for

CREATE = {"templateID": "base", "timeout": 60}
SANDBOXES = "/v2/sandboxes"
LOST = (http.client.IncompleteRead, http.client.RemoteDisconnected, ConnectionError)


def create(stand_in):
    return stand_in.call("POST", SANDBOXES, CREATE)


def live(stand_in):
    return len(stand_in.overview()["live"])


@pytest.mark.parametrize("when, lives", [("before", 0), ("after", 1)])
def test_answer_before_and_after_the_deed(stand_in, when, lives):
    stand_in.fault("create", "answer", status=503, when=when, body={"code": 503, "message": "busy"}, headers={"x-more": "yes"})
    answer = create(stand_in)
    assert (answer.status, answer.json()["message"], answer.headers["x-more"]) == (503, "busy", "yes")
    assert live(stand_in) == lives
    assert create(stand_in).status == 201


def test_delete_fails_the_first_times_and_then_succeeds(stand_in, sandbox):
    stand_in.fault("delete", "answer", times=2)
    statuses = [stand_in.call("DELETE", "/sandboxes/" + sandbox.id).status for _ in range(4)]
    assert statuses == [500, 500, 204, 404]


def test_delete_that_lies(stand_in, sandbox):
    stand_in.fault("delete", "answer", status=204, body="")
    assert stand_in.call("DELETE", "/sandboxes/" + sandbox.id).status == 204
    assert stand_in.call("GET", "/sandboxes/" + sandbox.id).status == 200


def test_skip_and_sandbox_pick_the_call(stand_in, sandbox):
    other = stand_in.create()
    stand_in.fault("get", "answer", skip=1, sandbox=sandbox.id)
    asked = [sandbox, other, other, sandbox, sandbox]
    assert [stand_in.call("GET", "/sandboxes/" + one.id).status for one in asked] == [200, 200, 200, 500, 200]


def test_html_error_page(stand_in):
    stand_in.fault("create", "html")
    answer = create(stand_in)
    assert answer.status == 502 and answer.headers["content-type"] == "text/html"
    assert b"<h1>502 Bad Gateway</h1>" in answer.body


def test_rate_limit_tells_when_to_come_again(stand_in):
    stand_in.fault("create", "rate-limit", retry_after=7)
    stand_in.fault("get", "rate-limit", retry_after=None)
    answer = create(stand_in)
    assert (answer.status, answer.headers["retry-after"], answer.headers["ratelimit-remaining"]) == (429, "7", "0")
    assert stand_in.call("GET", "/sandboxes/x").headers["retry-after"] is None


def test_concurrency_limit_has_no_retry_after(stand_in):
    stand_in.fault("create", "concurrency")
    answer = create(stand_in)
    assert answer.status == 429 and answer.headers["retry-after"] is None
    assert "maximum number of concurrent E2B sandboxes" in answer.json()["message"]


def test_redirect(stand_in):
    stand_in.fault("create", "redirect", status=307, location="http://127.0.0.1:9/elsewhere")
    answer = create(stand_in)
    assert (answer.status, answer.headers["location"]) == (307, "http://127.0.0.1:9/elsewhere")


@pytest.mark.parametrize("when, lives", [("before", 0), ("after", 1)])
def test_drop(stand_in, when, lives):
    stand_in.fault("create", "drop", when=when)
    with pytest.raises(LOST):
        create(stand_in)
    assert live(stand_in) == lives


@pytest.mark.parametrize("when", ["before", "after"])
def test_delay(stand_in, when):
    stand_in.fault("create", "delay", seconds=0.5, when=when)
    began = time.monotonic()
    assert create(stand_in).status == 201
    assert time.monotonic() - began >= 0.5


def test_create_that_is_done_after_the_client_gave_up(stand_in):
    stand_in.fault("create", "delay", seconds=0.5)
    call = stand_in.begin("POST", SANDBOXES, CREATE)
    wait_for(stand_in.requests)
    call.leave()
    assert live(stand_in) == 0
    wait_for(lambda: live(stand_in))
    assert stand_in.control("GET", "/sandboxes")[0]["started"] - stand_in.requests()[0]["time"] >= 0.5


def test_merge_adds_changes_and_takes_away(stand_in):
    stand_in.fault("create", "merge", fields={"sandboxID": "../x", "envdAccessToken": None, "new": [1]})
    body = create(stand_in).json()
    assert (body["sandboxID"], body["new"], "envdAccessToken" in body) == ("../x", [1], False)


def test_merge_goes_into_each_item_of_a_list(stand_in, sandbox):
    stand_in.create()
    stand_in.fault("list", "merge", fields={"state": "strange"})
    assert [entry["state"] for entry in stand_in.call("GET", SANDBOXES).json()] == ["strange", "strange"]


def test_truncate(stand_in, sandbox):
    stand_in.fault("get", "truncate", bytes=12)
    with pytest.raises(http.client.IncompleteRead) as error:
        stand_in.call("GET", "/sandboxes/" + sandbox.id)
    assert len(error.value.partial) == 12


def test_trickle(stand_in, sandbox):
    stand_in.fault("delete", "trickle")
    stand_in.fault("metrics", "trickle", seconds=0.001)
    began = time.monotonic()
    body = stand_in.call("GET", f"/sandboxes/{sandbox.id}/metrics").body
    assert time.monotonic() - began > 0.001 * len(body)
    assert json.loads(body)[0]["cpuCount"] == 2


def test_garbage(stand_in):
    stand_in.fault("create", "garbage", data="no HTTP at all\r\n")
    with pytest.raises(http.client.BadStatusLine, match="no HTTP at all"):
        create(stand_in)


def test_flood_has_no_end(stand_in):
    stand_in.fault("create", "flood")
    call = stand_in.begin("POST", SANDBOXES, CREATE)
    response = call.response()
    assert len(response.read(10 << 20)) == 10 << 20
    call.leave()


@pytest.mark.parametrize("when, status", [("before", 404), ("after", 200)])
def test_vanish(stand_in, sandbox, when, status):
    stand_in.fault("get", "vanish", when=when)
    assert stand_in.call("GET", "/sandboxes/" + sandbox.id).status == status
    overview = stand_in.overview()
    assert (overview["vanished"], overview["deleted"], overview["live"]) == (1, 0, [])
    assert sandbox.call("GET", "/health").status == 502


def test_sandbox_that_vanishes_just_after_its_creation(stand_in):
    stand_in.fault("create", "vanish", when="after")
    assert create(stand_in).status == 201
    assert live(stand_in) == 0


# ---- streams

def test_a_whole_stream_has_start_data_end_and_trailer(sandbox):
    messages = sandbox.start("echo x")
    assert [next(iter(message["event"])) for flags, message in messages[:-1]] == ["start", "data", "end"]
    assert messages[-1] == (2, {})


@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_cut(stand_in, sandbox, after):
    stand_in.fault("process.start", "cut", after=after)
    with pytest.raises(http.client.IncompleteRead) as error:
        sandbox.start("echo x")
    messages, rest = opened(error.value.partial)
    assert (len(messages), rest) == (after, b"")


@pytest.mark.parametrize("kinds", [["end"], ["trailer"], ["start"], ["end", "trailer"]])
def test_omit(stand_in, sandbox, kinds):
    stand_in.fault("process.start", "omit", kinds=kinds)
    messages = sandbox.start("echo x")
    seen = ["trailer" if flags else next(iter(message["event"])) for flags, message in messages]
    assert seen == [kind for kind in ("start", "data", "end", "trailer") if kind not in kinds]


def test_stall(stand_in, sandbox):
    stand_in.fault("process.start", "stall", after=2)
    call = sandbox.begin_start("echo x", **{"Keepalive-Ping-Interval": "1"})
    response = call.response()
    call.connection.sock.settimeout(1.5) if call.connection.sock else response.fp.raw._sock.settimeout(1.5)
    data = b""
    with pytest.raises(socket.timeout):
        while True:
            data += response.read1()
    assert len(opened(data)[0]) == 2
    call.leave()


@pytest.mark.parametrize("when, runs", [("before", False), ("after", True)])
def test_code_may_run_though_its_stream_is_refused_or_dropped(stand_in, sandbox, when, runs):
    for do, script in (("answer", "touch refused"), ("drop", "touch dropped")):
        stand_in.fault("process.start", do, status=502, when=when)
        try:
            assert sandbox.begin_start(script).answer().status == 502
        except LOST:
            pass
    listed = "refused\ndropped\n" if runs else ""
    # The code goes on by itself, which takes a moment.
    wait_for(lambda: text_of(sandbox.start("ls -t -r")) == listed)


def test_cell_whose_stream_was_cut_leaves_nothing_for_the_next(stand_in):
    sandbox = stand_in.create("code-interpreter-v1")
    stand_in.fault("execute", "cut", after=1)
    with pytest.raises(http.client.IncompleteRead):
        sandbox.execute("print('old', flush=True)\nimport time\ntime.sleep(30)")
    began = time.monotonic()
    assert [line.get("text") for line in sandbox.execute("'new'")] == [None, "new", None]
    assert time.monotonic() - began < 15


def test_insert(stand_in, sandbox):
    stand_in.fault("process.start", "insert", hex="0100000002", after=1)
    body = sandbox.begin_start("echo x").answer().body
    first = 5 + int.from_bytes(body[1:5], "big")
    assert b"start" in body[:first] and body[first:first + 5] == bytes.fromhex("0100000002")
    assert len(opened(body[first + 5:])[0]) == 3


def test_vanish_in_the_middle_of_a_stream(stand_in, sandbox):
    stand_in.fault("process.start", "vanish", after=2)
    with pytest.raises(http.client.IncompleteRead):
        sandbox.start("echo x; sleep 0.3; echo y")
    assert stand_in.call("GET", "/sandboxes/" + sandbox.id).status == 404


def test_cut_in_a_download_and_in_a_cell(stand_in):
    sandbox = stand_in.create("code-interpreter-v1")
    sandbox.call("POST", "/files?path=big", b"x" * (1 << 20), **{"content-type": "application/octet-stream"})
    stand_in.fault("files.download", "cut", after=3)
    with pytest.raises(http.client.IncompleteRead) as error:
        sandbox.call("GET", "/files?path=big")
    assert len(error.value.partial) == 3 * 65536
    stand_in.fault("execute", "cut", after=1)
    with pytest.raises(http.client.IncompleteRead) as error:
        sandbox.execute("1")
    assert json.loads(error.value.partial)["type"] == "number_of_executions"


def test_cell_without_its_end(stand_in):
    sandbox = stand_in.create("code-interpreter-v1")
    stand_in.fault("execute", "omit", kinds=["end"])
    assert [line["type"] for line in sandbox.execute("1")] == ["number_of_executions", "result"]
    assert [line["type"] for line in sandbox.execute("1")][-1] == "end_of_execution"


# ---- settings

def test_wrong_clock_of_the_server(stand_in, sandbox):
    before = stand_in.call("GET", "/sandboxes/" + sandbox.id).json()["endAt"]
    stand_in.settings(clock_offset=-86400 * 365)
    answer = stand_in.call("GET", "/sandboxes/" + sandbox.id)
    assert int(answer.json()["endAt"][:4]) < int(before[:4])
    assert str(int(before[:4]) - 1) in answer.headers["date"]


def test_unknown_fields_are_everywhere(stand_in):
    stand_in.settings(unknown_fields=True)
    assert "fieldOfTomorrow" in create(stand_in).json()
    assert "fieldOfTomorrow" in stand_in.call("GET", SANDBOXES).json()[0]
    messages = stand_in.create().start("echo x")
    assert all("fieldOfTomorrow" in message for _, message in messages)
    assert text_of(messages) == "x\n"


def test_server_without_v2(stand_in):
    stand_in.settings(v2=False)
    assert create(stand_in).status == 404
    assert "envdAccessToken" not in stand_in.call("POST", "/sandboxes", CREATE).json()
    assert "envdAccessToken" in stand_in.call("POST", "/sandboxes", CREATE | {"secure": True}).json()


def test_rate_is_really_counted(stand_in):
    stand_in.settings(rate=3)
    statuses = [stand_in.call("GET", "/sandboxes/x").status for _ in range(10)]
    assert statuses[:3] == [404, 404, 404] and 429 in statuses


def test_concurrent_sandboxes_are_really_counted(stand_in):
    stand_in.settings(max_sandboxes=1)
    sandbox = stand_in.create()
    assert create(stand_in).status == 429
    stand_in.call("DELETE", "/sandboxes/" + sandbox.id)
    assert create(stand_in).status == 201


def test_life_that_is_silently_made_shorter(stand_in):
    stand_in.settings(clamp_create=5)
    stand_in.create(timeout=60)
    assert stand_in.control("GET", "/sandboxes")[0]["seconds"] == 5


def test_old_envd_takes_no_octet_stream(stand_in):
    stand_in.settings(envd_version="0.5.0")
    sandbox = stand_in.create()
    answer = sandbox.call("POST", "/files?path=x", b"x", **{"content-type": "application/octet-stream"})
    assert answer.status == 400 and "unsupported content type" in answer.json()["message"]


def test_switches_that_do_not_exist_are_refused(stand_in):
    with pytest.raises(AssertionError, match="a fault has on, and do"):
        stand_in.fault("create", "explode")
    with pytest.raises(AssertionError, match="unknown settings"):
        stand_in.settings(nonsense=1)
