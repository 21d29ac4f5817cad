"""What is installed, where, and how it was built."""

import re
from xml.etree import ElementTree

import pytest

from conftest import TESTS

PROGRAMS = [
    "/usr/bin/sbxctl",
    "/usr/lib/sbxctl/sbxctl-helper",
    "/usr/lib/sbxctl/sbxctl-engine-systemd",
    "/usr/lib/sbxctl/sbxctl-egress",
    "/usr/lib/sbxctl/sbxctl-launch",
    "/usr/lib/sbxctl/sbxctl-full",
]
UNITS = [
    "sbxctl-helper.socket",
    "sbxctl-helper.service",
    "sbxctl-engine-systemd.socket",
    "sbxctl-engine-systemd.service",
    "sbxctl-egress.socket",
    "sbxctl-egress.service",
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_are_hardened_and_not_setuid(machine, program):
    shown = machine.run(["readelf", "--wide", "-h", "-l", "-d", program], check=True).text
    assert "Type:                              DYN" in shown  # position independent
    assert "GNU_RELRO" in shown
    assert "BIND_NOW" in shown or "NOW" in shown.split("Dynamic section")[1]
    assert "GNU_STACK" in shown and " RWE " not in shown
    # CET: landing pads. (The property note is missing: Debian's crt files have none.)
    code = machine.run(["objdump", "--disassemble", "--no-show-raw-insn", program], check=True).text
    assert code.count("endbr64") > 20
    mode = machine.run(["stat", "-c", "%a %U", program], check=True).text
    assert mode == "755 root\n"


def test_client_links_nothing_that_takes_long_to_load(machine):
    shown = machine.run(["readelf", "--wide", "-d", "/usr/bin/sbxctl"], check=True).text
    needed = [line.split()[-1] for line in shown.splitlines() if "(NEEDED)" in line]
    assert needed == ["[libjson-c.so.5]", "[libc.so.6]"]


def test_client_without_its_other_half_says_so(machine):
    program = "/usr/lib/sbxctl/sbxctl-full"
    machine.run(["mv", program, f"{program}.away"], check=True)
    try:
        for verb in ("audit", "doctor", "mcp"):
            ran = machine.sbxctl([verb])
            assert ran.status == 125
            assert f"cannot start {program}: No such file or directory" in ran.errors
    finally:
        machine.run(["mv", f"{program}.away", program], check=True)


def test_launcher_is_static(machine):
    assert "NEEDED" not in machine.run(["readelf", "-d", "/usr/lib/sbxctl/sbxctl-launch"]).text


@pytest.mark.parametrize("unit", UNITS)
def test_units_verify(machine, unit):
    verified = machine.run(["systemd-analyze", "verify", "--man=no", f"/usr/lib/systemd/system/{unit}"])
    complaints = [line for line in verified.errors.splitlines() if "sbxctl" in line]
    assert complaints == [] and verified.status == 0, verified


@pytest.mark.parametrize(
    "unit, most",
    [
        ("sbxctl-helper.service", 1.2),
        ("sbxctl-engine-systemd.service", 1.5),
        ("sbxctl-egress.service", 1.5),
    ],
)
def test_exposure_of_the_services_stays_low(machine, unit, most):
    path = f"/usr/lib/systemd/system/{unit}"
    threshold = str(int(most * 10))
    checked = machine.run(
        ["systemd-analyze", "security", "--offline=yes", f"--threshold={threshold}", path]
    )
    assert checked.status == 0, checked.text[-300:]


def test_fault_55_each_socket_has_its_mode_and_owner(machine):
    expected = {
        "/run/sbxctl": "755 root",
        "/run/sbxctl/io.sbxctl.Sandbox": "666 root",
        "/run/sbxctl/engine": "755 root",
        "/run/sbxctl/engine/systemd": "600 sbxctl",
        "/run/sbxctl/egress": "600 sbxctl",
        "/var/lib/sbxctl": "711 sbxctl",
        "/var/lib/sbxctl/users": "711 sbxctl",
        "/var/lib/sbxctl/index": "700 sbxctl",
        "/var/lib/sbxctl/staging": "700 sbxctl",
    }
    for path, mode in expected.items():
        assert machine.run(["stat", "-c", "%a %U", path], check=True).text == mode + "\n", path
    connect = "import socket; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect('{}')"
    for user in ("alice", "bob"):
        tried = machine.run(
            ["python3", "-c", connect.format("/run/sbxctl/engine/systemd")], user=user
        )
        assert tried.status == 1 and "PermissionError" in tried.errors


def test_fault_06_and_62_no_action_is_kept_implied_or_weaker_for_other_sessions(machine):
    # Anything else, each form with _keep among it, is a KeyError.
    strength = {"no": 0, "auth_admin": 1, "auth_self": 2, "yes": 3}
    root = ElementTree.fromstring(machine.read("/usr/share/polkit-1/actions/io.sbxctl.policy"))
    actions = root.findall("action")
    assert len(actions) >= 3
    for action in actions:
        anybody, inactive, active = (
            strength[action.findtext(f"defaults/allow_{kind}")] for kind in ("any", "inactive", "active")
        )
        assert anybody <= inactive <= active, action.get("id")
        notes = {note.get("key"): note.text for note in action.findall("annotate")}
        assert notes["org.freedesktop.policykit.owner"] == "unix-user:sbxctl"
        assert "org.freedesktop.policykit.imply" not in notes
        assert action.findtext("description").strip() and action.findtext("message").strip()
    # polkit takes them all, and the helper asks about no others.
    declared = {action.get("id") for action in actions}
    known = machine.run(["pkaction"], check=True).text.split()
    assert declared == {name for name in known if name.startswith("io.sbxctl.")}
    table = (TESTS.parent / "helper/broker/authorize.c").read_text()
    asked = set(re.findall(r'"(io\.sbxctl\.run[a-z-]*)"', table))
    assert "io.sbxctl.run-resources" in asked <= declared


def test_sandbox_user_and_helper_user_are_system_users(machine):
    entry = machine.run(["getent", "passwd", "sbxctl"], check=True).text.split(":")
    assert 0 < int(entry[2]) < 1000 and entry[6].strip().endswith("nologin")
    assert machine.run(["id", "-Gn", "sbxctl"], check=True).text == "sbxctl\n"


def test_broker_holds_no_capability_and_the_store_three(machine):
    machine.sbxctl(["policy"])
    pid = machine.main_pid()
    status = machine.read(f"/proc/{pid}/status").decode()
    broker = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert broker["CapEff"] == broker["CapPrm"] == broker["CapAmb"] == "0" * 16
    assert broker["NoNewPrivs"] == "1" and broker["Seccomp"] == "2"
    child = machine.run(["pgrep", "-P", str(pid)], check=True).text.split()[0]
    status = machine.run(["cat", f"/proc/{child}/status"], check=True).text
    store = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    # CAP_CHOWN (0), CAP_DAC_OVERRIDE (1), CAP_FOWNER (3)
    assert int(store["CapEff"], 16) == int(store["CapPrm"], 16) == 0b1011
    assert store["CapAmb"] == "0" * 16


def test_man_page_and_help_name_the_same_options(machine):
    page = machine.run(["cat", "/usr/share/man/man1/sbxctl.1"], check=True).text.replace("\\-", "-")
    usage = machine.sbxctl(["run", "--help"]).text
    options = {word.strip(",") for word in usage.split() if word.startswith("--") and word != "--"}
    assert len(options) > 10
    for option in options:
        assert option.split("=")[0].rstrip("[") in page, option
