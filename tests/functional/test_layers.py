"""What a sandbox of a local engine sees of packages: the layer it was started with, and nothing else.

The engine is driven directly, as in test_engine.py; the layers are made by hand where the store
would have made them.
"""

import pytest
from test_engine import Engine

LAYERS = "/var/lib/sbxctl/layers"
KEY, OTHER_KEY = "0123456789abcdef" * 4, "fedcba9876543210" * 4
ALICE, BOB = 1000, 1001
START = f"layer={KEY!r}, layerTarget='/packages', ownerUid={ALICE}"

MAKE_LAYER = """
umask 022
mkdir -p -m 0700 "$0/$1" "$0/$1/$2"
mkdir -p "$0/$1/$2/tree"
cd "$0/$1/$2/tree"
cat >answer.py
echo "$1/$2" >whose
cp /usr/bin/id tool
echo 'int answer(void) { return 42; }' | gcc -shared -fPIC -x c - -o native.so
chown sbxctl:sbxctl "$0/$1"
chown -R sbxctl:sbxctl "$0/$1/$2"
chmod 4755 tool
# The mount is what protects them.
chmod 0777 .
chmod 0666 answer.py
"""


@pytest.fixture(scope="module")
def engine(machine):
    engine = Engine(machine)
    engine.wait_until_empty(timeout=10)
    return engine


@pytest.fixture(autouse=True, scope="module")
def layers(machine):
    """One of alice, another of hers, and one of bob's."""
    for uid, key in ((ALICE, KEY), (ALICE, OTHER_KEY), (BOB, OTHER_KEY)):
        machine.run(["bash", "-euc", MAKE_LAYER, LAYERS, str(uid), key], input=b"answer = 42\n", check=True)
    yield
    machine.run(["rm", "-rf", f"{LAYERS}/{ALICE}", f"{LAYERS}/{BOB}"], check=True)


def refusal(engine, start):
    """What the engine says instead of giving a sandbox."""
    message = engine.broker(
        f"""
        try:
            with Sandbox({start}) as s:
                answer("started")
        except EngineError as e:
            answer(e.args[0]["message"])
        """
    )
    engine.wait_until_empty()
    return message


# ---- layers


def test_modules_of_a_layer_can_be_imported_and_its_shared_objects_loaded(engine):
    assert engine.inside(
        """
        import ctypes, json, sys
        sys.path.insert(0, "/packages")
        import answer
        print(json.dumps([answer.answer, answer.__file__, ctypes.CDLL("/packages/native.so").answer()]))
        """,
        start=START,
    ) == [42, "/packages/answer.py", 42]


def test_layer_can_be_put_where_node_looks(engine):
    start = START.replace("/packages", "/node_modules")
    listed = "import json, os; print(json.dumps(sorted(os.listdir('/node_modules'))))"
    assert engine.inside(listed, start=start) == ["answer.py", "native.so", "tool", "whose"]
    assert engine.inside("import json, os; print(json.dumps(os.path.exists('/packages/whose')))", start=start) is False


def test_nothing_in_a_layer_can_be_changed(engine):
    errors = engine.inside(
        """
        import errno, json, os
        errors = []
        for act in (
            lambda: open("/packages/new", "w"),
            lambda: open("/packages/answer.py", "a"),
            lambda: os.chmod("/packages/answer.py", 0o777),
            lambda: os.unlink("/packages/answer.py"),
            lambda: os.rename("/packages/answer.py", "/packages/new"),
            lambda: os.rename("/packages", "/other"),
            lambda: os.utime("/packages/answer.py"),
        ):
            try:
                act()
                errors.append("done")
            except OSError as e:
                errors.append(errno.errorcode[e.errno])
        print(json.dumps(errors))
        """,
        start=START,
    )
    assert set(errors) <= {"EROFS", "EPERM"}, errors


