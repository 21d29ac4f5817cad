"""That a run cannot hide where it was: what is left of a run's records is kept for hosts of which there is none yet.

sbxctl-egress is driven directly, as in test_egress.py.
"""

import json

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
    assert reached == ["noise.example", *[f"h{n}.example" for n in range(63)]]
    assert [host["name"] for host in finished["hosts"]] == reached and finished["moreHosts"]
    assert len(records) == 264
    assert finished["connections"] == 361 == len(records) + finished["unrecorded"]
