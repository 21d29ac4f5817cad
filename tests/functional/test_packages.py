"""Packages that a run asks for: installed in a sandbox of their own from the administrator's index, kept for
the user, lent to the run. The index is package_index.py's, on an address of the machine's own; what the
installers say is test_package_installers.py's, how layers are mounted test_layers.py's.
"""

import contextlib
import json
import subprocess
import tarfile
import time

import docker_engine
import pytest
from approvals import NO, rules
from engines import ENGINES

ADDRESS, PORT = "198.51.100.9", 8080
INDEX = f"http://{ADDRESS}:{PORT}"
CONFIG = f"[Packages]\nIndex={INDEX}/simple/\nNodeIndex={INDEX}/npm/\n"
LAYERS = "/var/lib/sbxctl/layers"
MARKER = "/tmp/code-of-a-package-ran"
TEA = "import tea, leaf; print(tea.version, leaf.version, tea.__file__)"
MADE_OF_TEA = "2.0 1.1 /packages/tea.py\n"


@pytest.fixture(scope="module", autouse=True)
def index(machine):
    machine.run(["ip", "address", "replace", f"{ADDRESS}/32", "dev", "lo"], check=True)
    serving = machine.popen(machine.python(f"import package_index; package_index.serve({ADDRESS!r}, {PORT})"))
    try:
        assert serving.popen.stdout.readline() == f"{PORT}\n".encode(), serving.finish()
        with machine.configured(CONFIG, "80-packages"):
            yield
    finally:
        serving.signal("KILL")
        serving.finish()
        machine.run(["ip", "address", "del", f"{ADDRESS}/32", "dev", "lo"])


@pytest.fixture(autouse=True)
def no_layers(machine, index):
    """Each test begins without any, and leaves no half of one."""
    remove_layers(machine)
    machine.run(["rm", "-f", MARKER], check=True)
    yield
    assert machine.run(["sh", "-c", f"ls -d {MARKER} {LAYERS}/*/*.new {LAYERS}/*/*.old"]).text == ""
    remove_layers(machine)


def remove_layers(machine):
    for user in ("alice", "bob"):
        machine.sbxctl(["packages", "rm", "--all"], user)
    assert layers(machine, "alice") == layers(machine, "bob") == []


@pytest.fixture(params=["systemd", "docker"])
def engine(request, machine):
    if request.param == "docker":
        docker_engine.use_machine_as_image(machine)
    return request.param


def run(machine, *packages, code=TEA, args=(), user="alice"):
    """The result object of a run that has them."""
    wishes = [word for package in packages for word in ("--with", package)]
    return machine.run_json([*wishes, *args, "-c", code], user)


def failure(machine, *packages, args=(), **more):
    """What keeps them from being there: the error object; the text is two lines."""
    error = run(machine, *packages, args=args, **more)
    assert error["error"] == "io.sbxctl.Sandbox.PackagesUnavailable", error
    assert "\n" not in error["reason"] and error["hint"].endswith("."), error
    return error


def layers(machine, user="alice"):
    return json.loads(machine.sbxctl(["packages", "--json"], user).stdout)["layers"]


def fetch(machine, path):
    program = f"import urllib.request as r; print(r.urlopen('{INDEX}{path}').read().decode())"
    return machine.run(["python3", "-c", program], check=True).text


def requests(machine):
    return json.loads(fetch(machine, "/requests"))


@contextlib.contextmanager
def asked(machine):
    """A list that holds, after it, which paths the index was asked for in between."""
    before, between = len(requests(machine)), []
    yield between
    between += [path for path in requests(machine)[before:] if path != "/requests"]


def starting(machine, user="alice"):
    runs = json.loads(machine.sbxctl(["ps", "--json"], user).stdout)["runs"]
    return [run for run in runs if run["status"] == "starting"]


def records(machine, run_id):
    return machine.journal(f"SBXCTL_RUN_ID={run_id}", "_SYSTEMD_UNIT=sbxctl-helper.service")


def values(entry, field):
    value = entry.get(field, [])
    return [value] if isinstance(value, str) else value


# ---- what a run gets


