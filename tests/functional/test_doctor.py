"""`sbxctl doctor` on machines that are broken in one way each: it names the cause, and the command that it
tells mends it. On a healthy machine it has nothing to say."""

import contextlib
import dataclasses
import json
import re
import time

import pytest

import e2b_engine
from docker_registry import registry  # noqa: F401 (a fixture)

DROPIN = "/etc/sbxctl/sbxctl.conf.d/99-broken.conf"
LOADED_RULE = "/etc/polkit-1/rules.d/30-broken.rules"


class Doctor:
    """`prefix` is the command that runs it."""

    def __init__(self, machine, user=None, prefix=()):
        self.machine, self.user, self.prefix = machine, user, list(prefix)

    def run(self, *options):
        return self.machine.run([*self.prefix, "sbxctl", "doctor", *options], self.user)

    def bad(self):
        """What is wrong, by its checks."""
        done = self.run("--json")
        told = json.loads(done.stdout)
        bad = [f for f in told["findings"] if f["state"] in ("warning", "failure")]
        assert done.status == int(any(f["state"] == "failure" for f in bad)), done
        assert told["healthy"] == (done.status == 0)
        return bad


@pytest.fixture(scope="module", autouse=True)
def healthy(machine):
    """The cloud is an engine that this machine does not have; what earlier tests left behind is gone."""
    machine.run(["systemctl", "disable", "--now", "sbxctl-engine-e2b.socket"], check=True)
    machine.run(["systemctl", "stop", "sbxctl-engine-e2b.service"])
    machine.run(["systemctl", "reset-failed"])
    yield
    machine.run(["systemctl", "enable", "--now", "sbxctl-engine-e2b.socket"], check=True)


@pytest.mark.parametrize("user", ["root", "alice"])
def test_nothing_is_said_of_a_healthy_machine(machine, user):
    doctor = Doctor(machine, user)
    assert doctor.bad() == []
    began = time.monotonic()
    done = doctor.run()
    assert time.monotonic() - began < 20 * machine.patience
    assert (done.status, done.text) == (0, "") and "nothing is wrong" in done.errors
    everything = doctor.run("--all").text
    assert everything.count("\nok: ") > 15 and "failure" not in everything


# ---- broken machines


@dataclasses.dataclass
class Broken:
    """`ruin` and `heal` are commands for sh, as root. `heal` is for what the command does not undo of the test's
    own. The one finding has that state and check, `what` in its sentence and `command` in its command."""

    ruin: str
    check: str
    what: str
    command: str
    heal: str = "true"
    state: str = "failure"
    user: str | None = None
    prefix: tuple = ()
    # What is given to the command; and what can be done when the command is for another machine than a test's.
    mender: str | None = None
    input: bytes | None = None
    instead: str | None = None


def within(*mounts):
    """The machine with some of the kernel's files replaced, for one command and what mends it."""
    steps = "".join(f"{mount}\n" for mount in mounts)
    return ("unshare", "--mount", "sh", "-euc", f'{steps}exec "$@"', "sh")


def replaced(path, text):
    copy = "/run/sbxctl-test-doctor"
    return within(f"printf \"{text}\" >{copy}", f"mount --bind {copy} {path}")


def small_disk(options, filler, script):
    """A disk for results that others, and runs of alice, have filled."""
    return f"""
        systemctl stop sbxctl-helper.service
        mount -t tmpfs -o mode=0711,{options} tmpfs /var/lib/sbxctl
        chown sbxctl: /var/lib/sbxctl; systemd-tmpfiles --create sbxctl.conf
        head -c {filler} /dev/zero >/var/lib/sbxctl/filler
        for i in 1 2; do runuser -u alice -- sbxctl run --quiet --engine systemd -c '{script}' </dev/null; done
    """


BIG_DISK = "systemctl stop sbxctl-helper.service; umount /var/lib/sbxctl"

