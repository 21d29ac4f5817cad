"""A connection of a plain varlink client to the helper that stays open, with whatever is sent on it."""

import base64

from conversation import Conversation
from varlink_client import message

# Commands: {"send": base64, "fds": number of memfds}, {"hang_up": true}. Events: {"pid": …}, {"answer": {…}},
# {"closed": true}.
PROGRAM = r"""
import base64, select
from varlink_client import *
link = connect()
def tell(**event):
    print(json.dumps(event), flush=True)
tell(pid=os.getpid())
watched, commands, received = [0, link.fileno()], b"", b""
while 0 in watched:
    ready = select.select(watched, [], [])[0]
    if link.fileno() in ready:
        try:
            data = link.recv(1 << 20)
        except ConnectionError:
            data = b""
        if not data:
            watched.remove(link.fileno())
            tell(closed=True)
        *answers, received = (received + data).split(b"\0")
        for text in answers:
            tell(answer=json.loads(text))
    if 0 in ready:
        commands += (data := os.read(0, 1 << 20))
        if not data:
            break
        *lines, commands = commands.split(b"\n")
        for command in map(json.loads, lines):
            if "hang_up" in command:
                watched = [0]
                link.close()
                continue
            fds = [os.memfd_create("extra") for _ in range(command["fds"])]
            try:
                send_fds(link, base64.b64decode(command["send"]), fds)
            except ConnectionError:
                pass
            for fd in fds:
                os.close(fd)
"""


class Connection(Conversation):
    """`answers` are all that came, `closed` tells whether the helper hung up."""

    def __init__(self, machine, user="alice"):
        super().__init__(machine, PROGRAM, None, user)
        self.answers, self.closed, self.pid = [], False, None
        self._read = 0
        self.wait(lambda: self.pid, 20, "the connection")

    def __repr__(self):
        return f"<connection: answers {self.answers}, closed {self.closed}>"

    def take(self, event):
        if "answer" in event:
            self.answers.append(event.pop("answer"))
        vars(self).update(event)

    def send(self, data, fds=0):
        self.command(send=base64.b64encode(data).decode(), fds=fds)

    def begin(self, method, parameters, **flags):
        self.send(message(method, **flags, **parameters))

    def next(self, timeout=30):
        """The next answer that was not looked at yet."""
        self.wait(lambda: len(self.answers) > self._read or self.closed, timeout, "an answer")
        assert len(self.answers) > self._read, f"no answer: {self}"
        self._read += 1
        return self.answers[self._read - 1]

    def run(self, **parameters):
        """Calls Run without 'more', and returns the answer."""
        self.begin("Run", {"script": "print(4)", "language": "python", **parameters})
        return self.next()
