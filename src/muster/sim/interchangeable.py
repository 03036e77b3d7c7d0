"""Pairs the pods of two simulations that differ only in their names.

The pods of a ReplicaSet or Job have random names. If another number of them is created, other names are bound, although
the same number of equal pods is on the same nodes. A comparison by name alone would report these as differences.
"""

from __future__ import annotations

from collections.abc import Callable

from muster.engine.core.jobs import Task
from muster.groups.applications import owner_ref
from muster.sim.result import Result

__all__ = ["same_pods"]

_RANDOM_NAMES = frozenset({"ReplicaSet", "ReplicationController", "Job"})
Place = tuple[str, str]  # pod, its node; "": none
Matches = Callable[[Place, Place], bool]
# In this order: equal in everything, on the same node, both without a node, both with one, any two.
_RULES: tuple[Matches, ...] = (
    lambda one, two: one == two,
    lambda one, two: one[1] == two[1],
    lambda one, two: bool(one[1]) == bool(two[1]),
    lambda one, two: True,
)


def same_pods(first: Result, second: Result) -> dict[str, str]:
    """Returns for each pod of the first run the pod of the second that stands for it, if that has another name."""
    one, two = _by_owner(first), _by_owner(second)
    found: dict[str, str] = {}
    for owner in one.keys() & two.keys():
        found.update(_pairs(one[owner], two[owner]))
    return found


def _pairs(one: list[Place], two: list[Place]) -> dict[str, str]:
    taken = {pod for pod, _ in two}
    pairs: dict[str, str] = {}
    for rule in _RULES:
        rest = []
        for place in one:
            match = next((other for other in two if rule(place, other)), None)
            if match is None:
                rest.append(place)
            else:
                two.remove(match)
                pairs[place[0]] = match[0]
        one = rest
    # A pod without a partner gets the name of a pod that has one, if its own name is now that of another pod.
    free = iter([pod for pod in pairs if pod not in taken])
    pairs.update((pod, next(free)) for pod, _ in one if pod in taken)
    return pairs


def _by_owner(run: Result) -> dict[tuple[str, str], list[Place]]:
    """Returns the pods that this run placed or left without a node, by the owner that gives them random names."""
    found: dict[tuple[str, str], list[Place]] = {}
    for key in sorted({*run.binds, *run.pending}):
        task: Task | None = run.state.tasks.get(key)
        owner = None if task is None else owner_ref(task.pod)
        if owner is not None and owner[0] in _RANDOM_NAMES:
            found.setdefault(owner, []).append((key, run.binds.get(key, "")))
    return found
