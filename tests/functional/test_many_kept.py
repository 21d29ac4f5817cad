"""Ten thousand finished runs are kept: a helper is there, and a page of them listed, about as soon as without them."""

import json

import pytest

pytestmark = pytest.mark.long  # by the number of files

KEPT = 10000
# 500 ms and 200 ms on a machine where a bare Python takes 11; busy machines have the same ratio.
START, LIST = 500 / 11, 200 / 11

# Run as root, with the id of a finished run of alice's: makes many of its entry while the helper is stopped; then times the first
# answer of a helper, a page of the list, and a bare Python, in turn. Prints the medians (ms), the runs of a page, and the helper's peak of memory.
PROBE = """
import json, os, secrets, shutil, statistics, subprocess, sys, time

model, number = sys.argv[1], int(sys.argv[2])
os.chdir("/var/lib/sbxctl/index")
[name] = [name for name in os.listdir() if model in name]
text = open(name).read()
subprocess.run(["systemctl", "stop", "sbxctl-helper.service"], check=True)
made = []
for _ in range(number):
    other = secrets.token_hex(8)
    made.append(name.replace(model, other))
    with open(made[-1], "w") as file:
        file.write(text.replace(model, other))
    os.chmod(made[-1], os.stat(name).st_mode & 0o777)
    shutil.chown(made[-1], "sbxctl", "sbxctl")

def timed(*command):
    began = time.monotonic()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return (time.monotonic() - began) * 1000, done.stdout

alice = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups"]
start, page, bare = [], [], []
try:
    for _ in range(7):
        subprocess.run(["systemctl", "stop", "sbxctl-helper.service"], check=True)
        start.append(timed(*alice, "sbxctl", "policy", "--json")[0])
        page.append(timed(*alice, "sbxctl", "ps", "-a", "--json", "--limit", "100"))
        bare.append(timed(*alice, "python3", "-c", "print(4)")[0])
    pid = subprocess.check_output(["systemctl", "show", "-P", "MainPID", "sbxctl-helper.service"], text=True).strip()
    peak = [int(line.split()[1]) for line in open(f"/proc/{pid}/status") if line.startswith("VmHWM")][0]
finally:
    subprocess.run(["systemctl", "stop", "sbxctl-helper.service"], check=True)
    for path in made:
        os.unlink(path)
print(json.dumps({"start": statistics.median(start), "page": statistics.median(took for took, _ in page), "bare": statistics.median(bare),
                  "runs": len(json.loads(page[-1][1])["runs"]), "peak": peak}))
"""


def test_ten_thousand_kept_runs_slow_down_nothing(machine):
    with machine.configured("[Results]\nMaxRuns=20000\n"):
        answer = machine.run_json(["-c", "print(4)"])
        run_id = answer.get("id")
        assert run_id, answer
        found = json.loads(machine.run(machine.python(PROBE, run_id, KEPT), timeout=300, check=True).text)
    assert found["runs"] == 100
    assert found["start"] < START * found["bare"], found
    assert found["page"] < LIST * found["bare"], found
    assert found["peak"] < 32 << 10, found
    print(json.dumps(found))
