#!/usr/bin/env python3
"""Installs Python packages into a folder, for one sandbox of sbxctl's: install-python.py REQUEST

The broker puts it, and the request, into a sandbox that reaches the package index and nothing else; the folder becomes
a layer that other sandboxes get. Everything that comes from the index is foreign, so nothing here is a border: the
sandbox is. It has to run on Python 3.8, with any pip from 22 on.

The request is a JSON file:
  target        the folder to make
  index         URL of a simple index, or an absolute path of a directory with wheels
  requirements  list of requirements, each with its --hash options
  requireHashes whether each package, also one that another needs, must have a hash
  onlyBinary    whether only wheels will do, so that no foreign build script runs
  bytes         the largest file that may come or be made
  seconds       time for it all
  most          how many packages may be resolved

It tells on standard output what it does, in JSON lines with an "event":
  progress      phase (resolve, download, install), current, total (0: unknown), name
  resolved      packages: a list of {name, version, hash}
  error         kind (not-found, no-wheel, needs-build, conflict, hash, yanked, index-down, too-large, no-installer,
                other), package (may be empty), message, hint; the exit status is 1 then
  done
"""

import collections
import glob
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import urllib.parse

LINE_MAX = 4096  # longer ones are cut
LINES_KEPT = 2000
# All of the environment that pip gets: how to find programs and the index, and nothing that sets it otherwise.
ENVIRONMENT = re.compile(r"PATH|HOME|LANG|TZ|SSL_CERT_.*|(HTTPS?|ALL|NO)_PROXY", re.IGNORECASE)


class Failure(Exception):
    def __init__(self, kind, message, hint="", package=""):
        super().__init__(message)
        self.members = {"kind": kind, "package": package, "message": message, "hint": hint}


def tell(event, **members):
    print(json.dumps({"event": event, **members}), flush=True)


def progress(phase, current, total, name):
    tell("progress", phase=phase, current=current, total=total, name=name)


# ---- pip


def find_pip():
    """How to call pip, and its version."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"], importlib.metadata.version("pip")
    # Debian's python3-pip-whl; Python runs what is in an archive, too.
    for wheel in sorted(glob.glob("/usr/share/python-wheels/pip-*.whl"), reverse=True):
        return [sys.executable, f"{wheel}/pip"], os.path.basename(wheel).split("-")[1]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    raise Failure(
        "no-installer",
        f"There is no pip for this Python ({version}), so no package can be installed.",
        "Ask the administrator to install the Debian package python3-pip, or use an image that has pip.",
    )


class Pip:
    """One call of pip, with its output followed line by line."""

    def __init__(self, request, work):
        self.command, self.version = find_pip()
        self.request = request
        self.environment = {k: v for k, v in os.environ.items() if ENVIRONMENT.fullmatch(k)}
        self.environment.update(TMPDIR=work, PIP_CONFIG_FILE=os.devnull, PYTHONNOUSERSITE="1")
        self.lines = collections.deque(maxlen=LINES_KEPT)
        self.timed_out = False
        self.status = 0

    def limit(self):
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.request["bytes"], self.request["bytes"]))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def run(self, verb, *arguments, follow=lambda line: None):
        """Returns whether it succeeded."""
        common = ["--isolated", "--no-input", "--disable-pip-version-check", "--no-cache-dir", "--no-color", "-vv"]
        pip = subprocess.Popen(
            [*self.command, verb, *common, *arguments], env=self.environment, preexec_fn=self.limit,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )
        timer = threading.Timer(self.request["seconds"], self.stop, [pip])
        timer.start()
        for line in iter(lambda: pip.stdout.readline(LINE_MAX), b""):
            text = line.decode("utf-8", "replace").strip()
            self.lines.append(text)
            follow(text)
        self.status = pip.wait()
        timer.cancel()
        return self.status == 0

    def stop(self, pip):
        self.timed_out = True
        os.killpg(pip.pid, signal.SIGKILL)

    def search(self, pattern, about=""):
        """The first match in what it said, or None; with `about`, in lines with an address of that package's."""
        name = re.sub("[-_.]+", "[-_.]+", about)
        lines = (line for line in self.lines if not about or re.search(f"/{name}[-/]", line, re.IGNORECASE))
        return next(filter(None, (re.search(pattern, line) for line in lines)), None)


