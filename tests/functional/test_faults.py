"""Rows of the fault catalogue, tried on the whole product: identity first, then what wears it out.

The attackers are Python programs that run in the machine as root, and become somebody else there. Whoever
floods the helper does it under a uid of its own, so that limits per user are nobody else's.
"""

import json

import pytest

ALICE = 1000

# What every attacker begins with.
LIBRARY = """
from varlink_client import *
import ctypes, fcntl, random, resource, signal, sys, time

SCRIPT = {"script": "print(4)", "language": "python"}
ABOVE = {**SCRIPT, "memoryBytes": 1 << 30}  # needs an approval
"""


def attack(machine, program, *arguments, timeout=60):
    """What the program printed, a JSON object."""
    words = machine.python(LIBRARY + program, *arguments)
    return json.loads(machine.run(words, timeout=timeout, check=True).text)


def broker(machine):
    """The helper's main process, which runs."""
    machine.run(["sbxctl", "policy"], user="bob", check=True)
    pid = machine.main_pid()
    assert pid > 0
    return pid


def children(machine, pid):
    return [int(word) for word in machine.run(["pgrep", "-P", str(pid)]).text.split()]


def records(machine, *matches):
    return machine.journal(*matches, "_SYSTEMD_UNIT=sbxctl-helper.service")


def values(field):
    """Those of a field that an entry may have more than once."""
    return field if isinstance(field, list) else [field]


def now(machine):
    return machine.run(["date", "+%s.%N"], check=True).text.strip()


def is_refused(answer):
    return answer.get("error") in (
        "io.sbxctl.Sandbox.Denied", "io.sbxctl.Sandbox.ApprovalRequired",
    )


def test_fault_01_who_execs_a_setuid_program_after_the_call_stays_who_they_are(machine):
    # root would be allowed everything.
    program = """
broker = int(sys.argv[1])
link = socket.socket(socket.AF_UNIX)
os.kill(broker, signal.SIGSTOP)  # until the program has changed
try:
    pid = os.fork()
    if pid == 0:
        become(1000)
        connect(link).sendall(message("Run", **ABOVE))
        link.set_inheritable(True)
        os.execv("/usr/local/bin/fault-01", ["sleep", "30"])
    for _ in range(2000):
        if os.readlink(f"/proc/{pid}/exe").endswith("fault-01"):
            break
        time.sleep(0.005)
    uids = next(line for line in open(f"/proc/{pid}/status") if line.startswith("Uid:")).split()
finally:
    os.kill(broker, signal.SIGCONT)
link.settimeout(20)
print(json.dumps({"pid": pid, "uids": uids[1:4], "answer": answer(link)}))
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
"""
    machine.run(["install", "-m", "4755", "/usr/bin/sleep", "/usr/local/bin/fault-01"], check=True)
    since = now(machine)
    try:
        found = attack(machine, program, broker(machine))
    finally:
        machine.run(["rm", "/usr/local/bin/fault-01"], check=True)
    assert found["uids"] == ["1000", "0", "0"]
    assert is_refused(found["answer"]), found
    told = records(machine, f"SBXCTL_PID={found['pid']}", f"--since=@{since}")
    assert len(told) >= 2
    assert {(entry["SBXCTL_UID"], entry["SBXCTL_USER"]) for entry in told} == {("1000", "alice")}


@pytest.mark.parametrize("uid", [65534, 2147483648, 4000000000, 4294967294])
def test_fault_05_odd_uids_get_nothing_and_are_recorded_as_they_are(machine, uid):
    program = """
become(int(sys.argv[1]))
run = sys.argv[2]
print(json.dumps({
    "plain": call("Run", **SCRIPT),
    "above": [call("Run", **ABOVE), call("Run", network="internet", **SCRIPT), call("Run", timeoutUSec=120000000, **SCRIPT)],
    "foreign": [call("Describe", id=run), call("Cancel", id=run), call("Remove", id=run), call("Read", id=run, name="stdout")],
}))
"""
    before, since = broker(machine), now(machine)
    run = machine.run_json(["-c", "print(4)"])
    found = attack(machine, program, uid, run["id"])
    for answer in found["above"]:
        assert is_refused(answer), answer
    assert {answer["error"] for answer in found["foreign"]} == {"io.sbxctl.Sandbox.NoSuchRun"}
    told = records(machine, f"SBXCTL_UID={uid}", f"--since=@{since}")
    decisions = [entry for entry in told if "SBXCTL_DECISION" in entry]
    refused = {action for entry in decisions if entry["SBXCTL_DECISION"] != "allowed" for action in values(entry["SBXCTL_ACTION"])}
    if uid > 2147483647:  # polkit would take it for a negative one
        assert is_refused(found["plain"])
        assert {entry["SBXCTL_DECISION"] for entry in decisions} == {"unidentified"}
        assert "io.sbxctl.run" in refused
        assert machine.run(["ls", f"/var/lib/sbxctl/users/{uid}"]).status != 0
    else:
        assert found["plain"]["parameters"]["result"]["status"] == "succeeded"
        assert {"io.sbxctl.run-resources", "io.sbxctl.run-network"} <= refused
    assert broker(machine) == before


