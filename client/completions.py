"""What shells complete after sbxctl, made from the verbs and options of verbs.toml. What only the helper
knows (runs, engines, ...) they ask for by `sbxctl --complete KIND`, which is complete.c. Imported by verbs.py."""
import re

from verbs import options

# What an argument is by what the help calls it, in options and at the end of a synopsis: a list of the
# helper's or of the machine's.
KINDS = {
    "ENGINE": "engines",
    "EVENT": "events",
    "ID": "runs",
    "ID[:PATH]": "runs",
    "IMAGE": "images",
    "KEY": "packages",
    "LANGUAGE": "languages",
    "USER": "users",
    "DIRECTORY": "directories",
    "FILE": "files",
    "PATH[:NAME]": "files",
    "SCRIPT": "files",
}
HELPERS = {"engines", "events", "runs", "images", "packages", "languages"}


def kind_of(option):
    return KINDS.get(option.get("argument", ""), "") if not option.get("optional") else ""


def operand(verb):
    """The kind of what follows the options; the last line of a synopsis that has one."""
    for line in verb["synopsis"]:
        for word in line.split():
            if word.rstrip(".") in KINDS:
                return KINDS[word.rstrip(".")]
    return ""


def words(verb):
    found = []
    for option in options(verb):
        found.append("--" + option["long"])
        if "short" in option:
            found.append("-" + option["short"])
    return " ".join(found)


def short_text(text):
    """The first sentence, for one line beside the option; nothing in it that a shell would read."""
    sentence = re.split(r"[.;:,] |\.$", text.strip())[0]
    return re.sub(r"['\"\[\]:\\`$]", "", sentence)


# ---- bash

BASH = r"""# bash completion for sbxctl, made from client/verbs.toml
_sbxctl_values()
{
    case $1 in
    files) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
    directories) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$2") ;;
    users) mapfile -t COMPREPLY < <(compgen -u -- "$2") ;;
    images) # a colon ends a word for bash
        local whole=$2
        mapfile -t COMPREPLY < <(compgen -W "$(sbxctl --complete images 2>/dev/null | cut -f 1)" -- "$whole")
        [[ $whole != *:* ]] || COMPREPLY=("${COMPREPLY[@]#"${whole%:*}:"}") ;;
    '') ;;
    *) mapfile -t COMPREPLY < <(compgen -W "$(sbxctl --complete "$1" 2>/dev/null | cut -f 1)" -- "$2") ;;
    esac
}

_sbxctl()
{
    local cur=${COMP_WORDS[COMP_CWORD]} at=$((COMP_CWORD - 1)) verb=${COMP_WORDS[1]} option operand options
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "@VERBS@ --help --version" -- "$cur")
        return
    fi
    # NAME:TAG comes as three words, and --option=value does.
    while ((at > 1)) && [[ ${COMP_WORDS[at]} == : || $cur == :* ]]; do
        cur=${COMP_WORDS[at]}$cur
        at=$((at - 1))
    done
    [[ $cur != = ]] || cur=
    [[ ${COMP_WORDS[at]} != = ]] || at=$((at - 1))
    option=${COMP_WORDS[at]}
    case $verb in
@CASES@
    *) return ;;
    esac
    case $verb,$option in
@OPTIONS@
    esac
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
    else
        _sbxctl_values "$operand" "$cur"
    fi
}

complete -F _sbxctl sbxctl
"""


def bash(verbs):
    cases, arguments = [], []
    for verb in verbs:
        cases.append(f"    {verb['name']}) options='{words(verb)}' operand={operand(verb)} ;;")
        for option in options(verb):
            if "argument" in option and not option.get("optional"):
                names = [f"{verb['name']},--{option['long']}"]
                names += [f"{verb['name']},-{option['short']}"] if "short" in option else []
                arguments.append(f"    {' | '.join(names)}) _sbxctl_values '{kind_of(option)}' \"$cur\"; return ;;")
    text = BASH.replace("@VERBS@", " ".join(verb["name"] for verb in verbs))
    yield text.replace("@CASES@", "\n".join(cases)).replace("@OPTIONS@", "\n".join(arguments)).rstrip()


