"""The part of the stand-in's HTTP server that speaks HTTP/2. Only http_server.py calls it."""

import asyncio

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

CHUNK = 65536
WINDOW = 4 << 20


def exchange_class(base, gone):
    """An exchange over one stream. Made here, since http_server.py has the base and needs this file."""

    class Http2Exchange(base):
        version = "2"

        def __init__(self, connection, stream, headers):
            fields = {name: value for name, value in headers}
            super().__init__(connection.server, fields[":method"], fields[":path"],
                             {name: value for name, value in fields.items() if name[0] != ":"} | {"host": fields.get(":authority", "")})
            self.connection = connection
            self.stream = stream
            self.pieces = asyncio.Queue()
            self.body_over = False
            # Whether the whole request has come, though nobody may have read it.
            self.heard = False

        async def _read(self):
            if self.body_over:
                return b""
            data, flow = await self.pieces.get()
            if data is None:
                self.body_over = True
                if self.gone.is_set():
                    raise gone
                return b""
            if not self.gone.is_set():
                self.connection.h2.acknowledge_received_data(flow, self.stream)
                await self.connection.flush()
            return data or await self._read()

        async def _send(self, act, *arguments, **options):
            if self.gone.is_set():
                raise gone
            try:
                act(self.stream, *arguments, **options)
                await self.connection.flush()
            except (ConnectionError, h2.exceptions.ProtocolError) as error:
                self.gone.set()
                raise gone from error

        async def _start(self, status, headers):
            await self._send(self.connection.h2.send_headers, [(":status", str(status)), *headers])

        async def _write(self, data):
            view = memoryview(data)
            while view and self.method != "HEAD":
                room = await self.connection.room(self)
                await self._send(self.connection.h2.send_data, bytes(view[:room]))
                view = view[room:]

        async def _finish(self):
            await self._send(self.connection.h2.end_stream)

        def _abort(self):
            self.connection.writer.transport.abort()

        async def _raw(self, data):
            self.connection.writer.write(data)
            await self.connection.writer.drain()
            self.connection.writer.close()

    return Http2Exchange


class Connection:
    def __init__(self, server, reader, writer, base, gone):
        self.server = server
        self.reader = reader
        self.writer = writer
        self.exchange_class = exchange_class(base, gone)
        self.gone = gone
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self.exchanges = {}
        self.tasks = set()
        self.window_grew = asyncio.Event()

    async def flush(self):
        self.writer.write(self.h2.data_to_send())
        await self.writer.drain()

    async def room(self, exchange):
        """How many bytes the client allows to be sent on this stream now; at least one."""
        while True:
            if exchange.gone.is_set():
                raise self.gone
            try:
                window = self.h2.local_flow_control_window(exchange.stream)
            except h2.exceptions.ProtocolError as error:
                raise self.gone from error
            if window > 0:
                return min(window, self.h2.max_outbound_frame_size)
            self.window_grew.clear()
            await self.window_grew.wait()

    async def serve(self, first):
        self.h2.initiate_connection()
        self.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: WINDOW})
        self.h2.increment_flow_control_window(WINDOW)
        try:
            data = first
            while data:
                for event in self.h2.receive_data(data):
                    self.take(event)
                await self.flush()
                data = await self.reader.read(CHUNK)
        except (ConnectionError, h2.exceptions.ProtocolError):
            pass
        finally:
            for exchange in self.exchanges.values():
                self.leave(exchange)
            await asyncio.gather(*self.tasks, return_exceptions=True)

    def take(self, event):
        if isinstance(event, h2.events.RequestReceived):
            self.begin(event)
        elif isinstance(event, h2.events.DataReceived):
            if exchange := self.exchanges.get(event.stream_id):
                exchange.pieces.put_nowait((event.data, event.flow_controlled_length))
            else:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            if exchange := self.exchanges.get(event.stream_id):
                exchange.heard = True
                exchange.pieces.put_nowait((None, 0))
        elif isinstance(event, h2.events.StreamReset):
            if exchange := self.exchanges.get(event.stream_id):
                self.leave(exchange)
        elif isinstance(event, (h2.events.WindowUpdated, h2.events.RemoteSettingsChanged)):
            self.window_grew.set()

    def begin(self, event):
        exchange = self.exchange_class(self, event.stream_id, event.headers)
        self.exchanges[event.stream_id] = exchange
        task = asyncio.ensure_future(self.run(exchange))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def run(self, exchange):
        try:
            await self.server.handle(exchange)
            await self.close_stream(exchange)
        except (ConnectionError, h2.exceptions.ProtocolError):
            pass
        finally:
            self.exchanges.pop(exchange.stream, None)

    async def close_stream(self, exchange):
        """An answer without an end is an error; one that came before the whole request makes the rest of that needless."""
        if exchange.gone.is_set() or (exchange.finished and exchange.heard):
            return
        codes = h2.errors.ErrorCodes
        self.h2.reset_stream(exchange.stream, codes.NO_ERROR if exchange.finished else codes.INTERNAL_ERROR)
        await self.flush()

    def leave(self, exchange):
        exchange.gone.set()
        exchange.pieces.put_nowait((None, 0))
        self.window_grew.set()
