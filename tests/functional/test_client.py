"""sbxctl as its users meet it: streams, exit statuses, JSON, lists, files, and its errors."""

import hashlib
import json
import time

import pytest


def code(text):
    return ["-c", text]


def run(machine, text, *options, **more):
    return machine.sbxctl(["run", *options, *code(text)], **more)


def only_json(result):
    """Standard output is exactly one JSON object and a newline."""
    assert result.stdout.endswith(b"\n") and result.stdout.count(b"\n") == 1, result
    return json.loads(result.stdout)


# ---- streams


def test_output_passes_byte_for_byte(machine):
    result = run(
        machine,
        "import sys; b = bytes(range(256)) * 4096\n"
        "sys.stdout.buffer.write(b); sys.stderr.buffer.write(b[:256])",
    )
    assert result.status == 0
    assert result.stdout == bytes(range(256)) * 4096
    assert result.stderr == bytes(range(256))


def test_success_without_files_says_nothing(machine):
    result = run(machine, "print('x')")
    assert (result.status, result.text, result.errors) == (0, "x\n", "")


def test_input_reaches_the_script_with_its_end(machine):
    result = run(
        machine, "import sys; print(len(sys.stdin.buffer.read()))", input=b"\0\xff\n" * 100000
    )
    assert result.text == "300000\n"


def test_script_from_standard_input(machine):
    script = b"#!/usr/bin/env python3\nimport sys; print(sys.argv[1:])"
    result = machine.sbxctl(["run", "-", "one", "--json"], input=script)
    assert (result.status, result.text) == (0, "['one', '--json']\n"), result


def test_output_comes_while_the_script_runs(machine):
    running = machine.popen(
        ["sbxctl", "run", *code("import time; print('early', flush=True); time.sleep(60)")], "alice"
    )
    assert running.popen.stdout.readline() == b"early\n"
    running.signal("TERM")
    assert running.finish().status == 130


def test_reader_that_leaves_ends_the_script(machine):
    result = machine.run(
        ["sh", "-c", "sbxctl run -c 'while True: print(\"y\" * 1000)' | head -c 5"],
        user="alice",
        timeout=30,
    )
    assert result.stdout == b"yyyyy"


