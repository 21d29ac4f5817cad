"""CASES 23 to 25: whatever lies among the inputs, the outputs and the results, nothing foreign is read or
written, and the user is told of each file that is left out, with the reason."""

import json
import re

import pytest

LINK = "It is a symbolic link; links are not followed."
PIPE = "It is a named pipe, not a file."
SOCKET = "It is a socket, not a file."
TOO_LARGE = "With it the outputs would be larger than is allowed."


def shown(machine, result, verb="show"):
    told = machine.sbxctl([verb, result["id"]])
    assert told.status == 0, told
    return told.text


# ---- Outputs ----

HOSTILE = """
import errno, os, socket, stat

def attempt(what):
    try:
        what()
    except OSError as error:
        print(errno.errorcode[error.errno])
    else:
        print("done")

open("plain", "w").write("plain")
os.symlink("/etc/shadow", "shadow")
os.symlink("nothing", "dangling")
os.symlink("loop", "loop")
os.symlink("/proc/self/root", "root")
os.symlink("plain", "own")
os.link("plain", "hard")
os.mkfifo("fifo")
socket.socket(socket.AF_UNIX).bind("socket")
open("sparse", "w").truncate(1 << 40)
open("setuid", "w").write("setuid")
os.makedirs("closed/deeper"); open("closed/deeper/in", "w").write("in"); os.chmod("closed", 0)
os.mkdir("mine", 0o700); open("mine/in", "w").write("in"); os.chmod("mine/in", 0)
attempt(lambda: os.link("/etc/passwd", "foreign"))
attempt(lambda: os.mknod("null", stat.S_IFCHR | 0o666, os.makedev(1, 3)))
attempt(lambda: os.mknod("disk", stat.S_IFBLK | 0o666, os.makedev(8, 0)))
attempt(lambda: os.chmod("setuid", 0o6755))
"""

LEFT_OUT = {
    "shadow": LINK,
    "dangling": LINK,
    "loop": LINK,
    "root": LINK,
    "own": LINK,
    "fifo": PIPE,
    "socket": SOCKET,
    "sparse": TOO_LARGE,
}
KEPT = {
    "plain": b"plain",
    "hard": b"plain",
    "setuid": b"setuid",
    "closed/deeper/in": b"in",
    "mine/in": b"in",
}


def left_out(machine):
    """An archive, as which files come home from a cloud, has no place for sockets."""
    return {name: reason for name, reason in LEFT_OUT.items() if machine.engine != "e2b" or reason != SOCKET}


def test_case_23_each_hostile_output_is_named_with_the_reason_and_the_others_are_kept(machine):
    result = machine.run_json(["-c", HOSTILE])
    assert result["status"] == "succeeded", result
    setuid = "done" if machine.engine == "e2b" else "EPERM"
    assert result["stdout"]["text"] == f"EXDEV\nEPERM\nEPERM\n{setuid}\n"
    assert {s["name"]: s["reason"] for s in result["skippedFiles"]} == left_out(machine)
    assert {f["name"]: machine.read(f["path"], "alice") for f in result["files"]} == KEPT
    text = shown(machine, result)
    for name, reason in left_out(machine).items():
        assert f"\n  {name}: {reason}\n" in text
    modes = machine.run(["find", result["outputDirectory"], "-printf", "%u %y %m\n"], check=True).text
    # The bits that were to be set are not, whoever let the program set them.
    executable = {"alice f 700"} if setuid == "done" else set()
    assert set(modes.splitlines()) == {"alice d 700", "alice f 600"} | executable


def test_case_23_who_runs_it_by_hand_is_told_of_the_first_and_where_the_rest_is_listed(machine):
    told = machine.sbxctl(["run", "-c", HOSTILE])
    assert told.status == 0
    lines = [line for line in told.errors.splitlines() if "not kept" in line]
    names = sorted(left_out(machine))
    assert lines[:5] == [f"sbxctl: not kept: {name}: {LEFT_OUT[name]}" for name in names[:5]]
    more = re.fullmatch(rf"sbxctl: not kept: {len(names) - 5} more; 'sbxctl show ([0-9a-f]+)' lists them", lines[5])
    assert len(lines) == 6 and names[-1] in machine.sbxctl(["show", more[1]]).text


