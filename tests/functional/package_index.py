"""Package indexes of the tests: Python's simple API (PEP 503, 691), and npm's registry, over HTTP.

Runs inside the test machine, with nothing but Python. The packages are made when it starts, by hand,
as no honest tool would make most of them. Must never be reached from elsewhere: it listens on an
address of the machine's own.
"""

import base64
import hashlib
import html
import http.server
import io
import json
import pathlib
import stat
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import threading
import time
import zipfile

BOMB = 64 << 20
MARKER = "/tmp/code-of-a-package-ran"
RAN = f"open({MARKER!r}, 'a').close()\n"


class File:
    """One file of a project. `sha256` is what the index claims; `yanked` the reason, if it is."""

    def __init__(self, name, content, yanked=None, requires_python=None, sha256=None):
        self.name = name
        self.content = content
        self.yanked = yanked
        self.requires_python = requires_python
        self.sha256 = sha256 or hashlib.sha256(content).hexdigest()


# ---- Python


def wheel(name, version="1.0", files=(), requires=(), tag="py3-none-any", scripts=(), odd=(), python="", **options):
    """A wheel with these files, {path: text}. `scripts` are its entry points; `odd` are entries with a mode of their own:
    (name, content, mode). `python` is the version that it says, and the index does not, to need."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    metadata += [f"Requires-Dist: {requirement}" for requirement in requires]
    metadata += [f"Requires-Python: {python}"] if python else []
    entries = dict(files) | {
        f"{info}/METADATA": "\n".join(metadata) + "\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    if scripts:
        lines = [f"{script} = {function}" for script, function in dict(scripts).items()]
        entries[f"{info}/entry_points.txt"] = "[console_scripts]\n" + "\n".join(lines) + "\n"
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in entries.items():
            archive.writestr(path, content)
        for path, content, mode in odd:
            entry = zipfile.ZipInfo(path)
            entry.external_attr = mode << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
        record = [f"{entry.filename},," for entry in archive.infolist()]
        archive.writestr(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,"]) + "\n")
    return File(f"{stem}-{tag}.whl", data.getvalue(), **options)


def tarball(name, entries):
    """A .tar.gz; an entry is (path, text), or a TarInfo."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                archive.addfile(entry)
                continue
            path, text = entry
            info = tarfile.TarInfo(path)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return File(name, data.getvalue())


def sdist(name, version="1.0"):
    setup = f"{RAN}from setuptools import setup\nsetup(name={name!r}, version={version!r}, py_modules=[])\n"
    stem = f"{name}-{version}"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    return tarball(f"{stem}.tar.gz", [(f"{stem}/setup.py", setup), (f"{stem}/PKG-INFO", metadata)])


def compiled(name):
    """A wheel for this machine's Python only, with a shared object in it."""
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    with tempfile.TemporaryDirectory() as folder:
        library = pathlib.Path(folder, "native.so")
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", library],
            input=b"int answer(void) { return 42; }", check=True,
        )
        shared = library.read_bytes()
    loader = "import ctypes, os\nanswer = ctypes.CDLL(os.path.join(os.path.dirname(__file__), 'native.so')).answer\n"
    files = {f"{name}/__init__.py": loader, f"{name}/native.so": shared}
    return wheel(name, files=files, tag=f"{version}-{version}-{platform}")


def python_projects():
    link = stat.S_IFLNK | 0o777
    module = {"shadow.py": f"def main():\n    {RAN}"}
    return {
        "tea": [wheel("tea", v, {"tea.py": f"import leaf\nversion = {v!r}\n"}, ["leaf>=1"]) for v in ("1.0", "2.0")],
        "leaf": [wheel("leaf", v, {"leaf.py": f"version = {v!r}\n"}) for v in ("1.0", "1.1")],
        "py-kettle": [wheel("Py_Kettle", files={"kettle.py": "hot = True\n"})],
        "compiled": [compiled("compiled")],
        "sourdough": [sdist("sourdough")],
        "picky": [wheel("picky"), wheel("picky", tag="cp38-cp38-win_amd64"), sdist("picky", "2.0")],
        "quarrel": [wheel("quarrel", requires=["leaf<1.1", "tea"]), ],
        "sulk": [wheel("sulk", requires=["leaf>1.1"])],
        "orphan": [wheel("orphan", requires=["nowhere"])],
        "elsewhere": [wheel("elsewhere", tag="cp38-cp38-win_amd64")],
        "ancient": [wheel("ancient", requires_python="<3")],
        "secretive": [wheel("secretive", python="<3")],
        "tampered": [wheel("tampered", sha256="0" * 64)],
        "retracted": [wheel("retracted", yanked="it deletes files")],
        "regretted": [wheel("regretted"), wheel("regretted", "2.0", yanked="a mistake")],
        "dotdot": [wheel("dotdot", odd=[("../../escaped.py", RAN, 0o644)])],
        "absolute": [wheel("absolute", odd=[("/tmp/escaped.py", RAN, 0o644)])],
        "linked": [wheel("linked", odd=[("linked/passwd", "/etc/passwd", link), ("linked/up", "../..", link)])],
        "startup": [wheel("startup", files={"startup.pth": f"import os; {RAN}", "startup.py": "fine = True\n"})],
        "shadow": [wheel("shadow", files=module, scripts={n: "shadow:main" for n in ("python", "python3", "sh", "steep")})],
        "bomb": [wheel("bomb", files={"bomb.bin": bytes(BOMB)})],
        "swarm": [wheel("swarm", files={f"swarm/{n}": "" for n in range(5000)})],
        "broken": [File("broken-1.0-py3-none-any.whl", b"this is no zip file")],
    }


