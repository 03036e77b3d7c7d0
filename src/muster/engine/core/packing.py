"""Fits pods of different sizes onto a few nodes: a search over where each could go, bounded by a budget.

Placing pods one after the other by score can fail where another arrangement would do. The search takes the pods by
size, the largest first, and tries the nodes with the least room that suffices first; nodes in the same state are tried
once. It is exact for requests and for nodes that take a pod or never do; what else may refuse is not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from muster.engine.core.hooks import Bools

BUDGET = 20_000  # placements tried before the search gives up

Vector = NDArray[np.int64]


def by_size(requests: Sequence[Vector], kinds: Sequence[int], total: Vector) -> list[int]:
    """Positions, the largest share of the total first, those of one kind together and in the given order."""
    share = [float((request / np.maximum(total, 1)).max()) for request in requests]
    return sorted(range(len(requests)), key=lambda i: (-share[i], kinds[i]))


def pack(
    requests: Sequence[Vector], kinds: Sequence[int], free: Vector, usable: Sequence[Bools], budget: int = BUDGET
) -> list[int] | None:
    """A column of `free` (resources × nodes) for each request, or None if there is none or the budget ran out.

    Requests of one kind are interchangeable; `usable[i]` are the nodes that may take request i at all.
    """
    order = by_size(requests, kinds, free.sum(axis=1))
    amounts = [tuple(int(v) for v in requests[i]) for i in order]
    rooms = [list(map(int, column)) for column in free.T]
    masks = [usable[i] for i in order]
    same = [n > 0 and kinds[order[n]] == kinds[order[n - 1]] for n in range(len(order))]
    # Nodes that look alike to every pod stand for each other while they have the same room.
    look = [tuple(bool(mask[node]) for mask in masks) for node in range(len(rooms))]
    chosen = [-1] * len(order)
    left = budget

    def search(n: int) -> bool:
        nonlocal left
        if n == len(order):
            return True
        want = amounts[n]
        tried: set[tuple[object, ...]] = set()
        able = [
            node for node in range(chosen[n - 1] if same[n] else 0, len(rooms))
            if masks[n][node] and all(have >= need for have, need in zip(rooms[node], want, strict=True))
        ]  # fmt: skip
        if not same[n]:
            able.sort(key=lambda node: rooms[node])
        for node in able:
            room = rooms[node]
            state = (tuple(room), look[node], node if same[n] and node == chosen[n - 1] else None)
            if state in tried:
                continue
            tried.add(state)
            left -= 1
            if left < 0:
                return False
            rooms[node] = [have - need for have, need in zip(room, want, strict=True)]
            chosen[n] = node
            if search(n + 1):
                return True
            rooms[node] = room
        return False

    if not search(0):
        return None
    found = [-1] * len(order)
    for n, i in enumerate(order):
        found[i] = chosen[n]
    return found
