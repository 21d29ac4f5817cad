"""What the way out lets through, what it refuses, and what it tells of both.

sbxctl-egress is driven directly (egress_client.py), in the place of the broker and of a program in a
sandbox. Each test runs a piece of Python as root in the machine, which answers with JSON.
"""

import json
import textwrap

import pytest

LOCAL = 'allowedAddresses=["127.0.0.1"]'


class Way:
    def __init__(self, machine):
        self.machine = machine

    def run(self, code, timeout=60):
        """Runs code in the machine; what it calls `answer` with comes back."""
        prelude = "from egress_client import *\nanswer = lambda value: print(json.dumps(value), flush=True)\n"
        result = self.machine.run(self.machine.python(prelude + textwrap.dedent(code)), timeout=timeout)
        assert result.status == 0, result.errors
        return json.loads(result.stdout) if result.stdout else None

    def out(self, code, start=LOCAL, timeout=60):
        """The same with a web server on 127.0.0.1, `web`, that good.example is the name of, and the way
        out of a run, `e`, with the arguments `start` to Egress()."""
        return self.run(
            'with names(**{"good.example": "127.0.0.1", "bad.example": "127.0.0.1", "other.example": "127.0.0.2"}), '
            f"web_server() as web, Egress(**(dict(ports=[web.port]) | dict({start}))) as e:\n"
            + textwrap.indent(textwrap.dedent(code), "    "),
            timeout,
        )


@pytest.fixture(scope="module")
def way(machine):
    return Way(machine)


# ---- what is let through


def test_connect_makes_a_tunnel(way):
    line, body, record = way.out(
        """
        line, sock = e.connect(f"good.example:{web.port}")
        sock.sendall(b"GET /x HTTP/1.0\\r\\n\\r\\n")
        body = read_all(sock).partition(b"\\r\\n\\r\\n")[2]
        sock.close()
        answer([line, json.loads(body), e.record()])
        """
    )
    assert line == "HTTP/1.1 200 Connection established"
    assert body["path"] == "/x" and body["peer"] == "127.0.0.1"
    assert record["name"] == "good.example" and record["address"] == "127.0.0.1"
    assert record["protocol"] == "connect" and record["verdict"] == "allowed"
    assert record["bytesSent"] == len("GET /x HTTP/1.0\r\n\r\n") and record["bytesReceived"] > 100
    assert 0 < record["durationUSec"] < 60_000_000


def test_plain_http_is_forwarded_in_the_next_hops_form(way):
    line, seen, record = way.out(
        """
        fields = "Proxy-Authorization: x\\r\\nConnection: X-Hop\\r\\nX-Hop: 1\\r\\nX-End: 2\\r\\n"
        line, head, body = e.get(f"http://good.example:{web.port}/a?b", fields)
        answer([line, json.loads(body), e.record()])
        """
    )
    assert line == "HTTP/1.1 200 OK"
    fields = dict(seen["fields"])
    assert seen["path"] == "/a?b" and fields["Host"].startswith("good.example:")
    assert fields["X-End"] == "2" and fields["Connection"] == "close"
    assert not {"X-Hop", "Proxy-Authorization"} & set(fields)
    assert record["protocol"] == "http" and record["verdict"] == "allowed"


@pytest.mark.parametrize("size", [3, 100_000])
def test_a_body_is_forwarded_and_nothing_behind_it(way, size):
    seen, sent = way.out(
        f"""
        url, fields = f"http://good.example:{{web.port}}/", "Content-Length: {size}\\r\\n"
        for behind in (b"", b"GET http://bad.example/ HTTP/1.1\\r\\n\\r\\n"):
            e.get(url, fields, "POST", b"x" * {size} + behind)
        answer([[len(s["body"]) for s in web.seen], [e.record()["bytesSent"] for _ in range(2)]])
        """
    )
    assert seen == [size, size]
    assert sent[0] == sent[1] > size


