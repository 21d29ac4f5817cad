"""HTTP/1.1 and HTTP/2 for the stand-in, by h11 and h2: whoever handles a request also decides how it breaks.

A server calls its handler with one Exchange per request. The handler is never cancelled because the client went
away: a server that goes on with what nobody waits for any more is one of the things to be tested.
"""

import asyncio
import email.utils
import time
import urllib.parse

import h11

import http2

CHUNK = 65536
# What Go's server still reads of a body that its handler did not want.
UNWANTED = 262144


class ClientGone(Exception):
    """The client closed the connection, or reset the stream, before it had all of its answer."""


class Cut(Exception):
    """The connection was ended on purpose; there is nothing more to say to this client."""


class Exchange:
    """One request and its answer. Subclasses carry it over one version of HTTP."""

    version = None

    def __init__(self, server, method, target, headers):
        self.server = server
        self.method = method
        path, _, query = target.partition("?")
        self.path = urllib.parse.unquote(path)
        self.raw_query = query
        self.query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True, errors="surrogateescape"))
        # Header names in lower case; of a header that came twice the last value.
        self.headers = headers
        self.status = None
        self.head = None
        self.finished = False
        self.received = 0
        self.sent = 0
        self.gone = asyncio.Event()
        self.ahead = b""
        # What the fault switches do to this answer, see faults.py.
        self.faults = []

    async def chunks(self):
        """The body, piece by piece."""
        if self.ahead:
            yield self.ahead
        while piece := await self._read():
            self.received += len(piece)
            yield piece

    async def read_ahead(self):
        """Take in the whole body before the handler wants it."""
        self.ahead = await self.body()

    async def body(self):
        return b"".join([piece async for piece in self.chunks()])

    async def start(self, status, headers=(), length=None):
        """Begin an answer; without a length its end is told by the transport. It leaves with the first bytes after it."""
        self.status = status
        headers = {"date": email.utils.formatdate(time.time() + self.server.clock_offset(), usegmt=True)} | dict(headers)
        if length is not None:
            headers["content-length"] = str(length)
        self.head = (status, list(headers.items()))

    async def send_head(self):
        if self.head:
            head, self.head = self.head, None
            await self._start(*head)

    async def write(self, data):
        await self.send_head()
        if data:
            await self._write(data)
            self.sent += len(data)

    async def message(self, kind, data):
        """One message of a stream. The kind tells the fault switches what it is."""
        for fault in self.faults:
            data = await fault.message(self, kind, data)
        await self.write(data)

    async def finish(self):
        await self.send_head()
        self.finished = True
        await self._finish()

    async def respond(self, status, headers=(), body=b""):
        """A whole answer."""
        for fault in self.faults:
            status, headers, body = await fault.answer(self, status, dict(headers), body)
        await self.start(status, headers, None if status == 204 else len(body))
        await self.write(body)
        await self.finish()

    def done(self):
        """Leave the handler: whoever calls this has answered in its stead."""
        raise Cut

    def cut(self):
        """End the connection in the middle of whatever it carries."""
        self._abort()
        raise Cut

    async def raw(self, data):
        """Bytes that need not be HTTP, and the end of the connection."""
        await self._raw(data)
        raise Cut


