"""What the helper takes from a caller, and what it refuses, seen by a plain varlink client."""

import json

from approvals import NOT_HANDLED, YES, dry_run, rules

# Calls the method sys.argv[1] with its parameters and with descriptors of those kinds.
CLIENT = """
from varlink_client import *
import sys

method, parameters, kinds = map(json.loads, sys.argv[1:])
fds = []
for kind in kinds:
    if kind == "memfd":
        fd = sealed(b"content")
    elif kind == "unsealed":
        fd = os.memfd_create("input", os.MFD_ALLOW_SEALING)
        os.write(fd, b"content")
    elif kind == "pipe":
        fd = os.pipe()[0]
    elif kind == "socket":
        fd = socket.socket(socket.AF_UNIX).detach()
    elif kind == "terminal":
        fd = os.openpty()[1]
    elif kind == "fifo":
        os.mkfifo(path := f"/tmp/fifo-{os.getpid()}")
        fd = os.open(path, os.O_RDWR)
        os.unlink(path)
    elif kind == "link":
        os.symlink("/etc/hostname", path := f"/tmp/link-{os.getpid()}")
        fd = os.open(path, os.O_PATH | os.O_NOFOLLOW)
        os.unlink(path)
    elif kind == "sparse":
        fd = os.open("/tmp", os.O_TMPFILE | os.O_RDWR)
        os.truncate(fd, 10 << 30)
    else:
        fd = os.open(kind, os.O_RDONLY)
    fds.append(fd)
print(json.dumps(call(method, fds, **parameters)))
"""


def call(machine, method, parameters=None, fds=(), user="alice"):
    words = map(json.dumps, (method, parameters or {}, fds))
    return json.loads(machine.run(machine.python(CLIENT, *words), user=user, check=True).text)


def run(machine, fds=(), caller="alice", **parameters):
    given = {"script": "print(4)", "language": "python", **parameters}
    return call(machine, "Run", given, fds, caller)


def rejected(answer, field, word=""):
    assert answer["error"] == "io.sbxctl.Sandbox.Rejected", answer
    assert answer["parameters"]["field"] == field and word in answer["parameters"]["reason"], answer


def test_a_sealed_memfd_is_an_input(machine):
    answer = run(
        machine, ["memfd"], script="print(open('in').read())", inputs=[{"name": "in", "fd": 0}]
    )
    assert answer["parameters"]["result"]["stdout"]["text"] == "content\n"


# Refusals of a user are recorded up to a limit in a minute, hence bob.
def test_fault_32_nothing_but_a_sealed_memfd_is_an_input_or_a_script(machine):
    path = machine.script("content", name="file", user="bob")
    for kind in ("unsealed", "pipe", "socket", "terminal", "fifo", "link", "sparse", path, "/", "/dev/null", "/proc/self/mem"):
        rejected(run(machine, [kind], "bob", inputs=[{"name": "in", "fd": 0}]), "inputs", "memfd")
        answer = call(machine, "Run", {"scriptFd": 0, "language": "python"}, [kind], "bob")
        rejected(answer, "scriptFd", "memfd")


def test_fault_27_descriptor_indices_outside_the_message_are_refused(machine):
    for index in (1, 252, 253, 1 << 31, 1 << 32, (1 << 63) - 1, -1, -(1 << 31), -(1 << 63), 0.5, "0", True, [0], None):
        answer = run(machine, ["memfd"], "bob", inputs=[{"name": "in", "fd": index}])
        assert answer["error"] in (
            "org.varlink.service.InvalidParameter", "io.sbxctl.Sandbox.Rejected",
        ), (index, answer)
        answer = call(machine, "Run", {"scriptFd": index, "language": "python"}, ["memfd"], "bob")
        assert answer["error"] in (
            "org.varlink.service.InvalidParameter", "io.sbxctl.Sandbox.Rejected",
        ), (index, answer)
    rejected(run(machine, caller="bob", inputs=[{"name": "in"}]), "inputs")
    twice = [{"name": "a", "fd": 0}, {"name": "b", "fd": 0}]
    assert run(machine, ["memfd"], "bob", inputs=twice)["error"] == "org.varlink.service.InvalidParameter"


def test_fault_04_an_identity_in_the_parameters_is_no_parameter(machine):
    for name in ("uid", "user", "pid", "sender", "owner"):
        answer = run(machine, **{name: 0})
        assert answer["error"] == "org.varlink.service.InvalidParameter"
        assert answer["parameters"]["parameter"] == name
        entry = machine.journal(f"SBXCTL_FIELD={name}", "_SYSTEMD_UNIT=sbxctl-helper.service")[-1]
        assert entry["SBXCTL_UID"] == "1000"


def test_fault_65_an_engine_is_a_name_and_not_a_path(machine):
    for name in ("../../../dev/shm/e", "/run/docker.sock", "..", ".", "", "a/b", "SYSTEMD"):
        rejected(run(machine, engine=name), "engine")


