"""Connections to the public socket that do what no client of ours does: whoever else is served, and what
the helper holds is given back. How single messages are refused is in tests/unit/test-varlink-faults.c."""

import json
import textwrap
import time

import pytest

CONNECTIONS = 64  # of one user
MESSAGE_SECONDS = 10  # from a message's first byte to its last
MESSAGE_MAX = 1 << 20
RSS_SLACK = 8192  # KiB that the allocator may keep
BOUND = 10

CALLER = """
from varlink_client import *
import errno, select, struct, sys, time

INFO = message("org.varlink.service.GetInfo")
POLICY = message("GetPolicy")
DESCRIPTION = message("org.varlink.service.GetInterfaceDescription", interface="io.sbxctl.Sandbox")

def hung_up(sock, seconds=30):
    '''Whether the helper ends the connection within that time.'''
    poll = select.poll()
    poll.register(sock, select.POLLHUP)
    return bool(poll.poll(seconds * 1000))

def stay():
    print("there", flush=True)
    sys.stdin.read()
"""


class Callers:
    def __init__(self, machine):
        self.machine = machine
        self.fds, self.rss = self.held()

    def held(self):
        pid = self.machine.main_pid()
        return self.machine.descriptors(pid), self.machine.memory(pid)

    def command(self, code):
        return self.machine.python(CALLER + textwrap.dedent(code))

    def attack(self, code, user="alice", timeout=60):
        """Runs the code as that user; what it prints is the answer."""
        done = self.machine.run(self.command(code), user=user, timeout=timeout)
        assert done.status == 0, done
        return done.text

    def start(self, code, user="alice"):
        """Starts the code, which ends with stay(). It is over when its input is."""
        running = self.machine.popen(self.command(code), user=user)
        assert running.popen.stdout.readline() == b"there\n", running.finish()
        return running

    def bob_is_served(self):
        began = time.monotonic()
        assert self.machine.sbxctl(["policy"], user="bob").status == 0
        assert self.machine.sbxctl(["run", "-c", "print(4)"], user="bob").text == "4\n"
        assert time.monotonic() - began < BOUND * self.machine.patience

    def all_is_given_back(self):
        self.machine.wait_for(lambda: self.held()[0] == self.fds, 15, "the helper's descriptors to be closed")
        assert self.held()[1] < self.rss + RSS_SLACK
        assert self.machine.sbxctl(["run", "-c", "print(4)"]).text == "4\n"


@pytest.fixture(scope="module")
def configured(machine):
    with machine.configured("[Helper]\nIdleExit=600s\n"):
        for user in ("alice", "bob"):
            assert machine.sbxctl(["run", "-c", "print(4)"], user=user).text == "4\n"
        yield Callers(machine)


@pytest.fixture
def callers(configured):
    """Whatever a test does, the helper that answered before answers after it, and holds no more."""
    before = configured.machine.main_pid()
    yield configured
    configured.all_is_given_back()
    assert configured.machine.main_pid() == before, "the helper died"


def test_fault_21_thousands_of_malformed_messages_end_their_own_connection_only(callers):
    told = callers.attack(
        """
        import random
        random.seed(1)
        ended = 0
        for i in range(3000):
            data = bytearray(random.choice([INFO, POLICY, message("Run", more=True, script="1", inputs=[])])[:-1])
            for _ in range(random.randint(1, 8)):
                data[random.randrange(len(data))] = random.randrange(1, 256)
            if i % 3 == 0:
                del data[random.randrange(len(data)):]
            sock = connect()
            sock.sendall(bytes(data) + bytes(1))
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(65536):  # an error or nothing, and in the end always the end
                pass
            ended += 1
        print(ended)
        """,
        timeout=120,
    )
    assert told == "3000\n"


def test_fault_11_a_message_that_is_too_long_ends_at_the_limit(callers):
    told = callers.attack(
        f"""
        sock = connect()
        sent = 0
        try:
            while sent < 100 << 20:
                sent += sock.send(b" " * 65536)
        except (BrokenPipeError, ConnectionResetError):
            pass
        print(sent)
        """
    )
    assert MESSAGE_MAX <= int(told) < 3 * MESSAGE_MAX