def test_case_23_a_sparse_file_is_kept_with_its_holes(machine):
    code = "f = open('sparse', 'w'); f.seek(100 << 20); f.write('end')"
    result = machine.run_json(["-c", code])
    (file,) = result["files"]
    assert file["bytes"] == (100 << 20) + 3 and result["skippedFiles"] == []
    blocks = machine.run(["stat", "-c", "%b", file["path"]], "alice", check=True).text
    assert int(blocks) * 512 < 1 << 20
    to = machine.directory()
    machine.run(["sbxctl", "get", "-o", to, result["id"]], "alice", check=True)
    assert int(machine.run(["stat", "-c", "%b", to + "/sparse"], check=True).text) * 512 < 1 << 20


SWAPPED = """
import os, sys, time
open("file", "w").write("own")
os.symlink(sys.argv[1], "link")
if os.fork() == 0:
    os.setsid()
    while True:
        for old, new in (("file", "other"), ("link", "file"), ("other", "link")):
            os.rename(old, new)
time.sleep(0.1)
"""


@pytest.mark.parametrize("target", ["/etc/shadow", "/workspace/script", "/proc/self/environ"])
def test_case_23_a_file_swapped_for_a_link_till_the_end_is_own_or_left_out(machine, target):
    result = machine.run_json(["-c", SWAPPED, target])
    assert result["status"] == "succeeded", result
    assert "left behind" in result["reason"] or machine.engine == "e2b"  # where nobody counts them
    assert len(result["files"]) + len(result["skippedFiles"]) == 2, result
    for file in result["files"]:
        assert machine.read(file["path"], "alice") == b"own"
    (skipped,) = result["skippedFiles"]
    assert skipped["reason"] == LINK


# ---- Results, which belong to the caller ----


@pytest.fixture
def precious(machine):
    """A directory of root's, and of bob's name for it in what is looked for afterwards."""
    path = machine.run(["mktemp", "-d", "/var/tmp/precious-XXXXXX"], check=True).text.strip()
    machine.run(["chmod", "755", path], check=True)
    machine.write(path + "/file", b"precious")
    yield path
    assert machine.read(path + "/file") == b"precious"
    assert machine.run(["ls", "-A", path], check=True).text == "file\n"
    machine.run(["rm", "-r", path], check=True)


MADE = ["-c", "import os; os.mkdir('d'); open('d/file', 'w').write('new'); open('file', 'w').write('new')"]


def test_case_23_rm_follows_no_link_planted_in_the_place_of_a_run(machine, precious):
    result = machine.run_json(MADE)
    directory = result["outputDirectory"]
    machine.run(["rm", "-r", directory], "alice", check=True)
    machine.run(["ln", "-s", precious, directory], "alice", check=True)
    assert machine.sbxctl(["get", result["id"]]).status == 125
    assert machine.sbxctl(["rm", result["id"]]).status == 0
    assert machine.run(["test", "-L", directory]).status == 1


@pytest.mark.parametrize("place", ["files", "files/d", "files/file", "run.json", "stdout"])
def test_case_23_rm_follows_no_link_planted_in_a_run(machine, precious, place):
    result = machine.run_json(MADE)
    planted = f"{result['outputDirectory']}/{place}"
    machine.run(["rm", "-r", planted], "alice", check=True)
    machine.run(["ln", "-s", precious, planted], "alice", check=True)
    assert machine.sbxctl(["rm", result["id"]]).status == 0
    assert machine.run(["test", "-e", result["outputDirectory"]]).status == 1


