"""The code interpreter that some templates carry: contexts, each a kernel.py in the sandbox, and cells run in them."""

import asyncio
import json
import os
import signal
import uuid

from sandboxes import PYTHON, SandboxGone

KERNEL = "/mnt/kernel/kernel.py"  # where sandboxes.py shows this directory
KEEPALIVE = 5
ROUTES = {("POST", "/execute"): "execute", ("POST", "/contexts"): "contexts.create", ("GET", "/contexts"): "contexts.list",
          ("GET", "/health"): "interpreter-health"}
LANGUAGES = {"python": "python", "python3": "python", "py": "python"}
LOST = {"type": "error", "name": "UnexpectedEndOfExecution",
        "value": "Connection to the execution was closed before the execution was finished", "traceback": ""}


def route(method, path):
    if operation := ROUTES.get((method, path)):
        return operation
    parts = path.split("/")[1:]
    if parts[0] == "contexts" and len(parts) == 2 and method == "DELETE":
        return "contexts.delete"
    if parts[0] == "contexts" and parts[2:] == ["restart"] and method == "POST":
        return "contexts.restart"
    return None


class Context:
    def __init__(self, sandbox, language, cwd, name=None):
        self.id = name or str(uuid.uuid4())
        self.sandbox = sandbox
        self.language = language
        self.cwd = cwd
        self.lock = asyncio.Lock()
        self.process = None
        self.buffer = b""
        self.busy = False

    def description(self):
        return {"id": self.id, "language": self.language, "cwd": self.cwd}

    async def boot(self):
        config = {"cmd": PYTHON, "args": [KERNEL], "cwd": self.cwd, "envs": {"PYTHONUNBUFFERED": "1"}}
        self.process = await self.sandbox.start(config, "user")
        # It is none of the processes that process.List tells of.
        self.sandbox.processes.pop(self.process.pid)
        self.buffer = b""

    async def stop(self):
        try:
            await self.signal(signal.SIGKILL)
        except (OSError, SandboxGone):
            pass
        self.sandbox.close_input(self.process)

    async def signal(self, number):
        await self.sandbox.signal(self.process.pid, number)

    async def interrupt(self):
        """End the cell that nobody listens to any more."""
        await self.signal(signal.SIGINT)
        while text := await self.message():
            if json.loads(text)["type"] == "end_of_execution":
                break
        self.busy = False

    def send(self, request):
        self.busy = True
        data = json.dumps(request).encode() + b"\n"
        while data:
            data = data[os.write(self.process.stdin, data):]

    async def message(self):
        """The next line, or nothing once the kernel is gone. A line may be as long as a picture."""
        reader = self.process.outputs[0][1]
        while b"\n" not in self.buffer:
            data = await reader.read(1 << 20)
            if not data:
                return b""
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line + b"\n"


class CodeInterpreter:
    def __init__(self, writer):
        self.writer = writer

    async def handle(self, exchange, operation, sandbox):
        if operation == "interpreter-health":
            await exchange.respond(200, {"content-type": "text/plain"}, b'"OK"')
        elif operation == "execute":
            await self.execute(exchange, sandbox)
        elif operation == "contexts.create":
            request = json.loads(await exchange.body() or b"{}")
            context = await self.create(exchange, sandbox, request.get("language"), request.get("cwd"))
            if context:
                await self.json(exchange, context.description())
        elif operation == "contexts.list":
            await self.default(sandbox)
            await self.json(exchange, [context.description() for context in sandbox.contexts.values()])
        elif operation:
            await self.change(exchange, operation, sandbox)
        else:
            await exchange.respond(404, {"content-type": "application/json"}, b'{"detail":"Not Found"}')

    async def json(self, exchange, body):
        await exchange.respond(200, {"content-type": "application/json"}, json.dumps(body).encode())

    async def refuse(self, exchange, status, text):
        await exchange.respond(status, {"content-type": "text/plain; charset=utf-8"}, text.encode())

    # ---- contexts

    async def default(self, sandbox):
        if "python" not in sandbox.contexts:
            sandbox.contexts["python"] = context = Context(sandbox, "python", "/home/user", str(uuid.uuid4()))
            # Whoever comes meanwhile waits for it at the lock.
            async with context.lock:
                await context.boot()
        return sandbox.contexts["python"]

    async def create(self, exchange, sandbox, language, cwd):
        language = LANGUAGES.get(language or "python")
        if language is None:
            await self.refuse(exchange, 500, "Kernel for this language could not be started")
            return None
        context = Context(sandbox, language, cwd or "/home/user")
        await context.boot()
        sandbox.contexts[context.id] = context
        return context

    def find(self, sandbox, name):
        return next((context for context in sandbox.contexts.values() if context.id == name), None)

    async def change(self, exchange, operation, sandbox):
        name = exchange.path.split("/")[2]
        context = self.find(sandbox, name)
        if context is None:
            await self.refuse(exchange, 404, f"Context {name} not found")
            return
        await context.stop()
        if operation == "contexts.restart":
            await context.boot()
        else:
            sandbox.contexts = {key: other for key, other in sandbox.contexts.items() if other is not context}
        await self.json(exchange, None)

    # ---- cells

    async def execute(self, exchange, sandbox):
        request = json.loads(await exchange.body())
        if request.get("context_id") and request.get("language"):
            await self.refuse(exchange, 400, "Only one of context_id or language can be provided")
            return
        context = self.find(sandbox, request["context_id"]) if request.get("context_id") else await self.default(sandbox)
        if context is None:
            await self.refuse(exchange, 404, f"Context {request['context_id']} not found")
            return
        if LANGUAGES.get(request.get("language") or "python") is None:
            await self.refuse(exchange, 500, "Kernel for this language could not be started")
            return
        async with context.lock:
            await exchange.start(200, {"content-type": "application/json"})
            context.send({"code": request["code"], "env_vars": request.get("env_vars")})
            try:
                await self.forward(exchange, sandbox, context)
            finally:
                if context.busy and not sandbox.ended.is_set():
                    await context.interrupt()

    async def forward(self, exchange, sandbox, context):
        """The kernel's messages until the cell is over, or the client leaves."""
        ends = [asyncio.ensure_future(event.wait()) for event in (sandbox.ended, exchange.gone)]
        try:
            while True:
                line = asyncio.ensure_future(context.message())
                while not line.done():
                    done, _ = await asyncio.wait([line, *ends], timeout=KEEPALIVE, return_when=asyncio.FIRST_COMPLETED)
                    if ends[0].done():
                        line.cancel()
                        exchange.cut()
                    if ends[1].done():
                        line.cancel()
                        return
                    if not done:
                        await self.send(exchange, {"type": "keepalive"})
                if not line.result():
                    await self.lost(exchange, context)
                    return
                message = json.loads(line.result())
                context.busy = message["type"] != "end_of_execution"
                await self.send(exchange, message)
                if not context.busy:
                    await exchange.finish()
                    return
        finally:
            for task in ends:
                task.cancel()

    async def send(self, exchange, message):
        await exchange.message("end" if message["type"] == "end_of_execution" else message["type"], self.writer.text(message) + b"\n")

    async def lost(self, exchange, context):
        """The cell ended its kernel."""
        context.busy = False
        context.sandbox.close_input(context.process)
        await context.boot()
        await self.send(exchange, LOST)
        await self.send(exchange, {"type": "end_of_execution"})
        await exchange.finish()
