"""Calls of the broker and its store that fail or wait, by a double of the file system that is preloaded (fault_double.c)."""

import contextlib
import errno
import itertools
import pathlib
import subprocess
import tempfile

LIBRARY = "/usr/lib/sbxctl-fault-double.so"
DROP_IN = "/run/systemd/system/sbxctl-helper.service.d/90-double.conf"
PLAN = "/etc/sbxctl/double"
GENERATIONS = itertools.count(1)


def build():
    """The host's processor is the machine's, and its C library no newer."""
    source = pathlib.Path(__file__).with_name("fault_double.c")
    with tempfile.TemporaryDirectory() as place:
        library = f"{place}/double.so"
        subprocess.run(["cc", "-std=gnu17", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", library, source],
                       check=True)
        return pathlib.Path(library).read_bytes()


class Double:
    def __init__(self, machine):
        self.machine = machine

    # The shell's command that takes the plan back.
    end = f"rm -f {PLAN}"

    def command(self, process, calls, name="*", number=0, mode="once", error=errno.ENOSPC, pid=0):
        """The shell's command that makes the plan, which must be there as a whole at once."""
        words = (next(GENERATIONS), pid, process, calls, name, number, mode, int(error))
        return f"echo '{' '.join(map(str, words))}' >{PLAN}.new && mv {PLAN}.new {PLAN}"

    def plan(self, *arguments, **options):
        self.machine.run(["sh", "-c", self.command(*arguments, **options)], check=True)

    def clear(self):
        self.machine.run(["sh", "-c", self.end], check=True)

    def is_held(self):
        """Whether the broker waits in a call."""
        return self.machine.run(["cat", f"/proc/{self.machine.main_pid()}/comm"]).text == "held\n"


@contextlib.contextmanager
def preloaded(machine):
    machine.write(LIBRARY, build())
    machine.run(["mkdir", "-p", str(pathlib.Path(DROP_IN).parent)], check=True)
    machine.write(DROP_IN, f"[Service]\nEnvironment=LD_PRELOAD={LIBRARY}\n".encode())
    machine.run(["systemctl", "daemon-reload"], check=True)
    machine.restart_helper()
    double = Double(machine)
    try:
        yield double
    finally:
        double.clear()
        machine.run(["rm", DROP_IN, LIBRARY], check=True)
        machine.run(["systemctl", "daemon-reload"], check=True)
        machine.restart_helper()
