"""An egress process that misbehaves as a test wants it to (helper/egress/protocol.h).

Runs inside the test machine as root, since the broker believes nobody else, in the place of the
service, which must be stopped.
"""

import json
import socket

from double_listener import PATIENCE, accept, listening

PATH = "/run/sbxctl/egress"
VERSION = 1


class Egress:
    """One connection of the broker."""

    def __init__(self, sock):
        self.sock = sock
        self.start = self.listener = None

    def hear(self):
        """The next message; None at the end of file. Its socket, if it has one, becomes `listener`."""
        try:
            data, fds, _, _ = socket.recv_fds(self.sock, 65536, 4)
        except ConnectionResetError:  # it hung up on something that it had not read
            return None
        for fd in fds:
            self.listener = socket.socket(fileno=fd)
            self.listener.settimeout(PATIENCE)
        return json.loads(data) if data else None

    def say(self, kind, version=VERSION, fds=(), **members):
        message = json.dumps({"type": kind, "version": version, **members}).encode()
        socket.send_fds(self.sock, [message], fds)

    def take_start(self):
        self.start = self.hear()
        assert self.start["type"] == "start", self.start
        assert self.listener

    def ready(self):
        self.take_start()
        self.say("ready")

    def serve(self, words=b"well"):
        """Answers one connection of the program. Returns what that said first."""
        client, _ = self.listener.accept()
        with client:
            heard = client.recv(100)
            client.sendall(words)
        return heard.decode()

    def connection(self, name="a.example", port=443, verdict="allowed", rule="", sent=1, received=2):
        self.say("connection", name=name, address="192.0.2.1", port=port, protocol="connect", verdict=verdict,
                 rule=rule, bytesSent=sent, bytesReceived=received, durationUSec=3)

    def finish(self, hosts=(), refused_hosts=(), **members):
        """Takes the finish, and says the last word."""
        message = self.hear()
        assert message["type"] == "finish", message
        self.finished(hosts, refused_hosts, **members)
        self.hung_up()

    def finished(self, hosts=(), refused_hosts=(), **members):
        known = {name: 0 for name in ("connections", "refused", "failed", "unrecorded", "bytesSent", "bytesReceived")}
        lists = {"hosts": list(hosts), "refusedHosts": list(refused_hosts), "moreHosts": False}
        self.say("finished", **(known | lists | members))

    def hung_up(self):
        """Waits for the broker to close the connection."""
        while self.hear() is not None:
            pass


def host(name, port=443, connections=1, sent=0, received=0, **more):
    return {"name": name, "port": port, "connections": connections, "bytesSent": sent, "bytesReceived": received} | more


def serve(scenario, uid=0):
    """Listens, says so, and plays the scenario with the first connection."""
    with listening(PATH, uid) as listener:
        scenario(Egress(accept(listener)))
