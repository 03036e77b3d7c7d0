"""POST /gate: is this pod sent to its node, or held? Only callers that are authenticated are told.

The answer names the policies of an application. On a loopback address every caller counts as authenticated; elsewhere
it is given over HTTPS, to clients with a certificate.
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

Verdict = Callable[[bytes], Awaitable[tuple[int, dict[str, str]]]]
"""A pod in JSON → status and answer."""


class DecisionEndpoint:
    def __init__(self, verdict: Verdict) -> None:
        self.port: int | None = None
        self._verdict = verdict
        self._listener: Listener | None = None

    def listen(self, at: tuple[str, int], tls: ssl.SSLContext) -> None:
        """Over HTTPS, until `stop`. OSError if it cannot."""
        self._loop = asyncio.get_running_loop()
        # Of a caller that is refused no pod needs to be read.
        self._listener = Listener(at, self._answer, lambda path, known: MAX_BODY_BYTES if known else 1024, tls=tls)
        self.port = self._listener.port
        self._listener.start()

    def stop(self) -> None:
        if self._listener is not None:
            self._listener.stop()

    async def plain(self, request: web.Request) -> web.Response:
        status, answer = await self._verdict(await request.read())
        return web.json_response(answer, status=status)

    async def refuse(self, request: web.Request) -> web.Response:
        return web.json_response({"error": _CLOSED}, status=403)

    def _answer(self, request: Request) -> Response:
        if not request.authenticated:
            return _json(401, {"error": "POST /gate needs a client certificate"})
        if (request.method, request.path) != ("POST", "/gate"):
            return _json(404, {"error": "only POST /gate is answered here"})

        async def verdict() -> tuple[int, dict[str, str]]:
            return await self._verdict(bytes(request.body))

        asked = asyncio.run_coroutine_threadsafe(verdict(), self._loop)
        try:
            return _json(*asked.result(max(request.deadline - time.monotonic(), 0.0)))
        except Late:
            asked.cancel()
            return _json(503, {"error": "no answer in time"})


def _json(status: int, answer: dict[str, str]) -> Response:
    return Response(status, msgspec.json.encode(answer))
