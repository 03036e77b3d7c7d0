"""The figures of a run: pods, queues' shares, fragmentation, and what its administrator should hear."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

from muster.engine.core.axis import show
from muster.engine.core.fragmentation import fragmentation
from muster.engine.core.hooks import QueueShares
from muster.engine.core.session import Session
from muster.engine.core.state import State

Amounts = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class QueueShare:
    """A queue's part of the cluster, in internal units by resource."""

    allocated: Amounts
    deserved: Amounts
    capability: Amounts

    def as_dict(self) -> dict[str, dict[str, str]]:
        parts = {"allocated": self.allocated, "deserved": self.deserved, "capability": self.capability}
        return {part: {name: show(name, n) for name, n in sorted(amounts.items())} for part, amounts in parts.items()}


@dataclass(slots=True)
class Summary:
    pods: int = 0  # in the cluster, whoever schedules them
    bound: int = 0
    pending: int = 0
    evicted: int = 0
    nodes: int = 0
    queues: dict[str, QueueShare] = field(default_factory=dict)
    fragmentation: dict[str, float] = field(default_factory=dict)
    settled: bool = False
    warnings: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        figures = {k: v for k, v in asdict(self).items() if k != "queues"}
        queues = {name: share.as_dict() for name, share in sorted(self.queues.items())}
        return {**figures, "fragmentation": {k: round(v, 6) for k, v in self.fragmentation.items()}, "queues": queues}


def queue_shares(state: State, deserved: Mapping[str, Amounts]) -> dict[str, QueueShare]:
    """What each queue holds, beside what it deserves (by its plugin, else by its object) and may hold at most."""
    shares = {}
    for name, queue in sorted(state.queues.items()):
        if queue.unused and len(state.queues) > 1:
            continue
        held: dict[str, int] = {}
        for job in queue.jobs.values():
            for resource, amount in job.allocated.items():
                held[resource] = held.get(resource, 0) + amount
        held = {resource: amount for resource, amount in held.items() if amount}
        shares[name] = QueueShare(held, deserved.get(name, queue.deserved), queue.capability)
    return shares


def fragments(state: State, waiting: Iterable[str]) -> dict[str, float]:
    """The share of what is idle that no waiting pod can use, per resource."""
    shapes = [state.tasks[key].shape for key in waiting if key in state.tasks]
    return fragmentation(state.nodes.everything(), shapes)


def deserved(session: Session) -> Mapping[str, Amounts]:
    """What the plugin that shares the cluster out among queues (proportion, capacity) gives each of them."""
    return next((plugin.deserved() for plugin in session.flat(QueueShares)), {})