class Http1Exchange(Exchange):
    version = "1.1"

    def __init__(self, connection, request):
        headers = {name.decode().lower(): value.decode("latin-1") for name, value in request.headers}
        super().__init__(connection.server, request.method.decode(), request.target.decode("latin-1"), headers)
        self.connection = connection
        self.body_over = False

    async def _read(self):
        if self.body_over:
            return b""
        h11_connection = self.connection.h11
        if h11_connection.they_are_waiting_for_100_continue:
            await self._send(h11.InformationalResponse(status_code=100, headers=[]))
        event = await self.connection.next_event()
        if isinstance(event, h11.Data):
            return bytes(event.data)
        self.body_over = True
        if not isinstance(event, h11.EndOfMessage):
            self.gone.set()
            raise ClientGone
        self.connection.watch(self)
        return b""

    async def _send(self, event):
        if self.gone.is_set():
            raise ClientGone
        try:
            self.connection.writer.write(self.connection.h11.send(event) or b"")
            await self.connection.writer.drain()
        except (ConnectionError, h11.LocalProtocolError) as error:
            self.gone.set()
            raise ClientGone from error

    async def _start(self, status, headers):
        await self._send(h11.Response(status_code=status, headers=headers))

    async def _write(self, data):
        if self.method != "HEAD":
            await self._send(h11.Data(data=data))

    async def _finish(self):
        await self._send(h11.EndOfMessage())

    def _abort(self):
        self.connection.writer.transport.abort()

    async def _raw(self, data):
        self.connection.writer.write(data)
        await self.connection.writer.drain()
        self.connection.writer.close()


class Http1Connection:
    def __init__(self, server, reader, writer, first):
        self.server = server
        self.reader = reader
        self.writer = writer
        self.h11 = h11.Connection(h11.SERVER)
        self.watcher = None
        self.h11.receive_data(first)

    async def next_event(self):
        while (event := self.h11.next_event()) is h11.NEED_DATA:
            try:
                self.h11.receive_data(await self.reader.read(CHUNK))
            except ConnectionError:
                return h11.ConnectionClosed()
        return event

    def watch(self, exchange):
        """With the whole request read, the next thing to come is another request, or the client's leaving."""

        async def until_something_comes():
            try:
                data = await self.reader.read(CHUNK)
            except ConnectionError:
                data = b""
            if not data:
                exchange.gone.set()
            self.h11.receive_data(data)

        self.watcher = asyncio.ensure_future(until_something_comes())

    async def stop_watching(self):
        if self.watcher:
            self.watcher.cancel()
            await asyncio.gather(self.watcher, return_exceptions=True)
            self.watcher = None

    async def serve(self):
        while isinstance(event := await self.next_event(), h11.Request):
            exchange = Http1Exchange(self, event)
            await self.server.handle(exchange)
            if exchange.gone.is_set() or not exchange.finished or not await self.take_the_rest(exchange):
                return
            await self.stop_watching()
            if self.h11.our_state is not h11.DONE or self.h11.their_state is not h11.DONE:
                return
            self.h11.start_next_cycle()

    async def take_the_rest(self, exchange):
        unwanted = 0
        while not exchange.body_over and unwanted < UNWANTED:
            unwanted += len(await exchange._read())
        return exchange.body_over


class Server:
    """Hands each request on one listening socket to a handler, a coroutine function that takes an Exchange."""

    def __init__(self, handler, clock_offset=lambda: 0, log=lambda exchange, error: None):
        self.handler = handler
        self.clock_offset = clock_offset
        self.log = log

    async def handle(self, exchange):
        try:
            await self.handler(exchange)
        except (ClientGone, Cut):
            pass
        except Exception as error:
            self.log(exchange, error)
            if exchange.status is None:
                try:
                    await exchange.respond(500, {"content-type": "text/plain"}, b"the stand-in has a bug: see its log")
                except ClientGone:
                    pass

    async def accept(self, reader, writer):
        try:
            await self.serve(reader, writer)
        except (OSError, ClientGone, h11.RemoteProtocolError):
            pass
        finally:
            writer.close()

    async def serve(self, reader, writer):
        # What was written has left before a cut.
        writer.transport.set_write_buffer_limits(high=1, low=0)
        tls = writer.get_extra_info("ssl_object")
        first = await reader.read(CHUNK)
        if (tls and tls.selected_alpn_protocol() == "h2") or first.startswith(b"PRI * HTTP/2.0"):
            await http2.Connection(self, reader, writer, Exchange, ClientGone).serve(first)
            return
        connection = Http1Connection(self, reader, writer, first)
        try:
            await connection.serve()
        finally:
            await connection.stop_watching()