# ---- zsh

ZSH = r"""#compdef sbxctl
# zsh completion for sbxctl, made from client/verbs.toml

_sbxctl_values()
{
    local -a values
    values=("${(@f)$(sbxctl --complete $1 2>/dev/null | sed 's/:/\\:/g; s/\t/:/')}")
    values=(${values:#})
    _describe -t $1 $1 values
}

_sbxctl()
{
    local context state state_descr line
    typeset -A opt_args
    local -a verbs
    verbs=(
@VERBS@
    )
    if ((CURRENT == 2)); then
        _describe -t verbs verb verbs
        return
    fi
    local verb=$words[2]
    shift words
    ((CURRENT--))
    case $verb in
@CASES@
    esac
}

_sbxctl "$@"
"""
ZSH_ACTIONS = {"files": "_files", "directories": "_files -/", "users": "_users", "": " "}


def zsh_action(kind):
    # With a space before it, _arguments calls it as it stands.
    return f" _sbxctl_values {kind}" if kind in HELPERS else ZSH_ACTIONS[kind]


def zsh_option(option):
    name, text = f"--{option['long']}", short_text(option["text"])
    argument = option.get("argument", "")
    action = f":{short_text(argument)}:{zsh_action(kind_of(option))}" if argument else ""
    long = name + (("=-" if option.get("optional") else "=") if argument else "")
    if option.get("optional"):
        action = ":" + action
    # Some may be given more than once; it does no harm to offer each again.
    found = [f"'*{long}[{text}]{action}'"]
    if "short" in option:
        found.append(f"'*-{option['short']}{'+' if argument else ''}[{text}]{action}'")
    return found


def zsh(verbs):
    cases = []
    for verb in verbs:
        lines = [spec for option in options(verb) for spec in zsh_option(option)]
        lines.append(f"'*:{operand(verb) or 'argument'}:{zsh_action(operand(verb))}'")
        cases.append(f"    {verb['name']})\n        _arguments -s -S \\\n            " + " \\\n            ".join(lines)
                     + "\n        ;;")
    names = "\n".join(f"        '{verb['name']}:{short_text(verb['summary'])}'" for verb in verbs)
    yield ZSH.replace("@VERBS@", names).replace("@CASES@", "\n".join(cases)).rstrip()


# ---- fish


def fish_source(kind):
    if kind in HELPERS:
        return f" -x -a '(sbxctl --complete {kind} 2>/dev/null)'"
    return {"files": " -r -F", "directories": " -x -a '(__fish_complete_directories)'",
            "users": " -x -a '(__fish_complete_users)'", "": " -x"}[kind]


def fish(verbs):
    yield "# fish completion for sbxctl, made from client/verbs.toml"
    yield "complete -c sbxctl -f"
    yield "complete -c sbxctl -n __fish_use_subcommand -l help -s h -d 'Show an overview'"
    yield "complete -c sbxctl -n __fish_use_subcommand -l version -d 'Show the version'"
    for verb in verbs:
        yield f"complete -c sbxctl -n __fish_use_subcommand -a {verb['name']} -d '{short_text(verb['summary'])}'"
        start = f"complete -c sbxctl -n '__fish_seen_subcommand_from {verb['name']}'"
        for option in options(verb):
            short = f" -s {option['short']}" if "short" in option else ""
            source = fish_source(kind_of(option)) if "argument" in option and not option.get("optional") else ""
            yield f"{start} -l {option['long']}{short} -d '{short_text(option['text'])}'{source}"
        kind = operand(verb)
        if kind == "files":
            yield f"{start} -F"
        elif kind:
            yield f"{start}{fish_source(kind).replace(' -x', ' -f')}"


MAKERS = {"bash": bash, "zsh": zsh, "fish": fish}
