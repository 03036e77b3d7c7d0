"""Calls to the API server: limits on time, size and number, back-off and retry, errors as types.

What is retried: any call that surely had no effect (429, a connection that never came up), and calls marked as
repeatable also after 5xx and cut connections. Before each sending of a mutating call the gate is asked.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from muster import __version__
from muster.kube.backoff import Backoff
from muster.kube.call_connections import CallConnections, HttpRequest
from muster.kube.config import Access, NoAccess
from muster.kube.connection import as_api_errors, keepalive_socket, read_body, read_chunks, retry_after_seconds
from muster.kube.http_connection import HttpAnswer
from muster.store import errors

Gate = Callable[[], bool]
"""Returns whether this process may write now. Called right before a mutating request is sent."""

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_READING = frozenset({"GET"})
_REPEATABLE = frozenset({"GET", "PUT", "DELETE"})
MAX_REFUSAL_BYTES = 2**20


class Limits(NamedTuple):
    """The limits of a client: time, size and number of requests."""

    writes_at_once: int = 64
    reads_at_once: int = 32
    """Apart, so that a list never waits behind ten thousand bindings; watches are not counted."""
    seconds: float = 30.0
    """For a whole call, its answer included."""
    connect_seconds: float = 3.0
    """Shorter than what lies between a leader's renew deadline and the end of its lease: a call that the gate let
    through cannot leave after another leader's."""
    answer_bytes: int = 256 * 2**20
    request_bytes: int = 3 * 2**20
    """The API server's own limit."""
    tries: int = 5
    longest_wait: float = 30.0
    """A Retry-After beyond this is an answer, not a wait."""
    watch_interval: float = 0.0
    """Events of a watch that arrive within this many seconds after the last ones are read together."""