@pytest.mark.parametrize("place, status", [("files", 125), ("files/d", 125), ("files/file", 125)])
def test_case_23_get_follows_no_link_planted_in_a_run_and_says_so(machine, precious, place, status):
    result = machine.run_json(MADE)
    planted = f"{result['outputDirectory']}/{place}"
    machine.run(["rm", "-r", planted], "alice", check=True)
    machine.run(["ln", "-s", precious, planted], "alice", check=True)
    to = machine.directory() + "/to"
    told = machine.sbxctl(["get", "-o", to, result["id"]])
    assert told.status == status
    copied = machine.run(["sh", "-c", f"cat {to}/* {to}/d/* 2>/dev/null"]).text
    assert "precious" not in copied
    if place != "files":
        assert f"did not save {place.removeprefix('files/')}: it is a link" in told.errors, told
        assert "new" in copied


def test_case_23_an_output_directory_of_hostile_entries_gets_what_it_can(machine, precious):
    to = machine.directory()
    plant = f"cd {to} && ln -s {precious} d && ln -s {precious}/file link && mkfifo pipe && mkdir file"
    machine.run(["sh", "-c", plant], "alice", check=True)
    made = MADE[1] + "\nfor n in ('link', 'pipe', 'good'): open(n, 'w').write('new')"
    told = machine.sbxctl(["run", "-o", to, "-c", made], timeout=30)
    assert told.status == 125
    for line in (
        "did not save d: what is in the way is no directory",
        "did not save link: a link of that name is in the way",
        "did not save pipe: something that is no regular file is in the way",
        "did not save file: ",
    ):
        assert f"sbxctl: {line}" in told.errors, told
    assert machine.read(to + "/good", "alice") == b"new"


# ---- Inputs ----

LIST = """
import os
for top, folders, files in sorted(os.walk("in")):
    for name in sorted(files):
        print(top + "/" + name, open(top + "/" + name, "rb").read())
"""


def test_case_24_links_and_more_in_a_directory_of_inputs_are_left_out_and_named(machine):
    where = machine.directory()
    make = """
mkdir -p in/sub .ssh && echo KEY >.ssh/id_rsa && echo own >in/own && echo deep >in/sub/deep
ln -s ~+/.ssh/id_rsa in/x; ln -s ~+/.ssh in/folder; ln -s /etc/shadow in/sub/shadow; ln -s nothing in/dangling
ln -s loop in/loop; mkfifo in/pipe; ln .ssh/id_rsa in/hard
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("in/socket")'
"""
    machine.run(["bash", "-c", f"cd {where} && {make}"], "alice", check=True)
    told = machine.sbxctl(["run", "--file", where + "/in", "-c", LIST])
    assert told.status == 0
    # A hard link to a file of the caller's own is that file.
    assert told.text == "in/hard b'KEY\\n'\nin/own b'own\\n'\nin/sub/deep b'deep\\n'\n"
    for name in ("x", "folder", "sub/shadow", "dangling", "loop", "pipe", "socket"):
        assert f"sbxctl: left out {where}/in/{name}: it is " in told.errors, (name, told)


@pytest.mark.parametrize(
    "path", ["/etc/shadow", "/home/bob", "/root", "/var/lib/sbxctl/users/1001", "/home/bob/.bashrc"]
)
def test_case_24_what_the_caller_cannot_read_is_not_read(machine, path):
    assert machine.sbxctl(["run", "-c", "1"], user="bob").status == 0
    told = machine.sbxctl(["run", "--file", f"{path}:in", "-c", LIST])
    assert (told.status, told.text) == (125, "")
    assert f"{path}: Permission denied" in told.errors


@pytest.mark.parametrize("closed", ["file", "directory"])
def test_case_24_an_unreadable_entry_of_a_directory_is_left_out_and_named(machine, closed):
    where = machine.directory()
    make = f"cd {where} && mkdir -p in/directory && touch in/own in/file && chmod 0 in/{closed}"
    machine.run(["sh", "-c", make], "alice", check=True)
    told = machine.sbxctl(["run", "--file", where + "/in", "-c", LIST])
    rest = "in/file b''\nin/own b''\n" if closed == "directory" else "in/own b''\n"
    assert (told.status, told.text) == (0, rest)
    assert told.errors == f"sbxctl: left out {where}/in/{closed}: Permission denied\n"


# ---- Names ----

