"""The server for assistants against clients that err, go away or ask for a lot, and against a helper that
does. What well-behaved clients do is in tests/mcp."""

import json

import pytest

from agent import Agent
from approvals import every_refusal_is_recorded, rules, NO
from mcp_client import META, Server

# Lines that are no message, and whether an answer can name the call.
NO_MESSAGES = [
    (b"nonsense", None),
    (b"{", None),
    (b"\xff\xfe", None),
    (b"[]", None),
    (b"null", None),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None),
    (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', None),
    (b'{"jsonrpc":"2.0","id":99999999999999999999,"method":"ping"}', None),
    (b'{"jsonrpc":"2.0","id":"n","method":"ping","params":{"x":"\\u0000"}}', "n"),
    (b'{"jsonrpc":"2.0","id":"d","method":"ping","method":"ping"}', "d"),
    (b'{"jsonrpc":"2.0","id":"v","method":5}', "v"),
    (b'{"jsonrpc":"1.0","id":"w","method":"ping"}', "w"),
    (b'{"jsonrpc":"2.0","id":"a","method":"ping","params":[]}', "a"),
    (b'{"jsonrpc":"2.0","id":"deep","method":"ping","params":{"x":' + b"[" * 100 + b"]" * 100 + b"}}", "deep"),
    (b'{"jsonrpc":"2.0","id":"many","method":"ping","params":{"x":[' + b"0," * 70000 + b"0]}}", "many"),
    (b'{"jsonrpc":"2.0","id":"long","method":"ping","params":{"x":"' + b"y" * (17 << 20) + b'"}}', "long"),
    (b'{"jsonrpc":"2.0","params":{"x":"' + b"y" * (17 << 20) + b'"},"method":"ping","id":"last"}', "last"),
]


def status_of(machine, id):
    return json.loads(machine.sbxctl(["show", "--json", id]).stdout)["status"]


def is_ended(machine, id, status="cancelled"):
    machine.wait_for(lambda: status_of(machine, id) == status, 10, f"the run to be {status}")


def is_running(server):
    runs = server.tool("list_runs", all=False)["structuredContent"]["runs"]
    return [run["status"] for run in runs] == ["running"]


def failure(result):
    assert result["isError"] is True, result
    return result["structuredContent"]["error"].rpartition(".")[2], result["content"][0]["text"]


# ---- messages


def test_what_is_no_message_is_answered_and_nothing_else_is_written(machine):
    with Server(machine) as server:
        for line, id in NO_MESSAGES:
            server.raw(line + b"\n")
            answer = server.other() if id is None else server.wait(id)
            assert answer["error"]["code"] in (-32700, -32600, -32602), (line[:80], answer)
            assert "id" in answer or id is None, (line[:80], answer)
        server.raw(b"\n\r\n")
        server.raw(b'{"jsonrpc":"2.0","id":"crlf","method":"ping"}\r\n')
        assert server.wait("crlf")["result"] == {}
        assert server.end() == 0
        assert not server.others and not server.notifications and server.popen.stderr.read() == b""


def test_requests_come_after_the_handshake_or_tell_their_revision(machine):
    with Server(machine, revision=None) as server:
        assert server.request("ping")["result"] == {}
        assert server.request("tools/list")["error"]["code"] == -32600
        listed = server.request("tools/list", {"_meta": META})["result"]
        assert listed["resultType"] == "complete" and listed["ttlMs"] > 0 and listed["cacheScope"] == "public"
        server.request("initialize", {"protocolVersion": "1999-01-01"})
        assert "resultType" not in server.request("tools/list")["result"]


def test_modern_requests_are_held_to_their_meta(machine):
    with Server(machine, revision=None) as server:
        found = server.request("server/discover", {"_meta": META})["result"]
        assert found["supportedVersions"] == ["2026-07-28"] and found["capabilities"] == {"tools": {}}
        assert found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "sbxctl"
        other = {**META, "io.modelcontextprotocol/protocolVersion": "2030-01-01"}
        refused = server.request("tools/list", {"_meta": other})["error"]
        assert refused["code"] == -32022
        assert refused["data"] == {"supported": ["2026-07-28"], "requested": "2030-01-01"}
        for meta in ({}, {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}):
            assert server.request("server/discover", {"_meta": meta})["error"]["code"] == -32602
        # What the revision has done away with, and what this server does not have.
        for method in ("ping", "initialize", "resources/list", "subscriptions/listen", "no/such"):
            assert server.request(method, {"_meta": META})["error"]["code"] == -32601, method