def test_socks_resolves_names_on_this_side(way):
    code, body, record = way.out(
        """
        code, sock = e.socks("good.example", web.port)
        sock.sendall(b"GET /x HTTP/1.0\\r\\n\\r\\n")
        body = read_all(sock).partition(b"\\r\\n\\r\\n")[2]
        sock.close()
        answer([code, json.loads(body)["path"], e.record()])
        """
    )
    assert (code, body) == (0, "/x")
    assert record["protocol"] == "socks5" and record["name"] == "good.example"


def test_the_end_of_one_direction_is_passed_on(way):
    assert way.out(
        """
        echo = socket.create_server(("127.0.0.1", 0))
        def serve():
            sock, _ = echo.accept()
            sock.sendall(read_all(sock)[::-1])
            sock.close()
        threading.Thread(target=serve).start()
        with Egress(allowedAddresses=["127.0.0.1"], ports=[echo.getsockname()[1]]) as other:
            _, sock = other.connect(f"good.example:{echo.getsockname()[1]}")
            sock.sendall(b"abc" * 1000)
            sock.shutdown(socket.SHUT_WR)
            answer(read_all(sock) == b"cba" * 1000)
        """
    )


def test_a_hundred_megabytes_arrive_as_they_were_sent(way):
    assert way.out(
        """
        import hashlib, random
        data = random.Random(1).randbytes(1 << 20)
        source = socket.create_server(("127.0.0.1", 0))
        def serve():
            sock, _ = source.accept()
            for _ in range(100):
                sock.sendall(data)
            sock.close()
        threading.Thread(target=serve).start()
        port = source.getsockname()[1]
        with Egress(allowedAddresses=["127.0.0.1"], ports=[port]) as other:
            _, sock = other.connect(f"good.example:{port}")
            got, expected = hashlib.sha256(), hashlib.sha256(data * 100)
            while chunk := sock.recv(1 << 20):
                got.update(chunk)
            sock.close()
            answer(got.digest() == expected.digest() and other.record()["bytesReceived"] == 100 << 20)
        """
    )


# ---- what is refused


@pytest.mark.parametrize(
    "start, host, port, rule",
    [
        (f'{LOCAL}, deniedNames=["bad.example"]', "bad.example", None, "DeniedNames=bad.example"),
        (f'{LOCAL}, deniedNames=["*.example"]', "BAD.example.", None, "DeniedNames=*.example"),
        (f'{LOCAL}, allowedNames=["bad.example"]', "good.example", None, "AllowedNames="),
        (f'{LOCAL}, granted=["bad.example"]', "good.example", None, "--network=bad.example"),
        (f"{LOCAL}, ports=[80, 443]", "good.example", 8080, "AllowedPorts=80 443"),
        ('allowedAddresses=["127.0.0.1"]', "127.0.0.1", None, "AllowedNames= (addresses are allowed one by one)"),
        # Not 127.0.0.1: what shares that with localhost may have ::1, too.
        ("", "other.example", None, "AllowedAddresses= (127.0.0.2 is a loopback address)"),
        (f'{LOCAL}, deniedAddresses=["127.0.0.0/8"]', "other.example", None, "DeniedAddresses=127.0.0.0/8"),
        (f"{LOCAL}", "2130706433", None, "AllowedNames= (malformed name)"),
        (f"{LOCAL}", "0x7f.1", None, "AllowedNames= (malformed name)"),
        ('allowedNames=["169.254.169.254"]', "169.254.169.254", None,
         "AllowedAddresses= (169.254.169.254 is the address of a cloud's metadata)"),
        ('allowedNames=["::ffff:127.0.0.1"]', "[::ffff:127.0.0.1]", None,
         "AllowedAddresses= (::ffff:127.0.0.1 is a loopback address)"),
        ("", "localhost", None, "AllowedAddresses= (127.0.0.1 is a loopback address)"),
    ],
)
def test_a_refusal_names_its_rule_in_every_protocol(way, start, host, port, rule):
    connect, http, socks, records, finished = way.out(
        f"""
        port = {port} or web.port
        host = {host!r}
        line, sock = e.connect(f"{{host}}:{{port}}")
        sock.close()
        http = e.get(f"http://{{host}}:{{port}}/")
        code, sock = e.socks(host.strip("[]"), port)
        sock.close()
        records = [e.record() for _ in range(3)]
        assert not web.seen
        answer([line, http[0] + "|" + http[2].decode(), code, records, e.finish()])
        """,
        start,
    )
    assert connect == f"HTTP/1.1 403 Refused by {rule}"
    assert http.startswith(f"HTTP/1.1 403 Refused by {rule}|sbxctl: ") and "refused" in http
    assert socks == 2
    assert [record["verdict"] for record in records] == ["refused"] * 3
    assert {record["rule"] for record in records} == {rule}
    assert finished["refused"] == 3 and finished["hosts"] == []
    assert finished["refusedHosts"][0]["rule"] == rule


