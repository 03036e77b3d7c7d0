"""What nodes offer, with Volcano's oversubscription."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from muster.model.core import Node
from muster.model.quantity import whole
from muster.model.requests import amounts


def equal_offers(nodes: Iterable[Node]) -> Iterator[tuple[dict[str, int], int]]:
    """Yields what nodes offer, and how many nodes in sequence offer it: neighbours are mostly equal."""
    for _, run in groupby(nodes, lambda n: (n.status.allocatable, n.status.capacity, n.metadata.annotations)):
        first, *others = run
        yield allocatable_of(first), 1 + len(others)


def allocatable_of(node: Node) -> dict[str, int]:
    """What the node offers, with Volcano's oversubscription annotations added to cpu and memory."""
    offered = amounts(node.status.allocatable or node.status.capacity or {}, "status.allocatable")
    for name, extra in zip(("cpu", "memory"), oversubscribed(node), strict=True):
        if extra:
            offered[name] = offered.get(name, 0) + extra
    return offered


def oversubscribed(node: Node) -> tuple[int, int]:
    """What Volcano's oversubscription annotations add to the node's cpu and memory."""
    notes = node.metadata.annotations
    if not notes:
        return 0, 0
    cpu, memory = (whole(notes.get(f"volcano.sh/oversubscription-{name}", "")) for name in ("cpu", "memory"))
    return max(cpu or 0, 0), max(memory or 0, 0)
