#!/usr/bin/env python3
"""Writes a file's text as one C string constant: embed.py NAME INPUT OUTPUT."""
import json
import sys

name, source, target = sys.argv[1:]
with open(source, encoding="ascii") as f:
    lines = f.read().splitlines(keepends=True)
with open(target, "w", encoding="ascii") as f:
    f.write(f"static const char {name}[] =\n")
    f.write("".join(f"    {json.dumps(line)}\n" for line in lines))
    f.write("    ;\n")
