"""Serves the extender over HTTP(S): kube-scheduler's three verbs, probes and metrics."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable
from http import HTTPStatus
from time import perf_counter
from typing import Protocol

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from muster.model.extender import (
    ExtenderArgs,
    FilterResult,
    KnownNames,
    PreemptionArgs,
    PreemptionResult,
    Score,
    WireError,
    has_whole_objects,
    read_args,
    read_preemption,
)
from muster.process.listener.http_listener import JSON, TEXT, Listener, Refusal, Request, Response
from muster.process.listener.limits import LIMITS, MIB, Limits

MAX_NAMES_BODY_BYTES = 2 * MIB
"""The limit of a request with node names, and of every request from a client that is not authenticated."""
MAX_BODY_BYTES = 32 * MIB
"""The default limit of a request with whole nodes (--max-request-bytes)."""


class Scheduling(Protocol):
    """Answers kube-scheduler's requests."""

    @property
    def reserved(self) -> int:
        """The number of pods that were answered and not seen bound yet."""
        ...

    @property
    def waits(self) -> int:
        """The number of answers that waited for a binding."""
        ...

    @property
    def known_names(self) -> KnownNames | None:
        """The names of the nodes that requests probably have."""
        ...

    def filter(self, args: ExtenderArgs) -> FilterResult: ...

    def prioritize(self, args: ExtenderArgs) -> list[Score]: ...

    def preempt(self, args: PreemptionArgs) -> PreemptionResult: ...


def _always() -> str:
    return ""


class ExtenderServer:
    """The extender's HTTP server. It serves from `start` to `stop`."""

    def __init__(
        self,
        at: tuple[str, int],
        scheduling: Scheduling,
        tls: ssl.SSLContext | None = None,
        max_body_bytes: int = MAX_BODY_BYTES,
        ready: Callable[[], str] = _always,
        *,
        trusted: bool = True,
        probes: tuple[str, int] | None = None,
        limits: Limits = LIMITS,
        registry: CollectorRegistry | None = None,
    ) -> None:
        """Takes `ready`, which returns why the extender cannot serve yet ("" if it can). With `trusted`, clients need
        no certificate to count as authenticated. `probes` is a second address, for GET over plain HTTP only;
        `registry` has further metrics to serve.
        """
        self.verbs: dict[str, Callable[[memoryview], object]] = {
            "filter": lambda body: scheduling.filter(read_args(body, scheduling.known_names)),
            "prioritize": lambda body: scheduling.prioritize(read_args(body, scheduling.known_names)),
            "preempt": lambda body: scheduling.preempt(read_preemption(body)),
        }
        self._max_body_bytes = max_body_bytes
        self._ready = ready
        self._listener = Listener(
            at, self._handle, self._body_limit, tls=tls, trusted=trusted, limits=limits, format_refusal=_error
        )
        self.port = self._listener.port
        self._probes: Listener | None = None
        if probes is not None:
            self._probes = Listener(probes, self._get, lambda path, authenticated: 0, limits=limits)
        self.probes_port = self.port if self._probes is None else self._probes.port
        load = self._listener.load
        self.metrics = Metrics(
            registry or CollectorRegistry(),
            reservations=lambda: scheduling.reserved,
            waits=lambda: scheduling.waits,
            connections=lambda: len(load),
            closed=lambda: load.closed,
            body_bytes=lambda: load.body_bytes,
        )

    def start(self) -> None:
        for listener in (self._listener, self._probes):
            if listener is not None:
                listener.start()

    def stop(self) -> None:
        for listener in (self._listener, self._probes):
            if listener is not None:
                listener.stop()

    def _body_limit(self, path: str, authenticated: bool) -> int:
        limit = self._max_body_bytes
        return limit if authenticated and path.strip("/") in self.verbs else min(limit, MAX_NAMES_BODY_BYTES)

    def _handle(self, request: Request) -> Response:
        return self._get(request) if request.method in ("GET", "HEAD") else self._decide(request)

    def _get(self, request: Request) -> Response:
        path = request.path
        if request.method != "GET":
            return Response(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET is answered here\n", TEXT)
        if path in ("/healthz", "/livez"):
            return Response(HTTPStatus.OK, b"ok\n", TEXT)
        if path == "/readyz":
            problem = self._ready()
            status = HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK
            return Response(status, f"{problem or 'ok'}\n".encode(), TEXT)
        if path == "/metrics":
            return Response(HTTPStatus.OK, self.metrics.text(), f"{TEXT}; version=0.0.4")
        if path.strip("/") in self.verbs:
            return Response(HTTPStatus.METHOD_NOT_ALLOWED, b"use POST\n", TEXT)
        return Response(HTTPStatus.NOT_FOUND, f"there is no {path} here\n".encode(), TEXT)

    def _decide(self, request: Request) -> Response:
        began = perf_counter()
        verb = request.path.strip("/")
        decide = self.verbs.get(verb)
        try:
            if decide is None or request.method != "POST":
                raise Refusal(HTTPStatus.NOT_FOUND, f"there is no /{verb} here: {', '.join(self.verbs)}")
            size = len(request.body)
            if size > MAX_NAMES_BODY_BYTES and not has_whole_objects(request.body):
                limit = MAX_NAMES_BODY_BYTES
                message = f"a body of {size} bytes is above the limit of {limit} for requests with node names"
                raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
            response = Response(HTTPStatus.OK, msgspec.json.encode(decide(request.body)))
        except WireError as fault:
            response = _error(Refusal(HTTPStatus.BAD_REQUEST, str(fault)))
        except Refusal as refusal:
            response = _error(refusal)
        except Exception as fault:  # one bad request must not stop the others
            message = f"unexpected {type(fault).__name__}: {fault}"
            response = _error(Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, message))
        self.metrics.count(verb if decide is not None else "other", int(response.status), perf_counter() - began)
        return response


