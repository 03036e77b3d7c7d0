"""Divides R replicas among node groups: by weights (Webster's method) or by ranges (level filling).

Both methods are monotone: one more replica never takes a replica from a group, which would mean an eviction. Both use
integer arithmetic, and their running time does not grow with the number of replicas.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping

__all__ = ["Quotient", "by_ranges", "by_weights", "quotients", "descending"]

Bounds = tuple[int, int | None]  # min, max (None: no limit)


def by_weights(weights: Mapping[str, int], replicas: int, uid: str = "") -> dict[str, int]:
    """Webster (Sainte-Laguë): each replica goes to the largest weight/(2n+1), n being the group's replicas so far.

    Karmada: ties go to the group with fewer replicas, then by name, whose direction the application's uid decides.
    """
    given = dict.fromkeys(weights, 0)
    total = sum(weights.values())
    if total <= 0 or replicas <= 0:
        return given
    # At most R replicas have a quotient of at least total/(2R−G): they are given in one step.
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
    """Every group's quotient for its next replica, as a heap: the first group gets the next replica."""
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
    """A group's quotient for its next replica. Groups with larger quotients compare smaller, for the heap."""

    __slots__ = ("has", "name", "rank", "weight")

    def __init__(self, weight: int, has: int, rank: int, name: str) -> None:
        self.weight = weight
        self.has = has
        self.rank = rank
        self.name = name

    def next(self) -> Quotient:
        """The group's quotient once it has this replica."""
        return Quotient(self.weight, self.has + 1, self.rank, self.name)

    def __lt__(self, other: Quotient) -> bool:
        mine, theirs = self.weight * (2 * other.has + 1), other.weight * (2 * self.has + 1)
        return (-mine, self.has, self.rank) < (-theirs, other.has, other.rank)


def by_ranges(ranges: Mapping[str, Bounds], replicas: int) -> dict[str, int]:
    """Level filling: each replica goes to the group with the fewest, first up to the minima, then up to the maxima.

    Ties go to the group that the policy names first. Replicas beyond all maxima are not given to any group.
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
    """Adds an amount to groups that start with some replicas and have a limit, the lowest group first."""

    def at(level: int) -> dict[str, int]:
        return {name: max(given, min(limit[name], level)) for name, given in start.items()}

    given = sum(start.values())
    top = max(limit.values(), default=0)
    level = _last(lambda n: sum(at(n).values()) - given <= amount, range(top + 1))
    filled = at(level)
    left = amount - (sum(filled.values()) - given)
    for name in filled:
        if left and filled[name] == level < limit[name]:
            filled[name] += 1
            left -= 1
    return filled


def _last(condition: Callable[[int], bool], numbers: range) -> int:
    """The last number for which a monotone condition holds; it must hold for the first number."""
    low, high = numbers.start, numbers.stop
    while high - low > 1:
        middle = (low + high) // 2
        if condition(middle):
            low = middle
        else:
            high = middle
    return low