# ---- why it failed


def explain_missing(pip, package):
    """There is nothing for a requirement; the lines before tell why."""
    name = re.split(r"[^A-Za-z0-9._-]", package)[0]
    page = pip.search(r"Could not fetch URL \S*: (.*)", name)
    if page and not re.match("404 ", page.group(1)):
        raise index_down(pip, page.group(1))
    versions = pip.search(r"\(from versions: (?!none)(.*)\)")
    # Before 23.1 pip does not say so; but what else could keep it from a version when any would do?
    if pip.search(r"Ignored the following yanked versions") or (versions and package == name):
        raise Failure("yanked", f"Every version of {package} that would do was withdrawn by its authors.",
                      "Ask for another version.", package)
    if pip.search(r"No sources permitted for", name):
        raise Failure("needs-build", f"{package} comes as source only, and would have to be built first.",
                      "Ask for another version, or ask the administrator for a wheel of it in the index.", package)
    if pip.search(r"wheel's tags .* are compatible|requires a different Python", name):
        raise no_wheel(package)
    if versions:
        raise Failure("not-found", f"The index has no such version of {package}.",
                      f"It has {versions.group(1)[-200:]}.", package)
    raise Failure("not-found", f"The index has no package {package}.",
                  "Look at the spelling: a package may have another name than the module that is imported.", package)


def no_wheel(package):
    return Failure("no-wheel", f"There is no wheel of {package} for this Python and machine.",
                   "Ask for another version, or use an image with another Python.", package)


def index_down(pip, reason):
    address = pip.request["index"]
    if "certificate verify failed" in reason.lower():
        return Failure("index-down", f"The package index {address} has a certificate that is not trusted here.",
                       "The administrator has this machine trust who issued it, with update-ca-certificates.")
    said = "did not answer in time" if "timed out" in reason.lower() or pip.timed_out else "cannot be reached"
    return Failure("index-down", f"The package index {address} {said}.",
                   "Try again later; if it lasts, tell the administrator, who sets Index= in [Packages].")


def explain(pip):
    """Raises the Failure that pip's words stand for. What tells most is looked for first."""
    package = pip.search(r"^ERROR: No matching distribution found for (\S+)")
    killed = pip.status == -signal.SIGKILL and not pip.timed_out  # for its memory
    if killed or pip.search(r"No space left on device|File too large|^MemoryError|Disk quota exceeded"):
        raise Failure("too-large", "The packages, or a file of them, are larger than is allowed here.",
                      "Ask for fewer or smaller packages; the administrator sets LayerSize= in [Packages].")
    if pip.timed_out:
        raise index_down(pip, "timed out")
    if pip.search(r"DO NOT MATCH THE HASHES"):
        raise Failure("hash", "A package is not what its hash says, so it was not installed.",
                      "If its version is the one that is meant, look into why it was changed.",
                      first(pip.search(r"^(\S+) from (?:http|file)")))
    if pip.search(r"In --require-hashes mode, all requirements must have"):
        raise Failure("hash", "With --require-hashes each package, also those that others need, needs a version (==).",
                      "Have the list made by a tool that writes all of them, like pip-compile.")
    if pip.search(r"Hashes are required in --require-hashes mode"):
        raise Failure("hash", "With --require-hashes each package, also those that others need, needs a hash.",
                      "Have the list made by a tool that writes all of them, like pip-compile --generate-hashes.",
                      first(pip.search(r"^(\S+) --hash=")))
    if pip.search(r"^ERROR: ResolutionImpossible|conflicting dependencies"):
        wanted = first(pip.search(r"^ERROR: Cannot install (.*) because")) or "these packages"
        raise Failure("conflict", f"What {wanted} need cannot be had together.",
                      "Leave out versions, or ask for others.")
    if package:
        explain_missing(pip, package.group(1))
    other_python = pip.search(r"^ERROR: Package '?([^' ]+)'? requires a different Python")
    if other_python:
        raise no_wheel(other_python.group(1))
    lost = pip.search(r"(?:ReadTimeoutError|ConnectionError|ConnectTimeout|ProtocolError|HTTPError)\S*: *(.*)")
    if lost:
        raise index_down(pip, lost.group(0))
    outside = first(pip.search(r"^ERROR: For req: (\S+)\. The wheel .* outside the target directory"))
    if outside:
        raise Failure("other", f"The wheel of {outside} would write outside of its folder, so it was not installed.",
                      "Do not use this package, and tell the administrator of it.", outside)
    said = first(pip.search(r"^ERROR: (.*)")) or f"it ended with status {pip.status}"
    raise Failure("other", f"pip failed: {said[:300].rstrip('.')}.", "Ask for other packages or versions.")