def test_the_machines_own_addresses_are_refused_unless_listed(way):
    address = way.machine.run(["hostname", "-i"], check=True).text.split()[-1]
    start = f'{LOCAL}, allowedNames=["{address}"], deniedAddresses=[]'
    assert way.out(f'answer(e.connect(f"{address}:{{web.port}}")[0])', start).startswith("HTTP/1.1 403 ")
    # One that is not special at all.
    way.machine.run(["ip", "address", "add", "8.8.4.4/32", "dev", "lo"], check=True)
    try:
        refused = way.out('answer(e.connect(f"8.8.4.4:{web.port}")[0])', 'allowedNames=["8.8.4.4"]')
        listed = way.out(
            """
            with web_server("8.8.4.4", web.port):
                answer(e.connect(f"8.8.4.4:{web.port}")[0])
            """,
            'allowedNames=["8.8.4.4"], allowedAddresses=["8.8.4.4"]',
        )
    finally:
        way.machine.run(["ip", "address", "del", "8.8.4.4/32", "dev", "lo"], check=True)
    assert refused == "HTTP/1.1 403 Refused by AllowedAddresses= (8.8.4.4 is this machine's own address)"
    assert listed == "HTTP/1.1 200 Connection established"


def test_what_goes_wrong_outside_is_told(way):
    closed, unknown, codes, verdicts = way.out(
        """
        free = socket.create_server(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        with Egress(allowedAddresses=["127.0.0.1"], ports=[port]) as other:
            closed, _ = other.connect(f"good.example:{port}")
            unknown, _ = other.connect(f"none.invalid:{port}")
            codes = [other.socks("good.example", port)[0], other.socks("none.invalid", port)[0]]
            other.finish()
            answer([closed, unknown, codes, [[r["verdict"], r["rule"]] for r in other.records]])
        """
    )
    assert closed == "HTTP/1.1 502 Bad Gateway"
    assert unknown.split()[1] in ("502", "504")
    assert codes == [5, 4]
    assert {verdict for verdict, _ in verdicts} == {"failed"}
    assert ["failed", "it refused the connection"] in verdicts


@pytest.mark.parametrize(
    "request_",
    [
        "GET / HTTP/1.1\r\nHost: good.example\r\n\r\n",
        "GET https://good.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n",
        "GET http://u@good.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n",
        "GET http://good.example/ HTTP/1.1\n\n",
        "GET http://good.example/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "POST http://good.example/ HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "CONNECT good.example HTTP/1.1\r\nHost: a\r\n\r\n",
        "\x16\x03\x01\x00\n",
        "A" * 17000,
    ],
)
def test_a_malformed_request_is_answered_and_closed(way, request_):
    response, record = way.out(f"answer([e.exchange({request_.encode()!r}).decode(), e.record()])")
    assert response.startswith("HTTP/1.1 400 Malformed request\r\n")
    assert record["verdict"] == "failed" and record["rule"] == "malformed request"


# ---- limits and ends


def test_one_connection_too_many_is_told_so(way):
    over, after = way.out(
        """
        held = [e.connect(f"good.example:{web.port}")[1] for _ in range(3)]
        over, sock = e.connect(f"good.example:{web.port}")
        sock.close()
        held.pop().close()
        e.record(), e.record()
        after, sock = e.connect(f"good.example:{web.port}")
        answer([over, after])
        """,
        f"{LOCAL}, connections=3",
    )
    assert over == "HTTP/1.1 503 Refused by Connections=3"
    assert after == "HTTP/1.1 200 Connection established"