# LD_PRELOAD: a clock that stands in 2001.
OLD_CLOCK = """
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *ts) {
    extern long syscall(long, ...);
    if (clock != CLOCK_REALTIME) return (int)syscall(228, clock, ts);
    ts->tv_sec = 1000000000; ts->tv_nsec = 0;
    return 0;
}
"""

STRACE = ("strace", "-f", "-qq", "-o", "/dev/null", "-e")

BROKEN = {
    "socket_masked": Broken(
        "systemctl mask --now sbxctl-helper.socket", "socket", "sbxctl-helper.socket is masked", "systemctl unmask",
    ),
    "socket_removed": Broken(
        "rm /run/sbxctl/io.sbxctl.Sandbox", "socket", "cannot be connected to: No such file", "systemctl restart",
    ),
    "socket_stopped": Broken(
        "systemctl stop sbxctl-helper.socket", "socket", "sbxctl-helper.socket is not active", "systemctl",
    ),
    "helper_masked": Broken(
        "systemctl mask --runtime --now sbxctl-helper.service", "socket|service", "sbxctl-helper.service is masked",
        "systemctl unmask --runtime sbxctl-helper.service", heal="systemctl start sbxctl-helper.socket",
    ),
    "helper_killed_at_each_start": Broken(
        # It was mended since, but PID 1 gave up on it.
        """mkdir -p /run/systemd/system/sbxctl-helper.service.d
        printf '[Service]\\nExecStart=\\nExecStart=/bin/false\\nRestartSec=1ms\\n' \
            >/run/systemd/system/sbxctl-helper.service.d/fails.conf
        systemctl daemon-reload; systemctl stop sbxctl-helper.service
        for i in $(seq 25); do systemctl start sbxctl-helper.service; done
        rm -r /run/systemd/system/sbxctl-helper.service.d; systemctl daemon-reload""",
        "socket", "has failed", "systemctl reset-failed sbxctl-helper.socket sbxctl-helper.service",
    ),
    "helper_hangs": Broken(
        "sbxctl policy >/dev/null; systemctl kill --signal=STOP sbxctl-helper.service",
        "service", "does not answer", "systemctl kill --signal=KILL sbxctl-helper.service",
    ),
    "polkit_masked": Broken(
        "systemctl mask --runtime --now polkit.service", "polkit", "polkit.service is masked",
        "systemctl unmask --runtime polkit.service",
    ),
    "polkit_hangs": Broken(
        "systemctl kill --signal=STOP polkit.service",
        "polkit", "polkit does not answer", "systemctl kill --signal=KILL polkit.service",
    ),
    "polkit_without_our_actions": Broken(
        """mv /usr/share/polkit-1/actions/io.sbxctl.policy /run/; systemctl restart polkit.service""",
        "polkit", "does not know the actions of sbxctl", "apt-get install --reinstall sbxctl",
        instead="mv /run/io.sbxctl.policy /usr/share/polkit-1/actions/; systemctl restart polkit.service",
    ),
    "no_agent": Broken(
        "chmod a-x /usr/bin/pkttyagent", "agent", "/usr/bin/pkttyagent cannot be executed", "chmod 0755",
        state="warning", user="alice",
    ),
    "rule_that_does_not_load": Broken(
        f"echo 'polkit.addRule(function (' >{LOADED_RULE}; systemctl restart polkit.service",
        "rules", f"Error compiling script {LOADED_RULE}: SyntaxError", f"mv {LOADED_RULE}",
        heal=f"rm -f {LOADED_RULE}.wrong; systemctl restart polkit.service",
    ),
    "rule_that_polkit_may_not_read": Broken(
        f"echo >{LOADED_RULE}; chmod 0600 {LOADED_RULE}; systemctl restart polkit.service",
        "rules", f"Error loading script {LOADED_RULE}", f"mv {LOADED_RULE}",
        heal=f"rm -f {LOADED_RULE}.wrong; systemctl restart polkit.service",
    ),
    "journald_stopped": Broken(
        """systemctl stop systemd-journald.socket systemd-journald-dev-log.socket systemd-journald.service
        rm -f /run/systemd/journal/socket""",
        "journal", "systemd-journald.socket is not active", "systemd-journald.socket",
        heal="systemctl restart systemd-journald-dev-log.socket systemd-journald.service",
    ),
    "journal_in_memory": Broken(
        "mv /var/log/journal /var/log/journal.away; systemctl restart systemd-journald.service",
        "journal", "kept in memory only", "mkdir -p /var/log/journal", state="warning",
        heal="""rm -rf /var/log/journal; mv /var/log/journal.away /var/log/journal
        systemctl restart systemd-journald.service; journalctl --flush""",
    ),
    "records_are_rate_limited": Broken(
        """mkdir -p /etc/systemd/system/sbxctl-helper.service.d
        printf '[Service]\\nLogRateLimitIntervalSec=30s\\n' >/etc/systemd/system/sbxctl-helper.service.d/x.conf
        systemctl daemon-reload""",
        "journal", "rate limit", "systemctl revert sbxctl-helper.service", state="warning",
    ),
    "cgroup_controller_missing": Broken(
        "true", "cgroups", "no control group controller 'memory'", "cgroup_enable=memory",
        prefix=replaced("/proc/cgroups", "cpu 1 1 1\\nmemory 4 9 0\\npids 8 1 1\\n"), instead="true",
    ),
    "no_user_namespaces": Broken(
        "true", "namespaces", "user.max_user_namespaces is 0", "sysctl -p",
        prefix=replaced("/proc/sys/user/max_user_namespaces", "0\\n"), heal="rm /etc/sysctl.d/60-sbxctl.conf",
    ),
    "apparmor_restricts_namespaces": Broken(
        "true", "namespaces", "kernel.apparmor_restrict_unprivileged_userns is 1", "sysctl -p", state="warning",
        prefix=within("mount -t tmpfs tmpfs /proc/sys/kernel",
                      "echo 1 >/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
        heal="rm /etc/sysctl.d/60-sbxctl.conf",
    ),
    "old_kernel": Broken(
        "true", "kernel", "has no openat2()", "apt-get install", prefix=(*STRACE, "inject=openat2:error=ENOSYS"),
        instead="true",
    ),
    "wrong_clock": Broken(
        f"printf '%s' '{OLD_CLOCK}' >/run/clock.c; gcc -shared -fPIC -o /run/clock.so /run/clock.c",
        "clock", "by it, this is 2001-09-09", "timedatectl set-ntp true", prefix=("env", "LD_PRELOAD=/run/clock.so"),
        instead="rm /run/clock.so",
    ),
    "wrong_owner": Broken(
        "chown root: /var/lib/sbxctl/index", "state", "/var/lib/sbxctl/index belongs to root instead of sbxctl",
        "chown sbxctl: /var/lib/sbxctl/index",
    ),
    "wrong_mode": Broken(
        "chmod 0777 /var/lib/sbxctl/staging", "state", "/var/lib/sbxctl/staging has mode 0777 instead of 0700",
        "chmod 0700 /var/lib/sbxctl/staging", user="alice",
    ),
    "state_missing": Broken(
        "mv /var/lib/sbxctl/layers /var/lib/sbxctl-layers", "state", "/var/lib/sbxctl/layers: No such file",
        "systemd-tmpfiles --create", heal="rm -r /var/lib/sbxctl-layers",
    ),
    "own_directory_of_another": Broken(
        "install -d /var/lib/sbxctl/users/1000; chown bob: /var/lib/sbxctl/users/1000",
        "state", "/var/lib/sbxctl/users/1000 is not your directory", "chown 1000 ", user="alice",
        heal="chgrp alice /var/lib/sbxctl/users/1000",
    ),
    "no_home": Broken(
        "mv /home/bob /home/bob.away", "account", "The home directory /home/bob of bob does not exist",
        "mkhomedir_helper bob", state="warning", prefix=("runuser", "-u", "bob", "--"), mender="root", heal="rm -rf /home/bob; mv /home/bob.away /home/bob",
    ),
    "unknown_key": Broken(
        f"printf '[Limits]\\n\\nTaskz=8\\n' >{DROPIN}", "configuration",
        f"{DROPIN}:3: unknown key Taskz= in section [Limits]", f"editor {DROPIN}", user="alice",
        instead=f"rm {DROPIN}",
    ),
    "bad_value": Broken(
        f"printf '[Ceiling]\\nMemory=lots\\n' >{DROPIN}", "configuration",
        f"{DROPIN}:2: the value of Memory= in section [Ceiling] cannot be read", f"editor {DROPIN}",
        instead=f"rm {DROPIN}",
    ),
    "configuration_of_another": Broken(
        f"echo >{DROPIN}; chown alice: {DROPIN}", "configuration", f"{DROPIN}: must belong to root",
        f"chown root: {DROPIN}", heal=f"rm -f {DROPIN}",
    ),
    "bad_configuration_of_an_engine": Broken(
        "printf '[Docker]\\nSockets=/x\\n' >/etc/sbxctl/engine-docker.conf", "configuration",
        "/etc/sbxctl/engine-docker.conf:2: unknown key Sockets=", "editor /etc/sbxctl/engine-docker.conf",
        state="warning", instead="rm /etc/sbxctl/engine-docker.conf",
    ),
    "engine_masked": Broken(
        "systemctl mask --now sbxctl-engine-docker.socket", "engines", "sbxctl-engine-docker.socket is masked",
        "systemctl unmask sbxctl-engine-docker.socket", state="warning",
    ),
    "default_engine_stopped": Broken(
        "systemctl stop sbxctl-engine-systemd.socket", "engines", "sbxctl-engine-systemd.socket is not active",
        "systemctl", user="alice",
    ),
    "dockerd_stopped": Broken(
        "systemctl stop docker.socket docker.service; systemctl stop sbxctl-engine-docker.service", "engines",
        "The engine docker cannot be used", "docker.socket docker.service", state="warning",
    ),
    "docker_not_installed": Broken(
        """systemctl stop docker.socket docker.service; mkdir /run/units
        mv /usr/lib/systemd/system/docker.* /etc/init.d/docker /run/units; rm -f /run/docker.sock
        systemctl daemon-reload; systemctl stop sbxctl-engine-docker.service""", "engines",
        "Docker is not running, or not installed", "apt-get install docker.io", state="warning",
        instead="""mv /run/units/docker /etc/init.d; mv /run/units/docker.* /usr/lib/systemd/system; rmdir /run/units
        systemctl daemon-reload; systemctl start docker.socket docker.service""",
    ),
    "dockerd_masked": Broken(
        """systemctl mask --runtime --now docker.socket docker.service
        systemctl stop sbxctl-engine-docker.service""", "engines", "The engine docker cannot be used",
        "systemctl unmask --runtime docker.service docker.socket", state="warning",
    ),
    "no_network_for_runs": Broken(
        "systemctl stop sbxctl-egress.socket", "network", "sbxctl-egress.socket is not active", "systemctl",
        state="warning",
    ),
    "disk_full": Broken(
        small_disk("size=700m", "180m", 'open("x", "wb").write(bytes(230 << 20))'), "disk", "The disk is full",
        "sbxctl rm --all", user="alice", mender="alice", heal=BIG_DISK,
    ),
    "inodes_full": Broken(
        small_disk("size=1g,nr_inodes=2800", "1", '[open(str(i), "w") for i in range(999)]'), "disk", "more files (inodes)",
        "sbxctl rm --all", user="alice", mender="alice", heal=BIG_DISK,
    ),
    "quota_full": Broken(
        f"""printf '[Results]\\nMaxBytes=1M\\n' >{DROPIN}; systemctl stop sbxctl-helper.service
        runuser -u alice -- sbxctl run --quiet -c 'open("x", "wb").write(bytes(2 << 20))' </dev/null""",
        "quota", "Your results take", "sbxctl rm --all", user="alice", mender="alice",
        heal=f"rm {DROPIN}; systemctl stop sbxctl-helper.service",
    ),
    "leftover_units": Broken(
        "systemd-run --quiet --unit=sbxctl-run-00000000deadbeef /bin/false; sleep 0.5", "leftovers",
        "Units of 1 runs", "systemctl reset-failed", state="warning",
    ),
}


# Whatever a command did or did not do: all that the tests above stop or mask.
RESTORE = f"""
units="sbxctl-helper sbxctl-egress sbxctl-engine-systemd sbxctl-engine-docker"
systemctl unmask --quiet polkit docker.socket docker $(printf "%s.socket %s.service " $(for u in $units; do echo $u $u; done))
systemctl unmask --quiet --runtime polkit docker.socket docker sbxctl-helper.service
rm -rf {DROPIN} {LOADED_RULE} {LOADED_RULE}.wrong /etc/systemd/system/sbxctl-helper.service.d /run/systemd/system/sbxctl-helper.service.d
chmod 0755 /usr/bin/pkttyagent
chown sbxctl: /var/lib/sbxctl/*; systemd-tmpfiles --create sbxctl.conf; chown alice: /var/lib/sbxctl/users/1000
pkill -CONT -x polkitd; pkill -KILL -x sbxctl-helper
systemctl daemon-reload
systemctl reset-failed
systemctl stop $(printf "%s.service " $units)
systemctl start polkit docker.socket $(printf "%s.socket " $units)
systemctl is-active --quiet systemd-journald.socket systemd-journald-dev-log.socket systemd-journald.service ||
    systemctl restart systemd-journald.socket systemd-journald-dev-log.socket systemd-journald.service
"""


@contextlib.contextmanager
def ruined(machine, broken):
    try:
        machine.run(["sh", "-c", broken.ruin])
        yield
    finally:
        machine.run(["sh", "-c", f"{broken.instead or 'true'}\n{broken.heal}"])
        if Doctor(machine, broken.user).bad():
            machine.run(["sh", "-c", RESTORE])


def test_what_is_wrong_is_told_in_words_too(machine):
    with ruined(machine, BROKEN["no_agent"]):
        shown = Doctor(machine, "alice").run()
        assert shown.status == 0 and shown.errors == ""
        assert shown.text == (
            "warning: agent: /usr/bin/pkttyagent cannot be executed.\n"
            "On a terminal nobody can be asked for a password, so runs that need an approval\n"
            "are refused there.\n"
            "    chmod 0755 /usr/bin/pkttyagent\n\n"
        )


def mends(machine, broken):
    doctor = Doctor(machine, broken.user, broken.prefix)
    with ruined(machine, broken):
        bad = doctor.bad()
        assert len(bad) == 1, bad
        found = bad[0]
        assert found["state"] == broken.state and re.fullmatch(broken.check, found["check"]), found
        assert broken.what in found["what"] and broken.command in found["command"], found
        assert found["meaning"].endswith(".")
        mended = after(machine, broken, found["command"])
        machine.wait_for(lambda: mended.bad() == [], 20, f"{found['command']!r} to mend it: {mended.bad()}")


# Those that are tried each time; most of the others are like one of them.
QUICK = (
    "socket_masked", "polkit_masked", "no_agent", "journald_stopped", "cgroup_controller_missing", "old_kernel",
    "wrong_clock", "wrong_owner", "unknown_key", "dockerd_stopped",
)


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in BROKEN]
)
def test_it_names_the_cause_and_the_command_that_mends_it(machine, name):
    mends(machine, BROKEN[name])


