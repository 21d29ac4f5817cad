"""What a sandbox of a local engine is, what it is not, and how it ends.

The engine and the launcher are driven directly (engine_client.py), in the place of the broker. Each
test runs a piece of Python as the user sbxctl in the machine, which answers with JSON.
"""

import errno
import json
import textwrap

import pytest
from engines import engine_of

CONNECT = "import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect('/run/sbxctl/engine/{}')"


class Engine:
    def __init__(self, machine):
        self.machine = machine
        self.kind = engine_of(machine)
        self.name = self.kind.name

    def broker(self, code, timeout=60):
        """Runs code as the broker would; what it calls `answer` with comes back."""
        result = self.machine.run(self._command(code), timeout=timeout)
        assert result.status == 0, result.errors
        return json.loads(result.stdout) if result.stdout else None

    def broker_in_background(self, code):
        return self.machine.popen(self._command(code))

    def _command(self, code):
        prelude = "from engine_client import *\nanswer = lambda value: print(json.dumps(value), flush=True)\n"
        become = ["setpriv", "--reuid=sbxctl", "--regid=sbxctl", "--clear-groups"]
        named = ["env", f"ENGINE={self.name}", f"IMAGE={self.kind.image}"]
        return [*become, *named, *self.machine.python(prelude + textwrap.dedent(code))]

    def inside(self, code, start=""):
        """Runs Python code in a sandbox and returns what it prints, as JSON. `start` are arguments for
        Sandbox()."""
        return self.broker(
            f"""
            with Sandbox({start}) as s:
                output = s.python({textwrap.dedent(code)!r})
                assert output.exited[:2] == (CODE, 0), output
                answer(json.loads(output.stdout))
            """
        )

    def units(self):
        return self.kind.sandboxes()

    def processes(self, command):
        return self.machine.run(["pgrep", "-f", "-x", command]).text.split()

    def wait_until_empty(self, timeout=2):
        self.machine.wait_for(lambda: not self.units(), timeout, "the sandbox's unit to go")

    def main_pid(self):
        return self.kind.main_pid()


@pytest.fixture(scope="module")
def engine(machine):
    engine = Engine(machine)
    engine.wait_until_empty(timeout=10)
    return engine


# ---- who the program is


def test_program_has_no_privileges(engine):
    status = engine.inside(
        """
        import json
        lines = [line.split(":\\t") for line in open("/proc/self/status").read().splitlines()]
        print(json.dumps({key: value.split() for key, value in lines}))
        """
    )
    uids = {int(uid) for uid in status["Uid"]}
    assert len(uids) == 1 and engine.kind.is_sandbox_user(uids.pop())
    assert status["Groups"] == status["Gid"][:1]
    for which in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[which][0], 16) == 0, which
    assert status["NoNewPrivs"] == ["1"]
    assert status["Seccomp"] == ["2"]


def test_user_and_host_have_names(engine):
    assert engine.inside(
        """
        import grp, json, os, pwd, socket
        user = pwd.getpwuid(os.getuid())
        address = socket.gethostbyname(socket.gethostname())
        print(json.dumps([user.pw_name, user.pw_dir, grp.getgrgid(os.getgid()).gr_name, address]))
        """
    ) == ["sandbox", "/workspace", "sandbox", "127.0.0.1"]


def test_program_gets_three_descriptors_and_its_environment_only(engine):
    fds, environment = engine.inside(
        """
        import json, os
        fds = [fd for fd in range(1024) if os.path.exists(f"/proc/self/fd/{fd}")]
        print(json.dumps([fds, dict(os.environ)]))
        """
    )
    assert fds == [0, 1, 2]
    assert environment == {"PATH": "/usr/bin:/bin", "HOME": "/workspace", "LANG": "C.UTF-8"}


def test_signals_have_their_defaults(engine):
    blocked, ignored = engine.inside(
        """
        import json
        status = dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines())
        print(json.dumps([int(status["SigBlk"], 16), int(status["SigIgn"], 16)]))
        """
    )
    assert blocked == 0
    assert ignored == 1 << 12 | 1 << 24  # SIGPIPE and SIGXFSZ, by Python itself


