"""What E2B's cloud may do wrong, and what the engine then says and leaves behind: nothing that costs money."""

import json

import pytest
from e2b_engine import configure, inside, refusal, stop

pytestmark = pytest.mark.long  # each fault of the cloud waits for a limit

# A program that is in the middle of its run.
BUSY = ["sh", "-c", "echo kept >kept; echo begun; sleep 1000"]

# Runs a program, and tells the last word of the engine if the launcher's does not come.
LAST_WORD = """
import sys
with Sandbox() as sandbox:
    to, out, err = sandbox.go(json.loads(sys.argv[1]))
    os.close(to)
    told = os.read(out, 100).decode()
    print(told, file=sys.stderr)
    message, _ = sandbox.hear(60)
    assert message["type"] == "ended" or sandbox.ended()["cleaned"]
    print(json.dumps([told, message, sorted(os.listdir(sandbox.workspace))]))
"""


def last_word(machine, argv=BUSY):
    return inside(machine, LAST_WORD, json.dumps(argv), timeout=90)


@pytest.mark.parametrize("fault", [{"do": "cut", "after": 2}, {"do": "omit", "kinds": ["end"]}, {"do": "omit", "kinds": ["trailer"]},
                                   {"do": "insert", "after": 2, "hex": "7f00000000"}], ids=str)
def test_stream_without_its_end_is_a_lost_run_and_the_code_is_not_started_again(machine, cloud, fault):
    cloud.fault("process.start", times=1, **fault)
    argv = BUSY if fault["do"] in ("cut", "insert") else ["sh", "-c", "echo kept >kept; echo begun"]
    if fault["do"] == "insert":
        argv = ["sh", "-c", "echo kept >kept; echo begun; sleep 0.2; echo more; sleep 1000"]
    told, message, files = last_word(machine, argv)
    assert told == "begun\n"
    assert (message["type"], message["phase"]) == ("error", "lost")
    assert "is not known" in message["message"]
    assert files == ["kept"]
    cloud.wait_until_empty()
    assert cloud.operations().count("create") == 1
    assert cloud.operations().count("process.start") == 2  # the program's, and the one that fetches files


def test_sandbox_that_vanished_is_asked_after(machine, cloud):
    cloud.fault("process.start", "vanish", after=2)
    told, message, files = last_word(machine)
    assert (message["type"], message["phase"]) == ("error", "lost")
    assert "E2B does not know the sandbox any more" in message["message"]
    assert "get" in cloud.operations()[cloud.operations().index("process.start"):]


def test_rate_limit_is_waited_for_as_long_as_it_says(machine, cloud):
    cloud.fault("create", "rate-limit", retry_after=1, times=2)
    began = inside(machine, """
        began = now()
        with Sandbox() as sandbox:
            print(now() - began)
    """)
    assert began >= 2_000_000
    assert cloud.operations().count("create") == 3


@pytest.mark.parametrize("fault, words", [
    ({"do": "rate-limit", "retry_after": 3600, "times": -1}, "Rate limit exceeded"),
    ({"do": "rate-limit", "retry_after": None, "times": -1}, "Rate limit exceeded"),
    ({"do": "concurrency", "times": -1}, "maximum number of concurrent E2B sandboxes (20)"),
], ids=str)
def test_limit_without_an_end_is_told_at_once(machine, cloud, fault, words):
    cloud.fault("create", **fault)
    message = refusal(machine)
    assert message["type"] == "error" and words in message["message"]
    assert cloud.operations() == ["create"]


def test_rate_limit_is_not_tried_for_ever(machine, cloud):
    cloud.fault("create", "rate-limit", retry_after=1, times=-1)
    assert "Rate limit exceeded" in refusal(machine)["message"]
    assert cloud.operations().count("create") == 4


