"""A person at a terminal of the test machine, whose programs may open dialogs there.

Runs a program on a pseudo-terminal of its own, shows what appears on it, and types. The program's
standard output goes elsewhere, so that it can be read apart from what the terminal shows.
"""

import collections
import re

from conversation import Conversation

# Commands: {"type": text}. Events: {"pid": …}, {"shown": text}, and at last {"status": …, "text": …,
# "echo": …}. At the end of the commands it kills what still runs.
PROGRAM = r"""
import fcntl, json, os, select, signal, sys, termios, time
argv, environment = json.loads(sys.argv[1])
master, slave = os.openpty()
out, out_end = os.pipe()
pid = os.fork()
if pid == 0:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    os.dup2(slave, 0), os.dup2(out_end, 1), os.dup2(slave, 2)
    os.execvpe(argv[0], argv, os.environ | environment)
os.close(out_end)
ended, commands, text = os.pidfd_open(pid), b"", b""
def tell(**event):
    print(json.dumps(event), flush=True)
def show():
    while select.select([master], [], [], 0)[0]:
        tell(shown=os.read(master, 65536).decode("utf-8", "replace"))
tell(pid=pid)
watched = [0, master, out, ended]
while ended in watched:
    ready = select.select(watched, [], [])[0]
    show()
    if out in ready:
        text += (data := os.read(out, 65536))
        if not data:
            watched.remove(out)
    if ended in ready:
        watched.remove(ended)
    if 0 in ready:
        commands += (data := os.read(0, 65536))
        if not data:
            watched.remove(0)
            os.kill(pid, signal.SIGKILL)
        *lines, commands = commands.split(b"\n")
        for line in lines:
            # What is typed before that is thrown away.
            while termios.tcgetattr(slave)[3] & termios.ECHO:
                time.sleep(0.01)
            os.write(master, json.loads(line)["type"].encode())
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
show()
while select.select([out], [], [], 0)[0] and (data := os.read(out, 65536)):
    text += data
echo = bool(termios.tcgetattr(slave)[3] & termios.ECHO)
tell(status=status, text=text.decode(), echo=echo)
"""

Dialog = collections.namedtuple("Dialog", "action message identity")


class Terminal(Conversation):
    """A program on a terminal. `screen` is all that was shown so far; when it has ended, `status`
    (negative: a signal's number), `text` (its standard output) and `echo` (whether the terminal
    shows again what is typed) say how."""

    def __init__(self, machine, argv, user="alice", session=False, **environment):
        super().__init__(machine, PROGRAM, [argv, environment], user, session)
        self.argv = argv
        self.screen = ""
        self.status = self.text = self.echo = self.pid = None
        self._read_to = 0
        self.wait(lambda: self.pid, 20, "the program to start")

    def __repr__(self):
        return f"<{self.argv}: status {self.status}, stdout {self.text!r}, terminal:\n{self.screen}>"

    def take(self, event):
        # Colours come from pkttyagent.
        self.screen += re.sub(r"\x1b\[[\d;]*m|\r", "", event.pop("shown", ""))
        vars(self).update(event)

    def until(self, pattern, timeout=20):
        """Waits for something that was not waited for yet. Returns the match."""

        def found():
            return re.compile(pattern, re.DOTALL).search(self.screen, self._read_to)

        self.wait(lambda: found() or self.status is not None, timeout, repr(pattern))
        match = found()
        assert match, f"the program ended before {pattern!r}: {self}"
        self._read_to = match.end()
        return match

    def dialog(self):
        """Waits until pkttyagent asks for a password."""
        shown = self.until(
            r"==== AUTHENTICATING FOR (\S+) ====\n(.*?)\nAuthenticating as: (\S+)\nPassword: "
        )
        return Dialog(*shown.groups())

    def type(self, text):
        """Types like a person, who waits until the terminal does not show a password any more."""
        self.command(type=text)

    def signal(self, name):
        self.machine.run(["kill", "-s", name, str(self.pid)], check=True)

    def end(self, timeout=60):
        self.wait(lambda: self.status is not None, timeout, "the program to end")
        return self


def answer(machine, argv, password, **environment):
    """Runs a program to its end that opens one dialog. Returns the dialog and the ended terminal."""
    with Terminal(machine, argv, **environment) as terminal:
        shown = terminal.dialog()
        terminal.type(password + "\n")
        return shown, terminal.end()
