"""SIGKILL of whoever has to do with a granted network: nothing goes on, and the run tells what became of it. Over either engine."""

import json

import pytest
from engines import engine_of
from network_lab import internet, lab

# Fetches until it is told to stop; says how each fetch went.
BUSY = """
import sys
link = tunnel("good.example", 80)
link.sendall(b"GET /zeros?n=1000000000 HTTP/1.1\\r\\nHost: good.example\\r\\n\\r\\n")
link.recv(1)
print("up", flush=True)
input()
def fetch():
    try:
        return http("good.example")[0]
    except OSError as error:
        return type(error).__name__
print(json.dumps([fetch(), fetch()]), flush=True)
"""


def start(lab):
    running = lab.start_run(BUSY)
    line = running.popen.stdout.readline()
    assert line == b"up\n", running.finish()
    [proxy] = lab.proxies()
    return running, proxy


def ids(machine):
    listed = json.loads(machine.sbxctl(["ps", "--all", "--json"]).text)
    return [run["id"] for run in listed["runs"]]


def newest(machine):
    """The result of the run that was begun last."""
    listed = json.loads(machine.sbxctl(["ps", "--all", "--json"]).text)["runs"]
    return json.loads(machine.sbxctl(["show", "--json", listed[0]["id"]]).text)


def nothing_left(lab):
    return not lab.proxies() and lab.open_connections() == 0 and engine_of(lab.machine).nothing_left()


def test_without_its_proxy_a_run_goes_on_without_network(lab):
    running, proxy = start(lab)
    lab.machine.run(["kill", "-KILL", str(proxy)], check=True)
    lab.machine.wait_for(lambda: lab.open_connections() == 0, 5, "the connections to end")
    ended = running.finish(input=b"\n")
    assert ended.status == 0, ended
    assert json.loads(ended.text.splitlines()[-1]) == ["ConnectionRefusedError"] * 2
    result = newest(lab.machine)
    assert result["status"] == "succeeded" and result["networkUse"]["complete"] is False, result
    lab.machine.wait_for(lambda: nothing_left(lab), 5, "everything to end")


def test_one_proxys_death_is_no_other_runs(lab):
    first, _ = start(lab)
    others = lab.proxies()
    second = lab.start_run(BUSY, user="bob")
    assert second.popen.stdout.readline() == b"up\n"
    [proxy] = [pid for pid in lab.proxies() if pid not in others]
    lab.machine.run(["kill", "-KILL", str(proxy)], check=True)
    ends = [running.finish(input=b"\n") for running in (first, second)]
    assert [json.loads(end.text.splitlines()[-1]) for end in ends] == [[200] * 2, ["ConnectionRefusedError"] * 2]


@pytest.mark.parametrize("unit", ["sbxctl-egress.service", "sbxctl-helper.service"])
def test_the_death_of_a_whole_service_ends_every_connection(lab, unit):
    running, _ = start(lab)
    lab.machine.run(["systemctl", "kill", "--signal=KILL", unit], check=True)
    lab.machine.wait_for(lambda: lab.open_connections() == 0, 5, "the connections to end")
    ended = running.finish(input=b"\n")
    if unit == "sbxctl-egress.service":
        assert ended.status == 0 and json.loads(ended.text.splitlines()[-1]) == ["ConnectionRefusedError"] * 2, ended
    else:
        assert ended.status == 125, ended
    lab.machine.wait_for(lambda: nothing_left(lab), 5, "everything to end")
    # And the next one has a network again.
    found, result = lab.answers("print(json.dumps(http('good.example')[0]))")
    assert found == 200 and result["networkUse"]["complete"] is True


def test_the_service_may_be_killed_alone_and_the_next_run_has_a_network(lab):
    """Its main process only: those that serve a run belong to it, or live on for their runs; none is left behind."""
    running, _ = start(lab)
    lab.machine.run(["systemctl", "kill", "--kill-whom=main", "--signal=KILL", "sbxctl-egress.service"], check=True)
    ended = running.finish(input=b"\n")
    assert ended.status == 0, ended
    found, _ = lab.answers("print(json.dumps(http('good.example')[0]))")
    assert found == 200
    lab.machine.wait_for(lambda: nothing_left(lab), 5, "everything to end")


def test_a_killed_client_takes_the_connections_along(lab):
    running, _ = start(lab)
    running.signal("KILL")
    running.finish()
    lab.machine.wait_for(lambda: nothing_left(lab), 5, "everything to end")
    assert newest(lab.machine)["status"] == "cancelled"


def test_a_cancelled_run_tells_what_it_reached(lab):
    running, _ = start(lab)
    running.signal("INT")
    # Its input comes to an end only then: that alone would end the program.
    lab.machine.wait_for(lambda: nothing_left(lab), 5, "everything to end")
    running.finish()
    result = newest(lab.machine)
    assert result["status"] == "cancelled", result
    [host] = result["networkUse"]["hosts"]
    assert host["name"] == "good.example" and result["networkUse"]["bytesReceived"] > 0


def test_a_killed_launcher_takes_the_connections_along(lab):
    engine = engine_of(lab.machine)
    running, _ = start(lab)
    [sandbox] = engine.sandboxes()
    engine.kill_launcher(sandbox)
    assert running.finish().status == 137
    lab.machine.wait_for(lambda: nothing_left(lab), 5, "everything to end")


def test_without_the_service_nothing_runs_and_it_is_told_why(lab):
    units = ["sbxctl-egress.socket", "sbxctl-egress.service"]
    lab.machine.run(["systemctl", "stop", *units], check=True)
    try:
        refused = lab.machine.sbxctl(["run", "--network", "-c", "print(4)"])
        without = lab.machine.sbxctl(["run", "-c", "print(4)"])
    finally:
        lab.machine.run(["systemctl", "start", units[0]], check=True)
    assert refused.status == 125 and refused.text == "" and "network" in refused.errors, refused
    assert (without.status, without.text) == (0, "4\n"), without