@pytest.mark.parametrize("fault", [
    {"do": "answer", "status": 500, "when": "after"},
    {"do": "html", "status": 504, "when": "after"},
    {"do": "drop", "when": "after"},
    {"do": "truncate", "bytes": 20},
    {"do": "merge", "fields": {"sandboxID": None}},
    {"do": "garbage"},
], ids=str)
def test_create_of_which_nobody_knows_leaves_nothing(machine, cloud, fault):
    cloud.fault("create", **fault)
    message = refusal(machine)
    assert message["type"] == "error"
    assert "<" not in message["message"]
    cloud.wait_until_empty()
    assert cloud.operations().count("create") == 1


def test_create_that_was_done_again_leaves_one(machine, cloud):
    """Busy, said the cloud, and had made a sandbox all the same."""
    cloud.fault("create", "answer", status=503, when="after", times=1)
    told = inside(machine, """
        with Sandbox() as sandbox:
            print(json.dumps([sandbox.id, sandbox.run(["true"]).exited[:2]]))
    """)
    assert told[1] == [1, 0]
    assert cloud.operations().count("create") == 2
    first, second = cloud.call("GET", "/sandboxes")
    assert second["id"] == told[0] and first["ended"] < second["ended"]
    cloud.wait_until_empty()


def test_sandbox_that_anybody_could_use_is_not_used(machine, cloud):
    cloud.fault("create", "merge", fields={"envdAccessToken": None})
    assert "anybody could use" in refusal(machine)["message"]
    cloud.wait_until_empty()


def test_older_control_plane_is_asked_in_its_own_way(machine, cloud):
    cloud.settings(v2=False)
    assert inside(machine, "with Sandbox() as sandbox: print(json.dumps(sandbox.run(['true']).exited[:2]))") == [1, 0]
    cloud.wait_until_empty()
    made = cloud.call("GET", "/sandboxes")[0]["request"]
    assert made["secure"] and made["timeout"] == 60


def test_life_that_is_not_the_one_asked_for_is_no_life_to_run_in(machine, cloud):
    cloud.settings(clamp_create=20)
    message, ended = word_after_go(machine)
    assert_not_started(message, ended)
    assert "process.start" not in cloud.operations()
    assert " s, and 60 s are needed" in message["message"]
    cloud.wait_until_empty()


def test_life_that_is_longer_is_set_again(machine, cloud):
    cloud.fault("get", "merge", fields={"startedAt": "2026-01-01T00:00:00Z", "endAt": "2026-01-02T00:00:00Z"})
    assert inside(machine, "with Sandbox() as sandbox: print(json.dumps(sandbox.run(['true']).exited[:2]))") == [1, 0]
    asked = [operation for operation in cloud.operations() if operation != "files.upload"]
    assert asked[:5] == ["create", "get", "timeout", "get", "process.start"]


def test_server_whose_clock_is_wrong_is_no_trouble(machine, cloud):
    cloud.settings(clock_offset=-86400)
    assert inside(machine, "with Sandbox() as sandbox: print(json.dumps(sandbox.run(['true']).exited[:2]))") == [1, 0]


@pytest.mark.parametrize("fault", [
    {"do": "answer", "status": 500, "times": 2},
    {"do": "html", "times": 2},
    {"do": "drop", "times": 1},
    {"do": "answer", "status": 204, "body": "", "when": "before", "times": 1},
], ids=str)
def test_removal_is_asked_for_until_it_is_done(machine, cloud, fault):
    cloud.fault("delete", **fault)
    inside(machine, "with Sandbox() as sandbox: print(json.dumps(sandbox.run(['true']).exited[:2]))")
    cloud.wait_until_empty(30)


def test_upload_is_done_again_and_the_program_is_not_started_without_it(machine, cloud):
    cloud.fault("files.upload", "html", times=1)
    told = inside(machine, """
        with Sandbox() as sandbox:
            sandbox.put("f", b"content")
            print(json.dumps(sandbox.run(["cat", "f"]).stdout.decode()))
    """)
    assert told == "content"
    cloud.fault("files.upload", "answer", status=507, times=-1)
    told = inside(machine, """
        with Sandbox() as sandbox:
            sandbox.put("f", b"content")
            sandbox.go(["cat", "f"])
            print(json.dumps([sandbox.hear()[0], sandbox.ended()]))
    """)
    assert_not_started(*told)
    cloud.wait_until_empty()


