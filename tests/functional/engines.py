"""The engines of the test machine as tests see them from outside: what each calls its sandboxes.

`machine.engine` names the one that the tests are run over; systemd's is the machine's default.
"""

import docker_engine


class Systemd:
    name = "systemd"
    image = ""

    def __init__(self, machine):
        self.machine = machine
        self.service = f"sbxctl-engine-{self.name}.service"

    def sandboxes(self):
        """Names of those that are there, whatever their state."""
        listed = self.machine.run(
            ["systemctl", "list-units", "--all", "--plain", "--no-legend", "sbxctl-run-*"], check=True
        )
        return [line.split()[0] for line in listed.text.splitlines()]

    def is_sandbox_user(self, uid):
        return 61184 <= uid <= 65519  # systemd's dynamic range

    def kill_launcher(self, sandbox):
        self.machine.run(["systemctl", "kill", "--kill-whom=main", "--signal=KILL", sandbox], check=True)

    def processes(self):
        """Those of sandboxes, with their command lines. The service of the way out has a dynamic user, too."""
        listed = self.machine.run(["ps", "-eo", "uid=,pid=,args="], check=True).text.splitlines()
        rows = [line for line in listed if not line.endswith("/sbxctl-egress")]
        return [line for line in rows if self.is_sandbox_user(int(line.split()[0]))]

    def nothing_left(self):
        return not self.sandboxes() and not self.processes()

    def main_pid(self):
        shown = self.machine.run(["systemctl", "show", "-P", "MainPID", self.service], check=True)
        return int(shown.text)

    def children(self):
        """Process ids of its connections."""
        return self.machine.run(["pgrep", "-P", str(self.main_pid())]).text.split()


class Docker(Systemd):
    name = "docker"
    image = docker_engine.PYTHON_IMAGE

    def sandboxes(self):
        return docker_engine.containers(self.machine)

    def is_sandbox_user(self, uid):
        return uid == int(self.machine.run(["id", "-u", "sbxctl-sandbox"], check=True).text)

    def processes(self):
        listed = self.machine.run(["ps", "-u", "sbxctl-sandbox", "-o", "uid=,pid=,args="])
        return listed.text.splitlines()

    def kill_launcher(self, sandbox):
        self.machine.run(["docker", "kill", sandbox], check=True)


ENGINES = {"systemd": Systemd, "docker": Docker}


def engine_of(machine):
    return ENGINES[machine.engine or "systemd"](machine)