def test_packages_are_there_with_what_they_need_and_are_told(machine, engine):
    result = run(machine, "Tea", args=["--engine", engine])
    assert result["stdout"]["text"] == MADE_OF_TEA, result
    assert [(p["name"], p["version"]) for p in result["packages"]] == [("leaf", "1.1"), ("tea", "2.0")]
    assert all(p["hash"].startswith("sha256:") for p in result["packages"])
    (layer,) = layers(machine)
    assert layer["key"] == result["layer"] and layer["requested"] == ["tea"]
    assert (layer["engine"], layer["language"], layer["inUse"]) == (engine, "python", False)

    shown = machine.sbxctl(["show", result["id"]]).text
    assert "\n2 packages\n  leaf==1.1 tea==2.0\n" in shown

    (entry,) = [e for e in records(machine, result["id"]) if "SBXCTL_LAYER" in e]
    assert (entry["SBXCTL_RESULT"], entry["SBXCTL_LAYER"]) == ("installed", result["layer"])
    assert values(entry, "SBXCTL_PACKAGES") == ["tea"] and int(entry["SBXCTL_DURATION_USEC"]) > 0
    expected = [f"{p['name']}=={p['version']} {p['hash']}" for p in result["packages"]]
    assert values(entry, "SBXCTL_PACKAGE") == expected
    told = [e["SBXCTL_PACKAGES"] for e in records(machine, result["id"]) if "SBXCTL_REQUEST_SHA256" in e]
    assert len(told) >= 4 and set(told) == {"tea"}


def test_second_run_builds_nothing(machine, engine):
    first = run(machine, "tea", args=["--engine", engine])
    with asked(machine) as paths:
        second = run(machine, "tea", args=["--engine", engine])
    assert second["stdout"]["text"] == MADE_OF_TEA and second["layer"] == first["layer"]
    assert second["packages"] == first["packages"]
    assert paths == []
    (entry,) = [e for e in records(machine, second["id"]) if "SBXCTL_LAYER" in e]
    assert entry["SBXCTL_RESULT"] == "found"


def test_two_runs_that_need_the_same_build_it_once(machine):
    command = ["sbxctl", "run", "--json", "--with", "tea", "-c", TEA]
    with asked(machine) as paths, machine.configured(f"[Packages]\nIndex={INDEX}/gated/\n"):
        both = [machine.popen(command, "alice") for _ in range(2)]
        machine.wait_for(lambda: len(starting(machine)) == 2, 10, "both to wait")
        machine.wait_for(lambda: "/gated/tea/" in requests(machine), 10, "the index to be asked")
        fetch(machine, "/open")
        results = [json.loads(running.finish().stdout) for running in both]
    assert [result["stdout"]["text"] for result in results] == [MADE_OF_TEA] * 2, results
    assert len([path for path in paths if path.startswith("/files/tea")]) == 1
    assert len(layers(machine)) == 1


def test_layers_are_each_users_own(machine):
    hers = run(machine, "tea")
    with asked(machine) as paths:
        his = run(machine, "tea", user="bob")
    assert any(path.startswith("/files/tea") for path in paths)
    assert his["stdout"]["text"] == MADE_OF_TEA
    removed = machine.sbxctl(["packages", "rm", hers["layer"]], "bob")
    assert removed.status == 0 and [len(layers(machine, user)) for user in ("alice", "bob")] == [1, 0]
    assert machine.sbxctl(["packages", "rm", hers["layer"]], "bob").status == 125


def test_the_callers_own_paths_come_after_and_the_systems_programs_first(machine):
    code = "import os, shutil, sys; print(os.environ['PYTHONPATH'], os.environ['PATH'], shutil.which('steep'))"
    result = run(machine, "shadow", code=code, args=["-e", "PYTHONPATH=/workspace/mine", "-e", "PATH=/usr/bin"])
    assert result["stdout"]["text"] == "/packages:/workspace/mine:/usr/lib/sbxctl/inside /usr/bin:/packages/bin /packages/bin/steep\n"
    code = "import shutil; print(shutil.which('python3'), shutil.which('sh'))"
    assert "/packages" not in run(machine, "shadow", code=code)["stdout"]["text"]


