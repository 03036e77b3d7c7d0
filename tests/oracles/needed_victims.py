"""Is every victim of a plan needed? Whoever could stay beside everybody who is there at the end need not have gone.

A proof by requests only, as the workloads of `muster bench` evict for capacity. Of a gang that went as a whole the
whole gang is asked about, because a part of it could not have stayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from muster.engine.core.plan import Plan
from muster.model.meta import Object
from muster.model.requests import amounts
from oracles.plan_end import End, group_of, is_ready, minimum_of


def check_needed(objects: Iterable[Object], plan: Plan) -> None:
    if not plan.evictions:
        return
    end = End.of(objects, plan)
    held = end.held(end.where)
    for together in _units(end, plan):
        back: dict[str, Counter[str]] = {}
        for name in together:
            back.setdefault(end.there[name], Counter()).update(end.requests[name])
        fits = all(
            held.get(node, Counter())[resource] + amount <= amounts(end.nodes[node].status.allocatable)[resource]
            for node, more in back.items()
            for resource, amount in more.items()
        )
        assert not fits, f"{', '.join(sorted(together)[:3])} (of {len(together)}) could have stayed"


def _units(end: End, plan: Plan) -> Iterator[list[str]]:
    """The victims, each alone or with its gang."""
    gone = {eviction.pod for eviction in plan.evictions}
    gangs: dict[str, list[str]] = {}
    for name in gone:
        group = group_of(name, end.pods[name])
        members = end.members.get(group, [])
        whole = not any(is_ready(end.pods[pod]) and pod not in gone for pod in members)
        if group and whole and minimum_of(end, group) > 1:
            gangs.setdefault(group, []).append(name)
        else:
            yield [name]
    yield from gangs.values()