NAMES = {
    b" two  words ": " two  words ",
    "Gr\u00fc\u00dfe \u6f22\u5b57.txt".encode(): "Gr\u00fc\u00dfe \u6f22\u5b57.txt",
    b"-rf": "-rf",
    b"--help": "--help",
    b"new\nline": r"new\x0aline",
    b"red\x1b[31m\x07": r"red\x1b[31m\x07",
    b"broken\xff\xc3": r"broken\xff\xc3",
    b"back\\slash": r"back\x5cslash",
    "right\u202eleft".encode(): r"right\xe2\x80\xaeleft",
    b"'quoted' \"twice\" $HOME `id`": "'quoted' \"twice\" $HOME `id`",
    b"x" * 255: "x" * 255,
    "\u00e9".encode() * 127: "\u00e9" * 127,
}


@pytest.fixture(scope="module")
def named(machine):
    code = f"for name in {list(NAMES)!r}: open(name, 'wb').write(b'content of ' + name)"
    result = machine.run_json(["-c", code])
    assert result["status"] == "succeeded", result
    return result


def safe(text):
    """Nothing that a terminal would act on."""
    return all(c == "\n" or c.isprintable() for c in text)


def test_case_25_odd_names_are_listed_safely_in_json(machine, named):
    names = {file["name"] for file in named["files"]}
    assert all(map(safe, names))
    assert names == set(NAMES.values())


def test_case_25_odd_names_are_listed_safely_for_people(machine, named):
    text = shown(machine, named)
    assert safe(text)
    for name in NAMES.values():
        assert f"\n  {name}  " in text, name


def test_case_25_get_keeps_odd_names_byte_for_byte(machine, named):
    to = machine.directory() + "/to"
    told = machine.sbxctl(["get", "-o", to, named["id"]])
    assert told.status == 0 and safe(told.errors + told.text), told
    listed = machine.run(["find", to, "-type", "f", "-printf", "%f\\0"], "alice", check=True).stdout
    assert set(listed.split(b"\0")[:-1]) == set(NAMES)
    as_json = json.loads(machine.sbxctl(["get", "--json", "-o", to, named["id"]]).stdout)
    assert {f["name"] for f in as_json["files"]} == {f["name"] for f in named["files"]}


def test_case_25_odd_names_of_inputs_reach_the_script_byte_for_byte(machine):
    where = machine.directory()
    make = f"import os, sys; os.chdir(sys.argv[1]); [open(n, 'wb').write(n) for n in {list(NAMES)!r}]"
    machine.run(["python3", "-c", make, where], "alice", check=True)
    code = "import os\nfor n in os.listdir(b'in'): assert open(b'in/' + n, 'rb').read() == n\nprint(len(os.listdir('in')))"
    told = machine.sbxctl(["run", "--file", where + ":in", "-c", code])
    # JSON takes Unicode only; the one that is none is named.
    assert told.text == f"{len(NAMES) - 1}\n", told
    assert told.errors == (
        f"sbxctl: left out {where}/{NAMES[b'broken' + bytes([0xff, 0xc3])]}: its name is not valid UTF-8\n"
    )


@pytest.mark.parametrize("name", [n for n in NAMES if b"\xff" not in n and len(n) < 255], ids=repr)
def test_case_25_odd_names_of_scripts_are_shown_safely(machine, name):
    where = machine.directory()
    run_it = (
        "import os, sys\n"
        f"os.chdir(sys.argv[1]); open({name!r}, 'w').write('#!/usr/bin/python3\\nprint(4)')\n"
        f"os.execvp('sbxctl', ['sbxctl', 'run', *sys.argv[2:], '--', {name!r}])"
    )
    told = machine.run(["python3", "-c", run_it, where], "alice")
    assert (told.status, told.text, told.errors) == (0, "4\n", ""), told
    result = json.loads(machine.run(["python3", "-c", run_it, where, "--json"], "alice").stdout)
    assert result["scriptName"].encode() == name
    listed = machine.sbxctl(["ps", "-a"]).text
    assert safe(listed) and result["id"][:12] in listed
    text = shown(machine, result)
    assert safe(text) and f" {NAMES[name]}\n" in text
