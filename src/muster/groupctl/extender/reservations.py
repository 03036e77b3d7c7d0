"""Pods between filter and binding: answered, and not seen on a node yet.

kube-scheduler asks for the next pod before the last one's binding is visible, so what was answered is remembered. A
pod that was let into one group only counts there, one that was let into several is a maybe in each. What an extender
answered before it was started again is not known: every pod that waited then is a *stranger*, a maybe in all groups.

A pod that was refused because of them waits until one is given up (`waiting`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from muster.groups.applications import Unit
from muster.groups.quota_usage import UndecidedPods

RESERVATION_TTL_S = 30.0  # seconds: a pod that is not bound by then was refused by somebody else


@dataclass(frozen=True, slots=True)
class _Reservation:
    unit: Unit
    groups: tuple[str, ...]  # none: a stranger's, which may be on its way to any
    made: float


class Reservations:
    """By pod; each ends when the pod is bound or gone, asks again, or too much time has passed."""

    def __init__(
        self,
        now: Callable[[], float],
        ttl_s: float = RESERVATION_TTL_S,
        expired: Callable[[Unit], None] = lambda unit: None,
    ) -> None:
        """`expired` is told the unit of a pod that was neither bound nor gone when its time was over."""
        self._now = now
        self._ttl_s = ttl_s
        self._expired = expired
        self._of: dict[str, _Reservation] = {}  # the oldest first
        self._by_unit: dict[Unit, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._of)

    def put(self, pod: str, unit: Unit, groups: Iterable[str]) -> None:
        """The pod was let into these groups; it is the pod's only reservation."""
        self.end(pod)
        self._of[pod] = _Reservation(unit, tuple(groups), self._now())
        self._by_unit.setdefault(unit, {})[pod] = None

    def put_stranger(self, pod: str, unit: Unit) -> None:
        """The pod may have been let into any group, by whoever answered before."""
        self.put(pod, unit, ())

    def end(self, pod: str) -> tuple[str, ...] | None:
        """The pod is bound, gone, or asks again. The groups of its reservation; None: it had none."""
        known = self._of.pop(pod, None)
        if known is None:
            return None
        of_unit = self._by_unit[known.unit]
        del of_unit[pod]
        if not of_unit:
            del self._by_unit[known.unit]
        return known.groups

    def expire(self) -> None:
        """End those whose time is over."""
        late = self._now() - self._ttl_s
        while self._of:
            pod, oldest = next(iter(self._of.items()))
            if oldest.made > late:
                return
            self.end(pod)
            self._expired(oldest.unit)

    def are_coming(self, unit: Unit, but: str) -> bool:
        """Are there other pods of the unit that will be seen in one group or another soon? A stranger need not be."""
        return any(self._of[pod].groups for pod in self._by_unit.get(unit, ()) if pod != but)

    def of(
        self, unit: Unit, but: str, groups: Sequence[str] = (), before: float = float("inf")
    ) -> tuple[dict[str, int], UndecidedPods]:
        """What the unit's other pods hold: for certain by group, and perhaps. Strangers do in all of the groups.

        Those made at `before` or later do not count.
        """
        self.expire()
        certain: dict[str, int] = {}
        maybe = UndecidedPods()
        for pod in self._by_unit.get(unit, ()):
            reservation = self._of[pod]
            if pod == but or reservation.made >= before:
                continue
            elif len(reservation.groups) == 1:
                group = reservation.groups[0]
                certain[group] = certain.get(group, 0) + 1
            else:
                maybe.add(reservation.groups or groups)
        return certain, maybe