def test_a_run_that_finds_no_helper_sends_to_the_doctor(machine):
    with ruined(machine, BROKEN["unknown_key"]):
        machine.run(["systemctl", "stop", "sbxctl-helper.service"])
        run = machine.sbxctl(["run", "-c", "print(4)"])
    assert (run.status, run.text, run.errors) == (
        69, "", "sbxctl: the helper ended the connection without an answer\n"
        "sbxctl: 'sbxctl doctor' tells why, or as root: journalctl -u sbxctl-helper\n"
    )


def test_a_socket_that_is_not_asked_is_not_said_to_be_there(machine):
    ruin = "rm /run/sbxctl/io.sbxctl.Sandbox; chmod 0777 /var/lib/sbxctl"
    heal = "chmod 0711 /var/lib/sbxctl; systemctl restart sbxctl-helper.socket"
    with ruined(machine, Broken(ruin, "", "", "", heal=heal)):
        bad = {found["check"]: found["what"] for found in Doctor(machine).bad()}
        assert "cannot be connected to: No such file" in bad["socket"] and len(bad) == 2, bad


@pytest.mark.long
def test_a_helper_from_before_an_upgrade_is_told(machine):
    version = machine.sbxctl(["--version"]).text.split()[1]
    helper = "/usr/lib/sbxctl/sbxctl-helper"
    mends(machine, Broken(
        f"""systemctl stop sbxctl-helper.service
        mv {helper} /usr/lib/sbxctl/new; sed 's/{version}/9.9.9/g' /usr/lib/sbxctl/new >{helper}; chmod 0755 {helper}
        sbxctl policy >/dev/null; mv /usr/lib/sbxctl/new {helper}""",
        "version", "the helper has version 9.9.9", "systemctl restart sbxctl-helper.service", state="warning",
    ))