def test_base64_is_taken_as_it_is_written_or_not_at_all(machine):
    good = {"": "", "YQ==": "a", "YWI=": "ab", "YWJj": "abc"}
    for text, content in good.items():
        answer = run(machine, script="print(repr(open('in').read()))",
                     inputs=[{"name": "in", "contentBase64": text}])
        assert answer["parameters"]["result"]["stdout"]["text"] == repr(content) + "\n"
    for text in ("YQ", "Y===", "====", "AA=A", "YQ==\n", " YQ==", "YQ=\n", "!!!!"):
        rejected(run(machine, inputs=[{"name": "in", "contentBase64": text}]), "inputs", "base64")


def test_names_that_leave_the_workspace_are_rejected(machine):
    for name in ("../x", "/etc/x", "a/../b", "a//b", "a/", ".", "x" * 256):
        answer = run(machine, inputs=[{"name": name, "content": ""}])
        rejected(answer, "inputs")
    rejected(run(machine, scriptName="a/b"), "scriptName")
    twice = [{"name": "a", "content": ""}, {"name": "a", "content": ""}]
    rejected(run(machine, inputs=twice), "inputs", "'a'")


def test_a_file_in_the_place_of_a_folder_is_rejected_with_its_name(machine):
    answer = run(machine, inputs=[{"name": "a", "content": ""}, {"name": "a/b", "content": ""}])
    rejected(answer, "inputs", "'a/b'")


def test_what_is_rejected_is_recorded(machine):
    rejected(run(machine, engine="nowhere"), "engine")
    entry = machine.journal("SBXCTL_FIELD=engine", "_SYSTEMD_UNIT=sbxctl-helper.service")[-1]
    assert entry["SBXCTL_UID"] == "1000" and "nowhere" in entry["SBXCTL_REASON"]


def test_a_result_too_long_for_the_index_is_still_final(machine):
    script = """
import sys
for stream in (sys.stdout, sys.stderr):
    stream.write("\\x01" * (1 << 16))
for i in range(900):
    open(f"{i:03}" + "\\x01" * 60, "w")
"""
    answer = run(machine, script=script)
    run_id = answer["parameters"]["result"]["id"]
    kept = call(machine, "Describe", {"id": run_id})["parameters"]["result"]
    assert kept["status"] == "succeeded" and kept["exitCode"] == 0


def test_fault_03_a_foreign_id_and_an_unknown_one_look_the_same(machine):
    run_id = run(machine)["parameters"]["result"]["id"]
    for method, more in (("Describe", {}), ("Cancel", {}), ("Remove", {}), ("Read", {"name": "stdout"})):
        foreign = call(machine, method, {"id": run_id, **more}, user="bob")
        unknown = call(machine, method, {"id": "0" * 16, **more}, user="bob")
        assert foreign["error"] == unknown["error"] == "io.sbxctl.Sandbox.NoSuchRun"
        assert foreign["parameters"] == {"id": run_id}
    assert call(machine, "Describe", {"id": run_id})["parameters"]["result"]["status"] == "succeeded"


def test_read_gives_streams_and_files_and_nothing_else(machine):
    script = "print('out'); open('a.txt', 'w').write('abc')"
    run_id = run(machine, script=script)["parameters"]["result"]["id"]

    def read(name, **more):
        return call(machine, "Read", {"id": run_id, "name": name, **more})

    assert read("stdout")["parameters"] == {"data": "b3V0Cg==", "bytes": 4}
    assert read("a.txt", offset=1, length=1)["parameters"] == {"data": "Yg==", "bytes": 3}
    for name in ("b.txt", "../stdout", "../../run.json", "/etc/passwd", "", "."):
        assert read(name)["error"] == "io.sbxctl.Sandbox.NoSuchFile", name


def test_case_23_read_follows_no_link_that_its_caller_planted(machine):
    script = "import os; os.mkdir('d'); open('a', 'w').write('a'); open('d/a', 'w').write('a')"
    result = run(machine, script=script)["parameters"]["result"]
    for name in ("stdout", "a", "d/a"):
        assert "data" in call(machine, "Read", {"id": result["id"], "name": name})["parameters"]
    for name, planted, target in (
        ("stdout", "stdout", "/etc/shadow"),
        ("a", "files/a", "/etc/shadow"),
        ("d/a", "files/d", "/var/lib/sbxctl/users/1001"),
        ("a", "files", "/etc"),
    ):
        place = f"{result['outputDirectory']}/{planted}"
        machine.run(["sh", "-c", f"rm -r {place} && ln -s {target} {place}"], "alice", check=True)
        answer = call(machine, "Read", {"id": result["id"], "name": name})
        assert answer["error"] == "io.sbxctl.Sandbox.NoSuchFile", answer


def test_an_administrators_yes_lets_a_run_have_more_and_the_dry_run_says_so(machine):
    rule = f'action.lookup("memory") == "1073741824" ? {YES} : {NOT_HANDLED}'
    with rules(machine, run_resources=rule):
        assert machine.sbxctl(["run", "--memory", "1G", "-c", "print(4)"]).text == "4\n"
        assert machine.sbxctl(["run", "--memory", "1025M", "-c", "print(4)"]).status == 126
        for memory, word in (("1G", "yes"), ("1025M", "challenge")):
            assert dry_run(machine, "--memory", memory)["approvals"]["io.sbxctl.run-resources"] == word
    assert machine.sbxctl(["run", "--memory", "1G", "-c", "1"]).status == 126