def test_fault_07_a_caller_killed_at_any_point_is_never_allowed_anything(machine):
    program = """
become(61007)
random.seed(7)
text = message("Run", **ABOVE)
ends = {"sent": 0, "answered": 0}
for i in range(1000):
    inner, outer = os.pipe()
    pid = os.fork()
    if pid == 0:
        link = connect()
        cut = random.randrange(len(text) + 1)
        link.sendall(text[:cut])
        link.sendall(text[cut:])
        os.write(outer, b"s")
        answer(link)
        os.write(outer, b"a")
        signal.pause()
    os.close(outer)
    time.sleep(random.random() * 0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    told = os.read(inner, 2)
    os.close(inner)
    ends["sent"] += told == b"s"
    ends["answered"] += told == b"sa"
print(json.dumps(ends))
"""
    before, since = broker(machine), now(machine)
    ends = attack(machine, program, timeout=120)
    # Killed before, in the middle, and after.
    assert ends["sent"] > 10 and ends["answered"] > 10 and sum(ends.values()) < 990, ends
    told = [entry for entry in records(machine, f"--since=@{since}") if "SBXCTL_PID" in entry]
    mine = [entry for entry in told if entry["SBXCTL_UID"] == "61007"]
    assert len(mine) >= 10
    assert not [entry for entry in told if entry["SBXCTL_UID"] in ("0", "65534", "4294967295")]
    assert not [entry for entry in mine if entry.get("SBXCTL_DECISION") == "allowed"]
    assert {entry.get("SBXCTL_RESULT") for entry in mine} <= {None, "denied", "cancelled", "rejected"}
    assert broker(machine) == before


def test_fault_50_a_process_with_a_dead_callers_pid_is_not_taken_for_it(machine):
    # The socket outlives the caller here, which no client of ours does: the worst case.
    program = """
def be_with_pid(pid):  # clone3(2) with set_tid
    wanted = (ctypes.c_int * 1)(pid)
    arguments = (ctypes.c_uint64 * 11)(0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, ctypes.addressof(wanted), 1, 0)
    return ctypes.CDLL(None, use_errno=True).syscall(435, arguments, 88)

broker = int(sys.argv[1])
link = socket.socket(socket.AF_UNIX)
text = message("Run", **SCRIPT)
os.kill(broker, signal.SIGSTOP)
try:
    first = os.fork()
    if first == 0:
        become(1000)
        connect(link).sendall(text)
        os._exit(0)
    os.waitpid(first, 0)
    second = be_with_pid(first)
    if second == 0:
        become(1001)
        signal.pause()
finally:
    os.kill(broker, signal.SIGCONT)
link.settimeout(20)
found = {"first": first, "second": second, "answer": answer(link)}
os.kill(second, signal.SIGKILL)
os.waitpid(second, 0)
# And one that lives, from the same unit.
pid = os.fork()
if pid == 0:
    become(1000)
    call("Run", **ABOVE)
    os._exit(0)
os.waitpid(pid, 0)
print(json.dumps({**found, "third": pid}))
"""
    unit = ["systemd-run", "--quiet", "--pipe", "--wait", "--unit=fault-50"]
    since = now(machine)
    done = machine.run([*unit, *machine.python(LIBRARY + program, broker(machine))], check=True)
    found = json.loads(done.text)
    assert found["second"] == found["first"]
    assert is_refused(found["answer"]), found
    told = records(machine, f"SBXCTL_PID={found['first']}", f"--since=@{since}")
    assert {entry.get("SBXCTL_DECISION") for entry in told} == {None, "unidentified"}
    for entry in told:
        assert (entry["SBXCTL_UID"], entry["SBXCTL_USER"]) == ("1000", "alice")
        assert "SBXCTL_UNIT" not in entry and "SBXCTL_SESSION" not in entry, entry
    told = records(machine, f"SBXCTL_PID={found['third']}", f"--since=@{since}")
    assert {entry["SBXCTL_UNIT"] for entry in told} == {"fault-50.service"}


