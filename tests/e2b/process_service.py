"""envd's process.Process: starts programs, streams what they print, passes input and signals on.

Like envd it is no supervisor: a signal and the time limit reach the program alone and not its children, a client that
leaves stops nothing, and what is printed while nobody listens is lost.
"""

import asyncio
import base64
import os
import signal

import connect
from sandboxes import PIPE, SandboxGone, set_size

SIGNALS = {"SIGNAL_SIGKILL": signal.SIGKILL, "SIGNAL_SIGTERM": signal.SIGTERM, 9: signal.SIGKILL, 15: signal.SIGTERM}
KEEPALIVE = 90
EXIT_IS_KEPT = 30
UNREAD = 64  # messages that may wait for a slow client before the program has to


def find(call):
    selector = call.request.get("process") or {}
    for process in call.sandbox.processes.values():
        if process.end is None and (process.pid == selector.get("pid") or (process.tag and process.tag == selector.get("tag"))):
            return process
    raise connect.ConnectError("not_found", f"process with {'pid' if 'pid' in selector else 'tag'} "
                                            f"{selector.get('pid', selector.get('tag'))} not found")


def end_event(status):
    """Zero values are left out, as protojson does."""
    if status == 0:
        return {"exited": True, "status": "exit status 0"}
    if status > 0:
        return {"exitCode": status, "exited": True, "status": f"exit status {status}", "error": f"exit status {status}"}
    text = f"signal: {signal.strsignal(-status).lower()}"
    return {"exitCode": -1, "status": text, "error": text}


async def pump(process, kind, reader):
    while data := await reader.read(PIPE):
        message = {"event": {"data": {kind: base64.b64encode(data).decode()}}}
        for queue in list(process.subscribers):
            await queue.put(("data", message))


async def see_to(sandbox, process):
    """From start to end of a program: its end is told when its output is over, too."""
    try:
        process.pumps = [asyncio.ensure_future(pump(process, kind, reader)) for kind, reader in process.outputs]
        results = await asyncio.gather(*process.pumps, asyncio.shield(process.exited), return_exceptions=True)
        if isinstance(results[-1], SandboxGone):
            return
        process.end = {"event": {"end": end_event(results[-1])}}
        for queue in list(process.subscribers):
            await queue.put(("end", process.end))
        sandbox.close_input(process)
        await asyncio.sleep(EXIT_IS_KEPT)
    finally:
        sandbox.forget(process)


async def forward(call, process, deadline=None):
    """Send the events of a process until it ends, the client leaves, the time is over, or the sandbox is no more."""
    loop = asyncio.get_running_loop()
    queue = asyncio.Queue(UNREAD)
    process.subscribers.add(queue)
    ends = [asyncio.ensure_future(event.wait()) for event in (call.sandbox.ended, call.exchange.gone)]
    try:
        interval = int(call.exchange.headers.get("keepalive-ping-interval", ""))
    except ValueError:
        interval = KEEPALIVE
    next_message = asyncio.ensure_future(queue.get())
    try:
        await call.stream.send("start", {"event": {"start": {"pid": process.pid}}})
        if process.end:
            queue.put_nowait(("end", process.end))
        while True:
            patience = interval if deadline is None else max(0, min(interval, deadline - loop.time()))
            await asyncio.wait([next_message, *ends], timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if ends[0].done():
                call.exchange.cut()
            if ends[1].done():
                return
            if next_message.done():
                kind, message = next_message.result()
                await call.stream.send(kind, message)
                if kind == "end":
                    return
                next_message = asyncio.ensure_future(queue.get())
            elif deadline is not None and loop.time() >= deadline:
                raise connect.ConnectError("deadline_exceeded", "context deadline exceeded")
            else:
                await call.stream.send("keepalive", {"event": {"keepalive": {}}})
    finally:
        process.subscribers.discard(queue)
        # A pump that waits for room in a queue that nobody reads any more.
        while not queue.empty():
            queue.get_nowait()
        for task in [next_message, *ends]:
            task.cancel()


async def signal_to(sandbox, process, number):
    """Both signals stop the reading of the output first: what was not read by then is lost."""
    for task in process.pumps:
        task.cancel()
    try:
        await sandbox.signal(process.pid, number)
    except OSError:
        raise connect.ConnectError("not_found", f"process with pid {process.pid} not found") from None


def deadline_of(call):
    """The moment of the loop's clock when the time that the client gave is over."""
    limit = int(call.exchange.headers.get("connect-timeout-ms") or 0)
    return asyncio.get_running_loop().time() + limit / 1000 if limit else None


async def end_late(sandbox, process):
    if not process.exited.done():
        await signal_to(sandbox, process, signal.SIGKILL)


async def start(call):
    request = call.request
    config = request.get("process") or {}
    if not config.get("cmd"):
        raise connect.ConnectError("invalid_argument", "process.cmd: value is required")
    deadline = deadline_of(call)
    pty = (request.get("pty") or {}).get("size")
    process = await call.sandbox.start(config, call.user, request.get("stdin", True), request.get("tag"), pty)
    call.sandbox.later(see_to(call.sandbox, process))
    if deadline is not None:
        # It is the program's limit, whether or not the client is still there.
        asyncio.get_running_loop().call_at(deadline, lambda: call.sandbox.later(end_late(call.sandbox, process)))
    await forward(call, process, deadline)


async def attach(call):
    selector = call.request.get("process") or {}
    # An end that came a moment ago can still be heard.
    late = call.sandbox.processes.get(selector.get("pid"))
    await forward(call, late or find(call), deadline_of(call))


async def list_all(call):
    processes = [{"config": {name: value for name, value in process.config.items() if value}, "pid": process.pid,
                  **({"tag": process.tag} if process.tag else {})}
                 for process in call.sandbox.processes.values() if process.end is None]
    return {"processes": processes} if processes else {}


async def send_input(call):
    process = find(call)
    given = call.request.get("input") or {}
    kind, text = next(iter(given.items()), (None, ""))
    fd = process.pty if kind == "pty" else process.stdin
    if fd is None:
        raise connect.ConnectError("internal" if kind == "stdin" else "failed_precondition", "stdin not enabled or closed")
    try:
        await asyncio.to_thread(os.write, fd, base64.b64decode(text))
    except BrokenPipeError:
        raise connect.ConnectError("internal", "error writing to stdin: broken pipe") from None
    return {}


async def close_stdin(call):
    process = find(call)
    if process.stdin is None:
        raise connect.ConnectError("internal", "stdin not enabled or closed")
    os.close(process.stdin)
    process.stdin = None
    return {}


async def send_signal(call):
    process = find(call)
    number = SIGNALS.get(call.request.get("signal"))
    if number is None:
        raise connect.ConnectError("unimplemented", f"invalid signal: {call.request.get('signal')}")
    await signal_to(call.sandbox, process, number)
    return {}


async def update(call):
    process = find(call)
    size = (call.request.get("pty") or {}).get("size")
    if size and process.pty is not None:
        set_size(process.pty, size)
    return {}


METHODS = [("Start", "start", start, True), ("Connect", "connect", attach, True), ("List", "list", list_all, False),
           ("SendInput", "send-input", send_input, False), ("CloseStdin", "close-stdin", close_stdin, False),
           ("SendSignal", "signal", send_signal, False), ("Update", "update", update, False)]