class Client:
    """A client of one API server; use as `async with Client(access) as client`."""

    def __init__(self, access: Access, *, limits: Limits | None = None, gate: Gate | None = None) -> None:
        self.access = access
        self.limits = limits or Limits()
        self.gate = gate
        self._writing = asyncio.Semaphore(self.limits.writes_at_once)
        self._reading = asyncio.Semaphore(self.limits.reads_at_once)
        self._calls = CallConnections(access, self.limits.connect_seconds)
        self._session: aiohttp.ClientSession | None = None  # for calls through a proxy
        self.answers: Counter[tuple[str, str, int]] = Counter()  # method, resource, status → answers so far

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        self._calls.close()
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        repeatable: bool | None = None,
        urgent: bool = False,
        seconds: float | None = None,
        tries: int | None = None,
    ) -> bytes:
        """Returns the body of a 2xx response; raises ApiError otherwise.

        `body` is bytes, or a value to be written as JSON. `repeatable`: doing it twice does no harm (GET, PUT and
        DELETE by default). `urgent` is for the lease that the gate itself hangs on: it asks no gate and waits behind
        nobody.
        """
        data = body if isinstance(body, bytes) else None if body is None else msgspec.json.encode(body)
        query = urlencode(params) if params else ""
        what = f"{method} {path}"
        if data is not None and len(data) > self.limits.request_bytes:
            raise errors.TooLarge(what, f"the request has {len(data)} bytes, {self.limits.request_bytes} are allowed")
        if repeatable is None:
            repeatable = method in _REPEATABLE
        left = self.limits.tries if tries is None else tries
        backoff = Backoff(0.1, self.limits.longest_wait)
        reloaded = lost = False
        while True:
            left -= 1
            try:
                # Before the gate is asked: a plugin that fetches a token may take its time.
                authorization = await self._authorization(what)
                call = HttpRequest(method, path, query, data, content_type, authorization)
                if urgent:
                    return await self._once(call, what, seconds)
                async with self._reading if method in _READING else self._writing:
                    self._ask_gate(method, what)
                    return await self._once(call, what, seconds)
            except errors.Unauthorized as error:
                error.lost_before = lost
                # The kubeconfig or its token may have changed under us.
                if reloaded or not await self._reload():
                    raise
                reloaded = True
            except errors.ApiError as error:
                error.lost_before = lost
                lost = error.maybe_done
                wait = self._wait(error, repeatable, backoff) if left > 0 else None
                if wait is None:
                    raise
                await asyncio.sleep(wait)

    @asynccontextmanager
    async def stream(
        self, path: str, *, params: Mapping[str, str] | None = None, silence: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Streams the body of a GET; raises ApiError if nothing arrives for `silence` seconds."""
        what = f"GET {path}"
        query = urlencode(params) if params else ""
        call = HttpRequest("GET", path, query, authorization=await self._authorization(what))
        async with self._streamed(call, what, silence) as (answer, parts):
            if answer.status >= 300:
                refusal = self._refusal(what, answer)
                if isinstance(refusal, errors.Unauthorized):
                    await self._reload()
                raise refusal
            yield parts

    @asynccontextmanager
    async def _streamed(
        self, call: HttpRequest, what: str, silence: float
    ) -> AsyncIterator[tuple[HttpAnswer, AsyncIterator[bytes]]]:
        """Returns the answer, with its body if it is a refusal, and the parts of its body otherwise."""
        if self.access.proxy is None:
            async with self._calls.stream(
                call, what, silence, self.limits.answer_bytes, self.limits.watch_interval
            ) as opened:
                yield opened
            return
        timeout = aiohttp.ClientTimeout(total=None, connect=self.limits.connect_seconds, sock_read=silence)
        with as_api_errors(what):
            async with await self._send(call, timeout) as sent:
                refused = sent.status >= 300
                body = await read_body(what, sent, MAX_REFUSAL_BYTES) if refused else b""
                yield HttpAnswer(sent.status, sent.headers.get("Retry-After"), body), read_chunks(what, sent)

    # --- one call

    async def _once(self, call: HttpRequest, what: str, seconds: float | None) -> bytes:
        limits = self.limits
        total = limits.seconds if seconds is None else seconds
        if self.access.proxy is None:
            answer = await self._calls.call(call, what, total, limits.answer_bytes)
        else:
            timeout = aiohttp.ClientTimeout(total=total, connect=min(limits.connect_seconds, total))
            with as_api_errors(what):
                async with await self._send(call, timeout) as sent:
                    answer = await _answer_of(what, sent, limits.answer_bytes)
        self.answers[call.method, resource_in(call.path), answer.status] += 1
        if answer.status >= 300:
            raise self._refusal(what, answer)
        return answer.body

    async def _authorization(self, what: str) -> str | None:
        try:
            return await self.access.header()
        except NoAccess as problem:
            unsent = errors.Unreachable(what, str(problem))
            unsent.sent = False
            raise unsent from problem

    async def _send(self, call: HttpRequest, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        # Answers come uncompressed: packing costs the server more than it saves near it, and nothing can swell up.
        headers = {"Accept": JSON, "Accept-Encoding": "identity"}
        if call.authorization:
            headers["Authorization"] = call.authorization
        if call.data is not None:
            headers["Content-Type"] = call.content_type
        tls = self.access.tls
        return await self._opened().request(
            call.method,
            URL(f"{self.access.host}{call.path}{'?' if call.query else ''}{call.query}", encoded=True),
            data=call.data,
            headers=headers,
            timeout=timeout,
            ssl=tls if tls is not None else True,
            server_hostname=self.access.server_name,
            proxy=self.access.proxy,
            allow_redirects=False,
        )

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            # The client itself limits the number of calls, so that a watch never waits for a connection.
            connector = aiohttp.TCPConnector(
                limit=0, keepalive_timeout=75, ttl_dns_cache=60, socket_factory=keepalive_socket
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": f"muster/{__version__}"},
                raise_for_status=False,
            )
        return self._session

    def _refusal(self, what: str, answer: HttpAnswer) -> errors.ApiError:
        refusal = errors.from_answer(what, answer.status, answer.body, retry_after_seconds(answer.retry_after))
        self.access.on_refusal(refusal)
        return refusal

    # --- what to do about an error

    def _ask_gate(self, method: str, what: str) -> None:
        if method not in _READING and self.gate is not None and not self.gate():
            raise errors.GateClosed(what, "not sent: this process may not write now")

    async def _reload(self) -> bool:
        try:
            if not await self.access.reload():
                return False
        except NoAccess:
            return False
        # Client certificates belong to connections, so new connections are opened.
        session, self._session = self._session, None
        if session is not None:
            asyncio.get_running_loop().call_later(self.limits.seconds, _close_later, session)
        return True

    def _wait(self, error: errors.ApiError, repeatable: bool, backoff: Backoff) -> float | None:
        """Returns the seconds until the next attempt, or None if the call must not be repeated."""
        if isinstance(error, errors.BudgetRefused | errors.GateClosed):
            return None
        if isinstance(error, errors.TooManyRequests):
            again = True
        elif isinstance(error, errors.ServerFault | errors.Unreachable | errors.BadAnswer):
            again = repeatable or not error.maybe_done
        else:
            again = False
        if not again or (error.retry_after or 0) > self.limits.longest_wait:
            return None
        return backoff.next(error.retry_after)


async def _answer_of(what: str, answer: aiohttp.ClientResponse, most: int) -> HttpAnswer:
    return HttpAnswer(answer.status, answer.headers.get("Retry-After"), await read_body(what, answer, most))


def resource_in(path: str) -> str:
    """Returns `pods/binding` for `/api/v1/namespaces/d/pods/a/binding`."""
    parts = path.partition("?")[0].strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if len(parts) > 2 and parts[0] == "namespaces":
        parts = parts[2:]
    return "/".join(parts[::2][:2])


def _close_later(session: aiohttp.ClientSession) -> None:
    closing = asyncio.ensure_future(session.close())
    _closing.add(closing)
    closing.add_done_callback(_closing.discard)


_closing: set[asyncio.Future[None]] = set()  # a task without a reference may be collected before it has run