@pytest.mark.parametrize("revision", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
def test_old_clients_get_what_they_know(machine, revision):
    with Server(machine, revision) as server:
        result = server.run("open('t.txt', 'w').write('x'); print(4)")
        kinds = {item["type"] for item in result["content"]}
        assert kinds == ({"text", "resource_link"} if revision >= "2025-06-18" else {"text"})
        assert "t.txt (1 B)" in result["content"][0]["text"] and "\n4\n" in result["content"][1]["text"]


def test_only_the_revision_with_batches_has_them(machine):
    batch = b'[{"jsonrpc":"2.0","id":"a","method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},7,' \
        b'{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{"name":"run_code","arguments":{"code":"1"}}}]\n'
    with Server(machine, "2025-03-26") as server:
        server.raw(batch)
        first, wrong, last = server.other()
        assert first["result"] == {} and wrong["error"]["code"] == -32600
        assert last["id"] == "b" and last["result"]["isError"] is False
    with Server(machine) as server:
        server.raw(batch)
        assert server.other()["error"]["code"] == -32600


def test_an_id_can_be_anything_but_one_that_is_in_use(machine):
    with Server(machine) as server:
        for id in (0, -1, 2**53, "", "ü\n", "x" * 5000):
            assert server.request("ping", id=id)["result"] == {}
        server.start("tools/call", {"name": "run_code", "arguments": {"code": "import time; time.sleep(600)"}}, id="i")
        assert server.request("ping", id="i")["error"]["code"] == -32600
        for unknown in ("nobody", 12345, None, {}):
            server.send({"method": "notifications/cancelled", "params": {"requestId": unknown}})
        server.send({"method": "notifications/cancelled"})
        server.send({"method": "notifications/cancelled", "params": {"requestId": "i"}})
        assert server.request("ping", id="i")["result"] == {}


# ---- ends


def test_end_of_file_ends_the_server_and_its_runs(machine):
    with Server(machine) as server:
        id = server.begin()
        assert server.end() == 0
        is_ended(machine, id)


def test_killed_server_leaves_no_run(machine):
    with Server(machine) as server:
        id = server.begin()
        server.running.signal("KILL")
        is_ended(machine, id)


# Standard input stays open until the server has ended by itself.
GONE_READER = """
mkfifo in
(sbxctl mcp <in; echo $? >status) | head -n 1 >out &
exec 3>in
echo "$0" >&3
until [ -s out ]; do sleep 0.1; done
until [ -s status ]; do echo "$0" >&3; sleep 0.1; done
"""


def test_client_that_reads_no_more_ends_the_server(machine):
    directory = machine.directory()
    call = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
    shell = ["env", "-C", directory, "timeout", "20", "bash", "-c", f"trap '' PIPE; {GONE_READER}", call]
    machine.run(shell, "alice", check=True)
    assert machine.read(f"{directory}/status") == b"0\n"


def test_files_do_for_standard_input_and_output(machine):
    directory = machine.directory()
    lines = ['{"jsonrpc":"2.0","id":1,"method":"ping"}', '{"jsonrpc":"2.0","id":2,"method":"ping"}']
    machine.write(f"{directory}/in", "\n".join(lines).encode() + b"\n", "alice")
    command = f"sbxctl mcp <{directory}/in >{directory}/out"
    assert machine.run(["bash", "-c", command], "alice", timeout=10).status == 0
    answers = [json.loads(line) for line in machine.read(f"{directory}/out").splitlines()]
    assert [answer["id"] for answer in answers] == [1, 2]


# It reads when all has been sent, far more than a pipe holds, and then everything.
LATE_READER = """
mkfifo pipe
sbxctl mcp <pipe | (until [ -e sent ]; do sleep 0.1; done; cat) >out &
exec 3>pipe
cat in >&3
touch sent
until [ "$(wc -l <out)" -eq "$0" ]; do sleep 0.1; done
"""


def test_client_that_reads_late_gets_everything(machine):
    with Server(machine) as server:
        id = server.run("print('x' * 60000)")["structuredContent"]["id"]
    directory = machine.directory()
    part = {"_meta": META, "name": "read_output", "arguments": {"id": id, "name": "stdout"}}
    calls = [{"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": part} for n in range(200)]
    machine.write(f"{directory}/in", "".join(json.dumps(call) + "\n" for call in calls).encode(), "alice")
    shell = ["env", "-C", directory, "timeout", "50", "bash", "-c", LATE_READER, str(len(calls))]
    machine.run(shell, "alice", check=True)
    answers = [json.loads(line) for line in machine.read(f"{directory}/out").splitlines()]
    assert {answer["id"] for answer in answers} == set(range(200))
    assert all(len(answer["result"]["structuredContent"]["text"]) == 60001 for answer in answers)


# ---- the helper


def test_helper_that_is_not_there_is_told_and_found_again(machine):
    with Server(machine) as server:
        units = ["sbxctl-helper.socket", "sbxctl-helper.service"]
        machine.run(["systemctl", "stop", *units], check=True)
        try:
            for name, arguments in (("run_code", {"code": "1"}), ("list_runs", {}), ("get_run", {"id": "x"})):
                kind, text = failure(server.tool(name, **arguments))
                assert kind == "Unreachable" and "systemctl restart sbxctl-helper.socket" in text
        finally:
            machine.run(["systemctl", "start", "sbxctl-helper.socket"], check=True)
        assert server.run("print(4)")["structuredContent"]["stdout"]["text"] == "4\n"


def test_helper_that_dies_under_a_run_is_told(machine):
    with Server(machine) as server:
        waiting = server.start_tool("run_code", code="import time; time.sleep(600)")
        machine.wait_for(lambda: is_running(server), 10, "the run to be running")
        machine.run(["systemctl", "kill", "-sKILL", "sbxctl-helper.service"], check=True)
        kind, text = failure(server.wait(waiting)["result"])
        assert kind == "Lost" and "the helper went away during the run" in text
        machine.run(["systemctl", "reset-failed", "sbxctl-helper.service"])
        assert server.run("print(4)")["isError"] is False


def test_a_hundred_calls_at_once_are_all_answered(machine):
    with Server(machine) as server:
        ids = [server.start_tool("run_code", code=f"print({n})") for n in range(100)]
        results = [server.wait(id)["result"] for id in ids]
        good = [r for r in results if not r["isError"]]
        full = [failure(r)[0] for r in results if r["isError"]]
        assert set(full) <= {"QueueFull"}
        assert len(good) >= 18
        assert server.run("print(4)")["structuredContent"]["stdout"]["text"] == "4\n"


# ---- approvals


def test_dialog_of_the_desktop_lets_a_run_go(machine):
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "_meta": META, "name": "run_code", "arguments": {"code": "print(4)", "memoryMiB": 1024}}}
    with Agent(machine, ["sbxctl", "mcp"]) as agent:
        agent.input(json.dumps(call) + "\n")
        assert agent.dialog()["action"] == "io.sbxctl.run-resources"
        agent.grant()
        agent.wait(lambda: "\n" in agent.output, 20, "the answer")
        result = json.loads(agent.output)["result"]
        assert result["isError"] is False and result["structuredContent"]["policy"]["memoryBytes"] == 1 << 30


