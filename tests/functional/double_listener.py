"""How the doubles listen that stand in for a service of the broker's, inside the test machine as root."""

import contextlib
import os
import shutil
import socket

PATIENCE = 60  # seconds that the broker may take for anything


@contextlib.contextmanager
def listening(path, uid=0):
    """A listener that gives connections; says so, and when its scenarios were played to their end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        if os.path.exists(path):
            os.unlink(path)
        listener.bind(path)
        try:
            shutil.chown(path, "sbxctl", "sbxctl")
            os.chmod(path, 0o600)
            os.seteuid(uid)  # who listens is whom the broker sees
            listener.listen()
            os.seteuid(0)
            listener.settimeout(PATIENCE)
            print("up", flush=True)
            yield listener
            print("played", flush=True)
        finally:
            os.unlink(path)


def accept(listener):
    sock, _ = listener.accept()
    sock.settimeout(PATIENCE)
    return sock