def test_bytes_of_a_run_have_a_limit(way):
    got, record, after = way.out(
        """
        source = socket.create_server(("127.0.0.1", 0))
        def serve():
            sock, _ = source.accept()
            try:
                while True:
                    sock.sendall(bytes(1 << 16))
            except OSError:
                pass
        threading.Thread(target=serve).start()
        port = source.getsockname()[1]
        with Egress(allowedAddresses=["127.0.0.1"], ports=[port], bytes=1_000_000) as other:
            _, sock = other.connect(f"good.example:{port}")
            got = 0
            try:
                while chunk := sock.recv(1 << 16):
                    got += len(chunk)
            except ConnectionResetError:
                pass
            record = other.record()
            answer([got, record, other.connect(f"good.example:{port}")[0]])
        """
    )
    assert got <= 1_000_000
    assert record["bytesReceived"] + record["bytesSent"] == 1_000_000
    assert record["verdict"] == "allowed" and record["rule"] == "Bytes=1000000"
    assert after == "HTTP/1.1 403 Refused by Bytes=1000000"


def test_an_idle_connection_is_ended(way):
    ended, record = way.out(
        """
        _, sock = e.connect(f"good.example:{web.port}")
        try:
            ended = sock.recv(1) == b""
        except ConnectionResetError:
            ended = True
        answer([ended, e.record()])
        """,
        f"{LOCAL}, idleUSec=1_000_000",
    )
    assert ended and record["rule"] == "IdleTimeout=1s"
    assert record["durationUSec"] >= 1_000_000


def test_finished_sums_up_and_open_connections_end(way):
    finished, records, closed = way.out(
        """
        _, held = e.connect(f"good.example:{web.port}")
        for _ in range(2):
            e.get(f"http://good.example:{web.port}/")
        e.get("http://bad.example:1/")
        finished = e.finish()
        try:
            closed = held.recv(1) == b""
        except ConnectionResetError:
            closed = True
        answer([finished, e.records, closed])
        """
    )
    assert closed
    assert (finished["connections"], finished["refused"], finished["failed"]) == (4, 1, 0)
    assert finished["unrecorded"] == 0 and len(records) == 4
    (host,) = finished["hosts"]
    assert host["name"] == "good.example" and host["connections"] == 3
    assert host["bytesReceived"] == finished["bytesReceived"] == sum(r["bytesReceived"] for r in records)
    (refused,) = finished["refusedHosts"]
    assert refused["name"] == "bad.example" and refused["port"] == 1
    assert refused["rule"].startswith("AllowedPorts=") and not finished["moreHosts"]


def test_records_have_a_limit_and_the_count_none(way):
    finished, records = way.out(
        """
        for _ in range(250):
            e.exchange(b"GET http://bad.example:1/ HTTP/1.0\\r\\n\\r\\n")
        answer([e.finish(), len(e.records)])
        """
    )
    assert records == 200
    assert finished["connections"] == finished["refused"] == 250 and finished["unrecorded"] == 50


def test_a_broker_that_does_not_read_holds_nothing_up(way):
    assert way.out(
        """
        for _ in range(300):
            e.exchange(b"GET http://" + b"a" * 250 + b":1/ HTTP/1.0\\r\\n\\r\\n")
        line, sock = e.connect(f"good.example:{web.port}")
        answer(line)
        """
    ) == "HTTP/1.1 200 Connection established"


def test_everything_ends_when_the_broker_hangs_up(way):
    ended = way.out(
        """
        _, tunnel = e.connect(f"good.example:{web.port}")
        half = e.open()
        half.sendall(b"GET ")
        e.sock.close()
        def ended(sock):
            try:
                return sock.recv(1) == b""
            except ConnectionResetError:
                return True
        first = [ended(tunnel), ended(half)]
        # Both ended with the process, and so did its socket.
        try:
            e.open()
        except ConnectionRefusedError:
            answer([*first, True])
        """
    )
    assert ended == [True, True, True]
    children = ["pgrep", "-P", str(way.machine.main_pid("sbxctl-egress.service"))]
    way.machine.wait_for(lambda: way.machine.run(children).text == "", 2, "the run's process to go")


