"""envd's filesystem.Filesystem: looks at directories and changes them; the bytes of files are files.py's."""

import asyncio
import datetime
import errno
import os

import connect
from sandboxes import AgentError, SandboxGone

LOOK_AGAIN = 0.05  # a watcher polls


def entry_info(entry):
    """As protojson writes it: 64-bit numbers as strings, zero values left out."""
    moment = datetime.datetime.fromtimestamp(entry["modified"], datetime.timezone.utc).isoformat().replace("+00:00", "Z")
    info = {**entry, "size": str(entry["size"]) if entry["size"] else None, "modifiedTime": moment}
    del info["modified"]
    return {name: value for name, value in info.items() if value}


async def ask(call, operation, *arguments):
    try:
        return await call.sandbox.file(operation, call.user, *arguments)
    except AgentError as error:
        if error.errno == errno.ENOENT:
            raise connect.ConnectError("not_found", f"path not found: {arguments[0]}: no such file or directory") from None
        raise


async def stat(call):
    return {"entry": entry_info(await ask(call, "stat", call.path()))}


async def make_directory(call):
    path = call.path()
    try:
        return {"entry": entry_info(await ask(call, "make", path))}
    except AgentError as error:
        if error.errno != errno.EEXIST:
            raise
    if (await ask(call, "stat", path))["type"] == "FILE_TYPE_DIRECTORY":
        raise connect.ConnectError("already_exists", f"directory already exists: {path}")
    raise connect.ConnectError("invalid_argument", f"path already exists but it is not a directory: {path}")


async def move(call):
    return {"entry": entry_info(await ask(call, "move", call.path("source"), call.path("destination")))}


async def list_directory(call):
    entries = await ask(call, "list", call.path(), call.request.get("depth") or 1)
    return {"entries": [entry_info(entry) for entry in entries]} if entries else {}


async def remove(call):
    await ask(call, "remove", call.path())
    return {}


def changes(before, after):
    for name in sorted(after.keys() - before.keys()):
        yield name, "EVENT_TYPE_CREATE"
    for name in sorted(before.keys() - after.keys()):
        yield name, "EVENT_TYPE_REMOVE"
    for name in sorted(before.keys() & after.keys()):
        if before[name]["permissions"] != after[name]["permissions"]:
            yield name, "EVENT_TYPE_CHMOD"
        if (before[name]["modified"], before[name]["size"]) != (after[name]["modified"], after[name]["size"]):
            yield name, "EVENT_TYPE_WRITE"


async def watch(call):
    path = call.path()
    depth = 100 if call.request.get("recursive") else 1

    async def snapshot():
        return {os.path.relpath(entry["path"], path): entry for entry in await ask(call, "list", path, depth)}

    before = await snapshot()
    await call.stream.send("start", {"start": {}})
    while not call.exchange.gone.is_set():
        await asyncio.sleep(LOOK_AGAIN)
        try:
            after = await snapshot()
        except SandboxGone:
            call.exchange.cut()
        for name, kind in changes(before, after):
            await call.stream.send("data", {"filesystem": {"name": name, "type": kind}})
        before = after


METHODS = [("Stat", "stat", stat, False), ("MakeDir", "make-dir", make_directory, False), ("Move", "move", move, False),
           ("ListDir", "list-dir", list_directory, False), ("Remove", "remove", remove, False), ("WatchDir", "watch-dir", watch, True)]