# ---- what the program reaches


def test_only_scratch_and_workspace_can_be_written(engine):
    written = engine.inside(
        """
        import json, os, stat
        written = []
        for folder, folders, names in os.walk("/"):
            if folder == "/":
                folders.remove("proc")
            try:
                os.close(os.open(f"{folder}/written-by-test", os.O_CREAT | os.O_WRONLY))
                written.append(folder)
            except OSError:
                pass
            for name in names:
                path = f"{folder}/{name}"
                if os.access(path, os.W_OK) and stat.S_ISREG(os.lstat(path).st_mode):
                    written.append(path)
        print(json.dumps(sorted(path for path in written if "written-by-test" not in path)))
        """
    )
    # Of a unit it is a link to /tmp.
    var_tmp = ["/var/tmp"] if engine.name == "docker" else []
    assert written == ["/dev/shm", "/tmp", *var_tmp, "/workspace"]


def test_kernel_settings_cannot_be_written(engine):
    assert engine.inside(
        """
        import json, os
        print(json.dumps([path for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches",
            "/proc/sysrq-trigger", "/proc/sys/user/max_user_namespaces", "/sys/kernel/mm/ksm/run")
            if os.access(path, os.W_OK)]))
        """
    ) == []


def test_every_storage_has_a_limit(engine):
    full = engine.inside(
        """
        import errno, json, os
        full = {}
        for folder in ("/workspace", "/tmp", "/var/tmp", "/dev/shm"):
            with open(f"{folder}/big", "wb", buffering=0) as f:
                try:
                    while True:
                        f.write(bytes(1 << 20))
                except OSError as e:
                    full[folder] = [errno.errorcode[e.errno], f.tell() >> 20]
            os.unlink(f"{folder}/big")
        print(json.dumps(full))
        """,
        start="workspaceBytes=32 << 20, scratchBytes=8 << 20",
    )
    assert full == {
        "/workspace": ["ENOSPC", 32],
        "/tmp": ["ENOSPC", 8],
        "/var/tmp": ["ENOSPC", 8],
        "/dev/shm": ["ENOSPC", 8],
    }


def test_number_of_files_has_a_limit(engine):
    made = engine.inside(
        """
        import json
        n = 0
        try:
            while True:
                open(f"/workspace/{n}", "w").close()
                n += 1
        except OSError:
            print(json.dumps(n))
        """,
        start="workspaceInodes=100",
    )
    assert 90 <= made <= 100


def test_no_foreign_process_is_visible(engine):
    seen, own = engine.inside(
        """
        import json, os
        print(json.dumps([[int(n) for n in os.listdir("/proc") if n.isdigit()], os.getpid()]))
        """
    )
    assert set(seen) <= {1, own}


def test_no_socket_of_the_machine_is_there(engine):
    found = engine.inside(
        """
        import json, os, socket, stat
        found = []
        for folder, folders, names in os.walk("/"):
            if folder == "/":
                folders.remove("proc")
            for name in names:
                if stat.S_ISSOCK(os.lstat(f"{folder}/{name}").st_mode):
                    found.append(f"{folder}/{name}")
        found += [line for line in open("/proc/net/unix").read().splitlines()[1:] if "@" in line]
        for path in ("/run/dbus/system_bus_socket", "/run/systemd/private", "/run/systemd/journal/socket",
                     "/dev/log", "/run/docker.sock", "/var/run/docker.sock", "/run/sbxctl/io.sbxctl.Sandbox"):
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                try:
                    socket.socket(socket.AF_UNIX, kind).connect(path)
                    found.append(path)
                except OSError:
                    pass
        print(json.dumps(found))
        """
    )
    # A container keeps the launcher's own, at which nobody listens any more.
    assert found == (["//.sbxctl-control"] if engine.name == "docker" else [])


