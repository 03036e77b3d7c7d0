"""/healthz, /readyz and /metrics, answered by the event loop while cycles run in their own thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from muster.live.metrics import Metrics

Check = Callable[[], str]
"""Nothing if all is well, else what is wrong."""


class Probes:
    def __init__(self, metrics: Metrics, healthy: Check, ready: Check) -> None:
        self._metrics = metrics
        application = web.Application(client_max_size=1024)
        application.router.add_get("/healthz", _answer(healthy))
        application.router.add_get("/readyz", _answer(ready))
        application.router.add_get("/metrics", self._scrape)
        self._runner = web.AppRunner(application, access_log=None)
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes any that is free."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _scrape(self, request: web.Request) -> web.Response:
        return web.Response(body=self._metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4"})


def _answer(check: Check) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        wrong = check()
        return web.Response(text=wrong or "ok", status=503 if wrong else 200)

    return answer
