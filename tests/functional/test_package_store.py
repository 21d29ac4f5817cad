"""Layers over time: how many are built and removed at once, and what becomes of those that are too old. The index and
the rest are test_packages.py's.
"""

import contextlib
import json

from engines import ENGINES
from test_outlive import begun, kill, result_of
from test_packages import CONFIG, INDEX, LAYERS, TEA, asked, index, layers, no_layers, run, starting

# As alice, asks for the removal of more layers than may be removed at once; tells the first answer, and when it is told to
# go on all others.
REMOVALS = """
import select
from varlink_client import *
become(1000)
links = [connect() for _ in range(9)]
for n, link in enumerate(links):
    link.sendall(message("RemoveLayer", key=f"{n:064x}"))
[early], _, _ = select.select(links, [], [], 60)
print(json.dumps(answer(early)), flush=True)
input()
print(json.dumps([answer(link)["error"] for link in links if link is not early]))
"""


@contextlib.contextmanager
def store_held_up(machine):
    """Whatever the broker wants of it meanwhile, the store does afterwards."""
    assert machine.sbxctl(["policy"]).status == 0
    pid = machine.run(["pgrep", "--oldest", "-x", "sbxctl-store"], check=True).text.strip()
    machine.run(["kill", "-STOP", pid], check=True)
    try:
        yield
    finally:
        machine.run(["kill", "-CONT", pid], check=True)


def test_removals_at_once_are_bounded(machine):
    with store_held_up(machine):
        asking = machine.popen(machine.python(REMOVALS))
        early = json.loads(asking.popen.stdout.readline())
    assert early["error"].endswith(".Failed") and "Too many of your packages" in early["parameters"]["reason"], early
    others = json.loads(asking.finish(input=b"\n").text)
    assert others == ["io.sbxctl.Sandbox.NoSuchLayer"] * 8


def test_installations_that_were_given_up_count_until_they_are_kept(machine):
    """Else each would leave what it installed in memory, and the next one could begin."""
    engine = ENGINES["systemd"](machine)
    with machine.configured("[Queue]\nRunsPerUser=1\n"):
        with store_held_up(machine), asked(machine) as paths:
            first = machine.popen(["sbxctl", "run", "--with", "tea", "-c", TEA], "alice")
            machine.wait_for(engine.sandboxes, 20, "the installation to begin")
            machine.wait_for(lambda: not engine.sandboxes(), 30, "the installation to end")
            first.signal("INT")
            assert first.finish().status == 130
            second = machine.popen(["sbxctl", "run", "--with", "py-kettle", "-c", "import kettle; print(kettle.hot)"], "alice")
            machine.wait_for(lambda: starting(machine), 10, "the second to begin")
            # For as long as another's sandbox takes to be there.
            other = machine.popen(["sbxctl", "run", "-c", "print('up', flush=True); input()"], "bob")
            assert other.popen.stdout.readline() == b"up\n"
            assert len(engine.sandboxes()) == 1
        assert second.finish().text == "True\n"
        other.finish(input=b"\n")
    assert not any(path.startswith("/simple/py-kettle") for path in paths)
    assert sorted(layer["requested"] for layer in layers(machine)) == [["py-kettle"], ["tea"]]


def test_layers_that_nobody_uses_go_when_they_are_too_old(machine):
    old, new = run(machine, "leaf", code="1")["layer"], run(machine, "tea", code="1")["layer"]
    age = f"sed -i 's/\"createdUSec\": *[0-9]*/\"createdUSec\":1000000/' {LAYERS}/*/{old}/layer.json"
    machine.run(["sh", "-euc", f"systemctl stop sbxctl-helper.service; {age}"], check=True)
    assert run(machine, code="1")["status"] == "succeeded"
    machine.wait_for(lambda: [layer["key"] for layer in layers(machine)] == [new], 10, "the old one to go")


def test_an_installation_has_no_more_memory_than_the_ceiling(machine):
    with machine.configured(f"[Ceiling]\nMemory=700M\n[Packages]\nIndex={INDEX}/slow/\n"):
        running = machine.popen(["sbxctl", "run", "--engine", "systemd", "--with", "tea", "-c", TEA], "alice")
        [unit] = machine.wait_for(ENGINES["systemd"](machine).sandboxes, 20, "the installation to begin")
        assert machine.run(["systemctl", "show", "-P", "MemoryMax", unit], check=True).text == f"{700 << 20}\n"
        running.signal("INT")
        assert running.finish().status == 130


def test_packages_of_a_run_that_outlived_the_helper_stay(machine):
    run_id = begun(machine, "import time, tea; print(tea.__name__, flush=True); time.sleep(4)", packages=["tea"])
    [layer] = layers(machine)
    kill(machine)
    answer = machine.sbxctl(["packages", "rm", layer["key"]], "alice")
    assert answer.status != 0 and "use" in answer.errors, answer
    assert layers(machine)[0]["inUse"]
    assert result_of(machine, run_id)["stdout"]["text"] == "tea\n"
    assert machine.sbxctl(["packages", "rm", layer["key"]], "alice").status == 0
