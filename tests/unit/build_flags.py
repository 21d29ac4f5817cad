#!/usr/bin/python3
"""usage: build_flags.py COMPILE_COMMANDS

Row 52 of the fault catalogue: no file of the product is compiled without what makes a stack that a
caller sizes an error. Meson leaves out in silence what a compiler does not know.
"""

import json
import shlex
import sys

FLAGS = {"-Wvla", "-Walloca", "-Werror", "-fstack-clash-protection", "-fstack-protector-strong"}
PARTS = ("/common/", "/helper/", "/client/")
# It runs while building.
OTHERS = ("/helper/launch/seccomp-gen.c",)

with open(sys.argv[1]) as file:
    commands = json.load(file)
checked = 0
bad = []
for command in commands:
    name = command["file"]
    if not any(part in name for part in PARTS) or name.endswith(OTHERS):
        continue
    checked += 1
    missing = FLAGS - set(shlex.split(command["command"]))
    bad += [f"{name}: {' '.join(sorted(missing))}"] if missing else []
print("\n".join(bad))
sys.exit(1 if bad or checked < 50 else 0)
