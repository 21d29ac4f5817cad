"""Detached runs over the helper's socket, and programs in the machine that follow them."""

import json

# Follows runs over the socket. Prints places in the queue as they come, a line each, and then what came: per stream the bytes' digest and their number, gaps and repetitions, the events
# other than output, and the final status.
FOLLOW = """
import base64, hashlib, json, sys, time
import varlink_client as client

client.become(int(sys.argv[1]))
parameters = json.loads(sys.argv[2])
hold = float(sys.argv[3])
events, places, sums, at, gaps, doubled = [], [], {}, {"stdout": 0, "stderr": 0}, 0, 0
at["stdout"] = parameters.get("stdoutOffset", 0)
with client.connect() as link:
    link.sendall(client.message("Attach", more=True, **parameters))
    while True:
        got = client.answer(link)
        if got is None or "error" in got:
            print(json.dumps({"error": got}))
            break
        told = got["parameters"]
        if told["event"] == "queued":
            places.append([told["position"], told["queued"], told["reason"]])
            print(json.dumps(places[-1]), flush=True)
        if told["event"] != "output":
            events.append(told["event"])
        else:
            if hold:
                time.sleep(hold)
                hold = 0
            data, stream = base64.b64decode(told["data"]), told["stream"]
            gaps += told["offset"] > at[stream]
            doubled += told["offset"] < at[stream]
            at[stream] = told["offset"] + len(data)
            sums.setdefault(stream, hashlib.sha256()).update(data)
        if told["event"] == "finished":
            print(json.dumps({"events": events, "status": told["result"]["status"], "at": at, "gaps": gaps, "doubled": doubled, "places": places,
                              "sums": {name: one.hexdigest() for name, one in sums.items()}}))
            break
"""

CALL = """
import json, sys
import varlink_client as client

client.become(int(sys.argv[1]))
print(json.dumps(client.call(sys.argv[2], **json.loads(sys.argv[3]))))
"""


def call(machine, method, uid=1000, **parameters):
    """The first answer to a call of that user."""
    return json.loads(machine.run(machine.python(CALL, uid, method, json.dumps(parameters)), check=True).stdout)


def good(machine, method, uid=1000, **parameters):
    """The parameters of an answer that must be none of the errors."""
    answer = call(machine, method, uid, **parameters)
    assert "error" not in answer, answer
    return answer.get("parameters", {})


def detach(machine, script, uid=1000, **parameters):
    """A detached Python run's id."""
    answer = good(machine, "Run", uid, script=script, language="python", detach=True, **parameters)
    assert answer["event"] == "detached" and answer["result"]["status"] in ("queued", "starting"), answer
    return answer["id"]


def follow(machine, run_id, uid=1000, hold=0, **parameters):
    return machine.popen(machine.python(FOLLOW, uid, json.dumps({"id": run_id, **parameters}), hold))


def followed(following):
    ended = following.finish()
    assert ended.stdout, ended
    return json.loads(ended.stdout.splitlines()[-1])


def next_place(following):
    return json.loads(following.popen.stdout.readline())


def status_of(machine, run_id, uid=1000):
    return good(machine, "Describe", uid, id=run_id)["result"]["status"]


def wait_for(machine, run_id, *statuses, uid=1000):
    return machine.wait_for(lambda: (now := status_of(machine, run_id, uid)) in statuses and now, 20, f"the run to be {statuses}")
