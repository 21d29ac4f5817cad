#!/usr/bin/python3
"""A stand-in for E2B's cloud: control plane, envd and code interpreter that really run the code, on this machine.

usage: stand_in.py --http 127.0.0.1:3000 --control /run/e2b/control [--https 127.0.0.1:3443 --tls DIRECTORY]

Says "ready" and its addresses on standard output, a line of JSON, once it listens (port 0: any); then ends with
SIGTERM, and all its sandboxes with it. To be run as root: a sandbox has namespaces. README.md beside this tells more.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import sys
import tempfile
import time
import traceback

import connect
import edge
import faults
import http_server
import sandboxes
import switchboard
import tls


class RateLimiter:
    """So many calls in a second of the clock, and the headers that tell of it."""

    def __init__(self, settings):
        self.settings = settings
        self.second = 0
        self.count = 0

    def take(self):
        rate = self.settings["rate"]
        if rate is None:
            return True, {}
        if (second := int(time.monotonic())) != self.second:
            self.second, self.count = second, 0
        self.count += 1
        headers = {"ratelimit-limit": str(rate), "ratelimit-remaining": str(max(0, rate - self.count)), "ratelimit-reset": "1"}
        if self.count <= rate:
            return True, headers
        return False, headers | {"retry-after": "1"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--http", metavar="HOST:PORT", help="listen for HTTP/1.1 and HTTP/2 without TLS")
    parser.add_argument("--https", metavar="HOST:PORT", help="listen with TLS; HTTP/2 is offered by ALPN")
    parser.add_argument("--control", metavar="PATH|HOST:PORT", required=True, help="the test control: a Unix socket, or an address")
    parser.add_argument("--tls", metavar="DIRECTORY", help="where the test CA's ca.pem and the server's certificate are, or are made")
    parser.add_argument("--domain", default="e2b.test", help="names in the certificate: DOMAIN, *.DOMAIN, localhost (%(default)s)")
    parser.add_argument("--directory", help="for the files of the sandboxes; unless given, a temporary one")
    parser.add_argument("--settings", default="{}", help="JSON: settings other than the usual ones, see switchboard.py")
    given = parser.parse_args()
    if given.https and not given.tls:
        parser.error("--https needs --tls DIRECTORY")
    return given


def log(exchange, error):
    print(f"{exchange.method} {exchange.path}:", *traceback.format_exception(error), file=sys.stderr, flush=True)


async def listen(server, address, context=None):
    """Answers what was listened on: HOST:PORT, or a path."""
    if "/" in address:
        if os.path.exists(address):
            os.unlink(address)
        await asyncio.start_unix_server(server.accept, address)
        return address
    host, _, port = address.rpartition(":")
    listening = await asyncio.start_server(server.accept, host.strip("[]"), int(port), ssl=context, family=socket.AF_UNSPEC, backlog=1024)
    return f"{host}:{listening.sockets[0].getsockname()[1]}"


async def serve(given, directory):
    settings = json.loads(json.dumps(switchboard.SETTINGS)) | json.loads(given.settings)
    every = sandboxes.Sandboxes(directory, settings)
    switches = faults.Switches(every)

    def clock():
        return settings["clock_offset"]

    entrance = edge.Edge(every, settings, connect.Writer(settings), clock, switches, RateLimiter(settings))
    server = http_server.Server(entrance.handle, clock, log)
    board = http_server.Server(switchboard.Switchboard(entrance, every, settings, switches).handle, log=log)
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    ready = {"ready": True, "control": await listen(board, given.control)}
    if given.http:
        ready["http"] = "http://" + await listen(server, given.http)
    if given.https:
        ready["https"] = "https://" + await listen(server, given.https, tls.server_context(given.tls, given.domain, settings))
        ready["ca"] = os.path.join(given.tls, "ca.pem")
    print(json.dumps(ready), flush=True)
    await stopped.wait()
    await every.end_all()


def main():
    given = arguments()
    if os.geteuid() != 0:
        sys.exit("stand_in.py: run this as root: its sandboxes have namespaces")
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="e2b-", dir=given.directory) as directory:
        os.chmod(directory, 0o755)
        asyncio.run(serve(given, directory))


main()
