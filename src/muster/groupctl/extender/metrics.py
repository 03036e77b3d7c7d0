"""The extender's metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

Value = Callable[[], float]


class Metrics:
    """Counts requests by verb and status code, and reads the other values when they are scraped."""

    def __init__(
        self, *, reservations: Value, waits: Value, connections: Value, closed: Value, body_bytes: Value
    ) -> None:
        self.registry = registry = CollectorRegistry()
        self._requests = Counter(
            "muster_extender_requests", "Requests answered.", ["verb", "code"], registry=registry
        )
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
