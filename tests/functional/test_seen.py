"""What users see, word for word: at a terminal of 80 columns, and in a pipe, where standard output is the
script's alone. The cases and scripts are those of CASES (the numbers and letters); what differs between
two runs, such as an id, has a word in its place (screen.py)."""

import collections
import contextlib
import re

import pytest
from screen import Screen, settled

Seen = collections.namedtuple("Seen", "options code terminal output errors")
FILES = "/var/lib/sbxctl/users/1000/ID/files:"
TOOK = "sbxctl: it took TIME, and MEMORY of memory at most\n"
FAILED = "sbxctl: The program ended with exit status 1.\n"


def made(*lines):
    n = len(lines)
    return f"sbxctl: {n} file{'s' if n > 1 else ''} in {FILES}\n" + "".join(f"  {line}\n" for line in lines)


SHELL = ["--language", "shell"]
NODE = ["--language", "node"]
LOST = "1 file was left in /tmp, and nothing there is kept: write results to"
PLACES = made("a.png  5 B", "b.png  5 B", "c.png  5 B")
PIP = "ERROR: No matching distribution found for x\n"
NO_NETWORK = "sbxctl: This run had no network; --network asks for it, which needs an approval.\n"
NO_TOOL = """Traceback (most recent call last):
  File "/usr/lib/python3.13/subprocess.py", line 2, in x
FileNotFoundError: [Errno 2] No such file or directory: 'tool'
"""
LONG = "n" * 255
CJK = "漢字" * 20

