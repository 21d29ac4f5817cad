"""The installers of packages (helper/packages/), run as an ordinary user and without a sandbox: what they install, what
they say about it, and how they fail. The index is package_index.py's.
"""

import hashlib
import json
import pathlib

import pytest

pytestmark = pytest.mark.long  # the installers alone; test_packages.py has them in their sandboxes

PACKAGES = pathlib.Path(__file__).parents[2] / "helper" / "packages"
MARKER = "/tmp/code-of-a-package-ran"
ESCAPED = ("/tmp/escaped.py", "/tmp/escaped.js")
DEAD = "http://127.0.0.1:1"


@pytest.fixture(scope="module")
def index(machine):
    """The address of the indexes."""
    serving = machine.popen(machine.python("import package_index; package_index.serve()"))
    port = int(serving.popen.stdout.readline())
    yield f"http://127.0.0.1:{port}"
    serving.signal("KILL")
    serving.finish()


@pytest.fixture(scope="module")
def stranger(machine):
    """The address of one with a certificate that nobody vouches for."""
    keep = "-keyout /run/stranger.key -out /run/stranger.pem"
    machine.run(["sh", "-c", f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=stranger {keep}"], check=True)
    serving = machine.popen(["openssl", "s_server", "-accept", "127.0.0.1:47443", "-key", "/run/stranger.key",
                             "-cert", "/run/stranger.pem", "-www"])
    while b"ACCEPT" not in (line := serving.popen.stdout.readline()):
        assert line, "it listens"
    yield "https://localhost:47443/"
    serving.signal("KILL")
    serving.finish()
    machine.run(["rm", "/run/stranger.key", "/run/stranger.pem"], check=True)


class Installer:
    """One language's, and where it puts things. Each request gets a directory of its own."""

    def __init__(self, machine, program, command, tree):
        self.machine = machine
        self.command = command
        self.tree = tree
        self.home = machine.directory()
        self.path = f"{self.home}/{program}"
        machine.write(self.path, (PACKAGES / program).read_bytes(), "alice")

    def start(self, index, *requirements, limits=(), **more):
        self.folder = self.machine.directory()
        request = {"target": f"{self.folder}/{self.tree}", "index": index, "requirements": requirements,
                   "bytes": 32 << 20, "seconds": 60, "most": 1000} | more
        self.machine.write(f"{self.folder}/request", json.dumps(request).encode(), "alice")
        return self.machine.run([*limits, *self.command, self.path, f"{self.folder}/request"], "alice", timeout=90)

    def events(self, *arguments, **more):
        result = self.start(*arguments, **more)
        assert result.errors == "", result
        events = [json.loads(line) for line in result.text.splitlines()]
        assert (result.status == 0) == (events[-1]["event"] == "done"), result
        return events

    def install(self, *arguments, **more):
        """Installs, which must work. Returns what was resolved, as {name: package}."""
        events = self.events(*arguments, **more)
        assert events[-1]["event"] == "done", events[-1]
        (resolved,) = [event for event in events if event["event"] == "resolved"]
        return {package["name"]: package for package in resolved["packages"]}

    def failure(self, *arguments, **more):
        """The error that must come."""
        events = self.events(*arguments, **more)
        assert events[-1]["event"] == "error", events[-1]
        for text in (events[-1]["message"], events[-1]["hint"]):
            assert "\n" not in text and len(text) < 500 and text.endswith("."), text
        return events[-1]

    def kind(self, *arguments, **more):
        failure = self.failure(*arguments, **more)
        return failure["kind"], failure["package"]

    def files(self):
        found = self.machine.run(["find", f"{self.folder}/{self.tree}", "-printf", "%P %y\\n"], check=True)
        return {line.rpartition(" ")[0]: line[-1] for line in found.text.splitlines()}

    def read(self, name):
        return self.machine.read(f"{self.folder}/{self.tree}/{name}").decode()


def nothing_ran_or_escaped(machine):
    return machine.run(["ls", MARKER, *ESCAPED]).stdout == b""


@pytest.fixture(autouse=True)
def clean(machine):
    machine.run(["rm", "-f", MARKER, *ESCAPED], check=True)
    yield
    assert nothing_ran_or_escaped(machine)


# ---- Python


@pytest.fixture(scope="module")
def python(machine):
    return Installer(machine, "install-python.py", ["python3"], "tree")


@pytest.fixture
def run(machine, python):
    """Runs Python code with what was installed."""

    def run(code):
        environment = ["env", f"PYTHONPATH={python.folder}/tree", "PYTHONDONTWRITEBYTECODE=1"]
        return machine.run([*environment, "python3", "-c", code], "alice", check=True).text.strip()

    return run


@pytest.mark.parametrize("page", ["simple", "html"])
def test_package_comes_with_what_it_needs(python, index, run, page):
    resolved = python.install(f"{index}/{page}/", "tea")
    assert {name: package["version"] for name, package in resolved.items()} == {"tea": "2.0", "leaf": "1.1"}
    assert all(package["hash"].startswith("sha256:") for package in resolved.values())
    assert run("import tea, leaf; print(tea.version, leaf.version)") == "2.0 1.1"


def test_versions_that_were_asked_for_are_taken(python, index):
    resolved = python.install(f"{index}/simple/", "tea<2", "leaf==1.0")
    assert {name: package["version"] for name, package in resolved.items()} == {"tea": "1.0", "leaf": "1.0"}


def test_every_file_comes_once(python, index, machine):
    fetch = ["python3", "-c", f"import urllib.request as r; print(r.urlopen('{index}/requests').read().decode())"]
    before = json.loads(machine.run(fetch, check=True).text)
    python.install(f"{index}/simple/", "tea")
    after = json.loads(machine.run(fetch, check=True).text)[len(before) :]
    files = [path for path in after if path.startswith("/files/")]
    assert sorted(files) == ["/files/leaf-1.1-py3-none-any.whl", "/files/tea-2.0-py3-none-any.whl"]


def test_progress_is_told_in_order(python, index):
    events = [event for event in python.events(f"{index}/simple/", "tea") if event["event"] == "progress"]
    phases = [event["phase"] for event in events]
    assert [phase for phase in ("resolve", "download", "install") if phase in phases] == ["resolve", "download", "install"]
    assert phases.index("resolve") < phases.index("download") < phases.index("install")
    assert events[0]["name"] == "tea"
    assert [(e["current"], e["total"]) for e in events if e["phase"] == "install"] == [(0, 2), (2, 2)]


def test_name_may_differ_from_the_import(python, index, run):
    assert set(python.install(f"{index}/simple/", "py-kettle")) == {"py-kettle"}
    assert run("import kettle; print(kettle.hot)") == "True"


def test_compiled_package_is_loaded(python, index, run):
    python.install(f"{index}/simple/", "compiled")
    assert run("import compiled; print(compiled.answer())") == "42"


def test_bytecode_is_made(python, index):
    python.install(f"{index}/simple/", "leaf")
    assert [name for name in python.files() if name.startswith("__pycache__/leaf.")]


def test_directory_of_wheels_needs_no_network(python, machine, run):
    folder = machine.directory()
    machine.run(["chmod", "0755", folder], check=True)
    code = f"import package_index; package_index.write_wheels({folder!r})"
    machine.run(machine.python(code), "alice", check=True)
    assert set(python.install(folder, "tea", limits=["unshare", "--map-root-user", "--net"])) == {"tea", "leaf"}
    assert run("import tea; print(tea.version)") == "2.0"
    assert python.kind(folder, "nowhere") == ("not-found", "nowhere")


def test_settings_of_the_user_mean_nothing(python, index, machine):
    machine.run(["mkdir", "-p", "/home/alice/.config/pip"], "alice", check=True)
    machine.write("/home/alice/.config/pip/pip.conf", f"[global]\nindex-url={DEAD}/\nuser=yes\n".encode(), "alice")
    try:
        assert python.install(f"{index}/simple/", "leaf", limits=["env", f"PIP_INDEX_URL={DEAD}/", "PIP_NO_INDEX=1"])
    finally:
        machine.run(["rm", "-r", "/home/alice/.config/pip"], check=True)


def test_more_packages_than_can_be_told_of_are_refused(python, index):
    assert set(python.install(f"{index}/simple/", "tea", most=2)) == {"tea", "leaf"}
    failure = python.failure(f"{index}/simple/", "tea", most=1)
    assert failure["kind"] == "too-large" and "needs 2 packages, and no more than 1" in failure["message"]


# Each of these is one line with what to do.
@pytest.mark.parametrize(
    ("requirements", "kind", "package"),
    [
        (["nowhere"], "not-found", "nowhere"),
        (["tea==9"], "not-found", "tea==9"),
        (["orphan"], "not-found", "nowhere"),
        # What is left out of one that can be had says nothing about the other.
        (["picky", "nowhere"], "not-found", "nowhere"),
        (["sourdough"], "needs-build", "sourdough"),
        (["elsewhere"], "no-wheel", "elsewhere"),
        (["ancient"], "no-wheel", "ancient"),
        (["secretive"], "no-wheel", "secretive"),
        (["retracted"], "yanked", "retracted"),
        (["quarrel", "leaf>=1.1"], "conflict", ""),
        (["sulk"], "not-found", "leaf>1.1"),
        (["tampered"], "hash", "tampered"),
        (["broken"], "other", ""),
        (["dotdot"], "other", "dotdot==1.0"),
        (["absolute"], "other", "absolute==1.0"),
        (["bomb"], "too-large", ""),
        (["endless-file"], "too-large", ""),
    ],
)
def test_failure_has_its_kind(python, index, requirements, kind, package):
    assert python.kind(f"{index}/simple/", *requirements) == (kind, package)


@pytest.mark.parametrize(("name", "kind"), [("sourdough", "needs-build"), ("retracted", "yanked"), ("ancient", "no-wheel"),
                                            ("tampered", "hash")])
def test_failure_has_its_kind_with_an_older_index(python, index, name, kind):
    assert python.kind(f"{index}/html/", name) == (kind, name)


def test_withdrawn_version_is_not_taken_unless_it_is_asked_for(python, index):
    assert python.install(f"{index}/simple/", "regretted")["regretted"]["version"] == "1.0"
    assert python.install(f"{index}/simple/", "regretted==2.0")["regretted"]["version"] == "2.0"


@pytest.mark.parametrize(("where", "said"), [(f"{DEAD}/", "cannot be reached"), ("{}/broken/", "cannot be reached"),
                                             ("http://nowhere.invalid/", "cannot be reached"),
                                             ("{}/slow/", "did not answer in time")])
def test_index_that_is_down_is_told_within_ten_seconds(python, index, machine, where, said):
    where = where.replace("{}", index)
    failure = python.failure(where, "tea", limits=["timeout", "10"])
    assert (failure["kind"], failure["message"]) == ("index-down", f"The package index {where} {said}.")


def test_index_that_nobody_vouches_for_is_told(python, stranger):
    failure = python.failure(stranger, "tea", limits=["timeout", "10"])
    words = f"The package index {stranger} has a certificate that is not trusted here."
    assert (failure["kind"], failure["message"]) == ("index-down", words)
    assert "update-ca-certificates" in failure["hint"]


def test_endless_page_ends_with_the_time(python, index):
    assert python.kind(f"{index}/endless/", "tea", seconds=2)[0] in ("index-down", "too-large")


def test_hashes_are_kept_to(python, index, machine):
    page = f"{index}/simple/"
    hashes = {name: package["hash"] for name, package in python.install(page, "tea").items()}
    tea, leaf = f"tea==2.0 --hash={hashes['tea']}", f"leaf==1.1 --hash={hashes['leaf']}"
    assert set(python.install(page, tea, leaf, requireHashes=True)) == {"tea", "leaf"}
    assert python.kind(page, "leaf==1.1", requireHashes=True) == ("hash", "leaf==1.1")
    assert python.kind(page, tea, requireHashes=True) == ("hash", "")
    assert python.kind(page, tea, "leaf==1.1", requireHashes=True) == ("hash", "leaf==1.1")
    wrong = "sha256:" + hashlib.sha256(b"other").hexdigest()
    assert python.kind(page, f"leaf==1.1 --hash={wrong}") == ("hash", "leaf==1.1")


def test_links_in_a_wheel_become_files(python, index):
    python.install(f"{index}/simple/", "linked")
    assert set(python.files().values()) == {"d", "f"}
    assert python.read("linked/passwd") == "/etc/passwd"


def test_start_up_files_have_no_effect(python, index, run):
    python.install(f"{index}/simple/", "startup")
    assert "startup.pth" in python.files()
    assert run("import startup; print(startup.fine)") == "True"


def test_entry_points_shadow_nothing(python, index, machine):
    python.install(f"{index}/simple/", "shadow")
    assert {"bin/python", "bin/sh", "bin/steep"} <= set(python.files())
    path = f"/usr/bin:/bin:{python.folder}/tree/bin"
    found = machine.run(["env", f"PATH={path}", "sh", "-c", "for n in python3 sh steep; do command -v $n; done"], "alice")
    assert found.text.split() == ["/usr/bin/python3", "/usr/bin/sh", f"{python.folder}/tree/bin/steep"]


def test_source_is_built_only_if_that_is_allowed(python, index, machine):
    # The index of the tests has no setuptools, without which nothing can be built: but it is asked for.
    kind, package = python.kind(f"{index}/simple/", "sourdough", onlyBinary=False)
    assert kind == "not-found" and package.startswith("setuptools")


def test_missing_pip_is_told(python, index, machine):
    hide = "import importlib.util, runpy, sys; importlib.util.find_spec = lambda name: None; " \
           "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    python.command = ["python3", "-c", hide]
    try:
        failure = python.failure(f"{index}/simple/", "leaf")
    finally:
        python.command = ["python3"]
    assert failure["kind"] == "no-installer"
    assert "python3-pip" in failure["hint"]


# ---- Node


@pytest.fixture(scope="module")
def node(machine):
    return Installer(machine, "install-node.mjs", ["node"], "node_modules")


@pytest.fixture
def require(machine, node):
    """Evaluates an expression of Node's with what was installed."""

    def require(expression):
        code = f"require = require('module').createRequire('{node.folder}/x.js'); console.log({expression})"
        return machine.run(["node", "-e", code], "alice", check=True).text.strip()

    return require


def test_node_package_comes_with_what_it_needs(node, index, require):
    resolved = node.install(f"{index}/npm/", "kettle", "@tea/pot")
    assert {name: p["version"] for name, p in resolved.items()} == {"kettle": "2.0.0", "leaf": "1.1.0", "@tea/pot": "1.0.0"}
    assert all(package["hash"].startswith("sha512-") for package in resolved.values())
    assert require("require('kettle').version, require('kettle').leaf, require('@tea/pot')") == "2.0.0 1.1.0 plain"


def test_node_versions_that_were_asked_for_are_taken(node, index):
    resolved = node.install(f"{index}/npm/", "kettle@^1", "leaf@1.0.0")
    assert {name: package["version"] for name, package in resolved.items()} == {"kettle": "1.0.0", "leaf": "1.0.0"}


def test_node_package_that_is_called_otherwise_is_told_by_its_own_name(node, index):
    assert set(node.install(f"{index}/npm/", "masked")) == {"masked", "leaf"}


def test_node_progress_is_told_in_order(node, index):
    phases = [event["phase"] for event in node.events(f"{index}/npm/", "kettle") if event["event"] == "progress"]
    assert phases == ["resolve", "download", "install"]


def test_more_node_packages_than_can_be_told_of_are_refused(node, index):
    failure = node.failure(f"{index}/npm/", "kettle", most=1)
    assert failure["kind"] == "too-large" and "needs 2 packages, and no more than 1" in failure["message"]


def test_programs_of_node_packages_are_no_links(node, index, machine):
    node.install(f"{index}/npm/", "kettle", "@tea/quo'ted")
    assert {node.files()[f".bin/{name}"] for name in ("steep", "pour")} == {"f"}
    for name, said in (("steep", "steeped 2.0.0 [a b,]"), ("pour", "poured")):
        done = machine.run([f"{node.folder}/node_modules/.bin/{name}", "a b", ""], "alice", check=True)
        assert done.text == said + "\n"


def test_no_script_of_a_node_package_runs(node, index, require):
    node.install(f"{index}/npm/", "scripted")
    assert require("require('scripted')") == "plain"


def test_odd_entries_of_a_node_package_stay_out(node, index):
    node.install(f"{index}/npm/", "odd")
    assert {"odd/index.js", "odd/package.json"} <= set(node.files())
    assert not [name for name in node.files() if "passwd" in name]


@pytest.mark.parametrize(
    ("requirements", "kind"),
    [
        (["nowhere"], "not-found"),
        (["kettle@9"], "not-found"),
        (["orphan"], "not-found"),
        (["tampered"], "hash"),
        (["quarrel", "kettle@2"], "conflict"),
        (["bomb"], "too-large"),
    ],
)
def test_node_failure_has_its_kind(node, index, requirements, kind):
    failure = node.failure(f"{index}/npm/", *requirements)
    assert failure["kind"] == kind, failure


@pytest.mark.parametrize(("where", "said"), [(f"{DEAD}/", "cannot be reached"), ("{}/broken/", "cannot be reached"),
                                             ("http://nowhere.invalid/", "cannot be reached"),
                                             ("{}/slow/", "did not answer in time")])
def test_node_index_that_is_down_is_told_within_ten_seconds(node, index, where, said):
    where = where.replace("{}", index)
    failure = node.failure(where, "kettle", limits=["timeout", "10"])
    assert (failure["kind"], failure["message"]) == ("index-down", f"The package index {where} {said}.")


def test_node_index_that_nobody_vouches_for_is_told(node, stranger):
    failure = node.failure(stranger, "kettle", limits=["timeout", "10"])
    words = f"The package index {stranger} has a certificate that is not trusted here."
    assert (failure["kind"], failure["message"]) == ("index-down", words)
    assert "update-ca-certificates" in failure["hint"]


def test_missing_npm_is_told(node, index, machine):
    only_node = f"{machine.directory()}/bin"
    make = 'mkdir "$0"; ln -s "$(command -v node)" "$(command -v sh)" "$0"'
    machine.run(["sh", "-euc", make, only_node], "alice", check=True)
    failure = node.failure(f"{index}/npm/", "kettle", limits=["env", f"PATH={only_node}"])
    assert failure["kind"] == "no-installer"
    assert "npm" in failure["hint"]


def test_node_packages_do_not_come_from_a_directory(node):
    assert node.kind("/wheels", "kettle") == ("other", "")
