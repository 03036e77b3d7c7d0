"""The extender over HTTP(S): kube-scheduler's three verbs, probes and metrics."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from http import HTTPStatus
from time import perf_counter
from typing import Protocol

import msgspec

from muster.groupctl.extender.metrics import Metrics
from muster.model.extender import (
    ExtenderArgs,
    FilterResult,
    PreemptionArgs,
    PreemptionResult,
    Score,
    WireError,
    has_whole_objects,
    read_args,
    read_preemption,
)
from muster.process.listener.limits import LIMITS, MIB, Limits
from muster.process.listener.serving import JSON, TEXT, Listener, Refusal, Request, Response

LARGEST_NAMES = 2 * MIB
"""A request with the names of nodes; all that a client may send that is not authenticated."""
LARGEST_WHOLE = 32 * MIB
"""A request with whole nodes, unless --max-request-bytes says otherwise."""


class Answers(Protocol):
    """Who answers the questions."""

    @property
    def reserved(self) -> int:
        """Pods answered and not seen bound yet."""
        ...

    @property
    def waits(self) -> int:
        """Answers that waited for a binding."""
        ...

    def filter(self, args: ExtenderArgs) -> FilterResult: ...

    def prioritize(self, args: ExtenderArgs) -> list[Score]: ...

    def preempt(self, args: PreemptionArgs) -> PreemptionResult: ...


def _always() -> str:
    return ""


class ExtenderServer:
    """Serves from `start` to `stop`."""

    def __init__(
        self,
        at: tuple[str, int],
        scheduling: Answers,
        tls: ssl.SSLContext | None = None,
        largest_whole: int = LARGEST_WHOLE,
        ready: Callable[[], str] = _always,
        *,
        trusted: bool = True,
        probes: tuple[str, int] | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        """`ready`: nothing if it can serve, else why not. `trusted`: clients need not show a certificate to count as
        authenticated. `probes`: a second address, for GET over plain HTTP only.
        """
        self.verbs: dict[str, Callable[[memoryview], object]] = {
            "filter": lambda body: scheduling.filter(read_args(body)),
            "prioritize": lambda body: scheduling.prioritize(read_args(body)),
            "preempt": lambda body: scheduling.preempt(read_preemption(body)),
        }
        self._largest_whole = largest_whole
        self._ready = ready
        self._listener = Listener(
            at, self._handle, self._largest, tls=tls, trusted=trusted, limits=limits, refused=_refused
        )
        self.port = self._listener.port
        self._probes: Listener | None = None
        if probes is not None:
            self._probes = Listener(probes, self._get, lambda path, authenticated: 0, limits=limits)
        self.probes_port = self.port if self._probes is None else self._probes.port
        load = self._listener.load
        self.metrics = Metrics(
            reservations=lambda: scheduling.reserved,
            waits=lambda: scheduling.waits,
            connections=lambda: len(load),
            closed=lambda: load.closed,
            body_bytes=lambda: load.held,
        )

    def start(self) -> None:
        for one in (self._listener, self._probes):
            if one is not None:
                one.start()

    def stop(self) -> None:
        for one in (self._listener, self._probes):
            if one is not None:
                one.stop()

    def _largest(self, path: str, authenticated: bool) -> int:
        most = self._largest_whole
        return most if authenticated and path.strip("/") in self.verbs else min(most, LARGEST_NAMES)

    def _handle(self, request: Request) -> Response:
        return self._get(request) if request.method in ("GET", "HEAD") else self._ask(request)

    def _get(self, request: Request) -> Response:
        path = request.path
        if request.method != "GET":
            return Response(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET is answered here\n", TEXT)
        if path in ("/healthz", "/livez"):
            return Response(HTTPStatus.OK, b"ok\n", TEXT)
        if path == "/readyz":
            wrong = self._ready()
            status = HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK
            return Response(status, f"{wrong or 'ok'}\n".encode(), TEXT)
        if path == "/metrics":
            return Response(HTTPStatus.OK, self.metrics.text(), f"{TEXT}; version=0.0.4")
        if path.strip("/") in self.verbs:
            return Response(HTTPStatus.METHOD_NOT_ALLOWED, b"POST is the way to ask this\n", TEXT)
        return Response(HTTPStatus.NOT_FOUND, f"there is no {path} here\n".encode(), TEXT)

    def _ask(self, request: Request) -> Response:
        began = perf_counter()
        verb = request.path.strip("/")
        ask = self.verbs.get(verb)
        try:
            if ask is None or request.method != "POST":
                raise Refusal(HTTPStatus.NOT_FOUND, f"there is no /{verb} here: {', '.join(self.verbs)}")
            size = len(request.body)
            if size > LARGEST_NAMES and not has_whole_objects(request.body):
                message = f"a body of {size} bytes is above the limit of {LARGEST_NAMES} for requests with node names"
                raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
            response = Response(HTTPStatus.OK, msgspec.json.encode(ask(request.body)))
        except WireError as fault:
            response = _refused(Refusal(HTTPStatus.BAD_REQUEST, str(fault)))
        except Refusal as refusal:
            response = _refused(refusal)
        except Exception as fault:  # one bad question never stops the rest
            message = f"unexpected {type(fault).__name__}: {fault}"
            response = _refused(Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, message))
        self.metrics.count(verb if ask is not None else "other", int(response.status), perf_counter() - began)
        return response


def _refused(refusal: Refusal) -> Response:
    """As kube-scheduler expects it."""
    return Response(refusal.status, msgspec.json.encode({"Error": str(refusal)}), JSON)
