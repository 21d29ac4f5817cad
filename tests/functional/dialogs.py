"""A person at a terminal who answers polkit's dialog.

The terminal is made inside the test machine, and pkttyagent is started by sbxctl itself. Must not
know what is asked for.
"""

# Runs the command of its arguments on a terminal of its own; the first argument is what is typed at
# a prompt for a password. A second prompt is answered with Ctrl-C. pkttyagent throws away what was
# typed before it turned the echo off, which in packet mode the other end is told, see ioctl_tty(2).
_AT_A_TERMINAL = """
import fcntl, os, struct, sys, termios

typed = (sys.argv[1] + "\\n").encode()
terminal, other_end = os.openpty()
fcntl.ioctl(terminal, termios.TIOCPKT, struct.pack("i", 1))
pid = os.fork()
if pid == 0:
    os.close(terminal)
    os.login_tty(other_end)
    os.execvp(sys.argv[2], sys.argv[2:])
os.close(other_end)
unread, is_ready = b"", False
while True:
    try:
        data = os.read(terminal, 4096)
    except OSError:
        break
    if data[0] & termios.TIOCPKT_FLUSHREAD:
        is_ready = True
    if data[0] == 0:
        sys.stdout.buffer.write(data[1:])
        unread += data[1:]
    if is_ready and b"assword: " in unread:
        os.write(terminal, typed)
        unread, is_ready, typed = b"", False, b"\\x03"
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 255)
"""


def answer(machine, argv, password, user="alice", lang="C.UTF-8"):
    """Runs `argv` at a terminal and answers its dialog with `password`. `text` of the result is all
    that appeared there."""
    command = ["env", f"LANG={lang}", "python3", "-c", _AT_A_TERMINAL, password, *argv]
    return machine.run(command, user)
