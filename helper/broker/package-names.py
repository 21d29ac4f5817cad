#!/usr/bin/env python3
"""Makes a table in C, sorted by module, of the list package-names: package-names.py INPUT OUTPUT."""
import re
import sys

source, target = sys.argv[1:]
rows = {}
with open(source, encoding="ascii") as f:
    for line in f:
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) > 2 or words[0] in rows or not all(re.fullmatch(r"[\w.-]+", word) for word in words):
            sys.exit(f"{source}: bad line: {line.strip()}")
        rows[words[0]] = words[-1]
with open(target, "w", encoding="ascii") as f:
    f.write("static const struct package_name names[] = {\n")
    f.write("".join(f'    {{ "{module}", "{rows[module]}" }},\n' for module in sorted(rows)))
    f.write("};\n")
