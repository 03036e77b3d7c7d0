"""The listener of the dashboard: aiohttp's server with limits on connections, headers, bodies and slow clients.

aiohttp itself limits neither the number of connections nor the time that a client takes to send a request or to read a
response. Each connection therefore has a guard between the transport and aiohttp's protocol.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from aiohttp import web

from muster.process.component import Handler

MAX_CONNECTIONS = 256
MAX_BODY_BYTES = 1 << 20
MAX_LINE_BYTES, MAX_FIELD_BYTES, MAX_HEADERS = 8190, 8190, 64
REQUEST_TIMEOUT_S = 10.0  # to send a request; for the first one from the connection on
READ_TIMEOUT_S = 10.0  # to read some of a response
IDLE_TIMEOUT_S = 60.0  # between two requests
SWEEP_INTERVAL_S = 1.0
HANDSHAKE_TIMEOUT_S = 10.0
SHUTDOWN_TIMEOUT_S = 2.0


class Guard(asyncio.Protocol):
    """Passes everything on to aiohttp's protocol, and notes since when the connection waits for its client."""

    def __init__(self, inner: asyncio.Protocol, listener: Listener) -> None:
        self._inner = inner
        self._listener = listener
        self.transport: asyncio.Transport
        self.answering = 0
        """Requests that are being answered."""
        self._since = 0.0
        self._partial = True  # a request is awaited: it is the first one, or bytes of it came
        self._unread = (0, 0.0)  # bytes that the client has not read, and since when there are so many

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's transports are of other classes
        self._since = self._listener.now()
        if len(self._listener.guards) >= self._listener.max_connections:
            self._listener.refused += 1
            self.transport.abort()
            return
        self._listener.guards[transport] = self
        self._inner.connection_made(transport)

    def connection_lost(self, fault: Exception | None) -> None:
        if self._listener.guards.pop(self.transport, None) is not None:
            self._inner.connection_lost(fault)

    def data_received(self, data: bytes) -> None:
        if self.transport in self._listener.guards:
            if not self._partial:
                self._partial, self._since = True, self._listener.now()
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def answered(self) -> None:
        self.answering -= 1
        self._partial, self._since = False, self._listener.now()

    def is_late(self, now: float) -> bool:
        """Returns whether the client has kept the connection waiting for too long."""
        unread = self.transport.get_write_buffer_size()
        if unread == 0 or unread < self._unread[0]:
            self._unread = (unread, now)
        elif unread > self._unread[0]:
            self._unread = (unread, self._unread[1] if self._unread[0] else now)
        if unread:
            return now - self._unread[1] > READ_TIMEOUT_S
        limit = REQUEST_TIMEOUT_S if self._partial else IDLE_TIMEOUT_S
        return not self.answering and now - self._since > limit


class Listener:
    """Serves an application at an address until it is stopped."""

    def __init__(self, application: web.Application, max_connections: int = MAX_CONNECTIONS) -> None:
        self.guards: dict[asyncio.BaseTransport, Guard] = {}
        self.max_connections = max_connections
        self.refused = 0
        self.closed = 0
        """Connections that were closed because their client was too slow."""
        self.port = 0
        application.middlewares.insert(0, self._counted)
        self._runner = web.AppRunner(
            application, access_log=None, max_line_size=MAX_LINE_BYTES, max_field_size=MAX_FIELD_BYTES,
            max_headers=MAX_HEADERS, keepalive_timeout=IDLE_TIMEOUT_S, lingering_time=1.0, auto_decompress=False,
            shutdown_timeout=SHUTDOWN_TIMEOUT_S,
        )  # fmt: skip
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self.now: Callable[[], float] = lambda: 0.0

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        """Starts to listen; port 0 takes a free one. Raises OSError if the address cannot be used."""
        loop = asyncio.get_running_loop()
        self.now = loop.time
        await self._runner.setup()
        make = self._runner.server
        assert make is not None
        timeout = HANDSHAKE_TIMEOUT_S if tls is not None else None
        self._server = await loop.create_server(
            lambda: Guard(make(), self), host, port, ssl=tls, ssl_handshake_timeout=timeout
        )
        self.port = self._server.sockets[0].getsockname()[1]
        self._sweeper = asyncio.create_task(self._sweep())

    async def stop(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._sweeper
        if self._server is not None:
            self._server.close()
        await self._runner.cleanup()
        for guard in list(self.guards.values()):
            guard.transport.abort()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_INTERVAL_S)
            now = self.now()
            for guard in list(self.guards.values()):
                if guard.is_late(now):
                    self.closed += 1
                    guard.transport.abort()

    @web.middleware
    async def _counted(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        guard = self.guards.get(request.transport) if request.transport is not None else None
        if guard is None:
            return await handler(request)
        guard.answering += 1
        try:
            return await handler(request)
        finally:
            guard.answered()