# ---- npm


def npm_tarball(name, version, files, odd=(), **manifest):
    text = json.dumps({"name": name, "version": version, "main": "index.js"} | manifest)
    entries = [(f"package/{path}", content) for path, content in files.items()]
    stem = name.rpartition("/")[2]
    return tarball(f"{stem}-{version}.tgz", [("package/package.json", text), *entries, *odd]), manifest


def linked_entry(path, target):
    info = tarfile.TarInfo(path)
    info.type = tarfile.SYMTYPE
    info.linkname = target
    return info


STEEP = """#!/usr/bin/env node
console.log(`steeped ${require("./index.js").version} [${process.argv.slice(2)}]`);
"""


def npm_projects():
    """{name: {version: (File, manifest)}}"""
    plain = {"index.js": "module.exports = 'plain';\n"}
    script = {"install": f"touch {MARKER}", "postinstall": f"touch {MARKER}"}
    odd = [("package/../../escaped.js", "x"), ("/tmp/escaped.js", "x"), linked_entry("package/passwd", "/etc/passwd")]
    return {
        "kettle": {v: npm_tarball("kettle", v, {"index.js": f"exports.version = '{v}';\nexports.leaf = require('leaf');\n",
                                                "steep.js": STEEP},
                                  dependencies={"leaf": "^1.0.0"}, bin={"steep": "steep.js"}) for v in ("1.0.0", "2.0.0")},
        "leaf": {v: npm_tarball("leaf", v, {"index.js": f"module.exports = '{v}';\n"}) for v in ("1.0.0", "1.1.0")},
        "@tea/quo'ted": {"1.0.0": npm_tarball("@tea/quo'ted", "1.0.0", {"it's.js": "#!/usr/bin/env node\nconsole.log('poured');\n"},
                                              bin={"pour": "it's.js"})},
        "@tea/pot": {"1.0.0": npm_tarball("@tea/pot", "1.0.0", plain)},
        "scripted": {"1.0.0": npm_tarball("scripted", "1.0.0", plain, scripts=script)},
        "orphan": {"1.0.0": npm_tarball("orphan", "1.0.0", plain, dependencies={"nowhere": "*"})},
        "quarrel": {"1.0.0": npm_tarball("quarrel", "1.0.0", plain, peerDependencies={"kettle": "^1.0.0"})},
        "tampered": {"1.0.0": npm_tarball("tampered", "1.0.0", plain)},
        "odd": {"1.0.0": npm_tarball("odd", "1.0.0", plain, odd=odd)},
        "bomb": {"1.0.0": npm_tarball("bomb", "1.0.0", {"index.js": "x" * BOMB})},
        "masked": {"1.0.0": npm_tarball("masked", "1.0.0", plain, dependencies={"friend": "npm:leaf@1.0.0"})},
        "heir": {"1.0.0": npm_tarball("heir", "1.0.0", plain, dependencies={"OldLeaf": "*"})},
        "OldLeaf": {"1.0.0": npm_tarball("OldLeaf", "1.0.0", plain)},
    }


def packument(base, name, versions):
    def describe(version, file, manifest):
        digest = hashlib.sha512(b"other" if name == "tampered" else file.content).digest()
        dist = {"tarball": f"{base}/npm-files/{file.name}", "integrity": "sha512-" + base64.b64encode(digest).decode()}
        return {"name": name, "version": version, "dist": dist} | manifest

    described = {version: describe(version, *made) for version, made in versions.items()}
    return {"name": name, "dist-tags": {"latest": list(versions)[-1]}, "versions": described}


