"""Calls to the API server without muster's client: aiohttp, bodies that are bytes, so many in flight."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple, Self

import aiohttp
import scene  # noqa: F401  (it says where the tests' modules are)

from live.controlplane import ControlPlane

PATCH = "application/merge-patch+json"


class Endpoint(NamedTuple):
    """Where the API server is; can be given to another process."""

    url: str
    ca: str
    token: str


def endpoint_of(plane: ControlPlane) -> Endpoint:
    """As the administrator."""
    return Endpoint(plane.url, str(plane.ca), plane.token)


class Wire:
    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._tls = ssl.create_default_context(cafile=endpoint.ca)
        self._headers = {"Accept": "application/json", "Authorization": f"Bearer {endpoint.token}"}

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            self._endpoint.url, connector=aiohttp.TCPConnector(limit=0, ssl=self._tls),
            headers=self._headers, timeout=aiohttp.ClientTimeout(total=None),
        )  # fmt: skip
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def send(self, method: str, path: str, body: bytes, kind: str = "application/json") -> None:
        headers = {"Content-Type": kind}
        async with self._session.request(method, path, data=body, headers=headers) as answer:
            text = await answer.read()
            if answer.status >= 300:
                raise RuntimeError(f"{method} {path}: {answer.status} {text[:300]!r}")

    async def get(self, path: str) -> bytes:
        async with self._session.get(path) as answer:
            return await answer.read()

    async def lines(self, path: str) -> AsyncIterator[bytes]:
        """A watch, line by line."""
        rest = b""
        async with self._session.get(path) as answer:
            async for part in answer.content.iter_any():
                *whole, rest = (rest + part).split(b"\n")
                for line in whole:
                    yield line


async def post_all(endpoint: Endpoint, path: str, bodies: Iterable[bytes], at_once: int) -> None:
    """Make many objects, so many at a time, at the least cost to those who are measured meanwhile."""
    left = iter(bodies)

    async def some(wire: Wire) -> None:
        for body in left:
            await wire.send("POST", path, body)

    async with Wire(endpoint) as wire:
        await asyncio.gather(*(some(wire) for _ in range(at_once)))