def test_network_is_loopback_and_up(engine):
    names, echoed, outside = engine.inside(
        """
        import json, socket
        server = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(server.getsockname())
        client.sendall(b"hello")
        echoed = server.accept()[0].recv(5).decode()
        try:
            outside = repr(socket.create_connection(("192.0.2.1", 80), timeout=2))
        except OSError as e:
            outside = e.strerror
        print(json.dumps([[name for _, name in socket.if_nameindex()], echoed, outside]))
        """
    )
    assert names == ["lo"]
    assert echoed == "hello"
    assert outside == "Network is unreachable"


def test_the_launcher_listens_where_programs_find_it_and_nobody_else_does(engine):
    heard, said, elsewhere = engine.broker(
        """
        PROGRAM = (
            'import socket\\n'
            'client = socket.create_connection(("127.0.0.1", 3128))\\n'
            'client.sendall(b"hello")\\n'
            'print(client.recv(5).decode())\\n'
            'second = socket.socket()\\n'
            'second.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\\n'
            'second.bind(("127.0.0.1", 3128))\\n'
        )
        heard = []

        def serve(listener):
            client, _ = listener.accept()
            heard.append(client.recv(5).decode())
            client.sendall(b"well")
            client.close()

        with Sandbox() as sandbox:
            listener = sandbox.listen()
            elsewhere = socket.socket().connect_ex(("127.0.0.1", 3128))
            server = threading.Thread(target=serve, args=[listener])
            server.start()
            output = sandbox.python(PROGRAM)
            server.join()
            answer([heard, (output.stdout + output.stderr).decode().splitlines(), elsewhere])
        """
    )
    assert heard == ["hello"]
    assert said[0] == "well"
    assert said[-1].endswith("Address already in use")
    assert elsewhere == errno.ECONNREFUSED


def test_files_of_the_host_are_not_there(engine):
    found = engine.inside(
        """
        import json, os
        print(json.dumps([path for path in ("/home", "/etc/shadow", "/etc/ssl/private", "/etc/ssh", "/root/.bashrc",
            "/var/lib", "/var/log", "/boot", "/etc/sbxctl", "/etc/hostname", "/etc/machine-id") if os.path.exists(path)]))
        """
    )
    # Docker makes one for the container, which says "sandbox".
    assert found == (["/etc/hostname"] if engine.name == "docker" else [])


def test_control_groups_are_hidden(engine):
    assert engine.inside(
        """
        import json, os
        try:
            print(json.dumps(os.listdir("/sys/fs/cgroup")))
        except PermissionError:
            print(json.dumps("hidden"))
        """
    ) in ("hidden", [])


def test_terminals_of_the_machine_are_out_of_reach(engine):
    assert engine.inside(
        """
        import json, os
        try:
            print(json.dumps(os.openpty()))
        except OSError:
            print(json.dumps("none"))
        """
    ) == "none"


ORDINARY = {
    "processes": "import multiprocessing as m; p = m.Pool(2); assert p.map(abs, [-1, -2]) == [1, 2]; m.Queue()",
    "threads": "import concurrent.futures as f; assert list(f.ThreadPoolExecutor(4).map(abs, [-1])) == [1]",
    "asyncio": "import asyncio; assert asyncio.run(asyncio.create_subprocess_exec('true')).pid",
    "sqlite": "import sqlite3; c = sqlite3.connect('x.db'); c.execute('create table t(a)'); c.commit()",
    "shared memory": "from multiprocessing import shared_memory as s; s.SharedMemory(create=True, size=9).unlink()",
    "plot": "import matplotlib; matplotlib.use('Agg'); import matplotlib.pyplot as p; p.plot([1]); p.savefig('x.png')",
    "tables": "import pandas; pandas.DataFrame({'a': [1]}).to_csv('x.csv')",
    "names": "import ssl; assert ssl.create_default_context().get_ca_certs()",
    "zone": "import time; assert time.tzname[0] == 'UTC'",
}
PROGRAMS = {
    "bash": ["bash", "-c", "set -e -o pipefail; cat <(seq 3) | sort -r | head -n 1; x=$(mktemp); ps; free; df"],
    "node": ["node", "-e", "require('fs').writeFileSync('x', require('os').cpus()[0].model + require('os').userInfo().username)"],
    "perl": ["perl", "-MSocket", "-e", "system('true') and exit 1; print scalar getpwuid($<)"],
    "ruby": ["ruby", "-retc", "-e", "exit 1 unless `echo a` == \"a\\n\" && Etc.getpwuid.name == 'sandbox'"],
    "awk": ["awk", "BEGIN { print 1 }"],
}


