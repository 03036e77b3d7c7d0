"""Answers POST /gate: whether a pod is sent to its node or held back. Only authenticated callers get an answer.

The answer names the policies of an application. On a loopback address every caller counts as authenticated; elsewhere
only HTTPS clients with a certificate do.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import TimeoutError as Late

import msgspec
from aiohttp import web

from muster.process.listener.http_listener import Listener, Request, Response
from muster.process.listener.limits import MIB

MAX_BODY_BYTES = 4 * MIB
_CLOSED = (
    "POST /gate is answered on this port only if it listens on a loopback address; ask on --gate-port, with a client "
    "certificate of --client-ca-file"
)

Decide = Callable[[bytes], Awaitable[tuple[int, dict[str, str]]]]
"""Takes a pod in JSON; returns the HTTP status and the answer."""


class DecisionEndpoint:
    """Serves POST /gate over HTTPS, and on the port of the probes."""

    def __init__(self, decide: Decide) -> None:
        self.port: int | None = None
        self._decide = decide
        self._listener: Listener | None = None

    def listen(self, at: tuple[str, int], tls: ssl.SSLContext) -> None:
        """Listens over HTTPS until `stop`; raises OSError if it cannot."""
        self._loop = asyncio.get_running_loop()
        # The pod of a caller that will be refused is not read.
        self._listener = Listener(at, self._answer, lambda path, known: MAX_BODY_BYTES if known else 1024, tls=tls)
        self.port = self._listener.port
        self._listener.start()

    def stop(self) -> None:
        if self._listener is not None:
            self._listener.stop()

    async def plain(self, request: web.Request) -> web.Response:
        status, answer = await self._decide(await request.read())
        return web.json_response(answer, status=status)

    async def refuse(self, request: web.Request) -> web.Response:
        return web.json_response({"error": _CLOSED}, status=403)

    def _answer(self, request: Request) -> Response:
        if not request.authenticated:
            return _json(401, {"error": "POST /gate needs a client certificate"})
        if (request.method, request.path) != ("POST", "/gate"):
            return _json(404, {"error": "only POST /gate is answered here"})

        async def decide() -> tuple[int, dict[str, str]]:
            return await self._decide(bytes(request.body))

        asked = asyncio.run_coroutine_threadsafe(decide(), self._loop)
        try:
            return _json(*asked.result(max(request.deadline - time.monotonic(), 0.0)))
        except Late:
            asked.cancel()
            return _json(503, {"error": "no answer in time"})


def _json(status: int, answer: dict[str, str]) -> Response:
    return Response(status, msgspec.json.encode(answer))
