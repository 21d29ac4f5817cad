"""Prints what tests/bench/run measured, read as JSON from standard input, as tables."""

import json
import sys


def show_ways(title, ways):
    print(f"\n{title}")
    for name, way in ways.items():
        to_first = f"{way['ratio']:7.2f}" if "ratio" in way else ""
        print("  {:28} {median_ms:9.1f} ms   90% {p90_ms:9.1f}   99% {p99_ms:9.1f} {}".format(name, to_first, **way))


def show(title, values):
    print(f"\n{title}")
    for name, value in values.items():
        print(f"  {name:52} {value if isinstance(value, (int, float)) else json.dumps(value)}")


def main():
    result = json.load(sys.stdin)
    runs = result["runs"]
    print("medians of {rounds} rounds on {cpus} CPUs, each with its ratio to the first way".format(**runs))
    for name, ways in runs["cases"].items():
        show_ways(name, ways)
    for name in runs:
        if name.endswith("in a row"):
            show_ways(name, runs[name])
    show("measures", runs["measures"])
    show("helper", runs["helper"] | {"processes": result["processes"]})
    show("network, download", result["network"]["download"])
    show("network, start", result["network"]["start"])
    show("cloud, next to E2B's SDK", result["cloud"]["ways"])


main()