def test_ordinary_programs_work(engine):
    programs = PROGRAMS | {name: ["python3", "-c", code] for name, code in ORDINARY.items()}
    failed = engine.broker(
        f"""
        failed = {{}}
        with Sandbox(memoryBytes=1 << 30) as s:
            for name, argv in {programs!r}.items():
                output = s.run(argv, env=ENVIRONMENT | {{"MPLCONFIGDIR": "/tmp"}})
                if output.exited[:2] != (1, 0):
                    failed[name] = [output.exited, output.stderr.decode()]
        answer(failed)
        """
    )
    assert failed == {}


# ---- two sandboxes


LOOK_AROUND = """
import glob, json, os, socket
try:
    reached = repr(socket.create_connection(("127.0.0.1", 8000)))
except ConnectionRefusedError:
    reached = None
files = [path for folder in ("/tmp", "/dev/shm", "/workspace") for path in glob.glob(folder + "/*")]
others = [n for n in os.listdir("/proc") if n.isdigit() and int(n) not in (1, os.getpid())]
print(json.dumps([files, reached, others, os.getuid()]))
"""
LISTEN = """
import socket, time
server = socket.create_server(("127.0.0.1", 8000))
print(flush=True)
time.sleep(60)
"""


def test_sandboxes_do_not_meet(engine):
    (files, reached, others, uid), first_uid = engine.broker(
        f"""
        with Sandbox() as a, Sandbox() as b:
            first = a.run(["sh", "-c", "touch /tmp/mine /dev/shm/mine /workspace/mine; id -u"])
            to, out, err = a.go(["python3", "-c", {LISTEN!r}])
            os.read(out, 1)
            answer([json.loads(b.python({LOOK_AROUND!r}).stdout), int(first.stdout)])
        """
    )
    assert (files, reached, others) == ([], None, [])
    # Containers share the user, and nothing else.
    assert (uid == first_uid) == (engine.name == "docker")


# ---- limits


def test_memory_limit_kills_the_program_and_is_told(engine):
    exited, ended = engine.broker(
        """
        with Sandbox(memoryBytes=64 << 20) as s:
            output = s.python("x = bytearray(1 << 30)")
            answer([output.exited, s.kill()])
        """
    )
    assert exited[:2] == [2, 9]
    assert ended["why"] == "oom" and ended["oomKills"] >= 1
    assert 60 << 20 <= ended["memoryPeakBytes"] <= 64 << 20
    assert ended["cleaned"] is True


def test_files_count_as_memory(engine):
    exited, ended = engine.broker(
        """
        with Sandbox(memoryBytes=64 << 20, workspaceBytes=256 << 20) as s:
            output = s.run(["dd", "if=/dev/zero", "of=/workspace/big", "bs=1M", "count=200"])
            answer([output.exited, s.kill()])
        """
    )
    assert exited[:2] == [2, 9]
    assert ended["oomKills"] >= 1


def test_tasks_are_limited(engine):
    assert engine.inside(
        """
        import json, threading, time
        n = 0
        try:
            while n < 1000:
                threading.Thread(target=time.sleep, args=(1,), daemon=True).start()
                n += 1
        except RuntimeError:
            print(json.dumps(n < 32), flush=True)
        """,
        start="tasks=32",
    )


def test_cpu_count_follows_the_quota(engine):
    assert engine.inside("import os; print(os.cpu_count())", start="cpuPercent=50") == 1
    assert engine.inside("import os; print(os.cpu_count())", start="cpuPercent=100") == 1


