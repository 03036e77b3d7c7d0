"""Which node group has the n-th replica of an application, and which pod has which position in that order.

The division is monotone, so replicas can be numbered: a scale-down that removes the last positions leaves exactly the
division of the remaining replicas.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from muster.groups.division import quotients
from muster.groups.propagation import WEIGHTS, PropagationRules

__all__ = ["replica_order", "assign_positions"]


def replica_order(rules: PropagationRules, replicas: int, uid: str = "") -> list[str]:
    """The groups in the order in which they get their replicas; shorter than `replicas` where maxima are reached."""
    if rules.strategy == WEIGHTS:
        order = []
        waiting = quotients(rules.weights, uid)
        for _ in range(replicas if waiting else 0):
            first = waiting[0]
            order.append(first.name)
            heapq.heapreplace(waiting, first.next())
        return order
    have = dict.fromkeys(rules.ranges, 0)
    order = _filled(have, {name: least for name, (least, _) in rules.ranges.items()}, replicas)
    most = {name: replicas if top is None else top for name, (_, top) in rules.ranges.items()}
    return order + _filled(have, most, replicas - len(order))


def _filled(have: dict[str, int], limit: Mapping[str, int], amount: int) -> list[str]:
    """Gives replicas one by one to the group with the fewest below its limit; ties go to the group named first."""
    rank = {name: i for i, name in enumerate(have)}
    waiting = [(have[name], rank[name], name) for name in have if have[name] < limit[name]]
    heapq.heapify(waiting)
    order: list[str] = []
    while waiting and len(order) < amount:
        count, i, name = heapq.heappop(waiting)
        order.append(name)
        have[name] = count + 1
        if have[name] < limit[name]:
            heapq.heappush(waiting, (have[name], i, name))
    return order


def assign_positions(
    order: Sequence[str], pods: Mapping[str, Sequence[str]], current: Mapping[str, int]
) -> dict[str, int | None]:
    """Pod → its position, from 1; None: its group has no position left for it.

    `pods` lists the pods of each group, those to be removed last first. A pod whose current position belongs to its
    group keeps it: positions are written on pods, and an unchanged position need not be written.
    """
    free: dict[str, list[int]] = {group: [] for group in pods}
    for i, group in enumerate(order):
        if group in free:
            free[group].append(i + 1)
    found: dict[str, int | None] = {}
    for group, names in pods.items():
        left = dict.fromkeys(free[group])
        for name in names:
            if current.get(name) in left:
                found[name] = current[name]
                del left[current[name]]
        open_ = iter(left)
        for name in names:
            if name not in found:
                found[name] = next(open_, None)
    return found
