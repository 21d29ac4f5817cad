"""Scripts and servers that want too much of the proxy: it stays bounded, gives everything back, and serves the run beside it."""

import contextlib
import json
import time

import pytest
from network_lab import internet, lab

# What one may have, with hundreds of connections, in KiB.
MEMORY = 64 << 10
# What it keeps when its connections are over: the resolver's sockets, and a few pipes for the next ones.
SPARE = 16
GIGABYTE = 1 << 30


@contextlib.contextmanager
def beside(lab):
    """Another run with network, whose fetch() has to succeed as long as the context lasts."""
    running = lab.start_run("""
        import sys
        for _ in iter(sys.stdin.readline, "end\\n"):
            print(http("good.example")[0], flush=True)
    """, user="bob")

    def fetch():
        began = time.monotonic()
        running.popen.stdin.write(b"go\n")
        running.popen.stdin.flush()
        assert running.popen.stdout.readline() == b"200\n"
        return time.monotonic() - began

    fetch()
    try:
        yield fetch
        fetch()
    finally:
        ended = running.finish(input=b"end\n")
    assert ended.status == 0, ended


class Watched:
    """The process that serves one run, from outside."""

    def __init__(self, lab, others=()):
        [self.pid] = [pid for pid in lab.proxies() if pid not in others]
        self.machine = lab.machine
        self.descriptors_before = self.descriptors()

    def descriptors(self):
        return self.machine.descriptors(self.pid)

    def peak(self):
        return self.machine.memory(self.pid, "VmHWM")

    def gave_everything_back(self):
        self.machine.wait_for(
            lambda: self.descriptors() <= self.descriptors_before + SPARE, 20, "the descriptors to be closed")
        assert self.peak() < MEMORY


def begin(lab, script, *options, **keywords):
    """Starts a run whose script waits before it does anything, and watches its proxy. go() lets it do so."""
    others = lab.proxies()
    running = lab.start_run("print('up', flush=True)\ninput()\n" + script, *options, **keywords)
    line = running.popen.stdout.readline()
    assert line == b"up\n", running.finish()
    return running, Watched(lab, others)


def go(running):
    running.popen.stdin.write(b"\n")
    running.popen.stdin.flush()


def next_line(running):
    line = running.popen.stdout.readline()
    assert line, running.finish()
    return json.loads(line)


def end(running, watched):
    """The script waits for one more line, so that its proxy can be looked at when the connections are over."""
    watched.gave_everything_back()
    done = running.finish(input=b"\n", timeout=120)
    assert done.status == 0, done


WAIT = "\ninput()\n"


def test_200_connections_at_once_are_served(lab):
    with beside(lab) as fetch:
        running, watched = begin(lab, """
links = [tunnel("good.example", 80) for _ in range(200)]
for link in links:
    link.sendall(b"GET /hello HTTP/1.1\\r\\nHost: good.example\\r\\nConnection: close\\r\\n\\r\\n")
print(json.dumps([read_all(link)[9:12].decode() for link in links]), flush=True)
for link in links:
    link.close()
""" + WAIT)
        go(running)
        assert next_line(running) == ["200"] * 200
        fetch()
        end(running, watched)


def test_more_connections_than_allowed_are_told_so_and_the_others_go_on(lab):
    with lab.machine.configured("[Network]\nConnections=20\n"):
        found, result = lab.answers("""
            kept = [tunnel("good.example", 80) for _ in range(20)]
            more = [http("good.example"), connect("good.example"), socks("good.example")]
            kept[7].sendall(b"GET /hello HTTP/1.1\\r\\nHost: good.example\\r\\nConnection: close\\r\\n\\r\\n")
            served = read_all(kept[7])[9:12].decode()
            kept[7].close()
            print(json.dumps([[status for status, _ in more], served, http("good.example")[0]]))
        """)
    assert found == [[503, 503, 1], "200", 200]
    assert [r["SBXCTL_RULE"] for r in lab.connections(result["id"]) if r["SBXCTL_VERDICT"] == "refused"] == ["Connections=20"] * 3