def test_cpu_time_is_limited_by_the_quota(engine):
    exited, usec = engine.broker(
        """
        with Sandbox(cpuPercent=25) as s:
            output = s.python("import time; end = time.monotonic() + 2\\nwhile time.monotonic() < end: pass")
            answer([output.exited, output.usec])
        """
    )
    assert exited[2] <= usec * 0.4


def test_lifetime_ends_the_sandbox_without_being_asked(engine):
    ended, usec = engine.broker(
        """
        with Sandbox(lifetimeUSec=1_000_000) as s:
            began = now()
            s.go(["sleep", "60"])
            answer([s.ended(), now() - began])
        """
    )
    assert ended["why"] == "timeout"
    assert 900_000 <= usec <= 3_000_000
    engine.wait_until_empty()


# ---- the end


def test_how_it_ended_is_told_before_the_sandbox_is_removed(engine):
    ended = engine.broker(
        """
        with Sandbox() as s:
            s.run(["true"])
            answer(s.kill())
        """
    )
    assert ended["why"] == "exit" and ended["stands"] is True and ended["cleaned"] is True


def test_leftovers_are_ended_and_counted(engine):
    exited, ended = engine.broker(
        """
        with Sandbox() as s:
            output = s.run(["sh", "-c", "for i in 1 2 3; do setsid sleep 6010 <&- >&- 2>&- & done; exit 7"])
            answer([output.exited, s.kill()])
        """
    )
    assert exited[:2] == [1, 7]
    # With a PID namespace (systemd 257) the launcher ends them, without one the engine does.
    assert sorted([exited[3], ended["leftovers"]]) == [0, 3]
    assert_all_gone(engine, 6010)


def test_kill_ends_everything_at_once(engine):
    ended, usec = engine.broker(
        """
        with Sandbox() as s:
            to, out, err = s.go(["sh", "-c", "trap '' TERM; sleep 601 & echo; wait"])
            os.read(out, 1)
            began = now()
            answer([s.kill(), now() - began])
        """
    )
    assert ended["why"] == "killed" and ended["leftovers"] == 2 and ended["cleaned"] is True
    assert "stands" not in ended, "its end was told while something lived"
    assert usec < 1_000_000
    engine.machine.wait_for(lambda: not engine.processes("sleep 601"), 2, "the processes to die")
    engine.wait_until_empty()


def test_grace_period_lets_the_program_tidy_up(engine):
    exited, out, ended = engine.broker(
        """
        with Sandbox() as s:
            to, out, err = s.go(["python3", "-c", '''if 1:
                import signal, sys, time
                signal.signal(signal.SIGTERM, lambda *_: sys.exit(print("tidy") or 3))
                print("up", flush=True)
                time.sleep(60)'''])
            os.read(out, 3)
            s.tell({"type": "kill", "version": VERSION, "graceUSec": 20_000_000})
            exited = s.exited()
            answer([exited, os.read(out, 100).decode(), s.kill()])
        """
    )
    assert exited[:2] == [1, 3]
    assert out == "tidy\n"
    assert ended["why"] == "exit"


def test_grace_period_comes_to_an_end(engine):
    ended, usec = engine.broker(
        """
        with Sandbox() as s:
            to, out, err = s.go(["sh", "-c", "trap '' TERM; echo; while :; do sleep 1; done"])
            os.read(out, 1)
            began = now()
            answer([s.kill(500_000), now() - began])
        """
    )
    assert ended["why"] == "killed"
    assert 500_000 <= usec <= 2_000_000


def test_workspace_outlives_the_sandbox(engine):
    names, content = engine.broker(
        """
        s = Sandbox()
        s.run(["sh", "-c", "mkdir sub; echo result >sub/file"])
        s.kill()
        workspace, s.workspace = s.workspace, -1
        s.close()
        time.sleep(0.5)
        fd = os.open("sub/file", os.O_RDONLY, dir_fd=workspace)
        answer([os.listdir(workspace), os.read(fd, 100).decode()])
        """
    )
    assert names == ["sub"] and content == "result\n"