def test_layer_is_mounted_read_only_and_its_set_id_bits_mean_nothing(engine):
    options, ids = engine.inside(
        """
        import json, os, subprocess
        rows = [line.split() for line in open("/proc/self/mountinfo")]
        options = [row[5].split(",") for row in rows if row[4] == "/packages"]
        assert os.stat("/packages/tool").st_mode & 0o7777 == 0o4755
        print(json.dumps([options, subprocess.run(["/packages/tool"], capture_output=True, text=True).stdout]))
        """,
        start=START,
    )
    assert len(options) == 1 and "ro" in options[0]
    assert ids.startswith("uid=") and "euid" not in ids
    if engine.name == "systemd":
        assert "nosuid" in options[0]


def test_layer_of_others_and_other_layers_are_nowhere(engine):
    found, kept = engine.inside(
        """
        import json, os
        found = []
        for folder, folders, names in os.walk("/"):
            if folder == "/":
                folders.remove("proc")
            found += [f"{folder}/{name}" for name in names if name == "whose"]
        print(json.dumps([found, [path for path in ("/var/lib/sbxctl", "/layers", "/packages/..data")
            if os.path.exists(path)]]))
        """,
        start=START,
    )
    assert (found, kept) == (["/packages/whose"], [])


def test_sandbox_without_a_layer_has_none(engine):
    assert engine.inside(
        """
        import json, os
        places = [place for place in ("/packages", "/node_modules", "/wheels") if os.path.isdir(place)]
        print(json.dumps([name for place in places for name in os.listdir(place)]))
        """
    ) == []


def test_npm_finds_no_project_above_the_workspace(engine):
    assert engine.inside("import json, os; print(json.dumps(os.path.lexists('/node_modules')))") is False


def test_layer_comes_from_its_owner_only(engine):
    assert refusal(engine, START.replace(str(ALICE), str(BOB))) != "started"
    assert engine.inside(
        "import json; print(json.dumps(open('/packages/whose').read()))",
        start=f"layer={OTHER_KEY!r}, layerTarget='/packages', ownerUid={BOB}",
    ) == f"{BOB}/{OTHER_KEY}\n"


def test_nobody_on_the_machine_gets_at_a_layer(machine):
    for user in ("alice", "bob"):
        for path in (LAYERS, f"{LAYERS}/{ALICE}/{KEY}/tree/answer.py"):
            assert b"Permission denied" in machine.run(["ls", path], user).stderr


# ---- an index of the administrator's


@pytest.fixture
def wheels(machine):
    """A directory of root's for a test to spoil."""
    machine.run(["mkdir", "-m", "0755", "-p", "/srv/test/wheels"], check=True)
    machine.write("/srv/test/wheels/one.whl", b"wheel")
    yield "/srv/test/wheels"
    machine.run(["rm", "-rf", "/srv/test"], check=True)


def test_wheels_are_there_read_only(engine, wheels):
    assert engine.inside(
        """
        import json, os
        try:
            written = repr(open("/wheels/new", "w"))
        except OSError as e:
            written = e.strerror
        print(json.dumps([os.listdir("/wheels"), open("/wheels/one.whl").read(), written]))
        """,
        start=f"wheels={wheels!r}",
    ) == [["one.whl"], "wheel", "Read-only file system"]


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        ("chown alice {}", "Operation not permitted"),
        ("chmod g+w {}", "Operation not permitted"),
        ("chmod o+w {}", "Operation not permitted"),
        ("chown alice {}/..", "Operation not permitted"),
        ("chmod o+w {}/..", "Operation not permitted"),
        ("mv {} {}.real; ln -s wheels.real {}", "Not a directory"),
        ("mv /srv/test /srv/test.real; ln -s test.real /srv/test", "Not a directory"),
        ("rm -r {}", "No such file or directory"),
        ("rm -r {}; touch {}", "Not a directory"),
    ],
)
def test_wheels_that_others_could_replace_are_refused(engine, machine, wheels, spoil, reason):
    try:
        machine.run(["sh", "-euc", spoil.replace("{}", wheels)], check=True)
        said = refusal(engine, f"wheels={wheels!r}")
    finally:
        machine.run(["rm", "-rf", "/srv/test", "/srv/test.real"], check=True)
    assert f"The index of packages {wheels} cannot be used ({reason})" in said