@pytest.mark.long
def test_a_crowd_beyond_every_limit_hurts_nobody(lab):
    """More than may be served, than are told so at once, and than may wait; none of them goes."""
    with beside(lab) as fetch:
        running, watched = begin(lab, """
import resource, selectors, time
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
links, answers, waiting = [], [], selectors.DefaultSelector()
try:
    for _ in range(1000):
        links.append(dial(2))
        links[-1].sendall(b"CONNECT good.example:80 HTTP/1.1\\r\\nHost: good.example:80\\r\\n\\r\\n")
        waiting.register(links[-1], selectors.EVENT_READ)
except OSError:
    pass
end = time.monotonic() + 20
while (answers.count("200") < 256 or answers.count("503") < 100) and time.monotonic() < end:
    for key, _ in waiting.select(1):
        waiting.unregister(key.fileobj)
        answers.append(key.fileobj.recv(100)[9:12].decode())
print(json.dumps([answers.count("200"), answers.count("503")]), flush=True)
input()
for link in links:
    link.close()
print(2, flush=True)
""" + WAIT)
        go(running)
        served, refused = next_line(running)
        fetch()
        assert served == 256 and refused >= 100, (served, refused)
        go(running)
        assert next_line(running) == 2
        end(running, watched)


@pytest.mark.long
@pytest.mark.parametrize("first", ["G", "\\5\\xff"])
def test_slow_heads_are_closed_after_their_time_and_hold_up_nobody(lab, first):
    """Slow loris: bytes keep coming, the head never ends."""
    with beside(lab) as fetch:
        running, watched = begin(lab, f"""
import selectors, time
links = [dial() for _ in range(200)]
waiting = selectors.DefaultSelector()
for link in links:
    link.sendall(b"{first}")
    waiting.register(link, selectors.EVENT_READ)
print(1, flush=True)
began, closed = time.monotonic(), []
while len(closed) < len(links) and time.monotonic() - began < 40:
    for key, _ in waiting.select(1):
        try:
            data = key.fileobj.recv(1000)
        except OSError:
            data = b""
        if not data:
            closed.append(time.monotonic() - began)
            waiting.unregister(key.fileobj)
    for key in list(waiting.get_map().values()):
        try:
            key.fileobj.send(b"E")
        except OSError:
            pass
for link in links:
    link.close()
print(json.dumps([len(closed), max(closed, default=0)]), flush=True)
""" + WAIT)
        go(running)
        assert next_line(running) == 1
        assert fetch() < 5 * lab.machine.patience
        number, last = next_line(running)
        assert number == 200 and last < 30, (number, last)
        end(running, watched)


def test_half_closed_connections_work_and_leave_nothing(lab):
    running, watched = begin(lab, """
answers = []
for _ in range(100):
    with tunnel("raw.example", 81) as link:
        link.sendall(b"GET /x HTTP/1.1\\r\\n\\r\\n")
        link.shutdown(socket.SHUT_WR)
        answers.append(read_all(link)[9:12].decode())
# Left as they are: half closed by us; closed by the server, not by us; reset by us.
left = [tunnel("good.example", 80) for _ in range(60)]
for link in left[:20]:
    link.shutdown(socket.SHUT_WR)
for link in left[20:40]:
    link.sendall(b"nonsense\\r\\n\\r\\n")
for link in left[40:]:
    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    link.close()
half = [raw(b"GET http://good.example/hello HTTP/1.1\\r\\nHost: good.example\\r\\n\\r\\n")[9:12].decode()]
with dial() as s:
    s.sendall(b"GET http://good.example/hello HTTP/1.1\\r\\nHost: good.example\\r\\n\\r\\n")
    s.shutdown(socket.SHUT_WR)
    half.append(read_all(s)[9:12].decode())
print(json.dumps([answers, half]), flush=True)
input()
for link in left:
    link.close()
print(2, flush=True)
""" + WAIT)
    go(running)
    assert next_line(running) == [["200"] * 100, ["200", "200"]]
    go(running)
    assert next_line(running) == 2
    end(running, watched)


@pytest.mark.long
@pytest.mark.parametrize("way", ["http", "connect"])
def test_a_gigabyte_goes_down_and_up(lab, way):
    began = "tunnel('good.example', 80)" if way == "connect" else "dial()"
    where = "" if way == "connect" else "http://good.example"
    running, watched = begin(lab, f"""
size = {GIGABYTE}
with {began} as s:
    s.sendall(b"GET {where}/zeros?n=%d HTTP/1.1\\r\\nHost: good.example\\r\\nConnection: close\\r\\n\\r\\n" % size)
    got, buffer = 0, bytearray(1 << 20)
    head = b""
    while b"\\r\\n\\r\\n" not in head:
        head += s.recv(1)
    while n := s.recv_into(buffer):
        got += n
with {began} as s:
    s.sendall(b"PUT {where}/up HTTP/1.1\\r\\nHost: good.example\\r\\nConnection: close\\r\\nContent-Length: %d\\r\\n\\r\\n" % size)
    for _ in range(size >> 20):
        s.sendall(buffer)
    answer = read_all(s)
print(json.dumps([got, json.loads(answer.partition(b"\\r\\n\\r\\n")[2])["size"]]), flush=True)
""" + WAIT, "--timeout", "60s")
    go(running)
    assert next_line(running) == [GIGABYTE, GIGABYTE]
    end(running, watched)