def start_and_say(engine, marker):
    """A sandbox with a stubborn program, held by a broker that goes on."""
    broker = engine.broker_in_background(
        f"""
        s = Sandbox()
        to, out, err = s.go(["sh", "-c", "trap '' TERM; setsid sleep {marker} & echo; wait; sleep {marker}"])
        os.read(out, 1)
        answer(s.id)
        time.sleep(60)
        """
    )
    unit = json.loads(broker.popen.stdout.readline())
    assert unit in engine.units()
    return broker


def assert_all_gone(engine, marker):
    engine.machine.wait_for(
        lambda: not engine.processes(f"sleep {marker}") and not engine.units(), 2, "everything to go"
    )


def test_killed_broker_leaves_nothing(engine):
    broker = start_and_say(engine, 6011)
    broker.signal("KILL")
    assert_all_gone(engine, 6011)
    broker.finish()


def test_killed_connection_of_the_engine_leaves_nothing(engine):
    broker = start_and_say(engine, 6012)
    children = engine.machine.run(["pgrep", "-P", str(engine.main_pid())]).text.split()
    assert len(children) == 1
    engine.machine.run(["kill", "-KILL", *children], check=True)
    assert_all_gone(engine, 6012)
    broker.signal("KILL")
    broker.finish()


def test_killed_engine_leaves_nothing_and_comes_back(engine):
    broker = start_and_say(engine, 6013)
    engine.machine.run(["kill", "-KILL", str(engine.main_pid())], check=True)
    assert_all_gone(engine, 6013)
    broker.signal("KILL")
    broker.finish()
    assert engine.inside("print(1)") == 1


def test_killed_launcher_ends_the_run(engine):
    ended = engine.broker_in_background(
        """
        s = Sandbox()
        s.go(["sleep", "6014"])
        answer(s.id)
        try:
            s.exited()
        except EOFError:
            answer(s.kill())
        """
    )
    unit = json.loads(ended.popen.stdout.readline())
    engine.kind.kill_launcher(unit)
    assert json.loads(ended.popen.stdout.readline())["cleaned"] is True
    ended.finish()
    assert_all_gone(engine, 6014)


def test_no_file_stays_on_the_machine(engine):
    engine.inside("print(1)")
    engine.wait_until_empty()
    left = engine.machine.run(["sh", "-c", "ls /run/sbxctl-engine-$0; ls -d /tmp/*sbxctl-run* /var/tmp/*sbxctl-run*", engine.name])
    assert [name for name in left.text.split() if not name.startswith("etc-")] == []


def test_nothing_is_made_in_the_skeleton(engine):
    left = engine.machine.run(
        ["find", "/usr/lib/sbxctl/root", "-newer", "/usr/lib/sbxctl/sbxctl-engine-systemd", "!", "-path", "*/root"]
    )
    before = engine.machine.run(["find", "/usr/lib/sbxctl/root"], check=True).text
    engine.inside("print(1)")
    assert engine.machine.run(["find", "/usr/lib/sbxctl/root"], check=True).text == before, left


# ---- who may ask, and for what


def test_other_users_cannot_connect(engine):
    result = engine.machine.run(["python3", "-c", CONNECT.format(engine.name)], user="alice")
    assert result.status != 0 and "PermissionError" in result.errors


def test_root_is_refused_too(engine):
    result = engine.machine.run(["python3", "-c", CONNECT.format(engine.name) + "; print(len(s.recv(10)))"])
    assert result.text == "0\n" or "ConnectionResetError" in result.errors, result


UNAVAILABLE = {
    "systemd": [("image='debian'", "has no images"), ("network=True", "access to the network")],
    "docker": [("image='../etc'", "not the name of an image"), ("network=True", "access to the network")],
}


