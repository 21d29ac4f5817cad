"""The sandboxes that the stand-in has: each a directory and namespaces of its own, where code really runs.

A sandbox has a life clock, which ends it as E2B does: everything in it is killed, and nobody is told. What the
agent inside does is asked for by Sandbox.ask(); control_plane.py creates and removes, envd.py and
code_interpreter.py use.
"""

import asyncio
import dataclasses
import fcntl
import hashlib
import itertools
import json
import os
import pathlib
import shutil
import signal
import socket
import string
import time

HERE = pathlib.Path(__file__).parent
PYTHON = "/usr/bin/python3"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
UIDS = {"root": 0, "user": 1000}
HOMES = {"root": "/root", "user": "/home/user"}
PASSWD = "root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n"
GROUP = "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n"
# The machine's files are there to read, and what a sandbox may write is its own.
ENTER = """set -e
cd "$1"
mount --bind "$2" /mnt
mount --bind home /home
mount --bind root /root
mount --bind passwd /etc/passwd
mount --bind group /etc/group
mount -t proc proc /proc
mount --bind tmp /tmp
mount -t tmpfs -o mode=1777 shm /dev/shm
[ ! -d /workspace ] || mount --bind workspace /workspace
mount -o remount,bind,ro /
cd /
exec "$3" -I -S /mnt/agent.py "$4" "$5"
"""
PIPE = 32768  # what real envd reads from a program's pipe at once


class AgentError(OSError):
    """The agent could not do what it was asked for: errno and text are those of the system call."""


class SandboxGone(Exception):
    """The sandbox ended while something in it was used."""


@dataclasses.dataclass
class Process:
    pid: int
    config: dict
    tag: str | None
    stdin: int | None
    pty: int | None
    exited: asyncio.Future
    outputs: list  # of (kind, StreamReader)
    pumps: list = dataclasses.field(default_factory=list)
    subscribers: set = dataclasses.field(default_factory=set)
    end: dict | None = None


def random_letters(count):
    letters = string.ascii_lowercase + string.digits
    return "".join(letters[byte % len(letters)] for byte in os.urandom(count))


