"""The terminal at which polkit asks for a password: whatever ends or stops the programs there, its echo
comes back, and does not before."""

import pytest


# Runs sys.argv[2:] as the job of a shell, on a terminal of its own. At the prompt for a password it types
# sys.argv[1], or kills what its second word names. Tells of stops, and at last whether there is an echo.
AS_A_JOB = r"""
import fcntl, os, signal, struct, subprocess, sys, termios

def run_job(argv):
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execvp(argv[0], argv)
    while os.WIFSTOPPED(status := os.waitpid(pid, os.WUNTRACED)[1]):
        print("the job was stopped", flush=True)
        os.tcsetpgrp(0, pid)
        os.killpg(pid, signal.SIGCONT)
    os.tcsetpgrp(0, os.getpgrp())
    print("the job ended with", os.waitstatus_to_exitcode(status), flush=True)

terminal, other_end = os.openpty()
fcntl.ioctl(terminal, termios.TIOCPKT, struct.pack("i", 1))
pid = os.fork()
if pid == 0:
    os.close(terminal)
    os.login_tty(other_end)
    run_job(sys.argv[2:])
    os._exit(0)
seen, is_ready = b"", False
while b"the job ended with" not in seen:
    data = os.read(terminal, 4096)
    is_ready = is_ready or data[0] & termios.TIOCPKT_FLUSHREAD
    if data[0] == 0:
        seen += data[1:]
    if is_ready and b"assword: " in seen and sys.argv[1]:
        if sys.argv[1].startswith("kill "):
            subprocess.run(["pkill", "-KILL", "-x", sys.argv[1].split()[1]], check=True)
        else:
            os.write(terminal, sys.argv[1].encode().decode("unicode_escape").encode())
        sys.argv[1] = ""
# Without its maker the agent still sets the terminal back before it ends.
while subprocess.run(["pgrep", "-x", "pkttyagent"], stdout=subprocess.DEVNULL).returncode == 0:
    pass
print(seen.decode())
print("echo", bool(termios.tcgetattr(terminal)[3] & termios.ECHO))
"""


def at_the_prompt(machine, what, option="--network"):
    argv = ["sbxctl", "run", option, "-c", "print('Password: ')"]
    return machine.run(["env", "LANG=C.UTF-8", "python3", "-c", AS_A_JOB, what, *argv], "alice").text


@pytest.mark.parametrize(
    "what, status",
    [(r"\x03", 130), (r"\x1c", -3), ("kill sbxctl", -9), ("kill pkttyagent", 126)],
    ids=["Ctrl-C", "Ctrl-backslash", "killed", "agent killed"],
)
def test_the_echo_comes_back(machine, what, status):
    text = at_the_prompt(machine, what)
    assert f"the job ended with {status}\r\n" in text and "echo True\n" in text, text


def test_the_stop_key_does_not_show_a_password(machine):
    text = at_the_prompt(machine, r"\x1aalice-pw\n")
    assert "the job was stopped" not in text and "alice-pw" not in text, text
    assert "the job ended with 0\r\n" in text, text
    assert "echo True\n" in text, text


def test_what_comes_after_the_dialog_is_the_scripts(machine):
    text = at_the_prompt(machine, r"alice-pw\n", "--memory=600M")
    assert "from here on is the script\r\nPassword: \r\n" in text, text
    assert "the job ended with 0\r\n" in text, text
