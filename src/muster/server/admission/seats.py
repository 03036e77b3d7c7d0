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


class Seats:
    """Follows pods; tell it of every change."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.reservations = Reservations(now)
        self._now = now
        self._pods: dict[Unit, dict[str, Pod]] = {}
        self._shunned: dict[tuple[Unit, str], float] = {}  # unit and group → until when

    def notice(self, delta: Delta) -> None:
        if isinstance(delta.old, Pod):
            unit = counted_by(delta.key, delta.old)
            of_unit = self._pods.get(unit, {})
            of_unit.pop(delta.key, None)
            if not of_unit:
                self._pods.pop(unit, None)
        if isinstance(delta.new, Pod):
            self._pods.setdefault(counted_by(delta.key, delta.new), {})[delta.key] = delta.new
            request = delta.new.metadata.annotations.get(ADMITTED, "")
            if request:
                self.reservations.end(request)

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
        group_of = grouping.group_of(groups)
        for pod in self._pods.get(unit, {}).values():
            if pod.metadata.deletion_timestamp is not None or pod.status.phase in FINISHED:
                continue
            on, made_for = pod.spec.node_name, pod.metadata.labels.get(ASSIGNED, "")
            group = group_of.get(on) if on else made_for
            if group in groups:
                counts[group] = counts.get(group, 0) + 1
        return counts