@pytest.mark.long
def test_who_does_not_read_holds_nothing_but_sockets(lab):
    """Fifty downloads of a gigabyte that nobody reads."""
    with beside(lab) as fetch:
        running, watched = begin(lab, """
links = []
for _ in range(50):
    links.append(dial())
    links[-1].sendall(b"GET http://good.example/zeros?n=1000000000 HTTP/1.1\\r\\nHost: good.example\\r\\n\\r\\n")
heads = [link.recv(12).decode() for link in links]
print(json.dumps(heads), flush=True)
input()
for link in links:
    link.close()
print(2, flush=True)
""" + WAIT)
        go(running)
        assert next_line(running) == ["HTTP/1.1 200"] * 50
        assert fetch() < 10 * lab.machine.patience
        assert watched.peak() < MEMORY
        go(running)
        assert next_line(running) == 2
        end(running, watched)


def test_the_bytes_of_a_run_have_a_limit(lab):
    with lab.machine.configured("[Network]\nBytes=2M\n"):
        found, result = lab.answers("""
            first = len(raw(b"GET http://good.example/zeros?n=100000000 HTTP/1.1\\r\\nHost: good.example\\r\\n\\r\\n"))
            print(json.dumps([first, http("good.example")[0]]))
        """)
    first, after = found
    assert first <= 2 << 20 and after in (403, 503, 0), found
    rules = [r["SBXCTL_RULE"] for r in lab.connections(result["id"])]
    assert rules and all(rule.startswith("Bytes=") for rule in rules), rules
    use = result["networkUse"]
    assert use["bytesSent"] + use["bytesReceived"] <= (2 << 20) + (256 << 10), use


def test_idle_connections_end_and_busy_ones_do_not(lab):
    with lab.machine.configured("[Network]\nIdleTimeout=2s\n"):
        found, _ = lab.answers("""
            import time
            idle = tunnel("good.example", 80)
            busy = raw(b"GET http://good.example/drip?n=8&every=0.5 HTTP/1.1\\r\\nHost: good.example\\r\\n\\r\\n")
            idle.settimeout(20)
            over = read_all(idle) == b""
            began = time.monotonic()
            silent = raw(b"GET http://good.example/drip?n=2&every=15 HTTP/1.1\\r\\nHost: good.example\\r\\n\\r\\n")
            print(json.dumps([busy.partition(b"\\r\\n\\r\\n")[2].decode(), over, silent.partition(b"\\r\\n\\r\\n")[2].count(b"."), time.monotonic() - began]))
        """)
    busy, over, silent, took = found
    assert busy == "." * 8 and over and took < 14, found


def test_a_flood_of_connections_leaves_the_journal_and_the_run_beside_in_peace(lab):
    with beside(lab) as fetch:
        running, watched = begin(lab, """
count = 0
for _ in range(3000):
    count += http("bad.example")[0] == 403
print(count, flush=True)
""" + WAIT)
        go(running)
        fetch()
        assert next_line(running) == 3000
        end(running, watched)


def test_connections_end_with_the_run(lab):
    """A script that leaves without a word, while its connections are busy."""
    running, _ = begin(lab, """
links = [tunnel("good.example", 80) for _ in range(20)]
for link in links:
    link.sendall(b"GET /zeros?n=1000000000 HTTP/1.1\\r\\nHost: good.example\\r\\n\\r\\n")
    link.recv(1)
os._exit(0)
""")
    go(running)
    assert running.finish().status == 0
    lab.machine.wait_for(lambda: not lab.proxies() and lab.open_connections() == 0, 5, "the connections to end")


def test_a_timed_out_run_keeps_no_connection(lab):
    running, _ = begin(lab, """
import time
link = tunnel("good.example", 80)
print(json.dumps(1), flush=True)
time.sleep(60)
""", "--timeout", "3s")
    go(running)
    assert next_line(running) == 1 and lab.open_connections() > 0
    assert running.finish().status == 124
    lab.machine.wait_for(lambda: not lab.proxies() and lab.open_connections() == 0, 5, "the connections to end")