def test_node_has_its_packages_too(machine, engine):
    code = "console.log(require('kettle').version, require('kettle').leaf)"
    result = run(machine, "kettle@^1", code=code, args=["-l", "node", "--engine", engine])
    assert result["stdout"]["text"] == "1.0.0 1.1.0\n", result
    assert {p["name"]: p["version"] for p in result["packages"]} == {"kettle": "1.0.0", "leaf": "1.1.0"}
    module = machine.script("import kettle from 'kettle'; import pot from '@tea/pot'; console.log(pot, kettle.version)", "s.mjs")
    result = machine.run_json(["--with", "kettle", "--with", "@tea/pot", "--engine", engine, module])
    assert result["stdout"]["text"] == "plain 2.0.0\n", result


def test_programs_of_packages_are_found(machine, engine):
    args = ["--engine", engine]
    assert run(machine, "shadow", code="import subprocess; print(subprocess.call('steep'))", args=args)["stdout"]["text"] == "0\n"
    code = "for (const words of [['steep', 'a b'], ['npx', '--no', 'steep', 'c']])" \
           "console.log(require('child_process').execFileSync(words[0], words.slice(1)).toString().trim())"
    result = run(machine, "kettle", code=code, args=["-l", "node", *args])
    assert result["stdout"]["text"] == "steeped 2.0.0 [a b]\nsteeped 2.0.0 [c]\n", result


def test_a_run_has_no_network_by_its_packages(machine):
    code = f"""
import os, socket
print([name for name in os.environ if "proxy" in name.lower()], [name for _, name in socket.if_nameindex()])
print(os.strerror(socket.socket().connect_ex(({ADDRESS!r}, {PORT}))))
"""
    assert run(machine, "tea", code=code)["stdout"]["text"] == "[] ['lo']\nNetwork is unreachable\n"


def test_a_list_of_requirements_with_hashes(machine):
    hashes = {p["name"]: p["hash"] for p in run(machine, "tea")["packages"]}
    pinned = f"# made by hand\ntea==2.0 \\\n    --hash={hashes['tea']}\nleaf==1.1 --hash={hashes['leaf']}  # via tea\n\n"
    folder = machine.directory()
    machine.write(f"{folder}/requirements.txt", pinned.encode(), "alice")
    args = ["--with", "-r", f"{folder}/requirements.txt", "--require-hashes"]
    result = machine.run_json([*args, "-c", TEA])
    assert result["stdout"]["text"] == MADE_OF_TEA, result

    machine.write(f"{folder}/requirements.txt", pinned.replace(hashes["leaf"], "sha256:" + "0" * 64).encode(), "alice")
    assert machine.run_json([*args, "-c", TEA])["kind"] == "hash"
    assert failure(machine, "tea==2.0", args=["--require-hashes"])["kind"] == "hash"

    machine.write(f"{folder}/requirements.txt", b"tea\n-e .\n", "alice")
    refused = machine.sbxctl(["run", *args, "-c", TEA])
    assert refused.status == 125 and "line 2: the option '-e .' cannot be used here" in refused.errors


# ---- why not


@pytest.mark.parametrize(
    ("package", "kind", "words"),
    [
        ("nowhere", "not-found", "has no package nowhere"),
        ("tea>=9", "not-found", "no such version of tea>=9"),
        ("sourdough", "needs-build", "comes as source only"),
        ("elsewhere", "no-wheel", "no wheel of elsewhere"),
        ("retracted", "yanked", "withdrawn"),
        ("tampered", "hash", "not what its hash says"),
        ("dotdot", "other", "outside of its folder"),
        ("absolute", "other", "outside of its folder"),
    ],
)
def test_what_cannot_be_installed_is_told_in_a_line(machine, package, kind, words):
    error = failure(machine, package)
    assert error["kind"] == kind and words in error["reason"]
    text = machine.sbxctl(["run", "--with", package, "-c", TEA])
    assert text.status == 125 and text.text == "" and len(text.errors.splitlines()) == 2, text
    assert layers(machine) == []


def test_a_run_that_is_refused_for_its_packages_says_so_in_its_record(machine):
    failure(machine, "nowhere")
    (*_, entry) = [e for e in machine.journal("SBXCTL_PACKAGES=nowhere") if "SBXCTL_DURATION_USEC" in e]
    assert entry["SBXCTL_RESULT"] == "The index has no package nowhere."


