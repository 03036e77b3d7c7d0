"""Serves /healthz, /readyz and /metrics of a component in the event loop, on a separate port."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from muster.kube.informers import Informers

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Check = Callable[[], str]
"""Returns why the probe fails, or nothing."""
MAX_BODY_BYTES = 4 << 20


class Probes:
    """A server for plain HTTP; `posts` are handlers of further paths."""

    def __init__(
        self, registry: CollectorRegistry, ready: Check, healthy: Check = lambda: "",
        posts: Mapping[str, Handler] | None = None,
    ) -> None:  # fmt: skip
        self._registry = registry
        application = web.Application(client_max_size=MAX_BODY_BYTES)
        application.router.add_get("/healthz", _answer(healthy))
        application.router.add_get("/readyz", _answer(ready))
        application.router.add_get("/metrics", self._scrape)
        for path, handler in (posts or {}).items():
            application.router.add_post(path, handler)
        self._runner = web.AppRunner(application, access_log=None)
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Starts to listen; port 0 takes a free one."""
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _scrape(self, request: web.Request) -> web.Response:
        text = generate_latest(self._registry)
        return web.Response(body=text, headers={"Content-Type": "text/plain; version=0.0.4"})


def not_read(informers: Informers | None) -> str:
    """Returns the answer of /readyz before the informers have synced."""
    return "the cluster has not been read yet: " + ("waits for its turn" if informers is None else informers.unread())


def _answer(check: Check) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        wrong = check()
        return web.Response(text=wrong or "ok", status=503 if wrong else 200)

    return answer