def _error(refusal: Refusal) -> Response:
    """Returns the refusal in the form that kube-scheduler expects."""
    return Response(refusal.status, msgspec.json.encode({"Error": str(refusal)}), JSON)


BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

Value = Callable[[], float]


class Metrics:
    """Counts requests by verb and status code, and reads the other values when they are scraped."""

    def __init__(
        self, registry: CollectorRegistry, *, reservations: Value, waits: Value, connections: Value, closed: Value,
        body_bytes: Value,
    ) -> None:  # fmt: skip
        self.registry = registry
        self._requests = Counter("muster_extender_requests", "Requests answered.", ["verb", "code"], registry=registry)
        self._seconds = Histogram(
            "muster_extender_request_seconds", "Time to answer.", ["verb"], buckets=BUCKETS_S, registry=registry
        )
        gauges = {
            "muster_extender_reservations": ("Pods answered and not seen bound yet.", reservations),
            "muster_extender_connections": ("Open connections.", connections),
            "muster_extender_body_bytes": ("Request bodies in memory.", body_bytes),
        }
        for name, (about, value) in gauges.items():
            Gauge(name, about, registry=registry).set_function(value)
        registry.register(_Counters({
            "muster_extender_waits": ("Answers that waited for a binding.", waits),
            "muster_extender_connections_closed": ("Connections closed because of a limit.", closed),
        }))  # fmt: skip

    def count(self, verb: str, status: int, seconds: float) -> None:
        """Counts one answered request."""
        self._requests.labels(verb, str(status)).inc()
        self._seconds.labels(verb).observe(seconds)

    def text(self) -> bytes:
        """Returns all metrics in the Prometheus text format."""
        return generate_latest(self.registry)


class _Counters(Collector):
    """Counters that are kept elsewhere; `prometheus_client.Counter` cannot read a function."""

    def __init__(self, counters: dict[str, tuple[str, Value]]) -> None:
        """Takes description and value by name."""
        self._counters = counters

    def collect(self) -> Iterable[Metric]:
        for name, (about, value) in self._counters.items():
            yield CounterMetricFamily(name, about, value=value())