def test_fault_28_the_name_of_the_callers_socket_is_nothing(machine):
    program = """
become(1000)
answers = []
for name in ("/tmp/fault-28;uid=0;", bytes(1) + b";uid=0;pid=1;", bytes(1) + b"uid=0" + b"\\xff\\n"):
    link = socket.socket(socket.AF_UNIX)
    link.bind(name)
    connect(link).sendall(message("Run", **ABOVE))
    answers.append(answer(link))
os.unlink("/tmp/fault-28;uid=0;")
print(json.dumps({"pid": os.getpid(), "answers": answers}))
"""
    since = now(machine)
    found = attack(machine, program)
    assert all(is_refused(answer) for answer in found["answers"]), found
    told = records(machine, f"SBXCTL_PID={found['pid']}", f"--since=@{since}")
    assert {entry["SBXCTL_UID"] for entry in told} == {str(ALICE)} and len(told) >= 6


def test_fault_73_what_is_run_is_what_is_recorded(machine):
    program = """
become(1000)
def send(parameters):
    link = connect()
    link.sendall(b'{"method":"io.sbxctl.Sandbox.Run","parameters":{"script":"import sys; print(sys.argv[1:])",'
                 b'"language":"python",' + parameters + b"}}" + bytes(1))
    return answer(link)
print(json.dumps({
    "pid": os.getpid(),
    "good": send(rb'"arguments":["\\u0041\\/","\\ud83d\\ude00","\\\\u0041","%s"],"memoryBytes":268435456,"scriptName":"\\u0061.py"'),
    "bad": [send(text) for text in (
        b'"memoryBytes":1,"memoryBytes":268435456', rb'"memoryBytes":1,"memory\\u0042ytes":268435456',
        b'"memoryBytes":18446744073709551617', b'"memoryBytes":268435456.5', b'"memoryBytes":"268435456"', b'"memoryBytes":true',
        rb'"scriptName":"a\\u0000b"', b'"network":"NONE"', b'"network":["none"]', b'"arguments":["a",1]', b'"arguments":{"0":"a"}',
        rb'"arguments\\u0000":[]', b'"Arguments":[]')],
}))
"""
    since = now(machine)
    found = attack(machine, program)
    result = found["good"]["parameters"]["result"]
    assert result["stdout"]["text"] == "['A/', '😀', '\\\\u0041', '%s']\n"
    told = records(machine, f"SBXCTL_PID={found['pid']}", f"--since=@{since}")
    good = [entry for entry in told if entry.get("SBXCTL_RUN_ID") == result["id"]]
    assert {entry["SBXCTL_SCRIPT_NAME"] for entry in good if "SBXCTL_SCRIPT_NAME" in entry} == {"a.py"}
    assert {entry["SBXCTL_MEMORY"] for entry in good if "SBXCTL_MEMORY" in entry} == {"268435456"}
    assert result["policy"]["memoryBytes"] == 268435456
    argv = next(entry["SBXCTL_ARGV"] for entry in good if "SBXCTL_ARGV" in entry)
    assert argv.startswith("A/ ") and argv.endswith(" \\x5cu0041 %s")
    for answer in found["bad"]:
        assert answer is None or answer["error"] in (
            "org.varlink.service.InvalidParameter", "io.sbxctl.Sandbox.Rejected"), answer
    # Nothing of those got as far as being a run.
    assert {entry.get("SBXCTL_RUN_ID") for entry in told} == {result["id"], None}


CYCLES = """
become(61009)
random.seed(9)
texts = [message("GetPolicy"), message("List"), message("Run", **ABOVE), message("Describe", id="0" * 16), b"{", b"x"]
for i in range(int(sys.argv[1])):
    link = connect()
    text = texts[i % len(texts)]
    text = text[:random.randrange(len(text) + 1)] if i % 4 == 0 else text
    try:
        send_fds(link, text, [0, 1] if i % 5 == 0 and text else [])
        if i % 7 == 0:
            link.shutdown(socket.SHUT_WR)
            link.recv(1)
    except OSError:
        pass
    link.close()
print("{}")
"""