CASES = {
    "2 a process that is left behind": Seen(
        ["--language", "shell"],
        "sleep 100 & echo done",
        "done\nsbxctl: The program ended well. 1 process that it left behind was ended with it.\n",
        "done\n",
        "sbxctl: The program ended well. 1 process that it left behind was ended with it.\n",
    ),
    "12 a progress bar and colours": Seen(
        [],
        r"""
import sys, time
for n in (0, 50, 100):
    sys.stderr.write(f"\r{n:3} %")
sys.stderr.write("\n")
time.sleep(0.2) # the two streams have no order between them
print("\x1b[32mgreen\x1b[0m")
""",
        "100 %\ngreen\n",
        "\x1b[32mgreen\x1b[0m\n",
        "\r  0 %\r 50 %\r100 %\n",
    ),
    "19 a figure that is saved": Seen(
        [],
        "import matplotlib.pyplot as plt; plt.figure(figsize=(1, 1)); plt.savefig('plot.svg', metadata={'Date': None});"
        "open('plot.svg', 'w').write('12345')",
        made("plot.svg  5 B") + TOOK,
        "",
        made("plot.svg  5 B"),
    ),
    "20 emoji and CJK": Seen([], r"print('\N{GRINNING FACE} \u6f22\u5b57')", "😀 漢字\n", "😀 漢字\n", ""),
    "21 pip without a network": Seen(
        SHELL,
        "pip --disable-pip-version-check download --no-deps x 2>&1 | tail -n 1 >&2; exit 1",
        PIP + FAILED + NO_NETWORK + TOOK,
        "",
        PIP + FAILED + NO_NETWORK,
    ),
    "22 files here and there": Seen(
        SHELL,
        "for path in ./a.png ~/b.png /workspace/c.png /tmp/e.png; do echo made >$path; done",
        f"sbxctl: {LOST}\n        /workspace, the directory the program starts in.\n" + PLACES + TOOK,
        "",
        f"sbxctl: {LOST} /workspace, the directory the program starts in.\n" + PLACES,
    ),
    "25 names of all kinds": Seen(
        [],
        rf"""
for name in ("with space", "\xe4ccent", "-rf", "new\nline", "esc\x1b[31m", "\udcff", {LONG!r}, {CJK!r}):
    open(name, "w").write("x")
""",
        made(
            "-rf                                                           1 B",
            "\\xff                                                          1 B",
            "esc\\x1b[31m                                                   1 B",
            "new\\x0aline                                                   1 B",
            "n" * 59 + "…  1 B",
            "with space                                                    1 B",
            "äccent                                                        1 B",
            "漢字" * 14 + "漢…   1 B",
        )
        + TOOK,
        "",
        made(
            "-rf                                                           1 B",
            "\\xff                                                          1 B",
            "esc\\x1b[31m                                                   1 B",
            "new\\x0aline                                                   1 B",
            f"{LONG}  1 B",
            "with space                                                    1 B",
            "äccent                                                        1 B",
            f"{CJK}  1 B",
        ),
    ),
    "a table of a CSV file": Seen(
        [],
        r"""
import csv
rows = [("2026-01", 4.0), ("2026-02", 2.5)]
for month, value in rows:
    print(f"{month:10}{value:8.2f}")
with open("summary.csv", "w", newline="") as file:
    csv.writer(file).writerows(rows)
""",
        "2026-01       4.00\n2026-02       2.50\n" + made("summary.csv  26 B") + TOOK,
        "2026-01       4.00\n2026-02       2.50\n",
        made("summary.csv  26 B"),
    ),
    "b a chart that is saved and shown": Seen(
        [],
        """
import matplotlib.pyplot as plt
plt.bar(["a", "b"], [1, 2])
plt.savefig("chart.png")
plt.show()
open("chart.png", "w").write("12345")
""",
        made("chart.png  5 B") + TOOK,
        "",
        made("chart.png  5 B"),
    ),
    "c a workbook": Seen(
        [],
        """
import openpyxl
book = openpyxl.Workbook()
book.active["B4"] = "=SUM(B2:B3)"
book.save("prices.xlsx")
print(openpyxl.load_workbook("prices.xlsx").active["B4"].value)
open("prices.xlsx", "w").write("12345")
""",
        "=SUM(B2:B3)\n" + made("prices.xlsx  5 B") + TOOK,
        "=SUM(B2:B3)\n",
        made("prices.xlsx  5 B"),
    ),
    "d a database": Seen(
        [],
        """
import sqlite3
db = sqlite3.connect("data.sqlite")
db.execute("create table t (n integer)")
db.commit()
print(db.execute("select count(*) from t").fetchone()[0])
""",
        "0\n" + made("data.sqlite  8 KiB") + TOOK,
        "0\n",
        made("data.sqlite  8 KiB"),
    ),
    "e a tool that is not there": Seen(
        SHELL,
        "ls -A; tool-that-is-not-there",
        "script\n/workspace/script: 1: tool-that-is-not-there: not found\n"
        "sbxctl: The program ended with exit status 127.\n"
        "sbxctl: There is no program 'tool-that-is-not-there' in the sandbox: ask the\n"
        "        administrator to install it, or use an --engine and --image that have\n"
        "        it.\n" + TOOK,
        "script\n",
        "/workspace/script: 1: tool-that-is-not-there: not found\n"
        "sbxctl: The program ended with exit status 127.\n"
        "sbxctl: There is no program 'tool-that-is-not-there' in the sandbox: ask the administrator to install it,"
        " or use an --engine and --image that have it.\n",
    ),
    "f a server and its client": Seen(
        [],
        """
import asyncio
async def echo(reader, writer):
    writer.write(await reader.readline())
    writer.close()
async def main():
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"hello\\n")
    print((await reader.readline()).decode(), end="")
asyncio.run(main())
""",
        "hello\n",
        "hello\n",
        "",
    ),
    "g directories in an archive": Seen(
        [],
        """
import os, shutil
os.makedirs("a/b/c")
open("a/b/c/deep.txt", "w").write("deep")
shutil.make_archive("bundle", "tar", "a")
""",
        made("a/b/c/deep.txt  4 B", "bundle.tar      10 KiB") + TOOK,
        "",
        made("a/b/c/deep.txt  4 B", "bundle.tar      10 KiB"),
    ),
    "j checkpoints up to the time-out": Seen(
        ["--timeout", "1"],
        """
import time
open("checkpoint.txt", "w").write("step 1")
time.sleep(60)
""",
        "sbxctl: The program ended with exit status 1.\n",
        "",
        "",
    ),
    "13 out of memory": Seen(
        ["--memory", "64M"],
        "b = bytearray(2 << 30)",
        "sbxctl: The program was ended because it needed more memory than 64 MiB (its\n"
        "        peak was MEMORY).\n"
        "sbxctl: Use less memory at a time, or ask for more with --memory 128M.\n" + TOOK,
        "",
        "sbxctl: The program was ended because it needed more memory than 64 MiB (its peak was MEMORY).\n"
        "sbxctl: Use less memory at a time, or ask for more with --memory 128M.\n",
    ),
    "a package that is missing": Seen(
        NODE,
        "try { require('@tea/pot') } catch (error) { console.error(`Error: ${error.message.split('\\n')[0]}\\n    at x`);"
        " process.exitCode = 1 }",
        "Error: Cannot find module '@tea/pot'\n    at x\n" + FAILED
        + "sbxctl: The module @tea/pot is missing; if a package has it: --with @tea/pot\n" + TOOK,
        "",
        "Error: Cannot find module '@tea/pot'\n    at x\n" + FAILED
        + "sbxctl: The module @tea/pot is missing; if a package has it: --with @tea/pot\n",
    ),
}
OVER = (
    "sbxctl: The program was ended because its time limit of 1 s was over (it had used TIME of CPU time).\n"
    "sbxctl: Ask for more time with --timeout 2s.\n"
)
CASES["j checkpoints up to the time-out"] = CASES["j checkpoints up to the time-out"]._replace(
    terminal="sbxctl: The program was ended because its time limit of 1 s was over (it had\n"
    "        used TIME of CPU time).\nsbxctl: Ask for more time with --timeout 2s.\n"
    + made("checkpoint.txt  6 B") + TOOK,
    errors=OVER + made("checkpoint.txt  6 B"),
)


