"""The Docker engine of the test machine: images for it to run, its configuration, what it left behind."""

import pathlib

ROOT = pathlib.Path(__file__).parents[2]
PYTHON_IMAGE = "sbxctl-test/python:trixie"
CONFIG = "/etc/sbxctl/engine-docker.conf"
HELPER_CONFIG = "/etc/sbxctl/sbxctl.conf.d/70-test-images.conf"

# The machine's own programs: an image for which nothing has to be fetched, with what users' scripts expect.
MAKE_PYTHON_IMAGE = """
tar -C / --exclude='usr/*bin/docker*' --exclude='usr/*bin/containerd*' --exclude=usr/bin/podman \\
    --exclude=usr/lib/gcc --exclude=usr/lib/sbxctl \\
    -c bin lib lib64 sbin usr etc/alternatives etc/ld.so.cache etc/fonts etc/matplotlibrc etc/ssl/certs |
docker import - "$1"
"""


def replace(machine, path, lines, unit):
    """A service that is stopped too often would not be started again, so only for a change."""
    content = "".join(f"{line}\n" for line in lines).encode()
    if machine.run(["cat", path]).stdout == content:
        return
    machine.write(path, content)
    machine.run(["systemctl", "stop", unit], check=True)
    machine.run(["systemctl", "reset-failed", unit])


def configure(machine, **keys):
    """Gives the engine this configuration and no other."""
    lines = ["[Docker]", *(f"{key}={value}" for key, value in keys.items())]
    replace(machine, CONFIG, lines, "sbxctl-engine-docker.service")


def use_images(machine, allowed=(), **images):
    """Sets the images of languages, and `default`; an empty argument takes it all back."""
    lines = []
    for language, image in images.items():
        lines += ["[Images]", f"Default={image}"] if language == "default" else [f"[Language {language}]", f"Image={image}"]
    lines += ["[Images]", *(f"Allowed={image}" for image in allowed)]
    replace(machine, HELPER_CONFIG, lines, "sbxctl-helper.service")


def use_machine_as_image(machine):
    if machine.run(["docker", "image", "inspect", PYTHON_IMAGE]).status != 0:
        machine.run(["bash", "-euo", "pipefail", "-c", MAKE_PYTHON_IMAGE, "make", PYTHON_IMAGE],
                    timeout=300, check=True)
    configure(machine)
    use_images(machine, **{name: PYTHON_IMAGE for name in ("default", "python", "node", "perl", "ruby")})


def containers(machine):
    """Names of our containers, whatever their state."""
    listed = machine.run(["docker", "ps", "--all", "--filter", "label=io.sbxctl.run", "--format", "{{.Names}}"],
                         check=True)
    return listed.text.split()


LEND = """
import sys
from engine_client import *
with Sandbox("docker", image=sys.argv[1], layer=sys.argv[2], layerTarget="/packages", ownerUid=1000) as s:
    print(s.run(["sh", "-c", "cat /packages/module; echo more >/packages/module"]))
"""
MAKE_LAYER = """
mkdir -p -m 0700 "${0%/*}"
mkdir -m 0700 "$0"
mkdir "$0/tree"
echo lent >"$0/tree/module"
chown -R sbxctl: "${0%/*}"
"""


def lend_packages(machine, image):
    """What a shell says that reads a module of a layer, and writes to it."""
    key = "ab" * 32
    layer = f"/var/lib/sbxctl/layers/1000/{key}"
    machine.run(["sh", "-euc", MAKE_LAYER, layer], check=True)
    try:
        become = ["setpriv", "--reuid=sbxctl", "--regid=sbxctl", "--clear-groups"]
        return machine.run([*become, *machine.python(LEND, image, key)], check=True).text
    finally:
        machine.run(["rm", "-r", layer], check=True)