def test_fault_11_a_slow_message_is_cut_off_while_bob_is_served(callers):
    """A byte at a time, whenever half a second went by without the helper hanging up."""
    slow = callers.machine.popen(
        callers.command(
            """
            sock = connect()
            began = time.monotonic()
            print("there", flush=True)
            for byte in POLICY:
                sock.send(bytes([byte]))
                if hung_up(sock, 0.5):
                    break
            print(time.monotonic() - began)
            """
        ),
        user="alice",
    )
    assert slow.popen.stdout.readline() == b"there\n"
    callers.bob_is_served()
    took = float(slow.finish().text)
    assert MESSAGE_SECONDS - 1 < took < MESSAGE_SECONDS + BOUND


def test_fault_9_messages_broken_off_leave_nothing(callers):
    told = callers.attack(
        """
        run = message("Run", more=True, script="import time; time.sleep(600)", language="python")
        for i in range(2000):
            sock = connect()
            sock.send(run[:1 + i % (len(run) - 1)])
            sock.close()
        sock = connect()
        sock.sendall(INFO)
        print(answer(sock)["parameters"]["interfaces"])
        """
    )
    assert "io.sbxctl.Sandbox" in told
    assert json.loads(callers.machine.sbxctl(["ps", "--json"]).stdout)["runs"] == []


FLOOD = "import os\\nwhile True: os.write(1, b'x' * 65536)"


def test_a_caller_who_stops_reading_pauses_its_own_program_only(callers):
    machine = callers.machine
    flood = callers.start(
        f"""
        sock = connect()
        sock.sendall(message("Run", more=True, script="{FLOOD}", language="python", streams="messages"))
        while answer(sock)["parameters"]["event"] != "output":
            pass
        stay()
        """
    )
    callers.bob_is_served()
    assert callers.held()[1] < callers.rss + RSS_SLACK
    (run,) = json.loads(machine.sbxctl(["ps", "--json"]).stdout)["runs"]
    assert run["status"] == "running"
    flood.finish(input=b"")
    last = machine.wait_for(
        lambda: (last := json.loads(machine.sbxctl(["ps", "--all", "--json"]).stdout)["runs"][0])["status"]
        == "cancelled" and last, 10, "the flood to be cancelled",
    )
    assert last["id"] == run["id"]


def test_a_caller_who_never_reads_a_stream_of_pipes_pauses_its_own_program_only(callers):
    """The same with descriptors: the helper takes no more from the program than the pipes hold."""
    flood = callers.start(
        f"""
        sock = connect()
        sock.sendall(message("Run", more=True, script="{FLOOD}", language="python", streams="descriptors"))
        received = []
        while len(received) < 3:
            data, fds, _, _ = socket.recv_fds(sock, 65536, 3)
            assert data
            received += fds
        assert select.select([received[1]], [], [], 30)[0]
        stay()
        """
    )
    callers.bob_is_served()
    assert callers.held()[1] < callers.rss + RSS_SLACK
    (run,) = json.loads(callers.machine.sbxctl(["ps", "--json"]).stdout)["runs"]
    assert run["status"] == "running"
    flood.finish(input=b"")


def test_pipelined_calls_are_answered_in_order_and_wait_outside(callers):
    told = callers.attack(
        """
        import threading
        sock = connect()
        def send():
            for i in range(8000):
                sock.sendall(INFO if i % 2 else DESCRIPTION)
        sender = threading.Thread(target=send)
        sender.start()
        sender.join(2)  # by then the helper has stopped reading, since nobody reads its answers
        print(sender.is_alive())
        stream = sock.makefile("rb")
        data, answers, wrong = b"", 0, []
        while answers < 8000 and (more := stream.read1(1 << 20)):
            *whole, data = (data + more).split(bytes(1))
            for text in whole:
                if ("vendor" in json.loads(text)["parameters"]) != bool(answers % 2):
                    wrong.append((answers, text))
                answers += 1
        sender.join()
        print(answers, wrong[:3])
        """
    )
    assert told == "True\n8000 []\n"


