"""Where connections come in: requests go to the proxy, Upgrade requests through a tunnel to the API server.

exec, attach and port-forward speak SPDY or WebSocket after a short beginning in HTTP; such a connection is joined to
one of the API server's, and nobody looks at what goes through.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from urllib.parse import unquote

import msgspec
from yarl import URL

from muster.server.edge_gate.answers import status
from muster.server.edge_gate.callers import Unknown, allowed, caller_of
from muster.server.edge_gate.metrics import Metrics
from muster.server.edge_gate.targets import target_of
from muster.server.edge_gate.upstream import Upstream

LONGEST_HEAD = 1 << 17
GREETING = 10.0  # seconds to send the head of the first request
_END = b"\r\n\r\n"
_UPGRADE = re.compile(rb"^upgrade[ \t]*:", re.IGNORECASE | re.MULTILINE)
_PIECE = 1 << 16


class Door(asyncio.Protocol):
    """One connection. Go's clients open a new one for each upgrade, so the first request says what it is for."""

    def __init__(self, serve: Callable[[], asyncio.Protocol], upstream: Upstream, metrics: Metrics) -> None:
        self._serve = serve
        self._upstream = upstream
        self._metrics = metrics
        self._head = b""
        self._tunnel: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._late = asyncio.get_running_loop().call_later(GREETING, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._late.cancel()

    def data_received(self, data: bytes) -> None:
        self._head += data
        end = self._head.find(_END)
        if end < 0:
            if len(self._head) > LONGEST_HEAD:
                self._transport.abort()
            return
        self._late.cancel()
        if _UPGRADE.search(self._head, 0, end) is None:
            inner = self._serve()
            self._transport.set_protocol(inner)
            inner.connection_made(self._transport)
            inner.data_received(self._head)
            return
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_PIECE, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        writer = asyncio.StreamWriter(self._transport, protocol, reader, loop)
        reader.feed_data(self._head[end + len(_END) :])
        self._tunnel = loop.create_task(self._join(self._head[:end], reader, writer))

    async def _join(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = [(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        method, url = [*first.split(" "), "", ""][:2]
        path = unquote(url.partition("?")[0])
        if target_of(method, path, URL(url, encoded=True).query) is not None:
            # The API server also serves watches over WebSocket: nobody could leave out pods there.
            await _refuse(writer, 400, "pods are read and watched through the edge gate without an Upgrade")
            return
        try:
            told = {name.title(): value for name, value in headers}
            certificate = self._transport.get_extra_info("peercert")
            named = {**told, "Sec-WebSocket-Protocol": told.get("Sec-Websocket-Protocol", "")}
            caller = caller_of(named, certificate, path, front_proxy=self._upstream.vouches)
            far_reader, far_writer = await self._upstream.connect(vouched=caller.vouched)
        except Unknown as why:
            await _refuse(writer, 401, str(why))
            return
        except OSError as fault:
            await _refuse(writer, 502, f"the edge gate could not reach the API server: {fault}")
            return
        kept = [(name, value) for name, value in allowed(headers) if name.lower() != "host"]
        host = self._upstream.access.host.partition("://")[2]
        sent = [first, f"Host: {host}", *(f"{name}: {value}" for name, value in (*kept, *caller.headers))]
        far_writer.write("\r\n".join(sent).encode("latin-1") + _END)
        with self._metrics.tunnels.track_inprogress():
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until one end is closed; then the other end is told."""
    try:
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def _refuse(writer: asyncio.StreamWriter, code: int, message: str) -> None:
    body = msgspec.json.encode(status(code, message))
    head = f"HTTP/1.1 {code} \r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close"
    writer.write(head.encode() + _END + body)
    writer.close()
