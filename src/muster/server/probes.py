"""/healthz, /readyz and /metrics of a server, on a port of their own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Ready = Callable[[], str]
"""Nothing if it can serve, else why not."""


class Probes:
    """Plain HTTP; `posts` are further paths that are answered here."""

    def __init__(self, registry: CollectorRegistry, ready: Ready, posts: dict[str, Handler] | None = None) -> None:
        self._registry = registry
        self._ready = ready
        application = web.Application(client_max_size=4 << 20)
        application.router.add_get("/healthz", self._healthy)
        application.router.add_get("/readyz", self._answer)
        application.router.add_get("/metrics", self._scrape)
        for path, handler in (posts or {}).items():
            application.router.add_post(path, handler)
        self._runner = web.AppRunner(application, access_log=None)
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes any that is free."""
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _healthy(self, request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _answer(self, request: web.Request) -> web.Response:
        wrong = self._ready()
        return web.Response(text=wrong or "ok", status=503 if wrong else 200)

    async def _scrape(self, request: web.Request) -> web.Response:
        text = generate_latest(self._registry)
        return web.Response(body=text, headers={"Content-Type": "text/plain; version=0.0.4"})