# Slow at starting, or at ending.
LONG_CASES = {"19 a figure that is saved", "b a chart that is saved and shown", "c a workbook", "f a server and its client"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name in LONG_CASES else ()) for name in CASES]
)
def test_case_is_seen_like_this(machine, name):
    seen = CASES[name]
    argv = ["run", *seen.options, "-c", seen.code]
    # On a busy machine anything takes long enough to be mentioned.
    assert settled(Screen(machine, ["sbxctl", *argv]).text).removesuffix(TOOK) == seen.terminal.removesuffix(TOOK)
    piped = machine.sbxctl(argv)
    assert (piped.text, settled(piped.errors)) == (seen.output, seen.errors)


def test_script_h_menu_is_seen_like_this(machine):
    code = "name = input('Name? ')\nprint('Hello,', name)"
    answered = machine.sbxctl(["run", "-c", code], input=b"Ada\n")
    assert (answered.text, answered.errors) == ("Name? Hello, Ada\n", "")
    ended = machine.sbxctl(["run", "-c", code])
    assert ended.errors.endswith(
        "EOFError: EOF when reading a line\n" + FAILED
        + "sbxctl: The program asked for input and there was none: give it by a pipe, such as: echo yes |"
        " sbxctl run SCRIPT\n"
    )


QUIET = "import time; print('begun', flush=True); time.sleep(3.2); print('done')"


def test_a_quiet_script_has_a_line_that_tells_its_time_and_leaves_no_trace(machine):
    screen = Screen(machine, ["sbxctl", "run", "-c", QUIET])
    assert re.search(r"\r\x1b\[Ksbxctl: running for [2-9] s of 60 s", screen.raw), screen.raw
    assert settled(screen.text) == "begun\ndone\n" + TOOK
    # A half line stays as it is, and what comes with escape sequences may stand anywhere.
    for beginning in ("print('half', end='', flush=True)", "print('\\x1b[2J', flush=True)"):
        screen = Screen(machine, ["sbxctl", "run", "-c", f"import time; {beginning}; time.sleep(2.5)"])
        assert "running" not in screen.raw


def test_what_is_behind_a_pipe_has_the_terminal_for_itself(machine):
    screen = Screen(machine, ["sh", "-c", 'sbxctl run -c "$0" | cat', QUIET])
    assert settled(screen.text) == "begun\ndone\n" + TOOK
    assert "running" not in screen.raw


DRAW = "import base64; open('dot.png', 'wb').write(base64.b64decode({!r})); open('x.svg', 'w').write('<svg/>')"
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def test_images_are_shown_by_terminals_that_can(machine):
    argv = ["sbxctl", "run", "--show", "-c", DRAW.format(DOT)]
    kitty = Screen(machine, argv, SBXCTL_IMAGES="kitty")
    assert kitty.raw.count("\x1b_G") == 1 and f"\x1b_Ga=T,f=100,q=2,m=0;{DOT}\x1b\\" in kitty.raw
    iterm = Screen(machine, argv, TERM_PROGRAM="iTerm.app")
    assert f"\x1b]1337;File=inline=1;size=70;preserveAspectRatio=1:{DOT}\a" in iterm.raw
    # Asked what it can, this one says nothing.
    plain = Screen(machine, argv, SBXCTL_IMAGES="", columns=200)
    assert "\x1b[c" in plain.raw and DOT not in plain.raw
    assert "this terminal does not show images: /var/lib/sbxctl/users/1000/" in plain.raw
    piped = machine.sbxctl(argv[1:])
    assert "/files/dot.png\n" in piped.errors and "\x1b" not in piped.errors


def test_images_and_nothing_else_are_opened_on_a_desktop(machine):
    directory = machine.directory()
    opened = f"{directory}/opened"
    machine.write(f"{directory}/xdg-open", f'#!/bin/sh\necho "$@" >>{opened}'.encode(), "alice")
    machine.run(["chmod", "+x", f"{directory}/xdg-open"], check=True)
    desktop = ["env", "DISPLAY=:0", f"PATH={directory}:/usr/bin:/bin"]
    code = DRAW.format(DOT) + "; open('page.png', 'w').write('<html>')"
    machine.run([*desktop, "sbxctl", "run", "--open", "-c", code], "alice", check=True)
    path = machine.wait_for(lambda: machine.run(["cat", opened]).text, 10, "the viewer to be started")
    assert path.startswith("/var/lib/sbxctl/users/1000/") and path.endswith("/files/dot.png\n") and path.count("\n") == 1
    without = machine.sbxctl(["run", "--open", "-c", code])
    assert "there is no desktop here on which images could be opened" in without.errors