def test_a_caller_who_reads_no_answers_costs_bounded_memory(callers):
    flood = callers.start(
        """
        socks = [connect() for _ in range(60)]
        for sock in socks:
            sock.setblocking(False)
        for _ in range(200):
            for sock in socks:
                try:
                    sock.send(DESCRIPTION * 100)
                except BlockingIOError:
                    pass
        stay()
        """
    )
    callers.bob_is_served()
    assert callers.held()[1] < callers.rss + 4 * RSS_SLACK
    flood.finish(input=b"")


def test_two_hundred_connections_of_one_user_leave_the_other_served(callers):
    crowd = callers.start(
        """
        socks = [connect() for _ in range(200)]
        served = 0
        for sock in socks:
            try:
                sock.sendall(INFO)
                served += answer(sock) is not None
            except BrokenPipeError:
                pass
        print("there", flush=True)
        print(served, flush=True)
        sys.stdin.read()
        """
    )
    assert crowd.popen.stdout.readline() == b"%d\n" % CONNECTIONS
    callers.bob_is_served()
    crowded = callers.machine.sbxctl(["policy"])
    assert crowded.status in (69, 125) and crowded.text == "", crowded
    crowd.finish(input=b"")
    callers.machine.wait_for(lambda: callers.machine.sbxctl(["policy"]).status == 0, 10, "room for alice")


def test_fault_56_descriptors_where_none_belong_are_not_kept(callers):
    """All at once, so that a leak of any kind would be seen in the helper's count."""
    told = callers.attack(
        """
        null = os.open("/dev/null", os.O_RDONLY)
        pipe = os.pipe()
        ended = 0
        for i in range(200):
            for way in range(6):
                sock = connect()
                try:
                    if way == 0:  # to a method that takes none
                        send_fds(sock, POLICY, [null] * 253)
                    elif way == 1:  # in the middle
                        sock.sendall(POLICY[:10])
                        send_fds(sock, POLICY[10:], [null] * 5)
                    elif way == 2:  # behind a pipelined call
                        send_fds(sock, POLICY + INFO[:5], [null, *pipe])
                    elif way == 3:  # the connection's own end
                        send_fds(sock, POLICY, [sock.fileno()] * 3)
                    elif way == 4:  # twice
                        send_fds(sock, POLICY[:10], [null])
                        send_fds(sock, POLICY[10:], [null])
                    else:  # another connection, which waits for an answer
                        other = connect()
                        other.sendall(INFO)
                        send_fds(sock, INFO, [other.fileno()])
                        other.close()
                    sock.shutdown(socket.SHUT_WR)
                    while sock.recv(65536):
                        pass
                except (BrokenPipeError, ConnectionResetError):
                    pass
                ended += 1
                sock.close()
        print(ended)
        """
    )
    assert told == "1200\n"


def test_fault_56_descriptors_with_half_a_message_are_given_back_in_time(callers):
    half = callers.start(
        """
        null = os.open("/dev/null", os.O_RDONLY)
        socks = [connect() for _ in range(20)]
        for sock in socks:
            send_fds(sock, POLICY[:20], [null] * 253)
        stay()
        """
    )
    machine = callers.machine
    machine.wait_for(lambda: callers.held()[0] > callers.fds + 20 * 253, 5, "the descriptors to arrive")
    callers.bob_is_served()
    machine.wait_for(
        lambda: callers.held()[0] == callers.fds, MESSAGE_SECONDS + BOUND, "the descriptors to be closed"
    )
    half.finish(input=b"")


def test_fault_56_a_run_with_descriptors_that_it_does_not_name_is_served_without_them(callers):
    told = callers.attack(
        """
        null = os.open("/dev/null", os.O_RDONLY)
        sock = connect()
        send_fds(sock, message("Run", script="print(4)", language="python"), [null, sock.fileno()])
        found = answer(sock)
        print(found.get("error", found["parameters"]["result"]["status"]))
        """
    )
    assert told == "succeeded\n"