def first(match):
    return match.group(1) if match else ""


def too_many(number, most):
    return Failure("too-large", f"What is asked for needs {number} packages, and no more than {most} can be had at once.",
                   "Ask for fewer packages.")


# ---- the steps


def source(request):
    """pip's options for the index."""
    index = request["index"]
    if index.startswith("/"):
        return ["--no-index", f"--find-links={index}"]
    url = urllib.parse.urlsplit(index)
    # It is the administrator's, who knows what it is.
    trusted = [f"--trusted-host={url.netloc.rpartition('@')[2]}"] if url.scheme == "http" else []
    return [f"--index-url={index}", "--retries=0", "--timeout=5", *trusted]


class Follower:
    """Makes progress of what pip says while it gets packages."""

    def __init__(self):
        self.found = 0
        self.name = ""

    def __call__(self, line):
        collecting = re.match(r"Collecting (\S+)", line)
        downloading = re.match(r"Downloading \S*?([^/ ]+\.(?:whl|tar\.gz|zip))", line)
        amount = re.match(r"Progress (\d+) of (\d+)$", line)
        if collecting:
            self.found += 1
            progress("resolve", self.found, 0, collecting.group(1))
        elif downloading:
            self.name = downloading.group(1)
            progress("download", 0, 0, self.name)
        elif amount:
            progress("download", int(amount.group(1)), int(amount.group(2)), self.name)


def get_wheels(pip, request, wheels, listed):
    """Resolves and downloads, at once, so that nothing comes twice."""
    with open(listed, "w", encoding="utf-8") as f:
        f.writelines(f"{requirement}\n" for requirement in request["requirements"])
    options = [*source(request), "--requirement", listed]
    if request.get("requireHashes"):
        options.append("--require-hashes")
    # Only a build has to make wheels of what it gets.
    if request.get("onlyBinary", True):
        verb, options = "download", [*options, "--only-binary=:all:", f"--dest={wheels}"]
    else:
        verb, options = "wheel", [*options, f"--wheel-dir={wheels}"]
    # The one that a program can read came with pip 24.1.
    numbers = [int(number) for number in re.findall(r"\d+", pip.version)]
    options.append(f"--progress-bar={'raw' if numbers[:2] >= [24, 1] else 'off'}")
    if not pip.run(verb, *options, follow=Follower()):
        explain(pip)


def describe(path):
    """Name, version and hash of a wheel; by its file's name (PEP 427)."""
    name, version = os.path.basename(path).split("-")[:2]
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        for block in iter(lambda: f.read(1 << 20), b""):
            digest.update(block)
    name = re.sub(r"[-_.]+", "-", name).lower()
    return {"name": name, "version": version, "hash": f"sha256:{digest.hexdigest()}"}


def install(request):
    target = request["target"]
    work = f"{target}.work"
    wheels = f"{work}/wheels"
    os.makedirs(wheels)
    os.makedirs(target)
    pip = Pip(request, work)
    get_wheels(pip, request, wheels, f"{work}/requirements.txt")
    files = sorted(glob.glob(f"{glob.escape(wheels)}/*.whl"))
    if len(files) > request["most"]:
        raise too_many(len(files), request["most"])
    tell("resolved", packages=[describe(file) for file in files])

    progress("install", 0, len(files), "")
    pip.lines.clear()
    if not pip.run("install", "--no-index", "--no-deps", "--no-warn-script-location", f"--target={target}", *files):
        explain(pip)
    progress("install", len(files), len(files), "")


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        request = json.load(f)
    try:
        install(request)
    except Failure as failure:
        tell("error", **failure.members)
        return 1
    tell("done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
