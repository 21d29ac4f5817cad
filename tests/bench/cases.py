"""What a run costs, next to what people would use instead, and how that grows: runs inside the test machine, as root.

Prints one JSON object. Never a test: nothing here passes or fails.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

import footprint
from turns import Case, in_turn, once, quantile, ratio, settle, summary, told
from ways import INPUT, USER, WAYS

PRINT = Case("print(4)")
CHART = Case("""
import pandas, matplotlib
matplotlib.use("Agg")
from matplotlib import pyplot
frame = pandas.DataFrame({"n": range(1000)})
frame["square"] = frame.n ** 2
frame.groupby(frame.n % 10).square.mean().plot()
pyplot.savefig("chart.png")
print(frame.square.sum())
""", b"332833500\n", has_output=True)
AT_ONCE = Case("print(4)", at_once=8,
               ways=("bare python3", "warm", "systemd-run", "bwrap", "docker engine, warm", "docker run", "asyncio helper"))
OUTPUT = Case("import sys\nfor _ in range(100):\n    sys.stdout.buffer.write(bytes(1 << 20))", b"104857600\n", reader="wc -c",
              ways=("bare python3", "warm", "systemd-run", "bwrap", "docker engine, warm", "docker run"))
ROW = ("bare python3", "warm", "systemd-run", "bwrap", "docker engine, warm", "docker run", "asyncio helper")
WITH_FILES = ("bare python3", "warm", "cold", "systemd-run", "bwrap", "docker engine, warm", "docker run", "asyncio helper")


def files(n):
    return Case(f"for n in range({n}):\n    open(str(n), 'w').write(str(n))", b"", has_output=True, ways=WITH_FILES)


def given(path):
    size = os.stat(path).st_size
    return Case(f"import os\nprint(os.stat({INPUT!r}).st_size)", b"%d\n" % size, input=path, ways=WITH_FILES)


class Assistant:
    """A call of the tool run_code. One server for all its calls, as an assistant has it; its first call starts it."""

    server = None

    def __call__(self):
        if not self.server:
            self.server = subprocess.Popen([*USER, "sbxctl", "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/")
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "run_code", "arguments": {"code": PRINT.program},
            "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                      "io.modelcontextprotocol/clientCapabilities": {}}}}
        start = time.perf_counter()
        self.server.stdin.write(json.dumps(call).encode() + b"\n")
        self.server.stdin.flush()
        answer = json.loads(self.server.stdout.readline())
        elapsed = time.perf_counter() - start
        assert answer["result"]["structuredContent"]["stdout"]["text"] == "4\n", answer
        return elapsed


def in_a_row(name, n):
    settle()
    return [once(WAYS[name], PRINT) for _ in range(n)]


def measure(rounds):
    run_code = Assistant()
    run_code()
    times = in_turn(PRINT, rounds, {"run_code, warm": run_code})
    cases = {"print(4)": times, "pandas and a chart": in_turn(CHART, rounds), "8 at once": in_turn(AT_ONCE, rounds),
             "100 MB of output": in_turn(OUTPUT, rounds), "1 output file": in_turn(files(1), rounds),
             "100 output files": in_turn(files(100), rounds), "1000 output files": in_turn(files(1000), rounds)}
    with tempfile.NamedTemporaryFile(dir="/var/tmp") as big:
        big.write(os.urandom(100 << 20))
        big.flush()
        os.chmod(big.name, 0o644)
        cases["100 MB of input"] = in_turn(given(big.name), rounds)
    return cases, {name: in_a_row(name, 10 * rounds) for name in ROW}


def compare(cases):
    """The measures that the project holds itself to."""
    one = cases["print(4)"]
    warm = one["warm"]
    return {
        "warm, to bare python3": ratio(one, "warm", "bare python3"),
        "warm, own interpreter, to bare python3": ratio(one, "warm, own interpreter", "bare python3"),
        "docker engine, warm, to docker run": ratio(one, "docker engine, warm", "docker run"),
        "cold, to systemd-run": ratio(one, "cold", "systemd-run"),
        "docker engine, cold, to docker run": ratio(one, "docker engine, cold", "docker run"),
        "99th percentile of warm to its median": round(quantile(warm, 0.99) / statistics.median(warm), 2),
        "8 at once, runs a second, to the asyncio helper": ratio(cases["8 at once"], "asyncio helper", "warm"),
        "100 MB of output, to systemd-run": ratio(cases["100 MB of output"], "warm", "systemd-run"),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--idle-exit", action="store_true", help="see footprint.after_idle_exit()")
    arguments = parser.parse_args()
    if arguments.idle_exit:
        print(json.dumps(footprint.after_idle_exit()))
        return
    cases, rows = measure(arguments.rounds)
    print(json.dumps({
        "rounds": arguments.rounds,
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "cases": {name: told(times) for name, times in cases.items()},
        f"{10 * arguments.rounds} in a row": {name: summary(times) for name, times in rows.items()},
        "measures": compare(cases),
        "helper": {"MiB": footprint.memory(), "CPU ms of a warm run": footprint.cpu_ms()},
    }, indent=2))


if __name__ == "__main__":
    main()
