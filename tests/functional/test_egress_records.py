"""That a run cannot hide where it was: what is left of a run's records is kept for hosts of which there is none yet.

sbxctl-egress is driven directly, as in test_egress.py.
"""

import json
import os

CODE = """
from egress_client import *
hosts = [f"h{n}.example" for n in range(70)]
with names(**dict.fromkeys(["noise.example", *hosts], "127.0.0.1")), web_server() as web:
    with Egress(ports=[web.port], allowedAddresses=["127.0.0.1"], granted=["noise.example", *hosts]) as e:
        e.get(f"http://noise.example:{web.port}/")
        for _ in range(220):
            e.exchange(b"GET http://refused.example/ HTTP/1.0\\r\\n\\r\\n")
        for name in hosts:
            for _ in range(2):
                e.get(f"http://{name}:{web.port}/")
        finished = e.finish()
        print(json.dumps([finished, e.records]))
"""


def test_a_host_is_recorded_however_much_came_before(machine):
    result = machine.run(machine.python(CODE))
    assert result.status == 0, result.errors
    finished, records = json.loads(result.stdout)
    reached = [record["name"] for record in records if record["verdict"] == "allowed"]
    assert len(reached) == len(set(reached)) == 64 and "noise.example" in reached
    assert [host["name"] for host in finished["hosts"]] == reached and finished["moreHosts"]
    assert len(records) == 264
    assert finished["connections"] == 361 == len(records) + finished["unrecorded"]


OPEN = """
from egress_client import *
import sys
with names(**{"good.example": "127.0.0.1"}), web_server() as web:
    with Egress(ports=[web.port], allowedAddresses=["127.0.0.1"], runId=sys.argv[1]) as e:
        line, sock = e.connect(f"good.example:{web.port}")
    assert sock.recv(1) == b""
"""


def test_a_connection_that_outlives_the_helper_is_in_the_journal(machine):
    run_id = os.urandom(16).hex()
    result = machine.run(machine.python(OPEN, run_id))
    assert result.status == 0, result.errors
    (line,) = [e["MESSAGE"] for e in machine.journal("_SYSTEMD_UNIT=sbxctl-egress.service") if run_id in e["MESSAGE"]]
    assert "good.example [127.0.0.1]" in line and "allowed" in line
