"""The E2B engine by its own protocol, against a stand-in for E2B's cloud that really runs the code."""

from e2b_engine import inside

# What one run asks of the cloud; its life is looked at while the files are sent.
STRAIGHT = ["create", "files.upload", "get", "process.start", "process.start", "delete", "get"]


def test_run_goes_there_and_its_files_come_home(machine, cloud):
    told = inside(machine, """
        with Sandbox() as sandbox:
            sandbox.put("script.py", b"import sys; open('out.txt', 'w').write(open('in.txt').read().upper()); "
                                     b"print('to stdout'); print('to stderr', file=sys.stderr); sys.exit(3)", 0o755)
            sandbox.put("in.txt", b"some input")
            output = sandbox.run(["python3", "script.py"])
            files = sorted(os.listdir(sandbox.workspace))
            content = open(os.open("out.txt", os.O_RDONLY, dir_fd=sandbox.workspace)).read()
            ended = sandbox.kill()
            print(json.dumps([output.exited, output.stdout.decode(), output.stderr.decode(), files, content, ended,
                              [p["phase"] for p in sandbox.progress]]))
    """)
    exited, stdout, stderr, files, content, ended, phases = told
    assert exited[:2] == [1, 3]
    assert (stdout, stderr) == ("to stdout\n", "to stderr\n")
    assert files == ["in.txt", "out.txt", "script.py"]
    assert content == "SOME INPUT"
    assert ended["why"] == "exit" and ended["cleaned"]
    assert phases == ["create", "upload", "start", "download"]
    cloud.wait_until_empty()
    machine.wait_for(lambda: len(cloud.operations()) >= len(STRAIGHT), 10, "the last of the requests")
    operations = cloud.operations()
    assert [operations[0], *sorted(operations[1:3]), *operations[3:]] == STRAIGHT


def test_cloud_learns_what_it_must_and_nothing_of_the_user(machine, cloud):
    inside(machine, """
        with Sandbox(ownerUid=1000, lifetimeUSec=77_000_000, runId="ab" * 16) as sandbox:
            print(json.dumps(sandbox.run(["true"]).exited))
    """)
    (made,) = cloud.call("GET", "/sandboxes")
    request = made["request"]
    assert request["allow_internet_access"] is False and request["timeout"] == 77
    assert request["secure"] and not request.get("autoPause")
    labels = request["metadata"]
    assert labels["sbxctl-run"] == "ab" * 16
    assert set(labels) == {f"sbxctl-{name}" for name in ("machine", "service", "connection", "run", "user")}
    machine_id = machine.read("/etc/machine-id").decode().strip()
    assert machine_id not in str(request) and "alice" not in str(request)


def test_granted_names_are_all_that_it_may_reach(machine, cloud):
    inside(machine, """
        for hosts in ("pypi.org *.example.org", ""):
            with Sandbox(network=True, hosts=hosts):
                pass
        print("0")
    """)
    limited, free = [made["request"] for made in cloud.call("GET", "/sandboxes")]
    assert limited["allow_internet_access"] and free["allow_internet_access"]
    assert limited["network"] == {"allowOut": ["pypi.org", "*.example.org"], "denyOut": ["0.0.0.0/0"]}
    assert "network" not in free


def test_user_is_the_same_stranger_every_time(machine, cloud):
    inside(machine, """
        for uid in (1000, 1000, 1001):
            with Sandbox(ownerUid=uid):
                pass
        print("0")
    """)
    first, again, other = [made["request"]["metadata"]["sbxctl-user"] for made in cloud.call("GET", "/sandboxes")]
    assert first == again != other


def test_ways_that_a_program_ends_are_told_apart(machine, cloud):
    told = inside(machine, """
        cases = {"exit": ["sh", "-c", "exit 7"], "killed": ["sh", "-c", "kill -9 $$"], "segv": ["sh", "-c", "kill -11 $$"],
                 "missing": ["no-such-program"], "well": ["true"], "directory": ["/tmp"]}
        with Sandbox() as sandbox:
            print(json.dumps({name: sandbox.run(argv).exited[:2] for name, argv in cases.items()}))
    """)
    assert told == {"exit": [1, 7], "killed": [2, 9], "segv": [2, 11], "missing": [3, 2], "well": [1, 0], "directory": [1, 126]}