def test_who_starts_the_server_for_assistants_by_hand_is_told_what_it_is(machine):
    screen = Screen(machine, ["timeout", "--foreground", "3", "sbxctl", "mcp"])
    assert unwrapped(screen.text) == (
        "sbxctl: this is for assistants, which start it by themselves; 'sbxctl mcp install --client CLIENT' tells one of it\n"
    )


def test_what_is_shown_of_a_run_hangs_behind_its_names_and_stands_there_once(machine):
    run = machine.run_json(["-c", "import nothing_of_that_name"])
    shown = Screen(machine, ["sbxctl", "show", run["id"]]).text
    assert max(map(len, shown.splitlines())) <= 80
    assert """
reason        The program ended with exit status 1.
hint          The module nothing_of_that_name is missing; if it is a file of
              yours: --file nothing_of_that_name.py; if a package has it: --with
              nothing-of-that-name
exit status   1
""" in shown
    expires = re.search(r"^expires +(.*)$", shown, re.M)[1]
    assert shown.count(expires) == 1
    assert f"\nhint          {run['hint']}\n" in machine.sbxctl(["show", run["id"]]).text


@contextlib.contextmanager
def engine_configured(machine, text):
    path = "/etc/sbxctl/engine-docker.conf"
    before = machine.run(["cat", path]).stdout
    stop = ["systemctl", "stop", "sbxctl-engine-docker.service", "sbxctl-helper.service"]
    machine.write(path, text.encode())
    machine.run(stop, check=True)
    try:
        yield
    finally:
        machine.write(path, before)
        machine.run(stop, check=True)
        machine.run(["systemctl", "reset-failed", "sbxctl-engine-docker.service", "sbxctl-helper.service"])


# Each is one line of what is wrong and what mends it, and one of what goes meanwhile.
DOCKER = {
    "missing": "Docker is not running, or not installed: there is no socket {}. The administrator starts it with:"
    " systemctl start docker.socket",
    "missing-podman": "Docker is not running, or not installed: there is no socket {}. The administrator starts it with:"
    " systemctl start podman.socket",
    "forbidden": "The engine may not use Docker's socket {}: its user 'sbxctl-docker' must be in the group that owns"
    " it. The administrator adds it with: usermod -aG docker sbxctl-docker",
    "stopped": "Docker is stopped: nothing listens on {}. The administrator starts it with: systemctl start"
    " docker.service",
}


@pytest.mark.long
@pytest.mark.parametrize("place", DOCKER)
def test_case_28_docker_that_cannot_be_used_is_seen_like_this(machine, place):
    socket = f"/run/docker-{place}.sock"
    bind = f"import os, socket; socket.socket(socket.AF_UNIX).bind('{socket}'); os.chmod('{socket}', MODE)"
    if not place.startswith("missing"):
        mode = {"forbidden": "0o600", "stopped": "0o666"}[place]
        machine.run(["python3", "-c", bind.replace("MODE", mode)], check=True)
    try:
        with engine_configured(machine, f"[Docker]\nSocket={socket}\n"):
            argv = ["run", "--engine", "docker", "-c", "print(4)"]
            piped, screen = machine.sbxctl(argv), Screen(machine, ["sbxctl", *argv])
    finally:
        machine.run(["rm", "-f", socket])
    words = f"sbxctl: {DOCKER[place].format(socket)}\nsbxctl: Until then: --engine systemd\n"
    assert (piped.status, piped.text, piped.errors) == (125, "", words)
    assert unwrapped(screen.text) == words


@pytest.mark.long
def test_case_29_image_that_nobody_has_is_seen_like_this(machine):
    image = "127.0.0.1:9/tea:1"
    with machine.configured(f"[Images]\nAllowed={image}\n"):
        argv = ["run", "--engine", "docker", "--image", image, "-c", "print(4)"]
        piped, screen = machine.sbxctl(argv), Screen(machine, ["sbxctl", *argv])
    words = (
        f"sbxctl: The image '{image}' is not on this machine and could not be pulled: Get"
        ' "http://127.0.0.1:9/v2/": dial tcp 127.0.0.1:9: connect: connection refused. When the registry has it:'
        f" sbxctl pull {image}\n"
    )
    assert (piped.status, piped.text, piped.errors) == (125, "", words)
    assert unwrapped(screen.text) == words


def unwrapped(text):
    """Sentences in one line again; each line of a screen is known to fit."""
    assert all(len(line) <= 80 for line in text.splitlines())
    return text.replace("\n        ", " ")
