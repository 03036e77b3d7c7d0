"""Forwards every request to the API server and removes held pods from the responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiohttp
import h11

from muster.groupctl.edge_gate.api_status import expired
from muster.groupctl.edge_gate.authentication import Caller, TrustedHeaders, UnknownCaller, caller_of
from muster.groupctl.edge_gate.change_log import ChangeLog, LogEntry
from muster.groupctl.edge_gate.connections import Exchange
from muster.groupctl.edge_gate.list_filter import ListFilter, TruncatedList
from muster.groupctl.edge_gate.metrics import Metrics
from muster.groupctl.edge_gate.request_head import RefusedRequest
from muster.groupctl.edge_gate.targets import JSON, RequestedPods, Route, is_set, json_only, route_of, upstream_query
from muster.groupctl.edge_gate.tunnels import check_upgrade, tunnel
from muster.groupctl.edge_gate.upstream import HOP_BY_HOP, METADATA_LIST, Upstream
from muster.groupctl.edge_gate.visibility import PodVisibility
from muster.groupctl.edge_gate.watch_filter import WatchFilter, number
from muster.model.core import Pod
from muster.model.kinds import decode_json
from muster.store import errors

_STREAM_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=60)
_CHUNK_BYTES = 1 << 16
_REPLACED_HEADERS = ("accept", "accept-encoding", "content-length", "transfer-encoding")


class Proxy:
    """Handles the requests of clients."""

    def __init__(
        self,
        upstream: Upstream,
        visibility: PodVisibility,
        changes: ChangeLog,
        ready: Callable[[], str],
        metrics: Metrics,
        report: Callable[[str], None],
    ) -> None:
        """`ready` returns why pods cannot be shown yet, or an empty string."""
        self.front_proxy: TrustedHeaders | None = None
        """The headers by which the gate may name users with certificates to the API server; None without that right."""
        self._upstream = upstream
        self._visibility = visibility
        self._changes = changes
        self._ready = ready
        self._metrics = metrics
        self._report = report

    async def handle(self, exchange: Exchange) -> None:
        """Answers one request; an error fails this request and no other."""
        head = exchange.head
        try:
            await self._answer(exchange)
        except RefusedRequest as why:
            self._metrics.refuse(why.code)
            await _fail(exchange, why.code, str(why), close=True)
        except UnknownCaller as why:
            self._metrics.refuse(401)
            await _fail(exchange, 401, str(why), close=True)
        except errors.ApiError as fault:
            if not exchange.is_closing:
                self._report(f"{head.method} {head.path}: {fault}")
            await _fail(exchange, 502, f"the edge gate could not reach the API server: {fault}")
        except (OSError, TruncatedList) as fault:  # TimeoutError is an OSError
            await _fail(exchange, 502, f"broken off: {fault}")
        except (asyncio.CancelledError, h11.ProtocolError):
            raise
        except Exception as fault:
            self._report(f"{head.method} {head.path}: unexpected {type(fault).__name__}: {fault}")
            await _fail(exchange, 500, f"the edge gate failed: {type(fault).__name__}")

    async def _answer(self, exchange: Exchange) -> None:
        head = exchange.head
        route = route_of(head)
        if "Upgrade" in head.headers:
            check_upgrade(head, upgradable=route.upgradable)
        self._metrics.requests.labels(_metric_kind(route.target, head.method)).inc()
        caller = caller_of(head.headers, exchange.certificate, head.path, self.front_proxy)
        exchange.close = exchange.close or caller.anonymous
        target = route.target
        if target is None:
            await self._forward(exchange, caller, route)
            return
        wrong = self._ready()
        if wrong:
            await exchange.refuse(503, f"the edge gate cannot answer yet: {wrong}")
        elif head.method == "HEAD":
            raise RefusedRequest("pods are read with GET", 405)
        elif head.method == "GET" and target.returns_pods:
            await exchange.small_body()
            if target.watch:
                await self._watch(exchange, caller, target)
            else:
                await (self._get if target.name else self._list)(exchange, caller, target)
        elif head.method == "DELETE" and not target.name:
            await self._list(exchange, caller, target)
        elif target.name and await self._is_held(target):
            await self._refuse_held(exchange, caller, target)
        else:
            await self._forward(exchange, caller, route)

    async def _forward(self, exchange: Exchange, caller: Caller, route: Route) -> None:
        """Forwards the request unchanged; both bodies are streamed."""
        head = exchange.head
        if "Upgrade" in head.headers:
            await tunnel(exchange, caller, self._headers(exchange, caller), self._upstream, self._metrics)
            return
        url = head.target
        if route.target is not None and route.target.subresource != "proxy":
            url = "?".join(filter(None, (route.target.path, head.target.partition("?")[2])))
        body = _Body(exchange)
        headers = [*self._headers(exchange, caller), *caller.headers]
        data = await body.data()
        call = self._upstream.call(head.method, url, headers, by_front_proxy=caller.by_front_proxy, body=data)
        try:
            async with call as answer:
                await self._relay_response(exchange, answer)
        except errors.ApiError:
            if body.fault is not None:
                raise body.fault from None
            raise

    def _headers(self, exchange: Exchange, caller: Caller) -> list[tuple[str, str]]:
        """Returns the client's own headers without those that only a front proxy may send."""
        trusted = self.front_proxy or TrustedHeaders()
        kept = trusted.without(exchange.head.headers.items())
        return [one for one in kept if one[0].lower() != "authorization"] if caller.by_front_proxy else kept

    async def _relay_response(self, exchange: Exchange, answer: aiohttp.ClientResponse) -> None:
        if answer.status == 401:
            exchange.close = True  # a connection is kept for clients that the API server knows
        await exchange.start(answer.status, _headers_of(answer, length=True), answer.reason or "")
        async for piece in answer.content.iter_any():
            await exchange.write(piece)
        await exchange.finish()

    # --- pods

    async def _keep(self, pod: Pod, text: bytes | None) -> bool:
        held = await self._visibility.hold_reason(pod, text) is not None
        if held:
            self._metrics.held.inc()
        else:
            self._visibility.record_sent(pod, text)
        return not held

    async def _is_held(self, target: RequestedPods) -> bool:
        """Returns whether the pod that a request names is hidden from clients of the gate."""
        text = await self._upstream.pod(target.key)
        if text is None:
            return False  # the API server will report it
        pod = decode_json(Pod, text)
        return await self._visibility.hold_reason(pod, text) is not None

    async def _refuse_held(self, exchange: Exchange, caller: Caller, target: RequestedPods) -> None:
        """Responds with 404, but only to a client that the API server authenticates: others must not learn which pods
        are held."""
        headers = [one for one in self._headers(exchange, caller) if one[0].lower() not in _REPLACED_HEADERS]
        sent = [*headers, *caller.headers]
        async with self._upstream.call("GET", "/apis", sent, by_front_proxy=caller.by_front_proxy) as answer:
            if answer.status == 401:
                await self._relay_response(exchange, answer)
                return
        await exchange.refuse(404, f'pods "{target.name}" not found', name=target.name)

    async def _get(self, exchange: Exchange, caller: Caller, target: RequestedPods) -> None:
        async with self._request_pods(exchange, caller, target) as (answer, strip_objects):
            if answer.status != 200:
                await self._relay_response(exchange, answer)
                return
            body = await answer.read()
            filter_ = WatchFilter(
                self._keep,
                self._changes,
                _fetch_nothing,
                since="",
                bookmarks=False,
                strip_objects=strip_objects,
            )
            text = await filter_.object(body)
            if text is None:
                await exchange.refuse(404, f'pods "{target.name}" not found', name=target.name)
                return
            headers = [*_headers_of(answer), ("Content-Length", str(len(text)))]
            await exchange.start(answer.status, headers, answer.reason or "")
            await exchange.write(text)
            await exchange.finish()

    async def _list(self, exchange: Exchange, caller: Caller, target: RequestedPods) -> None:
        async with self._request_pods(exchange, caller, target) as (answer, strip_objects):
            if answer.status != 200:
                await self._relay_response(exchange, answer)
                return
            await exchange.start(answer.status, _headers_of(answer), answer.reason or "")
            filter_ = ListFilter(self._keep, self._changes.record_sent, strip_objects=strip_objects)
            try:
                async for piece in answer.content.iter_chunked(_CHUNK_BYTES):
                    kept = await filter_.feed(piece)
                    if kept:
                        await exchange.write(kept)
                await exchange.write(await filter_.finish())
            except (TruncatedList, errors.ApiError, aiohttp.ClientError):
                exchange.abort()  # the client must see that this is not all
                raise
            await exchange.finish()

    async def _watch(self, exchange: Exchange, caller: Caller, target: RequestedPods) -> None:
        query = target.query
        since = query.get("resourceVersion", "")
        from_beginning = since in ("", "0") or is_set(query, "sendInitialEvents")
        subscription = self._changes.subscribe()
        try:
            missed = [] if from_beginning else self._changes.since(since)
            async with self._request_pods(exchange, caller, target) as (answer, strip_objects):
                if answer.status != 200:
                    await self._relay_response(exchange, answer)
                    return
                await exchange.start(answer.status, _headers_of(answer), answer.reason or "")
                if missed is None:
                    await exchange.write(expired(since, self._changes.floor))
                    await exchange.finish()
                    return
                accept, include = json_only(exchange.head.headers), query.get("includeObject", "")
                include = "Metadata" if strip_objects else include

                async def fetch(key: str) -> bytes | None:
                    return await self._upstream.watch_object(target, key, accept, include_object=include)

                bookmarks = is_set(query, "allowWatchBookmarks")
                filter_ = WatchFilter(
                    self._keep,
                    self._changes,
                    fetch,
                    since="" if from_beginning else since,
                    bookmarks=bookmarks,
                    strip_objects=strip_objects,
                )
                if not from_beginning:
                    await self._resume(filter_, target, since)
                with self._metrics.watches.track_inprogress():
                    try:
                        await self._reevaluate(exchange, filter_, target, missed)
                        await self._stream_events(exchange, answer, filter_, target, subscription)
                    except (errors.ApiError, aiohttp.ClientError, ValueError):
                        exchange.abort()
                        raise
                await exchange.finish()
        finally:
            self._changes.unsubscribe(subscription)

    async def _stream_events(
        self,
        exchange: Exchange,
        answer: aiohttp.ClientResponse,
        filter_: WatchFilter,
        target: RequestedPods,
        subscription: asyncio.Queue[LogEntry],
    ) -> None:
        """Forwards events as they arrive, and events for the entries of the change log between them."""
        rest = b""
        piece = asyncio.ensure_future(answer.content.readany())
        next_change = asyncio.ensure_future(subscription.get())
        try:
            while True:
                await asyncio.wait((piece, next_change), return_when=asyncio.FIRST_COMPLETED)
                if next_change.done():
                    changes = [next_change.result()]
                    while not subscription.empty():
                        changes.append(subscription.get_nowait())
                    next_change = asyncio.ensure_future(subscription.get())
                    await self._reevaluate(exchange, filter_, target, list(dict.fromkeys(changes)))
                if piece.done():
                    data = piece.result()
                    if not data:
                        return
                    *lines, rest = (rest + data).split(b"\n")
                    for line in lines:
                        filter_.remember_columns(line)
                        text = await filter_.event(line) if line.strip() else b""
                        if text:
                            await exchange.write(text)
                    piece = asyncio.ensure_future(answer.content.readany())
        finally:
            piece.cancel()
            next_change.cancel()

    async def _reevaluate(
        self, exchange: Exchange, filter_: WatchFilter, target: RequestedPods, changes: list[LogEntry]
    ) -> None:
        any_sent = False
        for change in changes:
            if target.may_have(change.key, change.node):
                text = await filter_.reevaluate(change)
                if text:
                    self._metrics.change_events.inc()
                    await exchange.write(text)
                    any_sent = True
        if any_sent:
            mark = filter_.bookmark()
            if mark:
                await exchange.write(mark)

    async def _resume(self, filter_: WatchFilter, target: RequestedPods, since: str) -> None:
        """Reconstructs which pods a client that knows the version `since` does not see, as far as that can be known."""
        changes = self._changes
        first_epoch, incomplete = changes.epoch, bool(changes.open_epochs)
        filter_.known_version = changes.latest_sent
        filter_.held_back = set(held := await self._held_back_pods(target))
        filter_.changed = {key for key, version in held.items() if number(version) > number(since)}
        filter_.evaluated_epoch = changes.epoch
        if incomplete or filter_.evaluated_epoch != first_epoch:
            filter_.maybe_seen = set(filter_.held_back)

    async def _held_back_pods(self, target: RequestedPods) -> dict[str, str]:
        """Returns the requested pods that are held now, with their versions."""
        found: dict[str, str] = {}

        async def keep(pod: Pod, text: bytes | None) -> bool:
            if await self._visibility.hold_reason(pod, text) is not None:
                found[f"{pod.metadata.namespace}/{pod.metadata.name}"] = pod.metadata.resource_version
            return False

        filter_ = ListFilter(keep, lambda version: None)
        async with self._upstream.get_as_gate(
            target.collection, target.selectors, METADATA_LIST, _STREAM_TIMEOUT
        ) as answer:
            async for piece in answer.content.iter_chunked(_CHUNK_BYTES):
                await filter_.feed(piece)
        await filter_.finish()
        return found

    @asynccontextmanager
    async def _request_pods(
        self, exchange: Exchange, caller: Caller, target: RequestedPods
    ) -> AsyncIterator[tuple[aiohttp.ClientResponse, bool]]:
        """Sends the client's request for pods so that the response can be parsed: as JSON, not compressed. Also returns
        whether the objects of a Table's rows must be removed."""
        head = exchange.head
        query, strip_objects = upstream_query(target, self._changes.floor)
        body = await exchange.small_body() if head.method == "DELETE" else b""
        headers = [one for one in self._headers(exchange, caller) if one[0].lower() not in _REPLACED_HEADERS]
        headers += [("Accept", json_only(head.headers)), ("Accept-Encoding", "identity"), *caller.headers]
        async with self._upstream.call(
            head.method, target.path, headers, by_front_proxy=caller.by_front_proxy, params=query, body=body or None
        ) as answer:
            if answer.status == 200 and answer.content_type != JSON:
                raise TruncatedList(f"the API server answered with {answer.content_type}")
            yield answer, strip_objects