# ---- HTTP

JSON_PAGE = "application/vnd.pypi.simple.v1+json"


class Handler(http.server.BaseHTTPRequestHandler):
    """/simple/ and /html/ (the same, but never JSON) are Python's; /npm/ is npm's. /gated/ is /simple/ that answers when
    /open was asked for. /slow/ never answers, /trickle/ and /endless/ never end, /broken/ has an error for every request, /requests tells what was asked for."""

    protocol_version = "HTTP/1.1"
    python = {}
    npm = {}
    requests = []
    gate = threading.Event()

    def log_message(self, *_):
        pass

    def send(self, content, kind, status=200):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def send_forever(self, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(1 << 40))
        self.end_headers()
        while True:
            self.wfile.write(bytes(1 << 16))

    def send_slowly(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(1 << 40))
        self.end_headers()
        while True:
            self.wfile.write(b" ")
            time.sleep(1)

    def missing(self):
        self.send(b"Not found\n", "text/plain", 404)

    def simple_json(self, name, files):
        rows = [{"filename": f.name, "url": f"/files/{f.name}", "hashes": {"sha256": f.sha256}, "yanked": f.yanked or False,
                 **({"requires-python": f.requires_python} if f.requires_python else {})} for f in files]
        page = {"meta": {"api-version": "1.0"}, "name": name, "files": rows}
        self.send(json.dumps(page).encode(), JSON_PAGE)

    def simple_html(self, files):
        lines = []
        for f in files:
            more = f' data-yanked="{html.escape(f.yanked)}"' if f.yanked else ""
            if f.requires_python:
                more += f' data-requires-python="{html.escape(f.requires_python)}"'
            lines.append(f'<a href="/files/{f.name}#sha256={f.sha256}"{more}>{f.name}</a>')
        self.send(("<!DOCTYPE html><html><body>" + "\n".join(lines) + "</body></html>").encode(), "text/html")

    def python_page(self, kind, name):
        files = self.python.get(name)
        if name == "endless-file":
            files = [File("endless_file-1.0-py3-none-any.whl", b"")]
        if not files:
            self.missing()
        elif kind == "simple" and JSON_PAGE in self.headers.get("Accept", ""):
            self.simple_json(name, files)
        else:
            self.simple_html(files)

    def python_file(self, name):
        if name.startswith("endless"):
            self.send_forever("application/octet-stream")
            return
        for files in self.python.values():
            for f in files:
                if f.name == name:
                    self.send(f.content, "application/octet-stream")
                    return
        self.missing()

    def npm_page(self, name):
        name = name.replace("%2f", "/").replace("%2F", "/")
        if name not in self.npm:
            self.send(b'{"error":"Not found"}', "application/json", 404)
            return
        base = f"http://{self.headers['Host']}"
        self.send(json.dumps(packument(base, name, self.npm[name])).encode(), "application/json")

    def npm_file(self, name):
        for versions in self.npm.values():
            for f, _ in versions.values():
                if f.name == name:
                    self.send(f.content, "application/octet-stream")
                    return
        self.missing()

    def do_GET(self):
        self.requests.append(self.path)
        kind, _, rest = self.path.lstrip("/").partition("/")
        rest = rest.rstrip("/")
        try:
            if kind in ("simple", "html"):
                self.python_page(kind, rest)
            elif kind == "files":
                self.python_file(rest)
            elif kind == "npm":
                self.npm_page(rest)
            elif kind == "npm-files":
                self.npm_file(rest)
            elif kind == "requests":
                self.send(json.dumps(self.requests).encode(), "application/json")
            elif kind == "gated":
                self.gate.wait()
                self.python_page("simple", rest)
            elif kind == "open":
                self.gate.set()
                self.send(b"", "text/plain")
            elif kind == "slow":
                time.sleep(3600)
            elif kind == "trickle":
                self.send_slowly()
            elif kind == "endless":
                self.send_forever("text/html")
            elif kind == "broken":
                self.send(b"broken\n", "text/plain", 503)
            else:
                self.missing()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


def serve(address="127.0.0.1", port=0):
    """Serves for good, and says first at which port."""
    Handler.python = python_projects()
    Handler.npm = npm_projects()
    with Server((address, port), Handler) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()


def write_wheels(folder):
    """An index that is a directory: all files of the projects with nothing wrong about them."""
    for name in ("tea", "leaf", "py-kettle", "compiled"):
        for file in python_projects()[name]:
            pathlib.Path(folder, file.name).write_bytes(file.content)
