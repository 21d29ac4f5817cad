"""What is at hand on an installed machine: man pages, --help and completions say the same, man pages render
without a warning, and completions work in the real shells."""

import json
import pathlib
import re
import shlex

import docker_engine
import pytest

from terminal import Terminal

ROOT = pathlib.Path(__file__).parents[2]
PAGES = ["man1/sbxctl.1", "man5/sbxctl.conf.5", "man7/sbxctl-audit.7", "man7/sbxctl-engines.7",
         "man7/sbxctl-polkit.7", "man8/sbxctl-helper.8"]
BASH = "/usr/share/bash-completion/completions/sbxctl.bash"
ZSH = "/usr/share/zsh/vendor-completions/_sbxctl"
FISH = "/usr/share/fish/vendor_completions.d/sbxctl.fish"


def page(machine, name):
    """The page as a reader sees it, without emphasis, in one line for each of the page's paragraphs."""
    shown = machine.run(["mandoc", "-T", "utf8", "-O", "width=500", f"/usr/share/man/{name}"], check=True).text
    return re.sub(r".\x08", "", shown)


@pytest.mark.parametrize("name", PAGES)
def test_man_pages_render_without_a_warning(machine, name):
    path = f"/usr/share/man/{name}"
    lint = machine.run(["mandoc", "-T", "lint", "-W", "warning", path])
    assert (lint.status, lint.text) == (0, ""), lint
    rendered = machine.run(["env", "LC_ALL=C.UTF-8", "man", "--warnings=w", "-P", "cat", "-l", path])
    assert rendered.status == 0 and rendered.errors == "" and "SEE ALSO" in rendered.text, rendered
    for cited in re.findall(r"(sbxctl[\w.-]*)\((\d)\)", re.sub(r".\x08", "", rendered.text)):
        assert machine.run(["test", "-e", f"/usr/share/man/man{cited[1]}/{cited[0]}.{cited[1]}"]).status == 0, cited


# ---- options


def verbs(machine):
    overview = machine.run(["sbxctl", "--help"], check=True).text
    return re.findall(r"^  (\w+) ", overview, re.M)


def helped(machine, verb):
    """The long options that a verb's help has, with whether it has a short one."""
    text = machine.run(["sbxctl", verb, "--help"], check=True).text
    return {long: short for short, long in re.findall(r"^  (?:-(\w), |    )--([\w-]+)", text, re.M)}


def test_help_man_page_and_completions_have_the_same_options(machine):
    manual = page(machine, "man1/sbxctl.1")
    bash, zsh, fish = (machine.read(path).decode() for path in (BASH, ZSH, FISH))
    names = verbs(machine)
    assert {"run", "doctor", "audit", "mark", "mcp"} <= set(names)
    for verb in names:
        wanted = helped(machine, verb)
        assert "help" in wanted
        section = re.search(rf"^ +sbxctl {verb}\n(.*?)(?=^ +sbxctl \w+\n|^[A-Z])", manual, re.M | re.S)[1]
        assert {long: short or "" for short, long in re.findall(r"^ +(?:-(\w), )?--([\w-]+)", section, re.M)} == wanted
        words = re.search(rf"^    {verb}\) options='(.*?)'", bash, re.M)[1].split()
        assert {word[2:] for word in words if word.startswith("--")} == set(wanted), verb
        specs = re.search(rf"^    {verb}\)\n(.*?);;", zsh, re.M | re.S)[1]
        assert set(re.findall(r"'\*--([\w-]+)", specs)) == set(wanted), verb
        lines = re.findall(rf"seen_subcommand_from {verb}' -l ([\w-]+)(?: -s (\w))?", fish)
        assert dict(lines) == wanted, verb


@pytest.fixture(autouse=True, scope="module")
def images_that_come_with_it(machine):
    """Not those that earlier tests made."""
    path = docker_engine.HELPER_CONFIG
    machine.run(["sh", "-c", f"test ! -e {path} || mv {path} {path}.aside"], check=True)
    machine.restart_helper()
    yield
    machine.run(["sh", "-c", f"test ! -e {path}.aside || mv {path}.aside {path}"], check=True)
    machine.restart_helper()


# ---- the configuration


def test_the_sample_has_every_key_with_its_built_in_value(machine):
    sample = (ROOT / "systemd" / "sbxctl.conf").read_text().split("#[Language")[0]
    active = re.sub(r"^#(?=[A-Z]\w*=)", "", sample, flags=re.M)
    table = re.findall(r'\{ "(\w+)", "(\w+)", KEY_', (ROOT / "helper/broker/config-keys.c").read_text())
    section, keys = None, set()
    for line in active.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif re.match(r"[A-Z]\w*=", line):
            keys.add((section, line.split("=")[0]))
    assert keys == set(table)
    before = json.loads(machine.sbxctl(["policy", "--json"]).stdout)
    assert "defaults" in before
    # Where nothing is built in, there is no value to write.
    with machine.configured(re.sub(r"^\w+=$", "", active, flags=re.M)):
        assert json.loads(machine.sbxctl(["policy", "--json"]).stdout) == before


