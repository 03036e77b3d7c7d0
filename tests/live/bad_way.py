"""The way to the API server, as bad as a test wants it: some calls get no connection, a 503, or lose their answer."""

from __future__ import annotations

import asyncio
import random
import ssl
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from aiohttp import ClientSession, ClientTimeout, TCPConnector, web

from live.controlplane import ControlPlane


class BadWay:
    """A proxy in a thread of its own. `rate` of all calls but watches fail; `cut()` ends all watches."""

    def __init__(self, plane: ControlPlane, token: str, rate: float, seed: int = 1) -> None:
        self._upstream = plane.url
        self._ca = plane.ca
        self._token = token
        self._rate = rate
        self._dice = random.Random(seed)
        self._chance = random.Random(seed)  # of its own: the other is rolled in another thread
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._streams: set[asyncio.Task[None]] = set()
        self.failed = 0
        self.passed = 0
        self.cuts = 0
        self.slow: Callable[[str, str], float] = lambda method, path: 0.0  # seconds that a call takes to arrive
        self.delayed = 0  # calls on their way that arrive late
        self.answers: Counter[tuple[str, int]] = Counter()  # last word of the path and status → how often
        self.kubeconfig = plane.folder / f"kubeconfig-bad-way-{seed}"
        self._port = 0

    def __enter__(self) -> BadWay:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        self._write(self.kubeconfig)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def good(self) -> None:
        """From now on nothing fails any more."""
        self._rate = 0.0

    def cut(self, share: float = 1.0) -> None:
        """End watches without an error: all, or about that share of them."""
        for task in list(self._streams):
            if self._chance.random() < share:
                self.cuts += 1
                self._loop.call_soon_threadsafe(task.cancel)

    async def _start(self) -> None:
        context = ssl.create_default_context(cafile=str(self._ca))
        self._session = ClientSession(connector=TCPConnector(ssl=context, limit=0), timeout=ClientTimeout(total=None))
        application = web.Application(client_max_size=2**24)
        application.router.add_route("*", "/{path:.*}", self._pass)
        self._runner = web.AppRunner(application, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, shutdown_timeout=0.1)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def _stop(self) -> None:
        for task in list(self._streams):
            task.cancel()
        await self._runner.cleanup()
        await self._session.close()

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        watching = request.query.get("watch") == "1"
        fate = self._dice.random() / self._rate if self._rate and not watching else 2.0
        if fate < 0.4:
            self.failed += 1
            return web.json_response({"kind": "Status", "code": 503, "message": "bad way", "reason": ""}, status=503)
        if fate < 0.6:
            self.failed += 1
            assert request.transport is not None
            request.transport.abort()  # the call never arrives
            return web.Response()
        headers = {k: v for k, v in request.headers.items() if k in ("Content-Type", "Accept", "Authorization")}
        body = await request.read()
        delay = self.slow(request.method, request.path)
        self.delayed += delay > 0
        await asyncio.sleep(delay)
        self.delayed -= delay > 0
        async with self._session.request(
            request.method, f"{self._upstream}{request.path_qs}", data=body or None, headers=headers
        ) as answer:
            if fate < 1.0:
                self.failed += 1
                await answer.read()
                assert request.transport is not None
                request.transport.abort()  # it had its effect, and nobody hears of it
                return web.Response()
            self.passed += 1
            self.answers[request.path.rpartition("/")[2], answer.status] += 1
            if not watching:
                return web.Response(body=await answer.read(), status=answer.status, content_type="application/json")
            reply = web.StreamResponse(status=answer.status, headers={"Content-Type": "application/json"})
            await reply.prepare(request)
            task = asyncio.current_task()
            assert task is not None
            self._streams.add(task)
            try:
                async for part in answer.content.iter_any():
                    await reply.write(part)
            finally:
                self._streams.discard(task)
            return reply

    def _write(self, path: Path) -> None:
        path.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: bad\n"
            f'clusters: [{{name: bad, cluster: {{server: "http://127.0.0.1:{self._port}"}}}}]\n'
            f"users: [{{name: bad, user: {{token: {self._token}}}}}]\n"
            "contexts: [{name: bad, context: {cluster: bad, user: bad}}]\n",
            encoding="utf-8",
        )
