"""Talks with a Python program in the test machine, line by line, while it goes on: JSON objects both
ways. Where an event is waited for, a program that ends or says nothing fails the test."""

import json
import select
import subprocess
import time


def in_session(command, user):
    """The command that makes the session, and who may give it."""
    options = ["--quiet", "--pipe", "--wait", "--collect", f"--uid={user}", "-pPAMName=su-l"]
    return ["systemd-run", *options, "--setenv=LANG=C.UTF-8", "--", *command], "root"


class Conversation:
    """`take` gets each event. As a context, the program ends with it at the latest: it reads end of
    file then."""

    def __init__(self, machine, program, argument, user, session=False):
        """With `session` in a session of logind as ssh makes one: without a seat."""
        command = machine.python(program, json.dumps(argument))
        self.machine = machine
        self._buffer = b""
        self._popen = machine.popen(*(in_session(command, user) if session else (command, user))).popen

    def take(self, event):
        raise NotImplementedError

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._popen.stdin.close()
        try:
            self._popen.wait(20 * self.machine.patience)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            raise
        finally:
            self._popen.stdout.close()
            self._popen.stderr.close()

    def command(self, **command):
        self._popen.stdin.write(json.dumps(command).encode() + b"\n")
        self._popen.stdin.flush()

    def wait(self, predicate, timeout, what):
        """Takes events until the predicate returns something true, and returns that."""
        deadline = time.monotonic() + timeout * self.machine.patience
        while not (value := predicate()):
            left = deadline - time.monotonic()
            assert left > 0, f"waited {timeout} s in vain for {what}: {self}"
            if select.select([self._popen.stdout], [], [], left)[0]:
                data = self._popen.stdout.read1(65536)
                assert data, f"{self} ended before {what}: {self._popen.stderr.read().decode()}"
                *lines, self._buffer = (self._buffer + data).split(b"\n")
                for event in map(json.loads, lines):
                    self.take(event)
        return value
