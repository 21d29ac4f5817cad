"""What the machine lacks is told in the journal, once at each start of a service, and runs work all the same."""

import collections
import re

import pytest

HELPER = "sbxctl-helper.service"
ENGINE = "sbxctl-engine-systemd.service"
MESSAGE_ID = "d2c41a30c0b8416b995687272d11ed71"


@pytest.fixture
def told(machine):
    """Starts both services anew, on demand. It is a function that tells what they have said since, by unit."""
    machine.run(["systemctl", "stop", HELPER, ENGINE], check=True)

    def by_unit():
        found = collections.Counter()
        for unit in (HELPER, ENGINE):
            shown = machine.run(["systemctl", "show", "-P", "InvocationID", unit], check=True)
            invocation = f"_SYSTEMD_INVOCATION_ID={shown.text.strip()}"
            for entry in machine.journal(f"MESSAGE_ID={MESSAGE_ID}", invocation):
                found[unit, entry["SBXCTL_DEGRADATION"]] += 1
        return found

    return by_unit


def run(machine, times):
    for _ in range(times):
        assert machine.sbxctl(["run", "-c", "print(4)"]).text == "4\n"


def lacks_of_the_engine(machine):
    version = int(re.search(r"\d+", machine.run(["systemctl", "--version"], check=True).text).group())
    if version < 257:
        yield "private-pids"
    if machine.run(["test", "-e", "/sys/fs/cgroup/memory"]).status == 0:
        yield "swap-limit"


def test_each_lack_is_told_once_after_many_runs(machine, told):
    run(machine, 3)
    assert told() == collections.Counter((ENGINE, lack) for lack in lacks_of_the_engine(machine))


# Stands before the helper and makes the kernel look like one before Linux 6.5: getsockopt() knows no
# SO_PEERPIDFD.
OLD_KERNEL = r"""
#include <errno.h>
#include <stddef.h>
#include <unistd.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

int main(int argc, char *argv[])
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getsockopt, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 77, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOPROTOOPT),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
        return 1;
    execv("/usr/lib/sbxctl/sbxctl-helper", (char *[]){ "sbxctl-helper", NULL });
    return 1;
}
"""
WRAPPER = "/usr/local/lib/sbxctl-test-old-kernel"
DROP_IN = f"/run/systemd/system/{HELPER}.d/90-old-kernel.conf"


@pytest.fixture
def old_kernel(machine, told):
    machine.run(["gcc", "-x", "c", "-o", WRAPPER, "-"], input=OLD_KERNEL.encode(), check=True)
    machine.run(["mkdir", "-p", DROP_IN.rpartition("/")[0]], check=True)
    machine.write(DROP_IN, f"[Service]\nExecStart=\nExecStart={WRAPPER}\n".encode())
    machine.run(["systemctl", "daemon-reload"], check=True)
    yield told
    machine.run(["rm", DROP_IN, WRAPPER], check=True)
    machine.run(["systemctl", "daemon-reload"], check=True)
    machine.run(["systemctl", "stop", HELPER], check=True)


def test_without_pidfds_of_peers_callers_are_known_and_it_is_told_once(machine, old_kernel):
    run(machine, 2)
    run_id = machine.run_json(["-c", "print(4)"])["id"]
    assert old_kernel()[HELPER, "peer-pidfd"] == 1
    (decision,) = machine.journal(f"SBXCTL_RUN_ID={run_id}", "SBXCTL_ACTION=io.sbxctl.run")
    assert (decision["SBXCTL_UID"], decision["SBXCTL_DECISION"]) == ("1000", "allowed")


def test_a_lack_is_explained_by_the_journal(machine, old_kernel):
    run(machine, 1)
    matches = [f"MESSAGE_ID={MESSAGE_ID}", "SBXCTL_DEGRADATION=peer-pidfd"]
    shown = machine.run(["journalctl", "--catalog", "--no-pager", *matches], check=True).text
    assert "does without something that this machine lacks: peer-pidfd" in shown
