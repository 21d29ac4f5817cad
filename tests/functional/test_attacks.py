"""Attacks on the helper by one user: another is served all the time."""

import time

import pytest

# Run as alice: it leaves lingering TCP sockets in a connection to the helper, in a way that makes the
# kernel close them in whatever thread of the helper comes by. Such a close waits up to LINGER seconds.
LINGER = """
from varlink_client import *
import struct, sys, time
LINGER = 25
mode = sys.argv[1]
listener = socket.create_server(("127.0.0.1", 0), backlog=100)
peers = []

def send_lingering(sock, flags=0):
    lingering = socket.create_connection(listener.getsockname())
    peers.append(listener.accept()[0])
    lingering.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGER))
    lingering.setblocking(False)
    try:
        while True:
            lingering.send(bytes(65536))
    except BlockingIOError:
        pass
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [lingering.fileno()]))]
    try:
        sock.sendmsg([b"x"], rights, flags)
    except OSError:  # refused: not to be waited for here
        lingering.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    lingering.close()

sockets = []
if mode == "received":
    sockets.append(connect())
    send_lingering(sockets[0])
elif mode == "unread":
    sockets.append(connect())
    sockets[0].sendall(message("Run", more=True, script="import time; time.sleep(20)", scriptName="a.py"))
    answer(sockets[0])
    send_lingering(sockets[0])
elif mode == "out of band":
    sockets.append(connect())
    send_lingering(sockets[0], socket.MSG_OOB)
    sockets[0].sendall(b"yyy")
elif mode == "too many connections":
    sockets += [connect() for _ in range(66)]
    for _ in range(3):
        sockets.append(connect())
        send_lingering(sockets[-1])
elif mode == "too many descriptors":
    for _ in range(40):
        sockets.append(connect())
        send_lingering(sockets[-1])
time.sleep(0.2)
for sock in sockets:
    sock.close()
print("sent", flush=True)
sys.stdin.read()
"""

ASK = "sbxctl policy >/dev/null && sbxctl run -c 'print(4)'"


@pytest.mark.parametrize(
    "mode", ["received", "unread", "out of band", "too many connections", "too many descriptors"]
)
def test_descriptors_whose_close_waits_hold_up_nobody(machine, mode):
    attacker = machine.popen(machine.python(LINGER, mode), user="alice")
    assert attacker.popen.stdout.readline() == b"sent\n"
    began = time.monotonic()
    answer = machine.run(["sh", "-c", ASK], user="bob", timeout=40)
    took = time.monotonic() - began
    attacker.finish()
    assert answer.text == "4\n", answer
    assert took < 8 * machine.patience


# Run as root, as alice for the socket: thousands of messages that are refused.
FLOOD = """
from varlink_client import *
become(1000)
for _ in range(30000):
    sock = connect()
    sock.sendall(b"x" + bytes(1))
    sock.recv(1)
    sock.close()
print("done")
"""


def test_stopped_journal_and_a_flood_of_refusals_hold_up_nobody(machine):
    since = machine.run(["date", "+%s"]).text.strip()
    pid = str(machine.main_pid("systemd-journald"))
    machine.run(["kill", "-s", "STOP", pid], check=True)
    try:
        flood = machine.run(["timeout", "30", *machine.python(FLOOD)], timeout=40)
        answer = machine.run(["timeout", "10", "sbxctl", "policy"], user="bob")
    finally:
        machine.run(["kill", "-s", "CONT", pid], check=True)
    assert flood.text == "done\n", flood
    assert answer.status == 0, answer
    told = [
        entry
        for entry in machine.journal("_SYSTEMD_UNIT=sbxctl-helper.service", f"--since=@{since}")
        if "not strict JSON" in str(entry.get("MESSAGE"))
    ]
    assert len(told) <= 200
    assert machine.sbxctl(["run", "-c", "print(4)"], user="bob").text == "4\n"
