#!/usr/bin/env python3
"""Turns verbs.toml into what is made of it, so that program and manual cannot drift apart.

verbs.py ids TOML OUTPUT              numbers for verbs and options, as C enums
verbs.py tables TOML OUTPUT           the tables of client/verb.c, as C
verbs.py bash|zsh|fish TOML OUTPUT    completions (client/completions.py)

docs/manual.py has the man pages of it.
"""
import json
import sys
import tomllib

HELP = {"long": "help", "short": "h", "text": "Show this help."}


def options(verb):
    return verb.get("option", []) + [HELP]


def c_name(text):
    return text.upper().replace("-", "_")


def c_text(text):
    return json.dumps(text.strip()) if text else "NULL"


def c_bool(value):
    return "true" if value else "false"


def ids(verbs):
    names = sorted({option["long"] for verb in verbs for option in options(verb)})
    yield "enum verb_id {"
    yield from (f"    VERB_{c_name(verb['name'])}," for verb in verbs)
    yield "};\n"
    yield "enum option_id {"
    yield "    OPTION_FIRST = 256, /* beyond what getopt could mean by a letter */"
    yield from (f"    OPTION_{c_name(name)}," for name in names)
    yield "};"


def tables(verbs):
    for verb in verbs:
        yield f"static const struct verb_option {verb['name']}_options[] = {{"
        for option in options(verb):
            short = f"'{option['short']}'" if "short" in option else "0"
            yield (f"    {{ OPTION_{c_name(option['long'])}, {short}, {c_text(option['long'])}, "
                   f"{c_text(option.get('argument'))}, {c_bool(option.get('optional'))}, "
                   f"{c_text(option['text'])} }},")
        yield "};\n"
    yield "static const struct verb verbs[] = {"
    for verb in verbs:
        synopsis = "\n".join(verb["synopsis"])
        yield (f"    {{ VERB_{c_name(verb['name'])}, {c_text(verb['name'])}, {c_text(synopsis)}, "
               f"{c_text(verb['summary'])}, {c_text(verb['text'])}, {verb['name']}_options, "
               f"sizeof({verb['name']}_options) / sizeof({verb['name']}_options[0]) }},")
    yield "};"


def roff(text):
    text = text.strip().replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def man(verbs):
    for verb in verbs:
        yield f".SS sbxctl {roff(verb['name'])}"
        for line in verb["synopsis"]:
            yield f".B sbxctl {roff(verb['name'])}\n{roff(line)}\n.br"
        yield f".PP\n{roff(verb['text'])}"
        for option in options(verb):
            label = f"\\fB\\-\\-{roff(option['long'])}\\fR"
            if "short" in option:
                label = f"\\fB\\-{option['short']}\\fR, {label}"
            if "argument" in option:
                word = f"\\fI{roff(option['argument'])}\\fR"
                label += f"[={word}]" if option.get("optional") else f" {word}"
            yield f".TP\n{label}\n{roff(option['text'])}"


def load(path):
    with open(path, "rb") as f:
        return tomllib.load(f)["verb"]


def main():
    kind, source, target = sys.argv[1:]
    makers = {"ids": ids, "tables": tables} | completions.MAKERS
    text = "\n".join(makers[kind](load(source))) + "\n"
    with open(target, "w", encoding="ascii") as f:
        f.write(text)


if __name__ == "__main__":
    import completions

    main()
