"""Upgrades: a connection becomes a tunnel only after the API server has answered 101."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fakes.faulty_api import FaultyApi, run
from muster.groupctl.edge_gate.change_log import ChangeLog
from muster.groupctl.edge_gate.connections import Connections
from muster.groupctl.edge_gate.metrics import Metrics
from muster.groupctl.edge_gate.proxy import Proxy
from muster.groupctl.edge_gate.upstream import Upstream
from muster.groupctl.edge_gate.visibility import PodVisibility
from muster.groupctl.owners import OwnerResolver
from muster.model.meta import Object
from muster.store import NotFound


@asynccontextmanager
async def far_end(api: FaultyApi, answer: bytes, heads: list[bytes]) -> AsyncIterator[None]:
    """An API server that answers an upgrade with these bytes, and then sends five bytes back in reverse."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        await asyncio.sleep(0.2)
        heads.append(bytes(reader._buffer))  # type: ignore[attr-defined]
        writer.write(answer)
        if b" 101 " in answer:
            writer.write((await reader.readexactly(5))[::-1])
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    api.host = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield
    server.close()


async def upgraded(api: FaultyApi, path: bytes) -> bytes:
    """What a client gets that sends five bytes right behind its request."""
    async with Upstream(api.access()) as upstream:

        async def missing(kind: type[Object], key: str) -> Object:
            raise NotFound.of(kind.__name__, key)

        metrics = Metrics()
        visibility = PodVisibility(OwnerResolver({}, missing))
        proxy = Proxy(upstream, visibility, ChangeLog(), lambda: "", metrics, api.report.append)
        connections = Connections(proxy.handle, api.report.append, metrics)
        listening = await asyncio.get_running_loop().create_server(connections, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
        writer.write(
            b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer abc\r\nX-Remote-User: root\r\n"
            b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n12"
        )
        writer.write(b"345")
        got = await reader.read()
        writer.close()
        listening.close()
        await connections.shutdown()
        return got


def test_an_upgrade_is_a_tunnel_once_the_api_server_has_switched() -> None:
    async def play(api: FaultyApi) -> None:
        heads: list[bytes] = []
        async with far_end(api, b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\n\r\n", heads):
            got = await upgraded(api, b"/api/v1/namespaces/d/services/x/proxy/")
        assert got.startswith(b"HTTP/1.1 101 ") and got.endswith(b"\r\n\r\n54321")
        assert b"upgrade: spdy/3.1" in heads[0].lower() and b"remote-user" not in heads[0].lower()
        assert heads[1] == b"", "bytes of the client before the 101"

    run(play)


def test_after_any_other_answer_to_an_upgrade_the_connection_ends() -> None:
    async def play(api: FaultyApi) -> None:
        heads: list[bytes] = []
        async with far_end(api, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno", heads):
            got = await upgraded(api, b"/api/v1/namespaces/d/services/x/proxy/")
        assert got.startswith(b"HTTP/1.1 200 ") and got.endswith(b"\r\n\r\nno") and b"Connection: close" in got
        assert heads[1] == b""

    run(play)


def test_other_paths_are_not_upgraded() -> None:
    async def play(api: FaultyApi) -> None:
        for path in (b"/version", b"/api/v1/namespaces", b"/api/v1/pods?watch=1", b"/api/v1/namespaces/d/pods/exec"):
            assert (await upgraded(api, path)).startswith(b"HTTP/1.1 400 "), path
        assert api.asked == []

    run(play)
