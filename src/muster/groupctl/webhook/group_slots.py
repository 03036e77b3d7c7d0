"""Counts the pods of a unit per node group: bound pods by their node, others by the group they were assigned to.

A pod counts from the moment its creation was answered. Until the watch shows it, it is a reservation, identified by
its admission request.

If the API server does not authenticate itself, anyone can send such a request. Its pod must then appear within 5
seconds, and until it does, it must not displace a pod that exists: if only such requests fill the groups, the slot is
*contested*, and the pod is created with the scheduling gate and assigned once it exists. If the pod of a request does
not appear, the requests of its unit do not count for a while.
"""

from __future__ import annotations

from collections.abc import Callable

from muster.groupctl.extender.reservations import Reservations
from muster.groupctl.grouping_cache import UnitCounts
from muster.groups.applications import Unit
from muster.groups.assignment import ADMITTED
from muster.groups.grouping import Grouping
from muster.groups.propagation import BoundPolicy
from muster.groups.quota_usage import Acceptance, QuotaUsage
from muster.kube.informer import Delta
from muster.model.core import Pod

UNSEEN_POD_TTL_S = 5.0  # within which the pod of a request that anyone may have sent must be seen
DISTRUST_S = 30.0  # for which such requests of a unit do not count, after one whose pod was not seen


class GroupSlots:
    """Follows pods; call `observe` for every change."""

    def __init__(self, now: Callable[[], float], *, authenticated: bool = True) -> None:
        """With `authenticated`, only the API server can send requests."""
        self.reservations = Reservations(now)
        self._unproven = self.reservations if authenticated else Reservations(now, UNSEEN_POD_TTL_S, self._distrust)
        self._distrusted: dict[Unit, float] = {}  # until when
        self._now = now
        self._unit_counts = UnitCounts(count_assigned=True)
        self._avoided: dict[tuple[Unit, str], float] = {}  # unit and group → until when

    def observe(self, delta: Delta) -> None:
        if not isinstance(delta.new, Pod):
            self._unit_counts.remove(delta.key)
        else:
            self._unit_counts.put(delta.key, delta.new)
            request = delta.new.metadata.annotations.get(ADMITTED, "")
            if request:
                self.forget(request)

    @property
    def reserved(self) -> int:
        """The number of pods that were answered and not seen yet."""
        kept = {id(one): one for one in (self.reservations, self._unproven)}
        for one in kept.values():
            one.expire()
        return sum(map(len, kept.values()))

    def reserve(self, request: str, unit: Unit, group: str, *, exists: bool) -> None:
        """Reserves a slot for the pod of a request; with `exists` the pod is in the cluster already."""
        (self.reservations if exists else self._unproven).put(request, unit, (group,))

    def forget(self, request: str) -> None:
        """Ends the reservation of a pod that was seen or will not be created."""
        for kept in (self.reservations, self._unproven):
            kept.end(request)

    def choose(self, unit: Unit, bound: BoundPolicy, grouping: Grouping, since: float | None = None) -> str | None:
        """Returns the group that is missing most pods, ties in the order of the policy; None if all are full.

        A group in which a pod of the unit was unschedulable comes last. `since` is the time at which the pod was first
        seen, if it exists already.
        """
        unproven = self._unproven_requests(unit, since)
        if self._distrusted.get(unit, 0.0) <= self._now():
            return self._best(unit, bound, self._quota_usage(unit, bound, grouping, unproven))
        usage = self._quota_usage(unit, bound, grouping, {})
        # It is unknown which of these requests are real: all are divided in proportion to the missing pods.
        return self._best(unit, bound, usage, lambda group: usage.missing(group) / (unproven.get(group, 0) + 1))

    def is_contested(self, unit: Unit, bound: BoundPolicy, grouping: Grouping, since: float | None = None) -> bool:
        """Returns whether the groups are full only because of requests whose pods were not seen yet."""
        if self._unproven is self.reservations or self.choose(unit, bound, grouping, since) is not None:
            return False
        return self._best(unit, bound, self._quota_usage(unit, bound, grouping, {})) is not None

    def _best(
        self, unit: Unit, bound: BoundPolicy, usage: QuotaUsage, preference: Callable[[str], float] | None = None
    ) -> str | None:
        open_ = [group for group in bound.rules.groups if usage.accepts(group) == Acceptance.YES]
        now = self._now()
        preferred = [group for group in open_ if self._avoided.get((unit, group), now) <= now]
        return max(preferred or open_, key=preference or usage.missing, default=None)

    def _unproven_requests(self, unit: Unit, since: float | None) -> dict[str, int]:
        """Returns the requests whose pods were not seen yet, per group; those after `since` do not count."""
        if self._unproven is self.reservations:
            return {}
        before = float("inf") if since is None else since
        return self._unproven.of(unit, but="", before=before)[0]

    def _distrust(self, unit: Unit) -> None:
        now = self._now()
        self._distrusted = {one: until for one, until in self._distrusted.items() if until > now}
        self._distrusted[unit] = now + DISTRUST_S

    def avoid(self, unit: Unit, group: str, seconds: float) -> None:
        """Prefers other groups for the unit for some seconds: a pod of it was unschedulable in the group."""
        now = self._now()
        self._avoided = {at: until for at, until in self._avoided.items() if until > now}
        self._avoided[unit, group] = now + seconds

    def _quota_usage(self, unit: Unit, bound: BoundPolicy, grouping: Grouping, more: dict[str, int]) -> QuotaUsage:
        groups = tuple(bound.rules.groups)
        counts, _ = self.reservations.of(unit, but="")
        for group, n in more.items():
            counts[group] = counts.get(group, 0) + n
        for group, n in self._unit_counts.per_group(unit, groups, grouping).items():
            counts[group] = counts.get(group, 0) + n
        return QuotaUsage(bound.quotas, counts)