@pytest.mark.parametrize(
    ("where", "words"),
    [("http://127.0.0.1:1/", "cannot be reached"), (f"{INDEX}/slow/", "did not answer in time"),
     ("http://nowhere.invalid/", "cannot be reached")],
)
def test_index_that_is_down_is_told_within_ten_seconds(machine, where, words):
    with machine.configured(f"[Packages]\nIndex={where}\n"):
        run(machine, code="1")
        began = time.monotonic()
        error = failure(machine, "tea")
        assert time.monotonic() - began < 10 * machine.patience
    assert (error["kind"], error["reason"]) == ("index-down", f"The package index {where} {words}.")


def test_lists_of_the_administrator_hold_for_names_and_for_what_comes_along(machine):
    with machine.configured("[Packages]\nDenied=LEAF\n"):
        assert run(machine, "leaf")["reason"] == "The package 'leaf' is refused by Denied=LEAF."
        error = failure(machine, "tea")
        assert error["kind"] == "denied" and error["package"] == "leaf"
        assert run(machine, "py_kettle", code="import kettle; print(kettle.hot)")["stdout"]["text"] == "True\n"
        assert failure(machine, "masked", code="1", args=["-l", "node"])["package"] == "leaf"
        assert run(machine, "heir", code="console.log(require('heir'))", args=["-l", "node"])["stdout"]["text"] == "plain\n"
    # A layer from before the list was longer is no way around it.
    assert run(machine, "tea")["stdout"]["text"] == MADE_OF_TEA
    with machine.configured("[Packages]\nDenied=leaf\n"):
        error = failure(machine, "tea")
        assert error["kind"] == "denied" and error["package"] == "leaf"
    with machine.configured("[Packages]\nAllowed=tea\n"):
        assert run(machine, "tea")["stdout"]["text"] == MADE_OF_TEA
        assert run(machine, "py-kettle")["reason"] == "The package 'py-kettle' is not in Allowed=."
    with machine.configured("[Packages]\nAllowed=\n"):
        assert "not in Allowed=" in run(machine, "tea")["reason"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--with", "tea; os_name=='x'"], "Environment markers"),
        (["--with", "https://x.example/a.whl"], "not from a path or an address"),
        (["--with", "./tea"], "not from a path or an address"),
        (["--with", "-e"], "It is an option"),
        (["--with", "tea", "-l", "shell"], "for Python and Node only"),
        (["--with", "a b"], "not written as NAME"),
        (["--require-hashes"], "no packages that could have hashes"),
        (["--with", "kettle", "-l", "node", "--require-hashes"], "not named with hashes"),
        ([word for n in range(51) for word in ("--with", f"a{n}")], "At most 50 packages"),
    ],
)
def test_what_is_no_package_is_rejected_before_anything_is_done(machine, args, words):
    result = machine.sbxctl(["run", *args, "-c", "1"])
    assert result.status == 125 and words in result.errors, result


def test_limits_of_a_layer(machine):
    with machine.configured("[Packages]\nLayerSize=16M\nLayerFiles=100\n"):
        assert failure(machine, "bomb")["kind"] == "too-large"
        assert failure(machine, "swarm")["kind"] == "too-large"
    # There is room for them in the sandbox that installs, but not in a layer.
    with machine.configured("[Packages]\nLayerFiles=3000\n"):
        error = failure(machine, "swarm")
        assert error["kind"] == "too-large" and error["reason"].startswith("The packages are more than is allowed here")
    assert layers(machine) == []


def test_rules_decide_and_see_the_names(machine):
    with rules(machine, run_packages=f'action.lookup("packages") == "leaf tea" ? {NO} : null'):
        refused = machine.sbxctl(["run", "--with", "tea<3", "--with", "leaf", "-c", TEA])
        assert refused.status == 126 and "installing packages (leaf tea)" in refused.errors, refused
        assert run(machine, "tea")["stdout"]["text"] == MADE_OF_TEA
    plan = json.loads(machine.sbxctl(["run", "--json", "--dry-run", "--with", "Tea <3", "-c", "1"]).stdout)
    assert plan["packages"] == ["tea<3"] and plan["approvals"]["io.sbxctl.run-packages"] == "yes"
    other = json.loads(machine.sbxctl(["run", "--json", "--dry-run", "--with", "tea<4", "-c", "1"]).stdout)
    assert plan["requestSha256"] != other["requestSha256"]