def test_fault_09_ten_thousand_aborted_calls_leave_nothing_behind(machine):
    attack(machine, CYCLES, 500)
    pid = broker(machine)
    memory, descriptors = machine.memory(pid), machine.descriptors(pid)
    flood = machine.popen(machine.python(LIBRARY + CYCLES, 10000))
    assert machine.sbxctl(["run", "-c", "print(4)"], user="bob").text == "4\n"
    assert flood.popen.poll() is None, "the flood ended before the other user was served"
    assert flood.finish(timeout=120).text == "{}\n"
    machine.wait_for(lambda: machine.descriptors(pid) <= descriptors, 20, "descriptors to be closed")
    assert machine.memory(pid) < memory + (8 << 10)
    assert broker(machine) == pid


def test_fault_21_mutated_messages_end_no_process(machine):
    # The fuzzers go deeper, one parser each; this is all of it together.
    program = """
become(61021)
random.seed(21)
run = {**SCRIPT, "dryRun": True, "scriptName": "a.py", "arguments": ["a"], "environment": {"A": "b"}, "stdin": "x", "engine": "systemd",
       "inputs": [{"name": "in", "content": "x"}, {"name": "b", "contentBase64": "YQ=="}, {"name": "c", "fd": 0}], "network": "none",
       "memoryBytes": 1 << 28, "cpuPercent": 50, "timeoutUSec": 1000000, "streams": "none", "allowInteractiveAuthentication": False}
seeds = [message("Run", **run), message("List"), message("Describe", id="0" * 16), message("Read", id="0" * 16, name="a", offset=1, length=1),
         message("Cancel", id="0" * 16), message("Remove", id="0" * 16), message("GetPolicy"), message("GetEngines"),
         message("org.varlink.service.GetInterfaceDescription", interface="io.sbxctl.Sandbox")]
odd = [b"null", b"true", b"-1", b"0", b"1e999", b"18446744073709551616", b"[]", b"{}", b'""', b"[" * 40, b'"\\\\u0000"', bytes(1), b"\\xff",
       b'"' + b"a" * 5000 + b'"', b'{"a":1,"a":2}', b"9223372036854775807", b'"../../x"']
def mutate(text):
    text = bytearray(text)
    for _ in range(random.choice((1, 1, 2, 4))):
        at, to = sorted(random.randrange(len(text) + 1) for _ in range(2))
        kind = random.randrange(5)
        if kind == 0 and text:
            text[at % len(text)] ^= 1 << random.randrange(8)
        elif kind == 1:
            del text[at:min(to, at + 8)]
        elif kind == 2:
            text[at:at] = text[at:to]
        elif kind == 3:
            text[at:at] = random.choice(odd)
        else:  # a whole value
            marks = [i for i, c in enumerate(text) if c in b":,["] or [0]
            at = random.choice(marks) + 1
            end = next((i for i in range(at, len(text)) if text[i] in b",}]"), at)
            text[at:end] = random.choice(odd)
    return bytes(text) + bytes(1)
answered = 0
for i in range(100000):
    link = connect()
    try:
        send_fds(link, mutate(random.choice(seeds)), [0] if i % 3 == 0 else [])
        link.shutdown(socket.SHUT_WR)
        answered += bool(link.recv(1))
    except (BrokenPipeError, ConnectionResetError):
        pass
    link.close()
print(json.dumps({"answered": answered}))
"""
    before = broker(machine)
    stores = children(machine, before)
    found = attack(machine, program, timeout=200)
    assert found["answered"] > 5000  # it is not all refused at the door
    assert broker(machine) == before
    assert set(stores) <= set(children(machine, before))
    assert machine.sbxctl(["run", "-c", "print(4)"], user="bob").text == "4\n"