def test_run_that_waits_for_a_dialog_says_so_and_is_refused_with_it(machine):
    arguments = {"code": "print(4)", "memoryMiB": 1024, "waitSeconds": 1}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"_meta": META, "name": "run_code", "arguments": arguments}}
    with Agent(machine, ["sbxctl", "mcp"]) as agent:
        agent.input(json.dumps(call) + "\n")
        agent.dialog()
        agent.wait(lambda: "\n" in agent.output, 20, "the handle")
        result = json.loads(agent.output)["result"]
        assert result["isError"] is False
        assert "asking for approval of memory of 1 GiB" in result["structuredContent"]["reason"]
        agent.output = ""
        wait = {"_meta": META, "name": "get_run", "arguments": {"id": result["structuredContent"]["id"]}}
        agent.input(json.dumps({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": wait}) + "\n")
        agent.dismiss()
        agent.wait(lambda: "\n" in agent.output, 20, "the refusal")
        kind, text = failure(json.loads(agent.output)["result"])
        assert kind == "Denied" and "was dismissed" in text


def test_policy_that_says_no_is_told_as_that(machine):
    with rules(machine, run_resources=NO), Server(machine) as server:
        kind, text = failure(server.run("print(4)", memoryMiB=1024))
        assert kind == "Denied" and "policy does not allow" in text


# ---- memory


def growth(machine, calls):
    """KiB that the server has more after so many calls than after the first twenty."""
    with Server(machine) as server:
        def some(n):
            for number in range(n):
                result = server.run(f"print('x' * 1000); open('f', 'w').write('{number}')")
                assert result["isError"] is False, result
            machine.run(["sh", "-c", "sbxctl ps --all --json | grep -o '\"id\":\"[0-9a-f]*' | cut -c 7- |"
                         " xargs -r sbxctl rm"], "alice", check=True)
            return machine.memory(server.running.pid)

        before = some(20)
        descriptors = machine.descriptors(server.running.pid)
        grown = some(calls) - before
        assert machine.descriptors(server.running.pid) == descriptors
        return grown


@pytest.mark.long
def test_memory_stays_flat_over_a_hundred_calls(machine):
    assert growth(machine, 80) < 512


@pytest.mark.long
def test_memory_stays_flat_over_a_thousand_calls(machine):
    assert growth(machine, 980) < 512