@pytest.mark.parametrize("which", [0, 1], ids=["image", "network"])
def test_what_cannot_be_had_is_said(engine, which):
    options, words = UNAVAILABLE[engine.name][which]
    message = engine.broker(
        f"""
        try:
            Sandbox({options})
        except EngineError as e:
            answer(e.args[0])
        """
    )
    assert message["type"] == "error" and words in message["message"]


def test_a_run_has_one_sandbox(engine):
    message = engine.broker(
        """
        with Sandbox(runId="0123456789abcdef"):
            try:
                Sandbox(runId="0123456789abcdef")
            except EngineError as e:
                answer(e.args[0]["message"])
        """
    )
    assert "already" in message


@pytest.mark.parametrize(
    "packet",
    [
        "{}",
        "nonsense",
        '{"type":"start","version":1}',
        '{"type":"start","version":99,"runId":"aa"}',
        '{"type":"kill","version":1}',
    ],
)
def test_bad_packet_ends_the_connection(engine, packet):
    assert engine.broker(
        f"""
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.connect(f"/run/sbxctl/engine/{{ENGINE}}")
        s.send({packet.encode()!r})
        answer(s.recv(100).decode())
        """
    ) == ""


# ---- the launcher


def test_inputs_are_made_by_the_sandbox_user(engine):
    done, seen = engine.broker(
        """
        with Sandbox() as s:
            done = s.put("data/deep/in.csv", b"a,b\\n", mode=0o640)
            output = s.run(["sh", "-c", "stat -c '%a %U %h' data/deep/in.csv data; cat data/deep/in.csv"])
            st = os.stat("data/deep/in.csv", dir_fd=s.workspace)
            same = [st.st_ino, st.st_size, st.st_ctime_ns, st.st_mtime_ns] == [
                done.inode, done.size, done.ctime_sec * 10**9 + done.ctime_nsec, done.mtime_sec * 10**9 + done.mtime_nsec]
            past = st.st_mtime_ns < st.st_ctime_ns - 10**9
            answer([[done.error, same, past], output.stdout.decode().splitlines()])
        """
    )
    assert done == [0, True, True]
    assert seen == ["640 sandbox 1", "755 sandbox 3", "a,b"]


def test_go_may_come_again(engine):
    assert engine.broker(
        """
        with Sandbox() as s:
            s.run(["sh", "-c", "echo kept >state"])
            s.put("later", b"!")
            answer([s.run(["cat", "state", "later"], stdin=b"").stdout.decode(), s.run(["cat"], stdin=b"x" * 100000).stdout.decode() == "x" * 100000])
        """
    ) == ["kept\n!", True]


def test_program_that_cannot_start_is_told(engine):
    results = engine.broker(
        """
        with Sandbox() as s:
            answer([s.run(["no-such-program"]).exited, s.run(["/etc/hosts"]).exited,
                    s.run(["true"], directory="/nowhere").exited, s.run(["true"]).exited])
        """
    )
    assert [r[:2] for r in results] == [[3, 2], [3, 13], [3, 2], [1, 0]]


def test_malformed_packet_to_the_launcher_ends_the_sandbox(engine):
    assert engine.broker(
        """
        with Sandbox() as s:
            s.sock.send(b"nonsense")
            try:
                s.exited()
            except EOFError:
                answer("gone")
        """
    ) == "gone"
    engine.wait_until_empty()


# ---- the service


@pytest.mark.long
def test_idle_engine_exits_and_is_started_again(engine):
    engine.inside("print(1)")
    engine.machine.wait_for(lambda: engine.main_pid() == 0, 40, "the engine to exit")
    assert engine.inside("print(1)") == 1


def test_many_sandboxes_at_once(engine):
    assert engine.broker(
        """
        import concurrent.futures
        def one(n):
            with Sandbox(memoryBytes=64 << 20) as s:
                output = s.run(["echo", str(n)])
                s.kill()
                return int(output.stdout)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answer(list(pool.map(one, range(24))))
        """
    ) == list(range(24))
    engine.wait_until_empty(timeout=5)