def test_a_missing_module_is_a_hint_to_a_package(machine):
    assert run(machine, code="import tea.leaves")["hint"].endswith("--with tea")
    assert run(machine, code="require('@tea/pot/lid')", args=["-l", "node"])["hint"].endswith("--with @tea/pot")
    assert run(machine, code="require('./lid')", args=["-l", "node"])["hint"].endswith("--file lid.js brings it.")
    with machine.configured("[Packages]\nAllowed=\n"):
        assert "hint" not in run(machine, code="import tea")


# ---- the installing sandbox

# Stands in the place of Python, so it is what runs there; tells as an error what it found.
PROBE = f"""#!/usr/bin/python3
import json, os, socket, sys, urllib.request
def reach(url):
    try:
        return urllib.request.urlopen(url, timeout=5).status
    except urllib.error.HTTPError as e:
        return e.code
    except OSError:
        return "none"
found = {{
    "files": sorted(os.listdir("/workspace")),
    "request": sorted(json.load(open(sys.argv[2]))),
    "index": reach("{INDEX}/simple/leaf/"),
    "port": reach("http://{ADDRESS}:8081/"),
    "other": [reach("http://198.51.100.10:{PORT}/"), reach("http://example.com:{PORT}/"), reach("http://127.0.0.2:{PORT}/")],
    "direct": socket.socket().connect_ex(("{ADDRESS}", {PORT})),
    "secret": [name for name in os.environ if "SECRET" in name],
}}
print(json.dumps({{"event": "error", "kind": "other", "message": json.dumps(found), "hint": "."}}))
sys.exit(1)
"""


def test_installing_sandbox_reaches_the_index_and_sees_nothing_of_the_run(machine):
    probe = "/usr/local/bin/sbxctl-test-probe"
    machine.write(probe, PROBE.encode())
    machine.run(["chmod", "0755", probe], check=True)
    secret = machine.script("the input", "input.txt")
    try:
        with machine.configured("[Language python]\nInterpreter=sbxctl-test-probe\n"):
            # Over systemd, since it is a program of the machine.
            args = ["--engine", "systemd", "--file", secret, "--env", "SECRET=1"]
            error = failure(machine, "leaf", args=args, code="the script")
    finally:
        machine.run(["rm", probe], check=True)
    found = json.loads(error["reason"].replace('\\\\"', '"'))
    assert found["files"] == ["install-python.py", "request.json"]
    assert "script" not in found["request"] and found["secret"] == []
    assert found["index"] == 200 and found["port"] == 403 and found["other"] == [403] * 3
    assert found["direct"] == 101  # ENETUNREACH


@pytest.mark.parametrize("package", ["linked", "startup", "shadow"])
def test_odd_wheels_harm_nobody(machine, package):
    code = """
import os
for folder, folders, names in os.walk("/packages"):
    for name in folders + names:
        path = os.path.join(folder, name)
        assert not os.path.islink(path) and os.stat(path).st_mode & 0o6022 == 0, path
try:
    open("/packages/new", "w")
except OSError as e:
    print(e.strerror)
print(os.path.exists("/tmp/code-of-a-package-ran"))
"""
    result = run(machine, package, code=code)
    assert result["stdout"]["text"] == "Read-only file system\nFalse\n", result


def test_no_script_of_a_node_package_runs(machine):
    code = "console.log(require('scripted'), require('fs').existsSync('/tmp/code-of-a-package-ran'))"
    assert run(machine, "scripted", code=code, args=["-l", "node"])["stdout"]["text"] == "plain false\n"


def test_a_directory_of_wheels_needs_no_network(machine, engine):
    machine.run(["mkdir", "-p", "/srv/test/wheels"], check=True)
    machine.run(machine.python("import package_index; package_index.write_wheels('/srv/test/wheels')"), check=True)
    try:
        machine.run(["systemctl", "stop", "sbxctl-egress.socket"], check=True)
        with machine.configured("[Packages]\nIndex=/srv/test/wheels\n"):
            assert run(machine, "tea", args=["--engine", engine])["stdout"]["text"] == MADE_OF_TEA
            assert failure(machine, "nowhere", args=["--engine", engine])["kind"] == "not-found"
        assert "systemctl enable --now sbxctl-egress.socket" in run(machine, "tea")["hint"]
    finally:
        machine.run(["systemctl", "start", "sbxctl-egress.socket"], check=True)
        machine.run(["rm", "-r", "/srv/test"], check=True)


