"""README.md, "Install it on your own workstation": a plain Debian with that release's own compiler builds and installs
it. docs/ADMIN.md, "To take it away again": what was installed goes."""

import pathlib
import re
import subprocess

import pytest

pytestmark = pytest.mark.long  # installs packages and builds everything

ROOT = pathlib.Path(__file__).parents[2]
COMMANDS = re.search(
    r"^## Install it .*?\n\n((?:    .*\n)+)", (ROOT / "README.md").read_text(), re.M | re.S
)[1]
REMOVED = re.search(r"`(ninja -C build uninstall.*?)`", (ROOT / "docs/ADMIN.md").read_text())[1]
# There is no systemd to talk to in a container that was not booted.
BUILT, SWITCHED_ON = COMMANDS.split("    systemd-sysusers")
# Nobody is there who could say yes.
PREPARED = """exec </dev/null; export DEBIAN_FRONTEND=noninteractive
echo 'APT::Get::Assume-Yes "true";' >/etc/apt/apt.conf.d/99yes; apt-get update"""
SHOWN = "test -x /usr/lib/sbxctl/sbxctl-helper; test -f /usr/lib/systemd/system/sbxctl-helper.socket; sbxctl --version"
LEFT = "find / -xdev -name '*sbxctl*' ! -path '/root/*' ! -path '/proc/*'"


def image_of(machine):
    release = machine.run(["sh", "-c", ". /etc/os-release; echo $VERSION_CODENAME"], check=True).text.strip()
    name = f'ROOT={ROOT}; . "$ROOT/tests/lib/common.sh"; . "$ROOT/tests/lib/machine.sh"; image_of {release}'
    return subprocess.run(["bash", "-euc", name], check=True, capture_output=True, text=True).stdout.strip()


def sources():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True)
    return subprocess.run(
        ["tar", "-C", ROOT, "--null", "--files-from=-", "-cf", "-"],
        check=True, input=listed.stdout, capture_output=True,
    ).stdout


def test_sources_build_and_install_as_the_readme_says(machine):
    assert "apt-get install" in BUILT and "meson install" in BUILT and "systemctl enable" in SWITCHED_ON
    script = f"mkdir /root/sbxctl; cd /root/sbxctl; tar -xf -; {PREPARED}\n{BUILT}\n{SHOWN}\n{REMOVED}\n{LEFT}"
    done = subprocess.run(
        ["docker", "run", "--rm", "-i", image_of(machine), "bash", "-euc", script],
        input=sources(), capture_output=True, timeout=1200,
    )
    assert done.returncode == 0, done.stdout[-6000:].decode() + done.stderr[-1000:].decode()
    assert re.findall(r"^\.\./.* warning: .*", done.stdout.decode(), re.M) == []  # the compiler's
    shown, left = done.stdout.decode().split("have not been removed.\n")
    assert re.search(r"^sbxctl [\d.]+$", shown, re.M)
    assert set(left.split()) <= {"/etc/sbxctl", "/etc/sbxctl/sbxctl.conf.d"}