MEASURED = """
import resource, subprocess, sys
program = subprocess.Popen(["sbxctl", "run", sys.argv[1]], stdout=subprocess.PIPE)
received = 0
while data := program.stdout.read(1 << 20):
    received += len(data)
program.wait()
print(received, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def test_large_output_takes_little_memory(machine):
    script = machine.script("import os\nfor i in range(16 * 1024): os.write(1, b'x' * 65536)\n")
    measured = machine.run(["python3", "-c", MEASURED, script], user="alice", timeout=120)
    received, peak_kib = map(int, measured.text.split())
    assert received == 1 << 30
    assert peak_kib < 32 * 1024


# ---- exit statuses


@pytest.mark.parametrize(
    "text, status",
    [
        ("pass", 0),
        ("raise SystemExit(7)", 7),
        ("raise SystemExit(255)", 255),
        ("1 / 0", 1),
        ("import os; os.kill(os.getpid(), 9)", 137),
        ("import os; os.kill(os.getpid(), 15)", 143),
        ("import os; os.abort()", 134),
        ("b = bytearray(2 << 30)", 137),
    ],
)
def test_exit_status_is_that_of_the_script(machine, text, status):
    assert run(machine, text).status == status


def test_time_out_ends_with_124_and_says_what_to_try(machine):
    result = run(machine, "import time; time.sleep(60)", "--timeout", "1")
    assert result.status == 124
    assert "--timeout" in result.errors


def test_memory_and_kill_are_told_apart(machine):
    memory = run(machine, "b = bytearray(2 << 30)")
    killed = run(machine, "import os; os.kill(os.getpid(), 9)")
    assert memory.status == killed.status == 137
    assert "needed more memory than 512 MiB" in memory.errors
    assert "signal 9" in killed.errors


def test_quiet_says_nothing(machine):
    result = run(machine, "open('f', 'w'); raise SystemExit(3)", "--quiet")
    assert (result.status, result.stdout, result.stderr) == (3, b"", b"")


def test_network_without_approval_ends_with_126(machine):
    result = run(machine, "pass", "--network", "--no-ask-password")
    assert result.status == 126
    assert result.errors.startswith("sbxctl: ")


def test_above_the_ceiling_ends_with_125(machine):
    result = run(machine, "pass", "--memory", "1000G")
    assert result.status == 125
    assert "2 GiB" in result.errors


@pytest.mark.parametrize(
    "arguments",
    [[], ["nonsense"], ["run"], ["run", "--memory", "x", "s"], ["run", "--what"], ["show"], ["rm"]],
)
def test_usage_errors_end_with_64(machine, arguments):
    result = machine.sbxctl(arguments)
    assert result.status == 64
    assert "--help" in result.errors and result.stdout == b""


def test_helper_that_is_not_there_ends_with_69(machine):
    result = machine.run(["env", "SBXCTL_SOCKET=/run/none", "sbxctl", "ps"], user="alice")
    assert result.status == 69
    assert "systemctl enable --now sbxctl-helper.socket" in result.errors


def test_false_helper_is_sent_nothing(machine):
    """bob listens where alice is made to connect."""
    path = "/tmp/false-helper"
    machine.run(["rm", "-f", path])
    listener = machine.popen(
        [
            "python3",
            "-c",
            "import socket, os, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]);"
            "os.chmod(sys.argv[1], 0o666); s.listen(); print('up', flush=True);"
            "print(s.accept()[0].recv(100))",
            path,
        ],
        "bob",
    )
    assert listener.popen.stdout.readline() == b"up\n"
    result = machine.run(
        ["env", f"SBXCTL_SOCKET={path}", "sbxctl", "run", *code("secret")], user="alice"
    )
    assert result.status == 69
    assert "not the helper" in result.errors
    assert listener.finish().stdout == b"b''\n"


# ---- JSON


def test_json_of_every_ending_is_one_object(machine):
    for text, status in [("print(1)", "succeeded"), ("1 / 0", "failed")]:
        assert only_json(run(machine, text, "--json"))["status"] == status
    denied = only_json(run(machine, "pass", "--json", "--network", "--no-ask-password"))
    assert denied["error"] in ("io.sbxctl.Sandbox.Denied", "io.sbxctl.Sandbox.ApprovalRequired")
    missing = only_json(machine.sbxctl(["run", "--json", "/no/such/script"]))
    assert missing["error"] == "io.sbxctl.Client.Failed"


def test_json_holds_the_output_and_input_still_arrives(machine):
    result = only_json(
        run(machine, "import sys; print(sys.stdin.read().upper())", "--json", input=b"word")
    )
    assert result["stdout"]["text"] == "WORD\n"


def test_json_stays_valid_with_any_bytes(machine):
    result = only_json(
        run(machine, "import os; os.write(1, bytes(range(256)) + '😀é'.encode()[:5])", "--json")
    )
    assert result["stdout"]["bytes"] == 261


# ---- files


def test_files_that_were_made_are_listed(machine):
    result = run(machine, "open('a.csv', 'w').write('x' * 2048)")
    assert result.stdout == b""
    assert "a.csv" in result.errors and "2 KiB" in result.errors


def test_odd_names_are_listed_on_one_line_each(machine):
    result = run(
        machine,
        "for n in (b'a\\nb', b'esc\\x1b[31m', b'\\xff', b' space', b'-dash', b'n' * 255):\n"
        "    open(n, 'wb').write(b'x')",
    )
    assert result.status == 0
    assert "a\\x0ab" in result.errors and "esc\\x1b[31m" in result.errors
    assert "\x1b" not in result.errors
    assert len(result.errors.splitlines()) == 7


def test_output_directory_gets_the_files(machine):
    to = machine.directory() + "/new"
    result = run(
        machine,
        "import os; os.makedirs('d/e'); open('d/e/f', 'w').write('deep'); open(b'\\xff', 'w')",
        "-o",
        to,
    )
    assert result.status == 0, result
    assert machine.read(f"{to}/d/e/f", "alice") == b"deep"
    assert machine.run(["ls", to], "alice").stdout == b"d\n\xff\n"


def test_output_directory_keeps_links(machine):
    to = machine.directory()
    machine.run(["ln", "-s", "/home/alice/precious", f"{to}/f"], "alice", check=True)
    result = run(machine, "open('f', 'w').write('x')", "-o", to)
    assert result.status == 125 and "link" in result.errors
    assert "sbxctl: all of them are kept in /var/lib/sbxctl/users/1000/" in result.errors
    assert machine.run(["test", "-e", "/home/alice/precious"]).status != 0


def test_output_directory_that_cannot_be_is_told_before_anything_runs(machine):
    file = machine.script("x")
    for to, why in [
        ("/root/x", "cannot make the directory /root/x: Permission denied"),
        (f"{file}/x", f"cannot make the directory {file}/x: Not a directory"),
        ("/missing/x", "cannot make the directory /missing/x: No such file or directory"),
        (file, f"cannot write to {file}: Not a directory"),
        ("/etc", "cannot write to /etc: Permission denied"),
    ]:
        result = run(machine, "print(4)", "-o", to)
        assert (result.status, result.text, result.errors) == (125, "", f"sbxctl: {why}\n")


def test_inputs_of_all_forms(machine):
    d = machine.directory()
    machine.run(
        [
            "sh",
            "-c",
            f"cd {d}; mkdir -p in/sub; echo 1 >in/a; echo 2 >in/sub/b; echo 3 >with:colon; "
            "ln -s ~/.bashrc in/x; mkfifo in/pipe; ln -s in/a link",
        ],
        user="alice",
        check=True,
    )
    result = machine.run(
        [
            "sh",
            "-c",
            f"cd {d}; sbxctl run --file in --file in/a:other/name --file with:colon --file link "
            "-c 'import os; "
            "print(sorted(os.path.join(p, n) for p, _, f in os.walk(\".\") for n in f))'",
        ],
        user="alice",
    )
    names = eval(result.text)
    assert [n for n in names if "script" not in n] == [
        "./in/a",
        "./in/sub/b",
        "./link",
        "./other/name",
        "./with:colon",
    ]
    assert "left out in/x" in result.errors and "left out in/pipe" in result.errors


def test_what_the_caller_cannot_read_is_not_passed_on(machine):
    result = run(machine, "pass", "--file", "/etc/shadow")
    assert result.status == 125
    assert "/etc/shadow: Permission denied" in result.errors


def make_file(machine, path, size):
    fill = f"open({path!r}, 'wb').write(b'x' * {size})"
    machine.run(["python3", "-c", fill], "alice", check=True)


def test_large_input_arrives_whole(machine):
    path = machine.directory() + "/large"
    make_file(machine, path, 150_000_000)
    result = run(
        machine,
        "d = open('large', 'rb').read(); print(len(d), d.count(b'x'))",
        "--file",
        path,
    )
    assert (result.status, result.text) == (0, "150000000 150000000\n"), result


def test_too_much_input_is_refused_at_once_with_the_file_that_is_too_much(machine):
    d = machine.directory()
    for name, size in ("a", "200M"), ("b", "100M"), ("c", "1M"):
        machine.run(["truncate", "-s", size, f"{d}/{name}"], "alice", check=True)
    started = time.monotonic()
    result = run(machine, "pass", "--file", f"{d}:d")
    assert time.monotonic() - started < 5 * machine.patience
    assert result.status == 125
    assert f"up to {d}/b, is 300 MiB, and at most 256 MiB is allowed" in result.errors, result
    refusal = only_json(run(machine, "pass", "--json", "--dry-run", "--file", d))
    assert refusal["error"] == "io.sbxctl.Client.Failed"
    assert "256 MiB" in refusal["reason"] and "InputSize=" in refusal["hint"]


def test_input_without_a_size_arrives_whole(machine):
    result = run(machine, "print(open('status').readline())", "--file", "/proc/self/status")
    assert result.text == "Name:\tsbxctl\n\n", result


def test_dry_run_lists_files_with_their_sizes(machine):
    path = machine.directory() + "/data"
    make_file(machine, path, 2048)
    result = run(machine, "pass", "--dry-run", "--file", path, "--file", f"{path}:in/other")
    assert result.status == 0, result
    assert "data, 2 KiB\n" in result.text and "in/other, 2 KiB\n" in result.text


def test_variables_are_passed_by_name_or_value(machine):
    result = machine.run(
        [
            "env",
            "HERE=from here",
            "sbxctl",
            "run",
            *["--env", "HERE", "--env", "SET=a=b", "--env", "NOT_THERE"],
            *code("import os; print([os.environ.get(n) for n in ('HERE', 'SET', 'NOT_THERE')])"),
        ],
        user="alice",
    )
    assert result.text == "['from here', 'a=b', None]\n"
    assert "NOT_THERE" in result.errors


# ---- the other verbs


@pytest.fixture
def finished(machine):
    return machine.run_json(code("print('out'); open('made.txt', 'w').write('made')"))


def test_list_shows_what_goes_on_and_with_all_what_ended(machine, finished):
    running = machine.popen(["sbxctl", "run", *code("import time; time.sleep(60)")], "alice")
    machine.wait_for(
        lambda: "running" in machine.sbxctl(["ps"]).text, timeout=20, what="the run in the list"
    )
    now = machine.sbxctl(["ps"])
    assert finished["id"][:12] not in now.text
    everything = machine.sbxctl(["ps", "--all"])
    assert finished["id"][:12] in everything.text
    assert all(len(line) <= 80 for line in everything.text.splitlines())
    as_json = only_json(machine.sbxctl(["ps", "-a", "--json"]))["runs"]
    assert {"running", "succeeded"} <= {run["status"] for run in as_json}
    running.signal("KILL")
    running.finish()


def test_show_tells_the_result(machine, finished):
    result = machine.sbxctl(["show", finished["id"][:12]])
    assert result.status == 0, result
    for part in (finished["id"], "succeeded", "made.txt", "out", "512 MiB"):
        assert part in result.text
    assert only_json(machine.sbxctl(["show", "--json", finished["id"]])) == finished


def test_get_copies_the_files(machine, finished):
    home = machine.directory()
    result = machine.run(["sh", "-c", f"cd {home} && sbxctl get {finished['id']}"], user="alice")
    assert result.status == 0, result
    assert machine.read(f"{home}/{finished['id']}/made.txt", "alice") == b"made"
    told = only_json(machine.sbxctl(["get", "--json", "-o", home + "/x", finished["id"]]))
    assert told["files"] == [{"name": "made.txt", "bytes": 4}]


def test_rm_looks_up_all_ids_before_it_removes(machine, finished):
    other = machine.run_json(code("print(2)"))
    assert machine.sbxctl(["rm", finished["id"], "no-such-run"]).status == 125
    assert machine.sbxctl(["rm", finished["id"], other["id"]]).status == 0
    assert machine.sbxctl(["show", finished["id"]]).status == 125
    assert machine.run(["test", "-e", finished["outputDirectory"]]).status != 0


def test_rm_refuses_a_run_that_goes_on(machine):
    running = machine.popen(["sbxctl", "run", *code("import time; time.sleep(60)")], "alice")

    def going():
        runs = only_json(machine.sbxctl(["ps", "--json"]))["runs"]
        return next((run["id"] for run in runs if run["status"] == "running"), None)

    run_id = machine.wait_for(going, timeout=20, what="the run to go on")
    result = machine.sbxctl(["rm", run_id])
    assert result.status == 125 and "not ended" in result.errors
    running.signal("KILL")
    running.finish()


def test_another_user_sees_nothing(machine, finished):
    unknown = "0" * len(finished["id"])
    assert finished["id"] not in machine.sbxctl(["ps", "-a", "--json"], user="bob").text
    for verb in ("show", "get", "rm"):
        foreign = machine.sbxctl([verb, finished["id"]], user="bob")
        missing = machine.sbxctl([verb, unknown], user="bob")
        assert foreign.status == missing.status == 125
        assert foreign.errors.replace(finished["id"], unknown) == missing.errors


def test_policy_is_shown(machine):
    result = machine.sbxctl(["policy"])
    assert result.status == 0
    for part in ("512 MiB", "2 GiB", "io.sbxctl.run-network", "python"):
        assert part in result.text
    assert all(len(line) <= 80 for line in result.text.splitlines())
    assert only_json(machine.sbxctl(["policy", "--json"]))["defaults"]["network"] == "none"


def test_dry_run_shows_the_plan_and_runs_nothing(machine):
    before = only_json(machine.sbxctl(["ps", "-a", "--json"]))["runs"]
    result = run(machine, "print(1)", "--dry-run", "--file", "/etc/hostname", "--memory", "1G")
    assert result.status == 0, result
    for part in ("hostname", "1 GiB", "io.sbxctl.run-resources", "python"):
        assert part in result.text
    assert all(len(line) <= 80 for line in result.text.splitlines())
    plan = only_json(run(machine, "print(1)", "--dry-run", "--json"))
    assert plan["scriptSha256"] == hashlib.sha256(b"print(1)").hexdigest()
    assert only_json(machine.sbxctl(["ps", "-a", "--json"]))["runs"] == before


# ---- Ctrl-C


def test_interrupt_cancels_and_keeps_what_was_made(machine):
    running = machine.popen(
        [
            "sbxctl",
            "run",
            *code(
                "import time; open('partial', 'w').write('x')\n"
                "print('up', flush=True); time.sleep(60)"
            ),
        ],
        "alice",
    )
    assert running.popen.stdout.readline() == b"up\n"
    started = time.monotonic()
    running.signal("INT")
    result = running.finish(timeout=20)
    assert result.status == 130
    assert "cancel" in result.errors and "partial" in result.errors
    assert time.monotonic() - started < 10


def test_second_interrupt_leaves_at_once(machine):
    running = machine.popen(
        [
            "sbxctl",
            "run",
            *code(
                "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                "print('up', flush=True)\nwhile True: time.sleep(1)"
            ),
        ],
        "alice",
    )
    assert running.popen.stdout.readline() == b"up\n"
    running.signal("INT")
    running.signal("INT")
    assert running.finish(timeout=10).status == 130


def test_standard_input_may_be_a_terminal(machine):
    result = machine.sbxctl(["run", *code("print('on a terminal')")], tty=True)
    assert result.status == 0
    assert "on a terminal" in result.text


def test_help_and_manual_name_every_option(machine):
    text = machine.sbxctl(["run", "--help"]).text
    assert all(len(line) <= 80 for line in text.splitlines())
    for option in ("--file", "--json", "--memory", "--no-ask-password", "--dry-run"):
        assert option in text