@pytest.mark.long
def test_a_system_without_its_bus_is_told(machine):
    mends(machine, Broken(
        "systemctl stop dbus.socket dbus.service", "bus", "dbus.socket is not active", "dbus.socket",
        heal="systemctl restart systemd-logind.service polkit.service",
    ))


# ---- engines that need something from elsewhere


@pytest.fixture
def cloud_engine(machine, cloud):
    machine.run(["systemctl", "enable", "--now", "sbxctl-engine-e2b.socket"], check=True)
    yield cloud
    machine.run(["systemctl", "disable", "--now", "sbxctl-engine-e2b.socket"], check=True)
    e2b_engine.stop(machine)


@pytest.mark.parametrize("ruin, what", [
    (f"rm {e2b_engine.CREDENTIAL}", "has no key"),
    pytest.param(f"echo e2b_{'1' * 40} >{e2b_engine.CREDENTIAL}", "does not accept this machine's key", marks=pytest.mark.long),
])
def test_a_missing_or_wrong_key_of_the_cloud_is_told(machine, cloud_engine, ruin, what):
    assert Doctor(machine).bad() == []
    mends(machine, Broken(
        f"{ruin}; systemctl stop {e2b_engine.UNIT}", "engines", what, e2b_engine.CREDENTIAL, state="warning",
        input=e2b_engine.KEY.encode(),
    ))


@pytest.mark.long
def test_a_missing_image_is_told(machine, registry):
    image, _ = registry.push("doctor:1")
    lines = ["[Helper]", "Engine=docker", "[Images]", f"Default={image}"]
    for language in ("python", "node", "perl", "ruby"):
        lines += [f"[Language {language}]", f"Image={image}"]
    with machine.configured("\n".join(lines) + "\n"):
        machine.run(["sbxctl", "pull", image], check=True)
        mends(machine, Broken(
            f"docker rmi {image}", "images", f"The image {image} is not on this machine", f"sbxctl pull {image}",
            state="warning", user="alice",
        ))


def after(machine, broken, command):
    """The doctor of the machine on which the command was run."""
    if broken.instead or broken.mender or not broken.prefix:
        done = machine.run(["sh", "-c", broken.instead or command], broken.mender, broken.input)
        assert done.status == 0, done
        return Doctor(machine, broken.user, broken.prefix if broken.mender else ())
    *entry, steps, name = broken.prefix
    return Doctor(machine, broken.user, [*entry, steps.replace("exec ", f"{command} >&2\nexec "), name])
