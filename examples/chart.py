#!/usr/bin/env python3
"""Draws a CSV file: its first column along the bottom, a line for each column of numbers.

    sbxctl run --file sales.csv chart.py sales.csv

Shows the chart, which leaves it as figure-1.png.
"""
import csv
import sys

import matplotlib.pyplot as plt


def read_rows(path):
    with open(path, newline="", encoding="utf-8-sig") as file:
        dialect = csv.Sniffer().sniff(file.read(4096), delimiters=",;\t|")
        file.seek(0)
        return list(csv.reader(file, dialect))


def number(text):
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return None


def main(path):
    names, *rows = read_rows(path)
    labels = [row[0] for row in rows]
    figure, axes = plt.subplots(figsize=(8, 4.5))
    for column, name in enumerate(names[1:], start=1):
        values = [number(row[column]) for row in rows]
        if None not in values:
            axes.plot(labels, values, marker="o", label=name)
            print(f"{name}: {min(values):g} to {max(values):g}")
    axes.legend()
    axes.set_xlabel(names[0])
    figure.autofmt_xdate()
    plt.show()


if len(sys.argv) != 2:
    sys.exit("usage: chart.py FILE.csv, with --file FILE.csv before it")
main(sys.argv[1])
