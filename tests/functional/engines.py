"""The engines of the test machine as tests see them from outside: what each calls its sandboxes.

`machine.engine` names the one that the tests are run over; systemd's is the machine's default.
"""

import docker_engine
import e2b_engine


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
        """Those of sandboxes, with their command lines. The way out of them is a dynamic user, too."""
        listed = self.machine.run(["ps", "-eo", "uid=,pid=,args="], check=True).text.splitlines()
        return [line for line in listed
                if self.is_sandbox_user(int(line.split()[0])) and not line.endswith("/sbxctl-egress")]

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


class E2b(Systemd):
    """Its sandboxes are elsewhere: what the machine has of them are the engine's processes."""

    name = "e2b"

    def sandboxes(self):
        return e2b_engine.Cloud(self.machine).live()

    def processes(self):
        """Of the programs: what the stand-in and its sandboxes need for themselves is left out."""
        listed = self.machine.run(["ps", "-eo", "cgroup:300=,pid=,args="], check=True).text.splitlines()
        return [line for line in listed if e2b_engine.STAND_IN_UNIT in line and e2b_engine.STAND_IN not in line]

    def children(self):
        return super().children() if self.main_pid() else []


# Tests that are run over every engine and cannot hold for one of them, by the words of their names.
NOT_OVER = {
    "e2b": {
        # The sandbox's memory is the template's, and the cloud tells of no kill for it.
        "test_exit_status_is_that_of_the_script[b = bytearray(2 << 30)-137]",
        "test_memory_and_kill_are_told_apart",
        "test_case_13_out_of_memory_is_told_with_limit_and_peak",
        "test_case_14_a_childs_oom_kill_is_mentioned",
        # As are its processors, its disk and how many processes it may have.
        "test_files_in_the_workspace_count_as_memory_and_are_told_apart",
        "test_more_memory_than_the_default_needs_an_approval_and_less_is_taken",
        "test_cpu_quota_holds_a_busy_program_back",
        "test_case_16_fork_bomb_is_contained_and_explained",
        "test_case_16_twenty_gigabytes_are_stopped_at_the_workspace",
        "test_case_16_a_million_empty_files_are_contained_and_explained",
        "test_case_16_full_scratch_is_contained_and_explained[/dev/shm]",
        "test_case_16_full_scratch_is_contained_and_explained[/tmp]",
        # Who follows is told of what is done for it before it starts.
        "test_followers_are_bounded_for_each_user",
        # It is about the client alone, and takes long.
        "test_large_output_takes_little_memory",
        # Nobody counts what a program leaves running there; it ends with the sandbox.
        "test_case_02_a_daemon_left_behind_does_not_delay_the_result",
        # What is around a program there is the cloud's: devices, users, processes, services.
        "test_fault_45_the_program_has_no_privilege",
        "test_nothing_is_writable_but_workspace_and_scratch",
        "test_no_other_process_is_visible",
        "test_no_service_socket_can_be_reached",
        "test_the_user_has_a_name_inside",
        "test_two_runs_at_once_neither_see_nor_signal_each_other",
        "test_dev_holds_what_programs_need_and_no_more",
    },
}


ENGINES = {"systemd": Systemd, "docker": Docker, "e2b": E2b}


def engine_of(machine):
    return ENGINES[machine.engine or "systemd"](machine)
