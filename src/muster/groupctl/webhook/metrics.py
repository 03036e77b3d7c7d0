"""The metrics of the webhook."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self.requests = Counter(
            "muster_webhook_requests", "Requests by path and result", ["path", "result"], registry=registry
        )
        self.seconds = Histogram("muster_webhook_seconds", "Time to answer", ["path"], registry=registry)
        self.reserved = Gauge("muster_webhook_reservations", "Pods answered, not seen yet", registry=registry)
        self.gated = Gauge("muster_webhook_gated_pods", "Pods that wait for their policies", registry=registry)
        self.readmitted = Counter(
            "muster_webhook_readmitted", "Pods evicted as unschedulable in their group", registry=registry
        )
        self.ends = Gauge("muster_webhook_certificate_ends", "End of the certificate (Unix)", registry=registry)
        self.written = Counter("muster_webhook_registrations", "Writes of webhook configurations", registry=registry)
        self.connections = Gauge("muster_webhook_connections", "Open connections", registry=registry)
        self.closed = Gauge(
            "muster_webhook_connections_closed", "Connections closed because of a limit", registry=registry
        )
        self.body_bytes = Gauge("muster_webhook_body_bytes", "Request bodies in memory", registry=registry)
        self.active = Gauge("muster_webhook_active", "Whether this replica gives pods their group", registry=registry)