def test_the_configuration_is_checked_without_a_privilege(machine):
    check = ["/usr/lib/sbxctl/sbxctl-helper", "--check-configuration"]
    assert machine.run(check, "alice").status == 0
    path = "/etc/sbxctl/sbxctl.conf.d/99-wrong.conf"
    machine.write(path, b"[Queue]\nRuns=0\n")
    try:
        told = machine.run(check, "alice")
        assert (told.status, told.text) == (1, "")
        assert told.errors == f"{path}:2: the value of Runs= in section [Queue] is out of range\n"
    finally:
        machine.run(["rm", path], check=True)


# ---- completions


@pytest.fixture(scope="module")
def run_id(machine):
    return machine.run_json(["-c", "print(4)"])["id"]


# As bash does for a tabulator, with what its loader finds for the command.
COMPLETE_BASH = """
. /usr/share/bash-completion/bash_completion
if declare -F _comp_load >/dev/null; then _comp_load sbxctl; else __load_completion sbxctl; fi
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9 COMP_KEY=9
read -ra COMP_WORDS <<<"${1//[=:]/ & }"
[[ $1 != *' ' ]] || COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
compopt() { :; }
_sbxctl sbxctl "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def bash(machine, line):
    done = machine.run(["bash", "-c", COMPLETE_BASH, "bash", line], "alice", check=True)
    assert done.errors == "", done
    return set(done.text.split())


def fish(machine, line):
    done = machine.run(["fish", "-c", f"complete -C {shlex.quote(line)}"], "alice", check=True)
    return {offered.split("\t")[0] for offered in done.text.splitlines()}


# zsh completes for a line editor only, so one is made that writes what is offered to its standard output.
COMPLETE_ZSH = r"""
autoload -Uz compinit; compinit -u -d /tmp/test-zcompdump
LISTMAX=1000000  # it asks before it shows many
zmodload zsh/zutil
compadd() {
    local -a hits; local name=hits
    if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
    builtin compadd -O hits "$@"
    print -rl -- $hits >&3
    builtin compadd "$@"
}
offer() { zle complete-word; print -r -- END >&3; BUFFER=exit; zle accept-line; }
zle -N offer; bindkey '^I' offer
print -r -- READY >&3
"""


def zsh(machine, line):
    directory = machine.directory()
    machine.write(f"{directory}/.zshrc", COMPLETE_ZSH.encode(), "alice")
    command = ["sh", "-c", "exec 3>&1; exec zsh -i >/dev/tty"]
    with Terminal(machine, command, ZDOTDIR=directory, TERM="vt100") as terminal:
        terminal.type(line + "\t")
        ended = terminal.end()
    words = ended.text.split("\n")
    assert "END" in words, ended
    return {word for word in words[: words.index("END")] if word and word != "READY"}


@pytest.mark.parametrize("shell", [bash, fish, zsh])
def test_shells_complete_what_the_helper_knows(machine, run_id, shell):
    def offered(line):
        return shell(machine, line)

    assert {"run", "doctor", "audit", "mcp"} <= offered("sbxctl ")
    assert offered("sbxctl doc") == {"doctor"}
    assert run_id in offered("sbxctl show ")
    assert offered(f"sbxctl show {run_id[:14]}") == {run_id}
    assert "systemd" in offered("sbxctl run --engine ")
    assert "python" in offered("sbxctl run -l ")
    assert "ruby:3.3-slim" in offered("sbxctl pull ")
    assert {"--engine", "--env"} <= offered("sbxctl run --en") and "--memory" not in offered("sbxctl run --en")
    assert "decision" in offered("sbxctl audit --event d")


def test_bash_completes_over_the_characters_that_end_its_words(machine, run_id):
    assert bash(machine, "sbxctl audit --run=" + run_id[:14]) == {run_id}
    assert bash(machine, "sbxctl pull ruby:3.3-s") == {"3.3-slim"}
    assert bash(machine, "sbxctl run --image ruby:") == {"3.3-slim"}


def test_completion_says_nothing_where_there_is_no_helper(machine):
    for kind in ("runs", "engines", "languages", "images", "packages"):
        done = machine.run(["env", "SBXCTL_SOCKET=/nowhere", "sbxctl", "--complete", kind])
        assert (done.text, done.errors) == ("", "")
    assert "request" in machine.run(["sbxctl", "--complete", "events"], check=True).text.split()