class Background:
    """Who has tasks that nobody waits for."""

    def __init__(self):
        self.tasks = set()

    def later(self, coroutine):
        task = asyncio.ensure_future(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


class Sandbox(Background):
    def __init__(self, request, settings, directory):
        super().__init__()
        self.id = "i" + random_letters(19)
        self.request = request
        self.template = request["templateID"]
        self.secure = request["secure"]
        self.token = hashlib.sha256(os.urandom(32)).hexdigest()
        self.traffic_token = hashlib.sha256(os.urandom(32)).hexdigest()
        self.envd_version = settings["envd_version"]
        self.environment = dict(request.get("envVars") or {})
        self.metadata = dict(request.get("metadata") or {})
        self.allow_internet = request.get("allow_internet_access")
        self.network = request.get("network")
        self.state = "running"
        self.ended = asyncio.Event()
        self.started_at = time.time()
        self.directory = directory / self.id
        self.processes = {}
        self.contexts = {}
        self.answers = {}
        self.early_exits = {}
        self.numbers = itertools.count(1)
        self.buffer = b""
        self.timer = None

    # ---- life

    def isolated(self):
        denied = (self.network or {}).get("denyOut") or []
        return self.allow_internet is False or "0.0.0.0/0" in denied

    def make_directory(self):
        for name, uid, mode in (("home/user", 1000, 0o755), ("root", 0, 0o700), ("tmp", 0, 0o1777), ("workspace", 1000, 0o755)):
            made = self.directory / name
            made.mkdir(parents=True)
            made.chmod(mode)
            os.chown(made, uid, uid)
        (self.directory / "passwd").write_text(PASSWD)
        (self.directory / "group").write_text(GROUP)

    async def boot(self):
        self.make_directory()
        self.control, theirs = socket.socketpair()
        namespaces = ["--mount", "--pid", *(["--net"] if self.isolated() else [])]
        self.init = await asyncio.create_subprocess_exec(
            "unshare", *namespaces, "--fork", "--kill-child", "sh", "-c", ENTER, "sh", self.directory, HERE, PYTHON,
            str(theirs.fileno()), "isolated" if self.isolated() else "shared", pass_fds=[theirs.fileno()], start_new_session=True)
        theirs.close()
        self.ready = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(self.control, self.receive)
        await self.ready

    def live_for(self, seconds, expire):
        """The life clock counts from now."""
        if self.timer:
            self.timer.cancel()
        self.end_at = time.time() + seconds
        self.timer = asyncio.get_running_loop().call_later(seconds, expire)

    async def end(self):
        """Kill everything in the sandbox; when this returns nothing of it runs, and its files are gone."""
        if self.ended.is_set():
            return
        self.ended.set()
        if self.timer:
            self.timer.cancel()
        self.close_control()
        try:
            await asyncio.wait_for(self.init.wait(), 2)
        except asyncio.TimeoutError:
            self.init.kill()
            await self.init.wait()
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for process in self.processes.values():
            self.close_input(process)
        await asyncio.to_thread(shutil.rmtree, self.directory, ignore_errors=True)

    def close_control(self):
        if self.control.fileno() < 0:
            return
        asyncio.get_running_loop().remove_reader(self.control)
        self.control.close()
        for answer in [*self.answers.values(), *(process.exited for process in self.processes.values()), self.ready]:
            if not answer.done():
                answer.set_exception(SandboxGone())
                answer.exception()

    # ---- the agent

    def receive(self):
        try:
            data, fds, _, _ = socket.recv_fds(self.control, 1 << 20, 8, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except ConnectionError:
            data, fds = b"", []
        if not data:
            self.close_control()
            return
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        for line in lines:
            self.take(json.loads(line), fds)

    def take(self, message, fds):
        if "ready" in message:
            self.ready.set_result(None)
        elif "exited" in message:
            if process := self.processes.get(message["exited"]):
                process.exited.set_result(message["status"])
            else:
                self.early_exits[message["exited"]] = message["status"]
        else:
            answer = self.answers.pop(message["id"])
            if "error" in message:
                answer.set_exception(AgentError(message["errno"], message["error"]))
            else:
                answer.set_result(fds.pop(0) if message["fds"] else message["result"])

    async def ask(self, operation, fds=(), **request):
        if self.ended.is_set() or self.control.fileno() < 0:
            raise SandboxGone
        number = next(self.numbers)
        answer = self.answers[number] = asyncio.get_running_loop().create_future()
        data = json.dumps({"id": number, "op": operation, "fds": len(fds), **request}).encode() + b"\n"
        sent = socket.send_fds(self.control, [data], list(fds))
        self.control.sendall(data[sent:])
        return await answer

    async def file(self, operation, user, *arguments):
        return await self.ask(operation, uid=UIDS[user], arguments=arguments)

    def resolve(self, path, user):
        home = HOMES[user]
        if path == "~" or path.startswith("~/"):
            path = home + path[1:]
        return os.path.normpath(os.path.join(home, path))

    # ---- processes

    async def start(self, config, user, stdin=True, tag=None, pty=None):
        """Start a program; its outputs are pipes that envd.py and code_interpreter.py read."""
        environment = {"PATH": PATH, "HOME": HOMES[user], "USER": user, "LOGNAME": user, "SHELL": "/bin/bash", "E2B_SANDBOX": "true",
                       "E2B_SANDBOX_ID": self.id, "E2B_TEMPLATE_ID": self.template}
        environment |= self.environment | (config.get("envs") or {})
        request = {"argv": [config["cmd"], *(config.get("args") or [])], "env": environment, "uid": UIDS[user],
                   "cwd": self.resolve(config.get("cwd") or "", user), "pty": bool(pty)}
        if pty:
            mine, theirs = os.openpty()
            set_size(mine, pty)
            environment.setdefault("TERM", "xterm-256color")
            given, keep, outputs = [theirs], mine, [("pty", mine)]
        else:
            read_in, keep = os.pipe() if stdin else (os.open("/dev/null", os.O_RDONLY), None)
            out, write_out = os.pipe()
            err, write_err = os.pipe()
            given, outputs = [read_in, write_out, write_err], [("stdout", out), ("stderr", err)]
        try:
            pid = (await self.ask("start", given, **request))["pid"]
        except BaseException:
            for fd in {keep, *(fd for _, fd in outputs)} - {None}:
                os.close(fd)
            raise
        finally:
            for fd in given:
                os.close(fd)
        exited = asyncio.get_running_loop().create_future()
        process = Process(pid, config, tag, None if pty else keep, mine if pty else None, exited,
                          [(kind, await reader_of(os.dup(fd) if pty else fd)) for kind, fd in outputs])
        if pid in self.early_exits:
            exited.set_result(self.early_exits.pop(pid))
        self.processes[pid] = process
        return process

    async def signal(self, pid, number):
        await self.ask("signal", pid=pid, signal=number)

    def forget(self, process):
        self.close_input(process)
        self.processes.pop(process.pid, None)

    def close_input(self, process):
        for fd in (process.stdin, process.pty):
            if fd is not None:
                os.close(fd)
        process.stdin = process.pty = None

    async def freeze(self, stopped):
        await self.ask("freeze", stopped=stopped)
        self.state = "paused" if stopped else "running"


def set_size(fd, size):
    fcntl.ioctl(fd, 0x5414, int(size["rows"]).to_bytes(2, "little") + int(size["cols"]).to_bytes(2, "little") + bytes(4))  # TIOCSWINSZ


async def reader_of(fd):
    reader = asyncio.StreamReader(limit=PIPE)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", 0))
    return reader


class Sandboxes(Background):
    """All of them, with what the tests ask about: how many were created and removed, and which still live."""

    def __init__(self, directory, settings):
        super().__init__()
        self.directory = pathlib.Path(directory)
        self.settings = settings
        self.live = {}
        # Unknown to the API already, but not all dead yet.
        self.ending = set()
        self.created = 0
        self.deleted = 0
        self.expired = 0
        self.vanished = 0
        self.history = []

    async def create(self, request, seconds):
        sandbox = Sandbox(request, self.settings, self.directory)
        await sandbox.boot()
        self.created += 1
        self.live[sandbox.id] = sandbox
        self.history.append({"id": sandbox.id, "request": request, "seconds": seconds, "started": sandbox.started_at, "ended": None,
                             "how": None})
        sandbox.live_for(seconds, lambda: self.later(self.expire(sandbox)))
        return sandbox

    async def remove(self, sandbox, how):
        if self.live.pop(sandbox.id, None) is None:
            return
        self.ending.add(sandbox.id)
        await sandbox.end()
        self.ending.remove(sandbox.id)
        for entry in self.history:
            if entry["id"] == sandbox.id:
                entry |= {"ended": time.time(), "how": how}

    async def delete(self, sandbox):
        self.deleted += 1
        await self.remove(sandbox, "deleted")

    async def expire(self, sandbox):
        if (sandbox.request.get("autoPause") or False) and sandbox.state == "running":
            await sandbox.freeze(True)
            return
        self.expired += 1
        await self.remove(sandbox, "expired")

    async def vanish(self, sandbox):
        """As when E2B loses the machine that a sandbox was on."""
        self.vanished += 1
        await self.remove(sandbox, "vanished")

    async def end_all(self):
        for sandbox in list(self.live.values()):
            await self.remove(sandbox, "reset")