def test_fault_23_no_answer_tells_what_a_path_leads_to(machine):
    program = """
become(61023)
def tries(path):
    inputs = [{"name": path, "content": ""}]
    return [call("Run", engine=path, **SCRIPT), call("Run", script="", language=path), call("Run", script="", scriptName=path),
            call("Run", inputs=inputs, **SCRIPT), call("Run", scriptFd=path, language="python"), call("Read", id=sys.argv[1], name=path),
            call("Describe", id=path), call("Remove", id=path), call("Run", workingDirectory=path, **SCRIPT)]
print(json.dumps([json.dumps(tries(path)).replace(path, "PATH") for path in sys.argv[2:]]))
"""
    paths = ["/etc/shadow", "/etc/fault-23-missing", "/root"]
    pid = broker(machine)
    attached = [word for process in [pid, *children(machine, pid)] for word in ("-p", str(process))]
    trace = machine.popen(["strace", "-f", "-o", "/run/fault-23", "-e", "trace=%file", *attached])
    while b"attached" not in (line := trace.popen.stderr.readline()):
        assert line, "strace ended"
    found = attack(machine, program, "0" * 16, *paths)
    # Something that it does look at, so that an empty trace says something.
    assert machine.sbxctl(["run", "-c", "print(4)"], user="bob").text == "4\n"
    trace.signal("INT")
    trace.finish()
    seen = machine.read("/run/fault-23").decode()
    assert found[0] == found[1] == found[2], found
    assert "PATH" in found[0] and '"result"' not in found[0]
    assert "/engine/systemd" in seen or "/etc/passwd" in seen, seen[-2000:]
    for path in paths:
        assert path + '"' not in seen and path.split("/")[-1] + '"' not in seen, path


def test_fault_40_every_descriptor_of_the_services_is_closed_at_exec(machine):
    running = machine.popen(["sbxctl", "run", "-c", "print(4, flush=True); input()"], user="bob")
    assert running.popen.stdout.readline() == b"4\n"
    main = broker(machine)
    engine = machine.main_pid("sbxctl-engine-systemd.service")
    processes = [main, *children(machine, main), engine, *children(machine, engine)]
    assert len(processes) >= 4
    script = 'for fd in /proc/$0/fdinfo/*; do echo "${fd##*/} $(grep ^flags: $fd)"; done'
    for pid in processes:
        for line in machine.run(["bash", "-c", script, str(pid)], check=True).text.splitlines():
            number, _, flags = line.split()
            assert int(number) < 3 or int(flags, 8) & 0o2000000, (pid, line)
    assert running.finish(input=b"\n").status == 0


def test_fault_52_arrays_of_many_elements_are_refused_or_taken(machine):
    program = """
become(61052)
many = 100000
print(json.dumps([
    call("Run", arguments=[""] * many, **SCRIPT),
    call("Run", environment={f"A{i}": "" for i in range(many // 2)}, **SCRIPT),
    call("Run", inputs=[{"name": f"{i}", "fd": 0} for i in range(20000)], **SCRIPT),
    call("Run", arguments=["a"] * 60000, **SCRIPT),
]))
"""
    before = broker(machine)
    for answer in attack(machine, program):
        assert answer is None or answer["error"] == "io.sbxctl.Sandbox.Rejected", answer
    assert broker(machine) == before


def test_fault_54_a_huge_input_is_refused_and_not_read(machine):
    program = """
become(61054)
def huge():
    fd = os.memfd_create("huge", os.MFD_ALLOW_SEALING)
    os.truncate(fd, 10 << 30)
    fcntl.fcntl(fd, 1033, 1 | 2 | 4 | 8)
    return fd
growing = os.memfd_create("growing", os.MFD_ALLOW_SEALING)  # it may still grow
fcntl.fcntl(growing, 1033, 2)
endless = os.pipe()[0]
print(json.dumps([call("Run", [fd], **parameters) for fd in (huge(), growing, endless, os.open("/dev/zero", os.O_RDONLY)) for parameters in (
    {"scriptFd": 0, "language": "python"}, {**SCRIPT, "inputs": [{"name": "in", "fd": 0}]})]))
"""
    pid = broker(machine)
    memory, descriptors = machine.memory(pid), machine.descriptors(pid)
    for answer in attack(machine, program):
        assert answer["error"] == "io.sbxctl.Sandbox.Rejected", answer
        assert answer["parameters"]["field"] in ("scriptFd", "script", "inputs"), answer
    machine.wait_for(lambda: machine.descriptors(pid) <= descriptors, 20, "descriptors to be closed")
    assert machine.memory(pid) < memory + (8 << 10)
