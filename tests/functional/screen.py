"""What a user sees: a command whose streams are all one terminal, and what stands on it in the end."""

import json
import re

# Runs a command on a terminal of so many columns, writes to stdout what that was given, and at last a
# line with the status.
PROGRAM = r"""
import fcntl, json, os, struct, sys, termios
argv, environment, columns = json.loads(sys.argv[1])
master, slave = os.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
pid = os.fork()
if pid == 0:
    os.close(master)
    os.login_tty(slave)
    os.execvpe(argv[0], argv, os.environ | environment)
os.close(slave)
try:
    while data := os.read(master, 65536):
        sys.stdout.buffer.write(data)
except OSError:
    pass
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
sys.stdout.buffer.write(b"\n%d" % status)
"""

SEQUENCE = re.compile(r"\x1b\[([\d;]*)([A-Za-z])")


def shown(raw, columns):
    """The lines that stand there after all of it; escape sequences other than those for colours and for
    clearing a line fail."""
    rows, row, column = [[]], 0, 0
    at = 0
    while at < len(raw):
        if match := SEQUENCE.match(raw, at):
            if match[2] == "K":
                del rows[row][column:]
            else:
                assert match[2] == "m", f"unexpected sequence {match[0]!r}"
            at = match.end()
            continue
        character = raw[at]
        at += 1
        if character == "\r":
            column = 0
        elif character == "\n":
            row += 1
            rows.extend([] for _ in range(row + 1 - len(rows)))
        else:
            if column == columns:
                row, column = row + 1, 0
                rows.extend([] for _ in range(row + 1 - len(rows)))
            rows[row][column : column + 1] = character
            column += 1
    return "\n".join("".join(line) for line in rows)


class Screen:
    """`raw` is all that the terminal was given, `text` what stands on it, `status` how the command ended."""

    @property
    def text(self):
        return shown(self.raw.replace("\r\n", "\n\r"), self.columns)

    def __init__(self, machine, argv, user="alice", columns=80, timeout=60, **environment):
        command = machine.python(PROGRAM, json.dumps([argv, {"TERM": "xterm"} | environment, columns]))
        told = machine.run(command, user, timeout=timeout, check=True).text
        self.raw, status = told.rsplit("\n", 1)
        self.status = int(status)
        self.columns = columns


# What differs from one run to the next.
VARIABLE = [
    (r"/users/\d+/[0-9a-f]{16}", "/users/1000/ID"),
    (r"it took (?!0 s)[\d.]+ (?:s|min[^,]*)(?:, and [\d.]+ \wiB of memory at most)?", "it took TIME, and MEMORY of memory at most"),
    (r"peak was [\d.]+ MiB\)", "peak was MEMORY)"),
    (r"used [\d.]+ s of CPU time", "used TIME of CPU time"),
]


def settled(text):
    """Without what differs from one run to the next, so that words can be compared."""
    for pattern, word in VARIABLE:
        text = re.sub(pattern, word, text)
    return text
