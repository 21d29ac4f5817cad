#!/usr/bin/env python3
"""Makes a man page of its template and of the tables that programs and samples have, so that they cannot
drift apart. A line of the template that is one of these is replaced:

@VERBS@            all verbs and options of client/verbs.toml
@VERB NAME@        one of them
@CONFIG FILE@      the sections and keys of a sample configuration in systemd/, and what its comments say
@EVENTS@           the audit events, as client/audit-journal.c calls them and systemd/sbxctl.catalog tells of them

usage: manual.py SOURCE-ROOT TEMPLATE OUTPUT
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "client"))
import verbs  # noqa: E402


def all_verbs(root):
    return verbs.load(root / "client/verbs.toml")


def blocks(text):
    """A sample's sections: (name, [(keys, words)]), where keys are lines as they would be without the '#'."""
    sections, words, keys = [], [], []

    def close():
        if sections and (words or keys):
            sections[-1][1].append((list(keys), " ".join(words)))
        words.clear()
        keys.clear()

    for line in text.splitlines():
        if line.startswith("#["):  # an example, to the end
            break
        section = re.fullmatch(r"\[(.+)\]", line)
        key = re.fullmatch(r"#?([A-Z]\w*=.*)", line)
        if section:
            close()
            sections.append((section[1], []))
        elif key:
            keys.append(key[1])
        elif line.startswith("#"):
            if keys:
                close()
            words.append(line.lstrip("# ").strip())
        else:
            close()
    close()
    return sections


def label(key):
    name, _, value = key.partition("=")
    return f".TP\n.B {verbs.roff(name + '=')}" + (f" \\fR({verbs.roff(value)})" if value else "")


def config(root, name):
    for section, parts in blocks((root / "systemd" / name).read_text(encoding="utf-8")):
        yield f".SS {verbs.roff(f'[{section}]')}"
        for keys, words in parts:
            if not keys:
                yield verbs.roff(words)
                continue
            last = keys[-1]
            yield label(keys[0])
            # They share what is said of them.
            for key in keys[1:]:
                yield label(key).replace(".TP", ".TQ")
            assert words, f"{name}: nothing is said of {last}"
            yield verbs.roff(words)


def events(root):
    header = (root / "common/audit-ids.h").read_text(encoding="utf-8")
    ids = dict(re.findall(r'#define (AUDIT_ID_\w+) "(\w+)"', header))
    names = re.findall(r'\{ "([\w-]+)", (AUDIT_ID_\w+) \}', (root / "client/audit-journal.c").read_text(encoding="utf-8"))
    catalog = (root / "systemd/sbxctl.catalog").read_text(encoding="utf-8")
    for name, constant in names:
        subject = re.search(rf"^-- {ids[constant]}\nSubject: (.*)$", catalog, re.M)[1]
        words = re.sub(r"@SBXCTL_(\w+)@", lambda m: m[1], subject)
        yield f".TP\n.B {verbs.roff(name)}\n{verbs.roff(words)}.\n.br\nMESSAGE_ID={ids[constant]}"


def replacement(root, line):
    match = re.fullmatch(r"@(VERBS|VERB|CONFIG|EVENTS)(?: (\S+))?@", line)
    if not match:
        return [line]
    kind, name = match.groups()
    if kind == "VERBS":
        return verbs.man(all_verbs(root))
    if kind == "VERB":
        return verbs.man([verb for verb in all_verbs(root) if verb["name"] == name])
    return config(root, name) if kind == "CONFIG" else events(root)


def main():
    root, template, target = map(pathlib.Path, sys.argv[1:])
    lines = template.read_text(encoding="ascii").splitlines()
    text = "\n".join(part for line in lines for part in replacement(root, line)) + "\n"
    target.write_text(text.replace("\u2026", "...").encode("ascii").decode(), encoding="ascii")


main()
