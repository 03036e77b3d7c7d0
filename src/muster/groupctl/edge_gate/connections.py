"""Serves client connections: one request after the other, each with a checked head; h11 writes the responses.

Every request gets a new h11 connection. It sees the next request's bytes only after their head was checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import h11
import msgspec

from muster.groupctl.edge_gate.api_status import status
from muster.groupctl.edge_gate.metrics import Metrics
from muster.groupctl.edge_gate.request_head import END, MAX_HEAD_BYTES, Head, RefusedRequest, parse

MAX_CONNECTIONS = 4000
HEAD_TIMEOUT_S = 10.0  # from the first byte of a head to its end, and from the connection to the first byte
IDLE_TIMEOUT_S = 120.0  # between two requests; Go's clients close after 90 s
BODY_TIMEOUT_S = 20.0  # between two chunks of a body
GET_BODY_TIMEOUT_S = 10.0  # for all of the body of a GET
MAX_GET_BODY_BYTES = 1 << 16
WRITE_TIMEOUT_S = 60.0  # for a client to read what is buffered for it
LINGER_S, LINGER_READS = 0.5, 64
CHUNK_BYTES = 1 << 16

Headers = Iterable[tuple[str, str]]


class Exchange:
    """One request and its response."""

    def __init__(
        self, http: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: Head, rest: bytes
    ) -> None:
        """`rest`: the bytes received after the head."""
        self.head = head
        self.started = False
        self.close = False
        """Whether the connection is closed after the response."""
        self._http = http
        self._reader = reader
        self._writer = writer
        if rest:
            http.receive_data(rest)

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = self._writer.get_extra_info("peercert")
        return found

    @property
    def is_closing(self) -> bool:
        return self._writer.is_closing()

    async def body(self) -> AsyncIterator[bytes]:
        """Streams the body; raises RefusedRequest if it is malformed or does not arrive in time."""
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as fault:
                raise RefusedRequest(f"the body of the request is malformed: {fault}") from None
            if event is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    await self._send(h11.InformationalResponse(status_code=100, headers=[]))
                try:
                    async with asyncio.timeout(BODY_TIMEOUT_S):
                        self._http.receive_data(await self._reader.read(CHUNK_BYTES))
                except TimeoutError:
                    raise RefusedRequest("the announced body of the request did not arrive", 408) from None
            elif isinstance(event, h11.Data):
                yield bytes(event.data)
            else:
                return

    async def small_body(self) -> bytes:
        """Reads the whole body of a request that needs none, so that the connection can be reused."""
        parts, size = [], 0
        try:
            async with asyncio.timeout(GET_BODY_TIMEOUT_S):
                async for piece in self.body():
                    parts.append(piece)
                    size += len(piece)
                    if size > MAX_GET_BODY_BYTES:
                        raise RefusedRequest("the body is too large for this method", 413)
        except TimeoutError:
            raise RefusedRequest("the announced body of the request did not arrive", 408) from None
        return b"".join(parts)

    async def start(self, code: int, headers: Headers, reason: str = "") -> None:
        self.started = True
        sent = [*headers, *([("Connection", "close")] if self.close else [])]
        await self._send(h11.Response(status_code=code, headers=sent, reason=reason.encode("latin-1", "replace")))

    async def write(self, data: bytes) -> None:
        await self._send(h11.Data(data=data))

    async def finish(self) -> None:
        await self._send(h11.EndOfMessage())

    async def refuse(self, code: int, message: str, *, name: str = "") -> None:
        """Responds with a Status; `name`: the pod that it is about."""
        body = msgspec.json.encode(status(code, message, name=name))
        retry = [("Retry-After", "1")] if code == 503 else []
        length = ("Content-Length", str(len(body)))
        await self.start(code, [("Content-Type", "application/json"), length, *retry])
        await self.write(body)
        await self.finish()

    def abort(self) -> None:
        """Aborts the connection, so that the client sees that the response is incomplete."""
        self._writer.transport.abort()

    def rest(self) -> bytes | None:
        """Returns the bytes received of the next request; None if the connection ends."""
        http = self._http
        if http.our_state is not h11.DONE or self.close:
            return None
        if not self.head.has_body and http.their_state is h11.SEND_BODY:
            http.next_event()
        return http.trailing_data[0] if http.their_state is h11.DONE else None

    # --- tunnels

    async def switch_protocols(self, headers: list[tuple[bytes, bytes]], reason: bytes) -> bytes:
        """Responds with 101; returns the bytes that the client sent after its head."""
        self.started = True
        await self._send(h11.InformationalResponse(status_code=101, headers=headers, reason=reason))
        return self._http.trailing_data[0]

    async def read_raw(self) -> bytes:
        return await self._reader.read(CHUNK_BYTES)

    async def write_raw(self, data: bytes) -> None:
        self._writer.write(data)
        await self._drain()

    def end_of_request(self) -> None:
        """Lets h11 see the end of a request without a body, which it must before an upgrade is answered."""
        self._http.next_event()

    async def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            self._writer.write(data)
            await self._drain()

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(WRITE_TIMEOUT_S):
                await self._writer.drain()
        except TimeoutError:
            self.abort()
            raise ConnectionError("the client does not read the answer") from None


Handler = Callable[[Exchange], Awaitable[None]]


class Connections:
    """The protocol factory of the server (`loop.create_server(connections, …)`); limits the open connections."""

    def __init__(
        self, handle: Handler, report: Callable[[str], None], metrics: Metrics, limit: int = MAX_CONNECTIONS
    ) -> None:
        self._handle = handle
        self._report = report
        self._metrics = metrics
        metrics.connections.set_function(lambda: len(self._tasks))
        self._limit = limit
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self) -> asyncio.Protocol:
        return _Connection(self)

    async def shutdown(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> asyncio.Task[None] | None:
        if len(self._tasks) >= self._limit:
            self._report(f"a connection was refused: {self._limit} are open")
            writer.transport.abort()
            return None
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            rest: bytes | None = b""
            wait = HEAD_TIMEOUT_S
            while rest is not None:
                rest = await self._next(reader, writer, rest, wait)
                wait = IDLE_TIMEOUT_S
            await _linger(reader)
        except (OSError, h11.ProtocolError, EOFError):  # TimeoutError is an OSError
            writer.transport.abort()  # the client is gone, or no complete answer can be given
        finally:
            writer.close()

    async def _next(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, buffer: bytes, wait: float
    ) -> bytes | None:
        """Handles one request; returns the bytes after it, or None to end the connection."""
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        try:
            raw, buffer = await _read_head(reader, buffer, wait)
            head = parse(http, raw)
        except RefusedRequest as why:
            self._metrics.refuse(why.code)
            await _refuse_head(writer, why)
            return None
        exchange = Exchange(http, reader, writer, head, buffer)
        await self._handle(exchange)
        return exchange.rest()


class _Connection(asyncio.StreamReaderProtocol):
    """Cancels the handling of a connection when the client closes it."""

    def __init__(self, connections: Connections) -> None:
        self._work: asyncio.Task[None] | None = None

        def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._work = connections.begin(reader, writer)

        loop = asyncio.get_running_loop()
        super().__init__(asyncio.StreamReader(limit=CHUNK_BYTES, loop=loop), begin, loop=loop)

    def eof_received(self) -> bool:
        super().eof_received()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._work is not None:
            self._work.cancel()


async def _read_head(reader: asyncio.StreamReader, buffer: bytes, wait: float) -> tuple[bytes, bytes]:
    """Returns the bytes before the blank line and those after it."""
    end = asyncio.get_running_loop().time() + (HEAD_TIMEOUT_S if buffer else wait)
    searched = 0
    while (at := buffer.find(END, max(0, searched - len(END)))) < 0:
        if len(buffer) > MAX_HEAD_BYTES:
            raise RefusedRequest(f"the request head has more than {MAX_HEAD_BYTES} bytes", 431)
        searched, first = len(buffer), not buffer
        async with asyncio.timeout_at(end):
            piece = await reader.read(CHUNK_BYTES)
        if not piece:
            raise EOFError
        buffer += piece
        if first:
            end = asyncio.get_running_loop().time() + HEAD_TIMEOUT_S
    if at > MAX_HEAD_BYTES:
        raise RefusedRequest(f"the request head has more than {MAX_HEAD_BYTES} bytes", 431)
    return buffer[:at], buffer[at + len(END) :]


async def _linger(reader: asyncio.StreamReader) -> None:
    """Reads for a short time: with unread bytes, closing resets the connection before the client reads the response."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            for _ in range(LINGER_READS):
                if not await reader.read(CHUNK_BYTES):
                    return


async def _refuse_head(writer: asyncio.StreamWriter, why: RefusedRequest) -> None:
    """Responds to a head that was not parsed, so that h11 knows no request to answer."""
    body = msgspec.json.encode(status(why.code, str(why)))
    answer = h11.Connection(h11.SERVER)
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body))), ("Connection", "close")]
    parts = (h11.Response(status_code=why.code, headers=headers), h11.Data(data=body), h11.EndOfMessage())
    writer.write(b"".join(answer.send(part) or b"" for part in parts))
    with suppress(TimeoutError):
        async with asyncio.timeout(WRITE_TIMEOUT_S):
            await writer.drain()