def assert_not_started(message, ended):
    assert message["type"] == "error" and message["phase"] != "lost" and message["message"]
    assert ended["cleaned"]


def word_after_go(machine, **options):
    """The engine's error instead of a program's end, and its last word."""
    return inside(machine, """
        import sys
        with Sandbox(**json.loads(sys.argv[1])) as sandbox:
            sandbox.go(["true"])
            print(json.dumps([sandbox.hear()[0], sandbox.ended()]))
    """, json.dumps(options), timeout=90)


@pytest.mark.parametrize("status", [502, 504])
def test_start_that_was_lost_on_its_way_may_have_been_one(machine, cloud, status):
    """What stands in front of the sandbox does not know how far the request came: it is not made again."""
    cloud.fault("process.start", "html", status=status, when="after", times=1)
    message, ended = word_after_go(machine)
    assert (message["type"], message["phase"]) == ("error", "lost") and ended["cleaned"]
    assert cloud.operations().count("process.start") == 2  # the program's, and the one that fetches files


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503])
def test_program_that_was_not_started_is_told_as_such(machine, cloud, status):
    cloud.fault("process.start", "answer", status=status, times=1)
    told = inside(machine, """
        with Sandbox() as sandbox:
            sandbox.go(["true"])
            print(json.dumps([sandbox.hear()[0], sandbox.ended()]))
    """)
    assert_not_started(*told)
    cloud.wait_until_empty()
    assert cloud.operations().count("process.start") == 1


def test_no_key_and_a_wrong_key_are_two_sentences(machine, cloud):
    cloud.settings(api_key="e2b_another")
    message = refusal(machine)
    assert message["phase"] == "engine" and "does not accept this machine's key" in message["message"]
    machine.run(["mv", "/etc/credstore/e2b-api-key", "/etc/credstore/aside"], check=True)
    try:
        stop(machine)
        message = refusal(machine)
        assert message["phase"] == "engine" and "has no key" in message["message"]
    finally:
        machine.run(["mv", "/etc/credstore/aside", "/etc/credstore/e2b-api-key"], check=True)
        stop(machine)


def test_packages_of_this_machine_stay_on_it(machine, cloud):
    assert "cannot take this machine's packages along" in refusal(machine, wheels="/srv/wheels")["message"]
    assert cloud.operations() == []


def test_template_that_is_not_there_is_named(machine, cloud):
    assert "no template 'no-such-template'" in refusal(machine, image="no-such-template")["message"]
    assert "not the name of an E2B template" in refusal(machine, image="a b")["message"]


@pytest.mark.parametrize("keys, words", [
    ({"ApiUrl": "https://localhost:1"}, "nothing accepts a connection"),
    ({"ApiUrl": "https://no-such-host.invalid"}, "cannot be found"),
    ({"CAFile": "/etc/ssl/certs/ca-certificates.crt"}, "is not believed to be what it says"),
    ({"ApiUrl": "https://127.0.0.2:3443"}, "nothing accepts a connection"),
    ({"Proxy": "localhost:1"}, "nothing accepts a connection"),
], ids=str)
def test_cloud_that_cannot_be_reached_is_told_by_why(machine, cloud, keys, words):
    configure(machine, **keys)
    try:
        message = refusal(machine)
        assert message["phase"] == "engine" and words in message["message"]
    finally:
        configure(machine)
    assert "create" not in cloud.operations()


def test_no_redirect_is_followed(machine, cloud):
    cloud.fault("create", "redirect", location="https://localhost:3443/elsewhere", times=-1)
    assert "status 302" in refusal(machine)["message"]
    assert cloud.operations() == ["create"]


def test_no_more_sandboxes_than_the_administrator_allows(machine, cloud):
    configure(machine, MaxSandboxes=1)
    try:
        told = inside(machine, """
            with Sandbox():
                try:
                    Sandbox()
                except EngineError as error:
                    print(json.dumps(error.args[0]["message"]))
        """)
        assert "1 cloud sandboxes run already" in told
    finally:
        configure(machine)