def test_only_the_broker_may_connect(way):
    connect = "import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect('/run/sbxctl/egress'); print(s.recv(1))"
    for user in ("alice", "bob"):
        tried = way.machine.run(["python3", "-c", connect], user=user)
        assert tried.status == 1 and "PermissionError" in tried.errors
    # Who gets past the socket's mode is not served either.
    assert way.machine.run(["python3", "-c", connect], check=True).text == "b''\n"


def test_a_start_without_a_listening_socket_is_an_error(way):
    message = way.run(
        """
        try:
            Egress(listener=socket.socket())
        except EgressError as error:
            answer(error.args[0])
        """
    )
    assert message["type"] == "error" and "without a socket" in message["message"]


def test_moving_bytes_costs_less_than_making_and_reading_them(way):
    # In processor time, which a busy host leaves as it is.
    cost, bare = way.out(
        """
        import multiprocessing
        size = 1 << 30
        source = socket.create_server(("127.0.0.1", 0))
        address = source.getsockname()
        def serve(answered):
            used = time.process_time()
            sock, _ = source.accept()
            block = bytes(1 << 20)
            for _ in range(size >> 20):
                sock.sendall(block)
            sock.close()
            answered.put(time.process_time() - used)
        def measure(connect):
            answered = multiprocessing.Queue()
            server = multiprocessing.Process(target=serve, args=[answered])
            server.start()
            used = time.process_time()
            with connect() as sock:
                throughput(sock, size)
            used = time.process_time() - used + answered.get()
            server.join()
            return used
        def used_by(pid):
            fields = open(f"/proc/{pid}/stat").read().rsplit(")")[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        bare = measure(lambda: socket.create_connection(address))
        with Egress(allowedAddresses=["127.0.0.1"], ports=[address[1]]) as other:
            measure(lambda: other.connect(f"good.example:{address[1]}")[1])
            answer([used_by(other.pid()), bare])
        """,
        timeout=120,
    )
    print(f"{cost:.2f} s for a GiB, and {bare:.2f} s to make and read it")
    assert cost < 2 * bare


def test_connections_that_are_held_up_do_not_slow_down_others(way):
    # Each has as much in its pipe as goes in, and each run's large pipes are few.
    held, speed = way.out(
        """
        source = socket.create_server(("127.0.0.1", 0))
        def serve(sock):
            with contextlib.suppress(OSError):
                while True:
                    sock.sendall(bytes(1 << 20))
        def accept():
            while True:
                threading.Thread(target=serve, args=[source.accept()[0]], daemon=True).start()
        threading.Thread(target=accept, daemon=True).start()
        port = source.getsockname()[1]
        with Egress(allowedAddresses=["127.0.0.1"], ports=[port]) as other:
            held = [other.connect(f"good.example:{port}")[1] for _ in range(40)]
            _, free = other.connect(f"good.example:{port}")
            speed = throughput(free, 64 << 20)
            answer([sum(len(sock.recv(1)) for sock in held), speed])
        """
    )
    assert held == 40
    assert speed > 10e6


def test_where_any_address_can_be_bound_all_are_taken_for_our_own(way):
    setting = "net.ipv4.ip_nonlocal_bind"
    way.machine.run(["sysctl", "-w", f"{setting}=1"], check=True)
    try:
        lines = way.out('answer([e.connect("8.8.4.4:443")[0], e.connect(f"good.example:443")[0]])',
                        'allowedNames=["8.8.4.4", "*"], allowedAddresses=["127.0.0.1"], ports=[443]')
    finally:
        way.machine.run(["sysctl", "-w", f"{setting}=0"], check=True)
    assert lines[0] == "HTTP/1.1 403 Refused by AllowedAddresses= (8.8.4.4 is this machine's own address)"
    assert lines[1] == "HTTP/1.1 502 Bad Gateway"
