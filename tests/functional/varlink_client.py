"""A client of the helper's socket, also for what no client of ours does.

Tests' programs that run inside the test machine import it (Machine.python()), so it needs nothing but
Python.
"""

import array
import fcntl
import json
import os
import socket


def become(uid):
    """Root becomes that user, for good."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def connect(link=None):
    link = link or socket.socket(socket.AF_UNIX)
    link.settimeout(60)
    link.connect("/run/sbxctl/io.sbxctl.Sandbox")
    return link


def message(method, more=False, **parameters):
    """A method without an interface is one of io.sbxctl.Sandbox."""
    name = method if "." in method else "io.sbxctl.Sandbox." + method
    return json.dumps({"method": name, "parameters": parameters, "more": more}).encode() + b"\0"


def send_fds(link, data, fds):
    """All of the data; the descriptors, which may be none, go with its first byte."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    link.sendall(data[link.sendmsg([data], rights) :])


def sealed(content):
    """A memfd that can't be changed any more."""
    fd = os.memfd_create("sealed", os.MFD_ALLOW_SEALING)
    os.write(fd, content)
    fcntl.fcntl(fd, 1033, 1 | 2 | 4 | 8)  # F_ADD_SEALS: seal, shrink, grow, write
    return fd


def answer(link):
    """The next answer, and not a byte of the one after it; None if the helper hung up."""
    data = b""
    while not data.endswith(b"\0"):
        try:
            ahead = link.recv(1 << 20, socket.MSG_PEEK)
            more = link.recv(ahead.find(b"\0") + 1 or len(ahead))
        except ConnectionResetError:
            return None
        if not more:
            return None
        data += more
    return json.loads(data[:-1])


def call(method, fds=(), **parameters):
    with connect() as link:
        send_fds(link, message(method, **parameters), fds)
        return answer(link)