# ---- ends in the middle


@pytest.fixture
def hanging(machine, engine):
    """Starts a run whose index never comes to an end, and waits until it was asked."""
    running = []

    def start(user="alice"):
        before = requests(machine).count("/trickle/tea/")
        running.append(machine.popen(["sbxctl", "run", "--engine", engine, "--with", "tea", "-c", TEA], user))
        machine.wait_for(lambda: requests(machine).count("/trickle/tea/") > before, 30, "the index to be asked")
        return running[-1]

    with machine.configured(f"[Packages]\nIndex={INDEX}/trickle/\n"):
        yield start
        for one in running:
            one.popen.kill()
            one.popen.communicate()


def await_nothing(machine, engine):
    """Neither a sandbox is left, nor the process that was its way out."""
    machine.wait_for(ENGINES[engine](machine).nothing_left, 20, "the sandbox to be gone")
    ways = lambda: len(machine.run(["pgrep", "-x", "sbxctl-egress"]).text.split())
    machine.wait_for(lambda: ways() <= 1, 10, "the way out to be gone")


@pytest.mark.parametrize("whom", ["client", "helper", "engine", "egress"])
def test_nothing_is_left_whoever_is_killed(machine, engine, hanging, whom):
    running = hanging()
    if whom == "client":
        machine.run(["kill", "-KILL", str(running.pid)], check=True)
    else:
        unit = {"helper": "helper", "engine": f"engine-{engine}", "egress": "egress"}[whom]
        machine.run(["systemctl", "kill", "--signal=KILL", f"sbxctl-{unit}.service"], check=True)
        ended = running.finish()
        assert ended.status in (125, 69) and ended.errors.startswith("sbxctl: "), ended
    await_nothing(machine, engine)
    assert layers(machine) == []
    with machine.configured(CONFIG, "99-works"):
        assert run(machine, "tea", args=["--engine", engine])["stdout"]["text"] == MADE_OF_TEA


def test_cancelled_run_ends_its_installation(machine, hanging, engine):
    running = hanging()
    running.signal("INT")
    assert running.finish().status == 130
    await_nothing(machine, engine)
    shown = json.loads(machine.sbxctl(["ps", "--all", "--json"]).stdout)["runs"][0]
    assert shown["status"] == "cancelled"


def test_installation_goes_on_for_a_run_that_waits_for_it(machine, hanging, engine):
    first = hanging()
    second = machine.popen(["sbxctl", "run", "--engine", engine, "--with", "tea", "-c", TEA], "alice")
    machine.wait_for(lambda: len(starting(machine)) == 2, 10, "both to wait")
    first.signal("INT")
    assert first.finish().status == 130
    assert len(ENGINES[engine](machine).sandboxes()) == 1
    second.signal("INT")
    assert second.finish().status == 130
    await_nothing(machine, engine)


# ---- what is kept


def test_layers_are_listed_and_removed(machine):
    keys = [run(machine, name)["layer"] for name in ("tea", "leaf")]
    text = machine.sbxctl(["packages"]).text
    assert text.splitlines()[0].split() == ["KEY", "USED", "SIZE", "LANGUAGE", "ENGINE", "PACKAGES"]
    assert all(key[:12] in text for key in keys)
    assert machine.sbxctl(["packages", "rm", keys[0][:8]]).status == 0
    assert [layer["key"] for layer in layers(machine)] == keys[1:]
    unknown = machine.sbxctl(["packages", "rm", "0" * 64])
    assert unknown.status == 125 and "'sbxctl packages' lists" in unknown.errors
    assert machine.sbxctl(["packages", "rm"]).status == 64


def test_layer_in_use_stays(machine):
    running = machine.popen(["sbxctl", "run", "--with", "tea", "-c", "print('up', flush=True); input(); import tea; print(tea)"], "alice")
    assert running.popen.stdout.readline() == b"up\n"
    (layer,) = layers(machine)
    assert layer["inUse"]
    refused = machine.sbxctl(["packages", "rm", layer["key"]])
    assert refused.status == 125 and "use" in refused.errors, refused
    kept = machine.sbxctl(["packages", "rm", "--all"])
    assert kept.status == 0 and "1 that runs use is left" in kept.errors
    assert running.finish(input=b"\n").stdout.startswith(b"<module 'tea'")
    assert not layers(machine)[0]["inUse"]


