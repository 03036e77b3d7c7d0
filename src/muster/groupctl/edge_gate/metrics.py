"""The metrics of the edge gate."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class Metrics:
    """The collectors of the edge gate in their own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self.requests = Counter("muster_gate_requests", "Requests, by what they ask for", ["kind"], registry=registry)
        self.held = Counter("muster_gate_held", "Times that a pod was held back", registry=registry)
        self.change_events = Counter(
            "muster_gate_told", "Events that were sent because an application changed", registry=registry
        )
        self.watches = Gauge("muster_gate_watches", "Watches of pods that are open", registry=registry)
        self.tunnels = Gauge("muster_gate_tunnels", "Connections that were upgraded", registry=registry)
        self.refused = Counter("muster_gate_refused", "Requests that were refused", ["code"], registry=registry)
        self.connections = Gauge("muster_gate_connections", "Connections of clients that are open", registry=registry)
        self.log = Gauge("muster_gate_log_entries", "Entries in the log of released and held pods", registry=registry)

    def refuse(self, code: int) -> None:
        """Counts a refused request."""
        self.refused.labels(str(code)).inc()