class _Body:
    """The body of a request that is forwarded to the API server."""

    def __init__(self, exchange: Exchange) -> None:
        self.fault: RefusedRequest | None = None
        self._exchange = exchange

    async def data(self) -> AsyncIterator[bytes] | bytes | None:
        """Returns the body, as a stream where the method usually has one."""
        if self._exchange.head.method in ("GET", "HEAD"):
            return await self._exchange.small_body() or None
        return self._pieces() if self._exchange.head.has_body else None

    async def _pieces(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._exchange.body():
                yield piece
        except RefusedRequest as why:
            self.fault = why
            raise


async def _fetch_nothing(key: str) -> bytes | None:
    return None


def _metric_kind(target: RequestedPods | None, method: str) -> str:
    if target is None or method != "GET" or not target.returns_pods:
        return "other"
    return "watch" if target.watch else "get" if target.name else "list"


def _headers_of(answer: aiohttp.ClientResponse, *, length: bool = False) -> list[tuple[str, str]]:
    left = HOP_BY_HOP if length else HOP_BY_HOP | {"content-length"}
    return [(name, value) for name, value in answer.headers.items() if name.lower() not in left]


async def _fail(exchange: Exchange, code: int, message: str, *, close: bool = False) -> None:
    """Responds with an error, or aborts the connection if a response has started."""
    if exchange.started:
        exchange.abort()
        return
    exchange.close = exchange.close or close
    await exchange.refuse(code, message)
