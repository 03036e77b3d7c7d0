"""Describes a queue's limit as the user wrote it: a capability, the guarantees of other queues, the cluster's size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from muster.engine.core.jobs import Queue
from muster.engine.core.resources import ALWAYS
from muster.model.quantity import display


class Origin(Struct, frozen=True):
    """Where a queue's real capability comes from."""

    offered: Mapping[str, int]  # what the queue shares with the others
    of: str  # whose that is: "the cluster" or "queue NAME"
    others: Sequence[Queue]  # the queues it shares with; their guarantees are not for it
    capabilities: Mapping[str, tuple[str, int]]  # resource → the queue that names a capability for it, the amount

    def describe(self, queue: str, name: str, real: int) -> str:
        """The limit of one resource: `spec.capability 10`, or `80: 16 of 96 nvidia.com/gpu are guaranteed to prod
        (spec.guarantee.resource)`."""
        owner, amount = self.capabilities.get(name, ("", 0))
        if owner and amount == real:
            return f"spec.capability {display(name, real)}" + (f" of queue {owner}" if owner != queue else "")
        kept = [(q.name, q.guarantee[name]) for q in self.others if q.name != queue and q.guarantee.get(name, 0) > 0]
        offered = display(name, self.offered.get(name, 0))
        if not kept:
            return f"{display(name, real)}, all that {self.of} has"
        (who, most), *more = sorted(kept)
        guaranteed = [f"{display(name, most)} of {offered} {name} are guaranteed to {who}"]
        guaranteed += [f"{display(name, amount)} to {other}" for other, amount in more]
        return f"{display(name, real)}: {', '.join(guaranteed)} (spec.guarantee.resource)"


def capabilities(queue: Queue) -> dict[str, tuple[str, int]]:
    """The capabilities that count. Volcano: one of 0 cpu or memory is none."""
    return {n: (queue.name, amount) for n, amount in queue.capability.items() if amount > 0 or n not in ALWAYS}