def test_least_recently_used_layers_make_room(machine):
    # Each of these has 4 MiB or so.
    with machine.configured("[Packages]\nLayerSize=80M\nUserSize=80M\n"):
        old = run(machine, "leaf")["layer"]
        new = run(machine, "bomb", code="1")["layer"]
        assert {layer["key"] for layer in layers(machine)} == {old, new}
        run(machine, "leaf")
        last = run(machine, "bomb", "tea", code="1")["layer"]
        machine.wait_for(lambda: {layer["key"] for layer in layers(machine)} == {old, last}, 10, "the oldest to go")


def test_old_layer_is_made_anew(machine):
    with machine.configured("[Packages]\nMaxAge=0\n"):
        first = run(machine, "leaf", code="1")
        with asked(machine) as paths:
            second = run(machine, "leaf", code="1")
    assert second["layer"] == first["layer"] and len(layers(machine)) == 1
    assert any(path.startswith("/files/leaf") for path in paths)


def test_half_made_layers_go_at_the_next_start(machine):
    uid = machine.run(["id", "-u", "alice"]).text.strip()
    key = run(machine, "leaf", code="1")["layer"]
    half = f"{LAYERS}/{uid}/{'0' * 64}.new"
    machine.run(["sh", "-euc", f"cp -a {LAYERS}/{uid}/{key} {half}; rm {half}/layer.json"], check=True)
    machine.run(["systemctl", "kill", "--signal=KILL", "sbxctl-helper.service"], check=True)
    run(machine, code="1")
    machine.wait_for(lambda: machine.run(["test", "-e", half]).status == 1, 10, "it to be gone")
    assert [layer["key"] for layer in layers(machine)] == [key]


# ---- what people use

CHART = """
import matplotlib, pandas
assert pandas.__file__.startswith("/packages/") and matplotlib.__file__.startswith("/packages/")
table = pandas.read_csv("sales.csv")
table.groupby("region")["amount"].sum().plot.bar().get_figure().savefig("sales.png")
print(int(table["amount"].sum()))
"""


@pytest.fixture(scope="module")
def real_wheels(machine, tmp_path_factory):
    """pandas and matplotlib, by the host's pip from wherever that gets packages, for the machine's Python."""
    version = machine.run(["python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], check=True).text.strip()
    folder = tmp_path_factory.mktemp("wheels")
    platforms = [f"--platform=manylinux_2_{n}_x86_64" for n in (17, 27, 28)] + ["--platform=manylinux2014_x86_64"]
    got = subprocess.run(
        ["python3", "-m", "pip", "download", "--quiet", "--only-binary=:all:", f"--python-version={version}", *platforms,
         f"--dest={folder}", "pandas", "matplotlib"],
        capture_output=True, text=True,
    )
    if got.returncode != 0:
        pytest.skip(f"no package registry can be reached: {got.stderr.splitlines()[-1:]}")
    wheels = tarfile.open(folder / "all.tar", "w")
    for file in folder.glob("*.whl"):
        wheels.add(file, file.name)
    wheels.close()
    machine.run(["mkdir", "-p", "/srv/real/wheels"], check=True)
    machine.run(["tar", "-x", "--no-same-owner", "-C", "/srv/real/wheels"], input=(folder / "all.tar").read_bytes(), check=True)
    yield "/srv/real/wheels"
    machine.run(["rm", "-r", "/srv/real"], check=True)


@pytest.mark.long
def test_pandas_and_matplotlib_draw_a_chart(machine, engine, real_wheels):
    table = machine.script("region,amount\nnorth,3\nsouth,4\nnorth,5\n", "sales.csv")
    with machine.configured(f"[Packages]\nIndex={real_wheels}\n"):
        args = ["--engine", engine, "--file", table, "--with", "pandas", "--with", "matplotlib"]
        result = machine.run_json([*args, "-c", CHART], timeout=180)
    assert result["stdout"]["text"] == "12\n", result
    (chart,) = [file for file in result["files"] if file["name"] == "sales.png"]
    assert machine.read(chart["path"]).startswith(b"\x89PNG") and chart["bytes"] > 5000