def test_output_is_any_bytes_and_as_many_as_there_are(machine, cloud):
    told = inside(machine, """
        import hashlib
        code = "import os, sys; b = bytes(range(256)) * 4096; [os.write(1, b[:65536]) for _ in range(320)]; os.write(2, b[:256])"
        with Sandbox() as sandbox:
            output = sandbox.python(code, timeout=60)
        print(json.dumps([len(output.stdout), output.stdout == bytes(range(256)) * (320 * 256), output.stderr == bytes(range(256))]))
    """)
    assert told == [20 << 20, True, True]


def test_reader_who_takes_nothing_holds_nobody_up_for_ever(machine, cloud):
    """The engine waits with what it cannot write, and still hears the broker's kill."""
    told = inside(machine, """
        with Sandbox() as sandbox:
            to, out, err = sandbox.go(["python3", "-c", "while True: print('x' * 1000)"])
            os.close(to)
            os.read(out, 1000)
            began = now()
            ended = sandbox.kill()
            print(json.dumps([ended["cleaned"], now() - began]))
    """)
    assert told[0] and told[1] < 5_000_000
    cloud.wait_until_empty()


def test_input_comes_from_a_file_or_as_it_is_written(machine, cloud):
    told = inside(machine, """
        with Sandbox() as sandbox:
            piped = sandbox.run(["cat"], stdin=b"piped " * 50_000).stdout == b"piped " * 50_000
            to, out, err = sandbox.go(["sh", "-c", "read a; echo got $a; read b; echo got $b; cat"])
            os.write(to, b"one\\n")
            first = os.read(out, 100)
            os.write(to, b"two\\n")
            second = os.read(out, 100)
            os.close(to)
            rest = read_all([out, err], 20)
            exited = sandbox.exited()
            nothing = sandbox.run(["wc", "-c"]).stdout
        print(json.dumps([piped, first.decode(), second.decode(), rest[0].decode(), exited[:2], nothing.decode().strip()]))
    """)
    assert told == [True, "got one\n", "got two\n", "", [1, 0], "0"]


def test_environment_and_arguments_arrive(machine, cloud):
    told = inside(machine, """
        with Sandbox() as sandbox:
            output = sandbox.run(["python3", "-c", "import os, sys; print([os.environ['NAME'], os.getcwd(), *sys.argv[1:]])",
                                  "a b", "$HOME", "'\\"", "é", ""],
                                 env=ENVIRONMENT | {"NAME": "va=lue \\n x"})
        print(json.dumps(output.stdout.decode()))
    """)
    assert told.strip() == str(["va=lue \n x", "/workspace", "a b", "$HOME", "'\"", "é", ""])


def test_what_the_program_left_running_does_not_hold_up_its_end(machine, cloud):
    told = inside(machine, """
        with Sandbox() as sandbox:
            output = sandbox.run(["sh", "-c", "setsid sleep 1000 & sleep 1000 & echo done"], timeout=20)
        print(json.dumps([output.exited[:2], output.stdout.decode()]))
    """)
    assert told == [[1, 0], "done\n"]


def test_prepare_tells_that_it_can_be_used_and_what_runs(machine, cloud):
    told = inside(machine, """
        with Sandbox():
            engine = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            engine.connect("/run/sbxctl/engine/e2b")
            engine.send(json.dumps({"type": "prepare", "version": VERSION}).encode())
            print(json.dumps([json.loads(engine.recv(65536)) for _ in range(2)]))
    """)
    assert [(message["type"], message.get("phase"), message.get("current"), message.get("total")) for message in told] == [
        ("progress", "running", 1, 8), ("prepared", None, None, None)]
