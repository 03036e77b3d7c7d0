"""How many pods of a unit each node group has: bound ones by their node, others by the group they were made for.

A pod counts from the moment its creation was answered; what the watch has not shown yet is a reservation, known by the
request that it was made with.
"""

from __future__ import annotations

from collections.abc import Callable

from muster.groups.applications import Unit, counted_by
from muster.groups.assignment import ADMITTED, ASSIGNED
from muster.groups.grouping import Grouping
from muster.groups.policies import Bound
from muster.groups.standing import Answer, Standing
from muster.kube.informer import Delta
from muster.model.core import Pod
from muster.server.extender.reservations import Reservations

FINISHED = ("Succeeded", "Failed")

_Place = tuple[bool, str]  # on this node; or (False) made for this group


class Seats:
    """Follows pods; tell it of every change."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.reservations = Reservations(now)
        self._now = now
        self._places: dict[Unit, dict[_Place, int]] = {}
        self._shunned: dict[tuple[Unit, str], float] = {}  # unit and group → until when

    def notice(self, delta: Delta) -> None:
        for pod, by in ((delta.old, -1), (delta.new, 1)):
            if isinstance(pod, Pod) and (place := _place(pod)) is not None:
                self._add(counted_by(delta.key, pod), place, by)
        if isinstance(delta.new, Pod):
            request = delta.new.metadata.annotations.get(ADMITTED, "")
            if request:
                self.reservations.end(request)

    def _add(self, unit: Unit, place: _Place, by: int) -> None:
        of_unit = self._places.setdefault(unit, {})
        of_unit[place] = of_unit.get(place, 0) + by
        if not of_unit[place]:
            del of_unit[place]
            if not of_unit:
                del self._places[unit]

    def choose(self, unit: Unit, bound: Bound, grouping: Grouping) -> str | None:
        """The group that lacks most, ties as the policy writes them; None: none takes any more.

        One in which a pod of the unit found no place comes last.
        """
        groups = bound.propagation.groups
        standing = Standing(bound.quotas, self._counts(unit, tuple(groups), grouping))
        open_ = [group for group in groups if standing.may_take(group) == Answer.YES]
        now = self._now()
        good = [group for group in open_ if self._shunned.get((unit, group), now) <= now]
        return max(good or open_, key=standing.lack, default=None)

    def shun(self, unit: Unit, group: str, seconds: float) -> None:
        """A pod of the unit found no place in the group."""
        now = self._now()
        self._shunned = {at: until for at, until in self._shunned.items() if until > now}
        self._shunned[unit, group] = now + seconds

    def _counts(self, unit: Unit, groups: tuple[str, ...], grouping: Grouping) -> dict[str, int]:
        counts, _ = self.reservations.of(unit, but="")
        group_of, wanted = grouping.group_of(groups), frozenset(groups)
        for (bound, name), n in self._places.get(unit, {}).items():
            group = group_of.get(name) if bound else name
            if group is not None and group in wanted:
                counts[group] = counts.get(group, 0) + n
        return counts


def _place(pod: Pod) -> _Place | None:
    """Where the pod counts; None: nowhere (any more)."""
    if pod.metadata.deletion_timestamp is not None or pod.status.phase in FINISHED:
        return None
    node, made_for = pod.spec.node_name, pod.metadata.labels.get(ASSIGNED, "")
    return (True, node) if node else (False, made_for) if made_for else None
