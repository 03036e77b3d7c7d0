"""Tunnels for exec, attach, port-forward and proxy: joins the client's connection to one of the API server after a 101.

Until the API server has switched protocols, it receives nothing from the client but a request that was built here.
After any other response both connections are closed.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import h11

from muster.groupctl.edge_gate.authentication import Caller
from muster.groupctl.edge_gate.connections import CHUNK_BYTES, Exchange
from muster.groupctl.edge_gate.metrics import Metrics
from muster.groupctl.edge_gate.request_head import Head, RefusedRequest
from muster.groupctl.edge_gate.upstream import HOP_BY_HOP, Upstream

RESPONSE_TIMEOUT_S = 60.0


def check_upgrade(head: Head, *, upgradable: bool) -> None:
    """Raises RefusedRequest unless this path may be upgraded and the request asks for it unambiguously."""
    if not upgradable:
        why = "only exec, attach, portforward and proxy may be upgraded through the edge gate; watch by GET"
        raise RefusedRequest(why)
    asked = [one.strip().lower() for value in head.headers.getall("Connection", []) for one in value.split(",")]
    if "upgrade" not in asked or not head.upgrade or "," in head.upgrade or head.has_body:
        raise RefusedRequest("an upgrade needs Connection: Upgrade, one protocol and no body")
    if head.upgrade.lower() == "h2c" or "HTTP2-Settings" in head.headers:
        raise RefusedRequest("the edge gate does not switch to HTTP/2")


async def tunnel(
    exchange: Exchange, caller: Caller, headers: list[tuple[str, str]], upstream: Upstream, metrics: Metrics
) -> None:
    """Opens a tunnel for a request; `headers` are the client's, without those that only a front proxy may send."""
    head = exchange.head
    exchange.close = True
    exchange.end_of_request()
    reader, writer = await upstream.connect(by_front_proxy=caller.by_front_proxy)
    try:
        http = h11.Connection(h11.CLIENT)
        kept = [(name, value) for name, value in headers if name.lower() not in HOP_BY_HOP]
        sent = [("Host", upstream.authority), ("Connection", "Upgrade"), ("Upgrade", head.upgrade), *kept]
        request = h11.Request(
            method=head.method, target=head.target,
            headers=[(name.encode(), value.encode()) for name, value in (*sent, *caller.headers)],
        )  # fmt: skip
        writer.write((http.send(request) or b"") + (http.send(h11.EndOfMessage()) or b""))
        event = await _next_event(http, reader)
        if isinstance(event, h11.InformationalResponse) and event.status_code == 101:
            behind = await exchange.switch_protocols(list(event.headers), event.reason)
            await exchange.write_raw(http.trailing_data[0])
            writer.write(behind)
            with metrics.tunnels.track_inprogress():
                await _join(exchange, reader, writer)
        elif isinstance(event, h11.Response):
            await _relay_response(exchange, http, reader, event)
        else:
            raise ConnectionError("the API server closed the connection without an answer")
    except h11.RemoteProtocolError as fault:
        raise ConnectionError(f"the API server's answer is not valid HTTP: {fault}") from None
    finally:
        writer.transport.abort()


async def _next_event(http: h11.Connection, reader: asyncio.StreamReader) -> h11.Event | type[h11.PAUSED]:
    """Returns the next event, skipping informational responses other than 101."""
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            async with asyncio.timeout(RESPONSE_TIMEOUT_S):
                http.receive_data(await reader.read(CHUNK_BYTES))
        elif not isinstance(event, h11.InformationalResponse) or event.status_code == 101:
            return event  # type: ignore[return-value]


async def _relay_response(
    exchange: Exchange, http: h11.Connection, reader: asyncio.StreamReader, response: h11.Response
) -> None:
    fields = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers]
    reason = response.reason.decode("latin-1")
    await exchange.start(response.status_code, [one for one in fields if one[0].lower() not in HOP_BY_HOP], reason)
    while isinstance(event := await _next_event(http, reader), h11.Data):
        await exchange.write(bytes(event.data))
    await exchange.finish()


async def _join(exchange: Exchange, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copies bytes in both directions until one of the connections is closed."""

    async def up() -> None:
        while piece := await exchange.read_raw():
            writer.write(piece)
            await writer.drain()

    async def down() -> None:
        while piece := await reader.read(CHUNK_BYTES):
            await exchange.write_raw(piece)

    tasks = [asyncio.ensure_future(up()), asyncio.ensure_future(down())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        with suppress(OSError):
            await asyncio.gather(*tasks, return_exceptions=True)
