"""How many of R replicas each node group gets: by weights (Webster) or by ranges (level filling).

Both are monotone: one replica more never takes one from a group, which matters here because taking away is evicting.
Both count in integers and take time that does not grow with the number of replicas.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping

__all__ = ["Quotient", "by_ranges", "by_weights", "quotients", "descending"]

Bounds = tuple[int, int | None]  # min, max (None: no limit)


def by_weights(weights: Mapping[str, int], replicas: int, uid: str = "") -> dict[str, int]:
    """Webster (Sainte-Laguë): seat by seat to the largest weight/(2n+1), n being what the group has so far.

    Karmada: ties go to the group with fewer replicas, then by name, whose direction the application's uid decides.
    """
    given = dict.fromkeys(weights, 0)
    total = sum(weights.values())
    if total <= 0 or replicas <= 0:
        return given
    # All seats worth at least total/(2R−G) are together no more than R: they are given in one step.
    level = 2 * replicas - len(weights)
    if level > 0:
        for name, weight in weights.items():
            given[name] = (weight * level // total + 1) // 2
    waiting = quotients(weights, uid, given)
    for _ in range(replicas - sum(given.values())):
        given[waiting[0].name] += 1
        heapq.heapreplace(waiting, waiting[0].next())
    return given


def quotients(weights: Mapping[str, int], uid: str, given: Mapping[str, int] | None = None) -> list[Quotient]:
    """Every group's claim on the next seat, as a heap: the first is the one that gets it."""
    rank = {name: i for i, name in enumerate(sorted(weights, reverse=descending(uid)))}
    has = given or {}
    found = [Quotient(weights[name], has.get(name, 0), rank[name], name) for name in weights if weights[name] > 0]
    heapq.heapify(found)
    return found


def descending(uid: str) -> bool:
    """Karmada: an application with an odd FNV-1a hash of its uid prefers later names, so leftovers spread."""
    hash_ = 0x811C9DC5
    for byte in uid.encode():
        hash_ = (hash_ ^ byte) * 0x01000193 & 0xFFFFFFFF
    return bool(uid) and hash_ % 2 == 1


class Quotient:
    """A group's claim on the next seat; the smaller goes first."""

    __slots__ = ("has", "name", "rank", "weight")

    def __init__(self, weight: int, has: int, rank: int, name: str) -> None:
        self.weight = weight
        self.has = has
        self.rank = rank
        self.name = name

    def next(self) -> Quotient:
        """The group's claim once it has this seat."""
        return Quotient(self.weight, self.has + 1, self.rank, self.name)

    def __lt__(self, other: Quotient) -> bool:
        mine, theirs = self.weight * (2 * other.has + 1), other.weight * (2 * self.has + 1)
        return (-mine, self.has, self.rank) < (-theirs, other.has, other.rank)


def by_ranges(ranges: Mapping[str, Bounds], replicas: int) -> dict[str, int]:
    """Level filling: always to the group with the fewest, first below its min, then below its max; ties as written.

    What lies beyond all maxima is not given to any group.
    """
    nothing = dict.fromkeys(ranges, 0)
    replicas = max(replicas, 0)
    least = {name: bounds[0] for name, bounds in ranges.items()}
    if replicas <= sum(least.values()):
        return _filled(nothing, least, replicas)
    # No group can take more than all replicas, so "no limit" is that many.
    most = {name: replicas if bounds[1] is None else bounds[1] for name, bounds in ranges.items()}
    return _filled(least, most, replicas - sum(least.values()))


def _filled(start: Mapping[str, int], limit: Mapping[str, int], amount: int) -> dict[str, int]:
    """Pour so many into vessels that already hold something and have a rim, the lowest first."""

    def at(level: int) -> dict[str, int]:
        return {name: max(held, min(limit[name], level)) for name, held in start.items()}

    held = sum(start.values())
    top = max(limit.values(), default=0)
    level = _last(lambda n: sum(at(n).values()) - held <= amount, range(top + 1))
    filled = at(level)
    left = amount - (sum(filled.values()) - held)
    for name in filled:
        if left and filled[name] == level < limit[name]:
            filled[name] += 1
            left -= 1
    return filled


def _last(holds: Callable[[int], bool], numbers: range) -> int:
    """The last number for which a condition holds that holds for the first and, once it does not, never again."""
    low, high = numbers.start, numbers.stop
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low
