"""Every request to the API server, passed on; pods that are held are left out of what comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import aiohttp
from aiohttp import web

from muster.kube import errors
from muster.model.core import Pod
from muster.server.edge_gate.answers import expired, not_found, refusal
from muster.server.edge_gate.callers import Caller, Unknown, allowed, caller_of
from muster.server.edge_gate.changes import Change, Changes
from muster.server.edge_gate.listing import CutShort, ListFilter
from muster.server.edge_gate.metrics import Metrics
from muster.server.edge_gate.targets import Target, asked_upstream, json_only, says, target_of
from muster.server.edge_gate.upstream import HOP_BY_HOP, METADATA_LIST, Upstream
from muster.server.edge_gate.verdicts import Verdicts
from muster.server.edge_gate.watching import WatchFilter

_FOREVER = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=60)
_PIECE = 1 << 16


class Proxy:
    def __init__(
        self,
        upstream: Upstream,
        verdicts: Verdicts,
        changes: Changes,
        ready: Callable[[], str],
        metrics: Metrics,
        report: Callable[[str], None],
    ) -> None:
        """`ready`: nothing, or why verdicts cannot be given yet."""
        self._upstream = upstream
        self._verdicts = verdicts
        self._changes = changes
        self._ready = ready
        self._metrics = metrics
        self._report = report

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        target = target_of(request.method, request.path, request.rel_url.query)
        kind = "other" if target is None else "watch" if target.watch else "get" if target.name else "list"
        self._metrics.requests.labels(kind).inc()
        try:
            certificate = request.transport.get_extra_info("peercert") if request.transport is not None else None
            caller = caller_of(request.headers, certificate, request.path, front_proxy=self._upstream.vouches)
            if target is None:
                return await self._forward(request, caller)
            wrong = self._ready()
            if wrong:
                return refusal(503, f"the edge gate cannot answer yet: {wrong}")
            if target.watch:
                return await self._watch(request, caller, target)
            return await (self._get if target.name else self._list)(request, caller, target)
        except Unknown as why:
            return refusal(401, str(why))
        except errors.ApiError as fault:
            if request.transport is not None and not request.transport.is_closing():
                self._report(f"{request.method} {request.path}: {fault}")
            return refusal(502, f"the edge gate could not reach the API server: {fault}")
        except (ConnectionError, CutShort) as fault:
            return refusal(502, f"broken off: {fault}")  # the other side is gone, nobody reads this
        except Exception as fault:  # one bad request never stops the rest
            self._report(f"{request.method} {request.path}: unexpected {type(fault).__name__}: {fault}")
            return refusal(500, f"the edge gate failed: {type(fault).__name__}")

    async def _forward(self, request: web.BaseRequest, caller: Caller) -> web.StreamResponse:
        """Unchanged, and in pieces as they come, both ways."""
        headers = [*allowed(request.headers.items()), *caller.headers]
        body = request.content if request.body_exists else None
        url = request.raw_path
        async with self._upstream.call(request.method, url, headers, vouched=caller.vouched, body=body) as answer:
            return await self._passed(request, answer)

    async def _passed(self, request: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        response = _response(answer)
        length = answer.headers.get("Content-Length")
        if length is not None:
            response.headers["Content-Length"] = length
        await response.prepare(request)
        async for piece in answer.content.iter_any():
            await response.write(piece)
        await response.write_eof()
        return response

    # --- pods

    async def _keep(self, pod: Pod, text: bytes | None) -> bool:
        held = await self._verdicts.held(pod, text) is not None
        if held:
            self._metrics.held.inc()
        return not held

    async def _get(self, request: web.BaseRequest, caller: Caller, target: Target) -> web.StreamResponse:
        async with self._ask(request, caller, target) as (answer, bare):
            if answer.status != 200:
                return await self._passed(request, answer)
            body = await answer.read()
            filter_ = WatchFilter(self._keep, self._changes, _nothing, since="", bookmarks=False, bare=bare)
            text = await filter_.object(body)
            if text is None:
                return not_found(target.name)
            response = _response(answer)
            response.content_length = len(text)
            await response.prepare(request)
            await response.write(text)
            await response.write_eof()
            return response

    async def _list(self, request: web.BaseRequest, caller: Caller, target: Target) -> web.StreamResponse:
        async with self._ask(request, caller, target) as (answer, bare):
            if answer.status != 200:
                return await self._passed(request, answer)
            response = _response(answer)
            await response.prepare(request)
            filter_ = ListFilter(self._keep, self._changes.hand, bare=bare)
            try:
                async for piece in answer.content.iter_chunked(_PIECE):
                    kept = await filter_.feed(piece)
                    if kept:
                        await response.write(kept)
                await response.write(await filter_.finish())
            except (CutShort, errors.ApiError, aiohttp.ClientError):
                _break_off(request)  # the client must see that this is not all
                raise
            await response.write_eof()
            return response

    async def _watch(self, request: web.BaseRequest, caller: Caller, target: Target) -> web.StreamResponse:
        query = target.query
        since = query.get("resourceVersion", "")
        fresh = since in ("", "0") or says(query, "sendInitialEvents")
        news = self._changes.subscribe()
        try:
            missed = [] if fresh else self._changes.since(since)
            async with self._ask(request, caller, target) as (answer, bare):
                if answer.status != 200:
                    return await self._passed(request, answer)
                response = _response(answer)
                await response.prepare(request)
                if missed is None:
                    await response.write(expired(since, self._changes.floor))
                    await response.write_eof()
                    return response
                accept, include = json_only(request.headers), query.get("includeObject", "")
                include = "Metadata" if bare else include

                async def fetch(key: str) -> bytes | None:
                    return await self._upstream.one(target, key, accept, include_object=include)

                bookmarks = says(query, "allowWatchBookmarks")
                filter_ = WatchFilter(
                    self._keep, self._changes, fetch, since="" if fresh else since, bookmarks=bookmarks, bare=bare
                )
                if not fresh:
                    await self._resume(filter_, target)
                with self._metrics.watches.track_inprogress():
                    try:
                        await self._look_again(response, filter_, target, missed)
                        await self._pump(response, answer, filter_, target, news)
                    except (errors.ApiError, aiohttp.ClientError, ValueError):
                        _break_off(request)
                        raise
                await response.write_eof()
                return response
        finally:
            self._changes.unsubscribe(news)

    async def _pump(
        self,
        response: web.StreamResponse,
        answer: aiohttp.ClientResponse,
        filter_: WatchFilter,
        target: Target,
        news: asyncio.Queue[Change],
    ) -> None:
        """Events as they come, and between them what the log tells."""
        rest = b""
        piece = asyncio.ensure_future(answer.content.readany())
        told = asyncio.ensure_future(news.get())
        try:
            while True:
                await asyncio.wait((piece, told), return_when=asyncio.FIRST_COMPLETED)
                if told.done():
                    changes = [told.result()]
                    while not news.empty():
                        changes.append(news.get_nowait())
                    told = asyncio.ensure_future(news.get())
                    await self._look_again(response, filter_, target, list(dict.fromkeys(changes)))
                if piece.done():
                    data = piece.result()
                    if not data:
                        return
                    *lines, rest = (rest + data).split(b"\n")
                    for line in lines:
                        filter_.remember_columns(line)
                        text = await filter_.event(line) if line.strip() else b""
                        if text:
                            await response.write(text)
                    piece = asyncio.ensure_future(answer.content.readany())
        finally:
            piece.cancel()
            told.cancel()

    async def _look_again(
        self, response: web.StreamResponse, filter_: WatchFilter, target: Target, changes: list[Change]
    ) -> None:
        said = False
        for change in changes:
            if target.may_have(change.key, change.node):
                text = await filter_.look_again(change)
                if text:
                    self._metrics.told.inc()
                    await response.write(text)
                    said = True
        if said:
            mark = filter_.bookmark()
            if mark:
                await response.write(mark)

    async def _resume(self, filter_: WatchFilter, target: Target) -> None:
        """What a client that was here before does not see, as far as can be known."""
        changes = self._changes
        begun, open_ = changes.turn, bool(changes.open)
        filter_.known = changes.handed
        filter_.hidden = await self._hidden(target)
        filter_.turn = changes.turn
        if open_ or filter_.turn != begun:
            filter_.unsure = set(filter_.hidden)

    async def _hidden(self, target: Target) -> set[str]:
        """The pods among those asked for that are held now."""
        found: set[str] = set()

        async def keep(pod: Pod, text: bytes | None) -> bool:
            if await self._verdicts.held(pod, text) is not None:
                found.add(f"{pod.metadata.namespace}/{pod.metadata.name}")
            return False

        filter_ = ListFilter(keep, lambda version: None)
        async with self._upstream.ours(target.path, target.selectors, METADATA_LIST, _FOREVER) as answer:
            async for piece in answer.content.iter_chunked(_PIECE):
                await filter_.feed(piece)
        await filter_.finish()
        return found

    def _ask(self, request: web.BaseRequest, caller: Caller, target: Target) -> Any:
        return _Asked(self._upstream, request, caller, target, self._changes.floor)


class _Asked:
    """The client's question about pods, put so that the answer can be read: JSON, not packed."""

    def __init__(
        self, upstream: Upstream, request: web.BaseRequest, caller: Caller, target: Target, floor: int
    ) -> None:
        query, self._bare = asked_upstream(target, floor)
        ours = ("accept", "accept-encoding")
        headers = [(name, value) for name, value in allowed(request.headers.items()) if name.lower() not in ours]
        headers += [("Accept", json_only(request.headers)), ("Accept-Encoding", "identity"), *caller.headers]
        path = request.raw_path.partition("?")[0]
        self._call = upstream.call("GET", path, headers, vouched=caller.vouched, params=query)

    async def __aenter__(self) -> tuple[aiohttp.ClientResponse, bool]:
        return await self._call.__aenter__(), self._bare

    async def __aexit__(self, *fault: Any) -> bool | None:
        return await self._call.__aexit__(*fault)


async def _nothing(key: str) -> bytes | None:
    return None


def _response(answer: aiohttp.ClientResponse) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, reason=answer.reason)
    for name, value in answer.headers.items():
        if name.lower() not in HOP_BY_HOP and name.lower() != "content-length":
            response.headers.add(name, value)
    return response


def _break_off(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()
