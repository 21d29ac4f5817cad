#!/usr/bin/env python3
"""Shows which sections of a Debian system take the most space.

Reads the package database from the file "status" in the working directory:

    sbxctl run --file /var/lib/dpkg/status packages.py

Prints a table, and writes sections.csv and the bar chart sections.png.
"""
import collections
import csv
import sys

LARGEST = 12


def installed_packages(path):
    """Yields the fields of each package that is installed, as a dictionary."""
    with open(path, encoding="utf-8", errors="replace") as file:
        for paragraph in file.read().split("\n\n"):
            lines = [line for line in paragraph.splitlines() if not line.startswith(" ")]
            fields = dict(line.split(": ", 1) for line in lines if ": " in line)
            if fields.get("Status", "").endswith(" installed"):
                yield fields


def sections_of(packages):
    """Returns (section, packages, MiB) for each section, the largest first."""
    count, kib = collections.Counter(), collections.Counter()
    for package in packages:
        section = package.get("Section", "unknown").rsplit("/", 1)[-1]
        count[section] += 1
        kib[section] += int(package.get("Installed-Size", 0))
    return [(section, count[section], size / 1024) for section, size in kib.most_common()]


def print_table(sections):
    print(f"{'section':<20} {'packages':>8} {'MiB':>8}")
    for section, packages, size in sections[:LARGEST]:
        print(f"{section:<20} {packages:>8} {size:>8.1f}")
    packages, size = sum(s[1] for s in sections), sum(s[2] for s in sections)
    print(f"{'all ' + str(len(sections)) + ' sections':<20} {packages:>8} {size:>8.1f}")


def write_csv(sections, path):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["section", "packages", "mib"])
        writer.writerows((section, n, f"{size:.1f}") for section, n, size in sections)


def draw_chart(sections, path):
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        print("No chart: matplotlib is not installed (package python3-matplotlib).",
              file=sys.stderr)
        return
    largest = sections[:LARGEST][::-1]
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    bars = axes.barh([section for section, _, _ in largest], [size for _, _, size in largest])
    axes.bar_label(bars, labels=[f"{n}" for _, n, _ in largest], padding=3)
    axes.set_xlabel("installed size in MiB (at the bars: number of packages)")
    axes.set_title("Largest sections of this system")
    figure.savefig(path, dpi=120)


def main():
    try:
        sections = sections_of(installed_packages("status"))
    except FileNotFoundError:
        sys.exit("There is no file 'status' here: run this with --file /var/lib/dpkg/status")
    if not sections:
        sys.exit("The file 'status' names no installed package.")
    print_table(sections)
    write_csv(sections, "sections.csv")
    draw_chart(sections, "sections.png")


main()
