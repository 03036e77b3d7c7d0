"""An API server on loopback whose answers a test plans: pages, cut watches, 410, 429, slow, huge and broken bodies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, NamedTuple, TypeVar

from aiohttp import web
from kubernetes.client import Configuration

from muster.kube import Access, Client, Limits

R = TypeVar("R")
Plain = dict[str, Any]
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Asked(NamedTuple):
    """One request as it came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    at: float


class FaultyApi:
    """Answers each path with what was planned for it, in turn; the last answer is given for ever."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.report: list[str] = []
        self._plans: dict[tuple[str, str], list[Answer]] = {}
        self._runner: web.AppRunner | None = None
        self.host = ""

    async def __aenter__(self) -> FaultyApi:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        assert site._server is not None
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        self.host = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    def plan(self, method: str, path: str, *answers: Answer) -> None:
        self._plans[method, path] = list(answers)

    def client(self, **limits: Any) -> Client:
        """A client of this server, in a hurry."""
        return Client(self.access(), limits=Limits(**limits))

    def access(self, token: str = "") -> Access:
        configuration = Configuration(host=self.host)
        if token:
            configuration.api_key["BearerToken"] = f"Bearer {token}"
        return Access(configuration)

    def count(self, method: str, path: str) -> int:
        return sum(1 for one in self.asked if (one.method, one.path) == (method, path))

    def watches(self, path: str) -> list[Asked]:
        return [one for one in self.asked if one.path == path and "watch" in one.query]

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.read()
        body = json.loads(text) if text else None
        now = asyncio.get_running_loop().time()
        self.asked.append(Asked(request.method, request.path, dict(request.query), dict(request.headers), body, now))
        method = "WATCH" if "watch" in request.query else request.method
        planned = self._plans.get((method, request.path))
        if not planned:
            return await refuse(404, "NotFound", "the server could not find the requested resource")(request)
        answer = planned.pop(0) if len(planned) > 1 else planned[0]
        return await answer(request)


def run(story: Callable[[FaultyApi], Coroutine[Any, Any, R]], seconds: float = 20.0) -> R:
    """Play a story with a server of its own."""

    async def play() -> R:
        async with FaultyApi() as api, asyncio.timeout(seconds):
            return await story(api)

    return asyncio.run(play())


async def until(what: Callable[[], object], seconds: float = 5.0) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(seconds):
        while not what():
            await asyncio.sleep(0.005)


def reply(value: object, status: int = 200) -> Answer:
    """A JSON answer."""

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(value, status=status)

    return answer


def raw(body: bytes, status: int = 200) -> Answer:
    """Bytes, whatever they are."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=body, status=status, content_type="application/json")

    return answer


def refuse(code: int, reason: str, message: str, *, retry_after: str = "", details: Plain | None = None) -> Answer:
    """A Status object."""

    async def answer(request: web.Request) -> web.Response:
        status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
        if details is not None:
            status["details"] = details
        headers = {"Retry-After": retry_after} if retry_after else None
        return web.json_response(status, status=code, headers=headers)

    return answer


def hang_up() -> Answer:
    """The connection is cut before there is an answer."""

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    return answer


def stall(seconds: float) -> Answer:
    """Sends the headers at once, then nothing for some seconds."""

    async def answer(request: web.Request) -> web.StreamResponse:
        slow = web.StreamResponse()
        await slow.prepare(request)
        await slow.write(b'{"metadata":')
        await asyncio.sleep(seconds)
        return slow

    return answer


def drip(piece: bytes, times: int) -> Answer:
    """A body without a Content-Length."""

    async def answer(request: web.Request) -> web.StreamResponse:
        dripping = web.StreamResponse()
        await dripping.prepare(request)
        for _ in range(times):
            await dripping.write(piece)
        return dripping

    return answer


def stream_events(*events: object, then: str = "end", pieces: int = 0) -> Answer:
    """A watch: these events (dicts, or bytes as they are), then the end, a cut or silence."""

    async def answer(request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse()
        await stream.prepare(request)
        text = b"".join(e if isinstance(e, bytes) else json.dumps(e).encode() + b"\n" for e in events)
        size = pieces or max(len(text), 1)
        for start in range(0, len(text), size):
            await stream.write(text[start : start + size])
            if pieces:
                await asyncio.sleep(0)
        if then == "cut":
            assert request.transport is not None
            request.transport.close()
        elif then == "silence":
            await asyncio.sleep(60)
        return stream

    return answer


def stored_pod(name: str, version: int, *, uid: str = "", node: str = "", **spec: Any) -> Plain:
    if node:
        spec["nodeName"] = node
    meta = {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": meta, "spec": spec}


def listed(items: Iterable[Plain], version: int, more: str = "") -> Plain:
    meta = {"resourceVersion": str(version)}
    if more:
        meta["continue"] = more
    return {"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": list(items)}


def event(change: str, obj: Plain) -> Plain:
    return {"type": change, "object": {"apiVersion": "v1", "kind": "Pod", **obj}}


def bookmark(version: int) -> Plain:
    return {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": str(version)}}}


def gone() -> Plain:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
    return {"type": "ERROR", "object": status}
