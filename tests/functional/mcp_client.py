"""The server for assistants, spoken to by hand: for what the official clients never send."""

import json
import queue
import threading

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Server:
    """As a context; it ends with its standard input. With `revision` the handshake is done."""

    def __init__(self, machine, revision="2025-11-25", user="alice", timeout=60):
        self.machine = machine
        self.running = machine.popen(["sbxctl", "mcp"], user)
        self.popen = self.running.popen
        self.timeout = timeout * machine.patience
        self.answers = {}  # by id, as JSON
        self.notifications = []
        self.others = []  # errors without an id, and batches
        self._lines = queue.Queue()
        self._number = 0
        threading.Thread(target=self._read, daemon=True).start()
        if revision:
            result = self.request("initialize", {"protocolVersion": revision})["result"]
            assert result["protocolVersion"] == revision, result
            self.send({"method": "notifications/initialized"})

    def _read(self):
        for line in self.popen.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if not self.popen.stdin.closed:
            self.popen.stdin.close()
        self.popen.wait(20 * self.machine.patience)
        self.popen.stdout.close()
        self.popen.stderr.close()

    def raw(self, data):
        self.popen.stdin.write(data)
        self.popen.stdin.flush()

    def send(self, message):
        self.raw(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def take(self):
        """The next message; every line is one. False at the end."""
        line = self._lines.get(timeout=self.timeout)
        if line is None:
            return False
        message = json.loads(line)
        if isinstance(message, list) or message.get("id") is None and "method" not in message:
            self.others.append(message)
        elif "method" in message:
            self.notifications.append(message)
        else:
            self.answers[json.dumps(message["id"])] = message
        return message

    def wait(self, id):
        key = json.dumps(id)
        while key not in self.answers:
            assert self.take(), f"the server ended before it answered {id}"
        return self.answers.pop(key)

    def other(self):
        while not self.others:
            assert self.take(), "the server ended"
        return self.others.pop(0)

    def start(self, method, params=None, id=None):
        """Sends a request and returns its id."""
        self._number += 1
        id = self._number if id is None else id
        self.send({"id": id, "method": method, **({} if params is None else {"params": params})})
        return id

    def request(self, method, params=None, id=None):
        return self.wait(self.start(method, params, id))

    def start_tool(self, tool, /, **arguments):
        return self.start("tools/call", {"name": tool, "arguments": arguments})

    def tool(self, tool, /, **arguments):
        return self.wait(self.start_tool(tool, **arguments))["result"]

    def run(self, code, **arguments):
        return self.tool("run_code", code=code, **arguments)

    def begin(self, code="import time; time.sleep(600)", **arguments):
        """Starts a run that goes on; its id."""
        return self.run(code, waitSeconds=0, **arguments)["structuredContent"]["id"]

    def end(self):
        """End of file, and whatever comes until the server has ended. Its status."""
        self.popen.stdin.close()
        while self.take():
            pass
        return self.popen.wait(20 * self.machine.patience)
