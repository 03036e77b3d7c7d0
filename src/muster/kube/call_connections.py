"""Keep-alive connections for calls to the API server: HTTP/1.1, one call at a time on each connection.

A scheduler makes two to four calls per pod and reads five to ten events of it, and most of its CPU time goes into them.
aiohttp builds a request from a dozen objects; this module writes the bytes and reads the four headers that matter.
What goes through a proxy goes through aiohttp.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeVar
from urllib.parse import quote, urlsplit

from muster import __version__
from muster.kube.config import Access
from muster.kube.http_connection import Connection, HttpAnswer, StreamConnection
from muster.store import errors

IDLE_TIMEOUT_S = 75.0
C = TypeVar("C", bound=Connection)


class HttpRequest(NamedTuple):
    """`query` is encoded and without the question mark; `data` None sends no body."""

    method: str
    path: str
    query: str = ""
    data: bytes | None = None
    content_type: str = ""
    authorization: str | None = None


class CallConnections:
    """The connections of one client: idle ones are used again, the one used last first."""

    def __init__(self, access: Access, connect_seconds: float) -> None:
        self._access = access
        self._connect_seconds = connect_seconds
        self._idle: list[Connection] = []
        self._tls: ssl.SSLContext | None = None
        self._host = ""

    async def call(self, request: HttpRequest, what: str, seconds: float, most: int) -> HttpAnswer:
        """Sends the request; returns the answer, whatever its status.

        Raises Unreachable (with `sent` False if there was no connection), TimedOut, or TooLarge if the answer has more
        than `most` bytes.
        """
        loop = asyncio.get_running_loop()
        begin = loop.time()
        connection = self._take(begin) or await self._connected(Connection, what, seconds)
        try:
            left = seconds - (loop.time() - begin)
            return await connection.send(self._bytes_of(request), what, left, most)
        finally:
            # A connection whose answer was not read completely is of no use to the next call.
            if connection.reusable:
                connection.idle_since = loop.time()
                self._idle.append(connection)
            else:
                connection.close()

    @asynccontextmanager
    async def stream(
        self, request: HttpRequest, what: str, silence: float, most: int, interval: float = 0.0
    ) -> AsyncIterator[tuple[HttpAnswer, AsyncIterator[bytes]]]:
        """Sends the request; returns the answer and, if its status is 2xx, the parts of its body as they arrive.

        After a part the next one is taken `interval` seconds later. Raises the errors of `call`, and TimedOut if
        nothing arrives for `silence` seconds.
        """
        self._use_access()
        connection = await self._connected(StreamConnection, what, silence)
        try:
            answer = await connection.send(self._bytes_of(request), what, silence, most)
            yield answer, connection.parts(silence, interval)
        finally:
            connection.close()

    def close(self) -> None:
        """Closes the idle connections; those in use are closed after their answer."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()
        self._host = ""

    def _take(self, now: float) -> Connection | None:
        """Returns an open connection, if there is one with the current credentials."""
        self._use_access()
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable and now < connection.idle_since + IDLE_TIMEOUT_S:
                return connection
            connection.close()
        return None

    def _use_access(self) -> None:
        access = self._access
        if self._tls is access.tls and self._host == access.host:
            return
        self.close()  # client certificates belong to connections
        self._tls, self._host = access.tls, access.host
        parts = urlsplit(access.host)
        self._name, self._port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        self._prefix = parts.path
        self._common = (
            f" HTTP/1.1\r\nHost: {parts.netloc.rpartition('@')[2]}\r\nUser-Agent: muster/{__version__}\r\n"
            # Answers come uncompressed: packing costs the server more than it saves near it.
            "Accept: application/json\r\nAccept-Encoding: identity\r\n"
        )

    async def _connected(self, kind: type[C], what: str, seconds: float) -> C:
        loop = asyncio.get_running_loop()
        seconds = min(self._connect_seconds, seconds)
        tls = self._tls
        server_name = (self._access.server_name or self._name) if tls is not None else None
        try:
            async with asyncio.timeout(seconds):
                _, made = await loop.create_connection(
                    kind, self._name, self._port, ssl=tls, server_hostname=server_name
                )
        except (OSError, TimeoutError, ValueError) as error:
            unsent = errors.Unreachable(what, str(error) or f"no connection within {seconds:g} s")
            unsent.sent = False
            raise unsent from error
        return made

    def _bytes_of(self, request: HttpRequest) -> bytes:
        target = f"{self._prefix}{request.path}?{request.query}" if request.query else self._prefix + request.path
        if not target.isascii() or not target.isprintable() or " " in target:
            target = quote(target, safe="/:?&=%,~+!*'()@;")  # nothing in it can begin another header
        text = f"{request.method} {target}{self._common}"
        authorization = request.authorization
        if authorization:
            if not authorization.isprintable():
                raise errors.BadRequest(f"{request.method} {request.path}", "the token has a control character")
            text += f"Authorization: {authorization}\r\n"
        data = request.data
        if data is None:
            return f"{text}\r\n".encode()
        return f"{text}Content-Type: {request.content_type}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data
