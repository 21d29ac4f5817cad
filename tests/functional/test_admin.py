"""docs/ADMIN.md: every command in it is run, in its order and as root, and does what is said of it."""

import pathlib
import re

import pytest

from approvals import restart_polkit

TEXT = (pathlib.Path(__file__).parents[2] / "docs" / "ADMIN.md").read_text()
BLOCKS = re.findall(r"^## (.+?)$|^```sh\n(.*?)^```$", TEXT, re.M | re.S)
KEY = "e2b_" + "0" * 40

# In the directory of the test: all that the commands leave behind, and what the machine had before.
UNDO = """
rm -f /etc/sbxctl/sbxctl.conf.d/50-site.conf /etc/sbxctl/sbxctl.conf.d/7[0-2]-*.conf
rm -f /etc/polkit-1/rules.d/50-site-sbxctl.rules /etc/credstore/e2b-api-key /var/tmp/sbxctl-records.export
sockets=$(printf 'sbxctl-%s.socket ' helper egress engine-systemd engine-docker engine-e2b)
systemctl stop 'sbxctl-*.service'
systemctl reset-failed
systemctl enable --now $sockets
"""


def sections():
    """(heading, the commands below it) for each that has any."""
    found, heading = {}, None
    for title, block in BLOCKS:
        heading = title or heading
        if block:
            found.setdefault(heading, []).append(block)
    return found


@pytest.fixture(scope="module")
def root(machine):
    directory = machine.run(["mktemp", "-d"], check=True).text.strip()
    machine.write(f"{directory}/e2b-key", KEY.encode())
    machine.run(["systemctl", "disable", "--now", "sbxctl-engine-e2b.socket"], check=True)
    machine.run(["systemctl", "stop", "sbxctl-engine-e2b.service"])
    # A container's mounts are private, and systemd hands a credential over by a mount.
    machine.run(["mount", "--make-rshared", "/"], check=True)
    yield directory
    machine.run(["sh", "-c", UNDO], check=True)
    machine.run(["rm", "-r", directory], check=True)
    restart_polkit(machine)


def run(machine, directory, block):
    return machine.run(["sh", "-euc", f"cd {directory}\n{block}"], timeout=120)


def test_each_section_has_commands():
    assert {"Install", "Policy", "Rules", "Audit", "Quotas", "Images", "Packages", "Network", "E2B", "Sizing"} <= set(sections())
    assert "    $ " not in TEXT and "```\n\n```\n" not in TEXT  # none but the blocks that are found here


# What the output of the last command of a block has in it.
SAID = {
    "Policy": ["768 MiB", "4 GiB", "10 min", "3 at once"],
    "Rules": ["io.sbxctl.run-network"],
    "Images": ["docker"],
    "Packages": [],
    "Network": ["*.example.org"],
    "E2B": ["e2b"],
    "Sizing": ["UID"],
}


@pytest.mark.parametrize("heading", sections())
def test_commands_do_what_is_said(machine, root, heading):
    said = ""
    for block in sections()[heading]:
        done = run(machine, root, block)
        if "sbxctl pull" in block:
            # There is no registry within reach.
            assert done.status in (0, 125) and ("pull" in done.errors or done.status == 0), done
            continue
        assert done.status == 0, done
        said += done.text
    for words in SAID.get(heading, ()):
        assert words in said, (heading, said)
