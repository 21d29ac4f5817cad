"""What all runs share in the way out, and no run may take from the others: memory and processes.

sbxctl-egress is driven directly, as in test_egress.py.
"""

import json
import textwrap

# A server on 127.0.0.1, port 8098, that sends without end, or reads a lot and then no more; and what
# the kernel keeps for all sockets of the way out, at both of its ends.
PRELUDE = """
from egress_client import *
import re, socketserver, sys

LOT, CHUNK = 32 << 20, bytes(1 << 20)
over = threading.Event()

class Endless(socketserver.BaseRequestHandler):
    def handle(self):
        with contextlib.suppress(OSError):
            if self.request.recv(1) == b"d":
                while True:
                    self.request.sendall(CHUNK)
            read_exactly(self.request, LOT)
        over.wait()

class Server(socketserver.ThreadingTCPServer):
    daemon_threads = allow_reuse_address = True

def kept(*filter_):
    shown = subprocess.run(["ss", "-tmnH", "state", "established", *filter_], capture_output=True, text=True).stdout
    return sum(int(read) + int(written) for read, written in re.findall(r"skmem:\\(r(\\d+),.*?,w(\\d+),", shown))
"""

# As this user, tries to open each of the files; prints those that it can.
OPEN = """
import os, sys
uid = int(sys.argv[1])
os.setgroups([])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
for path in sys.argv[2:]:
    try:
        os.close(os.open(path, os.O_RDONLY))
        print(path)
    except PermissionError:
        pass
"""


def run(machine, code, *arguments, timeout=120):
    result = machine.run(machine.python(PRELUDE + textwrap.dedent(code), *arguments), timeout=timeout)
    assert result.status == 0, result.errors
    return json.loads(result.stdout)


def test_connections_that_nobody_reads_keep_little_memory(machine):
    """Of servers and programs that are fast first, so that the kernel makes room for them, and then stop."""
    count = 16
    numbers = run(
        machine,
        f"""
        def down():
            sock = e.connect("good.example:8098")[1]
            sock.sendall(b"d")
            read_exactly(sock, LOT)
            return sock

        def up():
            sock = e.connect("good.example:8098")[1]
            sock.sendall(b"u" + bytes(LOT))
            sock.settimeout(0.2)
            with contextlib.suppress(TimeoutError):
                while True:
                    sock.sendall(CHUNK)
            return sock

        numbers = []
        with names(**{{"good.example": "127.0.0.1"}}), Server(("127.0.0.1", 8098), Endless) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            for kind in down, up:
                with Egress(ports=[8098], allowedAddresses=["127.0.0.1"]) as e:
                    large = [e.connect("good.example:8098") for _ in range(4)]
                    links = [kind() for _ in range({count})]
                    numbers.append(kept("dport", "=", ":8098")
                                   + e.namespace.call(lambda: kept("sport", "=", ":3128")))
            over.set()
            server.shutdown()
        print(json.dumps(numbers))
        """,
    )
    assert all(0 < number < count << 20 for number in numbers), numbers


def test_nothing_stays_in_the_kernel_after_a_run(machine):
    """Of servers that end their side and never read, and of programs that send and hang up."""
    count = 20
    ended, left = run(
        machine,
        f"""
        class Deaf(socketserver.BaseRequestHandler):
            def handle(self):
                self.request.shutdown(socket.SHUT_WR)
                over.wait()

        def sockets():
            return subprocess.run(["ss", "-tnH", "dport", "=", ":8098"], capture_output=True, text=True).stdout

        def send():
            sock = e.connect("good.example:8098")[1]
            sock.sendall(bytes(100_000))
            sock.shutdown(socket.SHUT_WR)
            return sock

        with names(**{{"good.example": "127.0.0.1"}}), Server(("127.0.0.1", 8098), Deaf, False) as server:
            server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            server.server_bind()
            server.server_activate()
            threading.Thread(target=server.serve_forever, daemon=True).start()
            with Egress(ports=[8098], allowedAddresses=["127.0.0.1"], idleUSec=1_000_000) as e:
                # One that nobody confirms takes its place until it is ended for that.
                send()
                ended = e.record()
            with Egress(ports=[8098], allowedAddresses=["127.0.0.1"]) as e:
                links = [send() for _ in range({count})]
                assert [link.recv(1) for link in links] == [b""] * {count}
                assert e.finish()["connections"] == {count}
            left = sockets()
            over.set()
            server.shutdown()
        print(json.dumps([ended, left]))
        """,
    )
    assert ended["rule"] == "IdleTimeout=1s" and ended["bytesSent"] == 100_000
    assert left == ""


def test_processes_of_runs_cannot_get_at_each_other(machine):
    """They are one user; as that user, even without the filter of the service, none can be looked into."""
    uid, opened = run(
        machine,
        """
        with Egress() as e:
            directory = f"/proc/{e.pid()}/"
            uid = re.search(r"Uid:\\s+(\\d+)", open(directory + "status").read())[1]
            files = [directory + name for name in ("status", "mem", "maps", "environ")]
            shown = subprocess.run([sys.executable, "-c", sys.argv[1], uid, *files], capture_output=True, text=True)
            print(json.dumps([int(uid), [path.removeprefix(directory) for path in shown.stdout.split()]]))
        """,
        OPEN,
    )
    assert uid > 0 and opened == ["status"]
    allowed = set(machine.run(["systemctl", "show", "-P", "SystemCallFilter", "sbxctl-egress.service"]).text.split())
    assert "sendto" in allowed
    assert not {"kill", "tgkill", "pidfd_send_signal", "ptrace", "process_vm_writev", "pidfd_getfd", "prlimit64"} & allowed
