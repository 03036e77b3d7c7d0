"""/healthz, /readyz and /metrics of a part, answered by the event loop on a port of their own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from muster.kube.informers import Informers

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Check = Callable[[], str]
"""Nothing if all is well, else what is wrong."""
LARGEST_BODY = 4 << 20


class Probes:
    """Plain HTTP; `posts` are further paths that are answered here."""

    def __init__(
        self, registry: CollectorRegistry, ready: Check, healthy: Check = lambda: "",
        posts: Mapping[str, Handler] | None = None,
    ) -> None:  # fmt: skip
        self._registry = registry
        application = web.Application(client_max_size=LARGEST_BODY)
        application.router.add_get("/healthz", _answer(healthy))
        application.router.add_get("/readyz", _answer(ready))
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

    async def _scrape(self, request: web.Request) -> web.Response:
        text = generate_latest(self._registry)
        return web.Response(body=text, headers={"Content-Type": "text/plain; version=0.0.4"})


def not_read(informers: Informers | None) -> str:
    """What a part says at /readyz before it has read the cluster."""
    return "the cluster has not been read yet: " + ("waits for its turn" if informers is None else informers.unread())


def _answer(check: Check) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        wrong = check()
        return web.Response(text=wrong or "ok", status=503 if wrong else 200)

    return answer
