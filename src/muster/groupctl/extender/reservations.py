"""Tracks pods between filter and binding (answered, and not seen on a node yet), and retries pods that waited for them.

kube-scheduler asks for the next pod before the binding of the last one is visible, so answers are remembered. A pod
that may go to one group counts there; a pod that may go to several is undecided in each. After a restart the earlier
answers are unknown: every pod that was pending then (a *stranger*) is undecided in all groups.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from muster.groups.applications import Unit
from muster.groups.assignment import RETRY
from muster.groups.quota_usage import UndecidedPods
from muster.kube.writes import Writes
from muster.model.core import Pod
from muster.process.logs import Log
from muster.store import errors

RESERVATION_TTL_S = 30.0  # a pod that is not bound by then was refused by kube-scheduler
RETRY_INTERVAL_S = 1.0
MAX_REFUSED_PODS = 20_000  # of all units; further pods are retried by kube-scheduler only


@dataclass(frozen=True, slots=True)
class _Reservation:
    unit: Unit
    groups: tuple[str, ...]  # empty for a stranger, which may go to any group
    made: float


class Reservations:
    """Reservations by pod. One ends when the pod is bound, deleted or filtered again, or after `ttl_s` seconds."""

    def __init__(
        self,
        now: Callable[[], float],
        ttl_s: float = RESERVATION_TTL_S,
        expired: Callable[[Unit], None] = lambda unit: None,
    ) -> None:
        """Calls `expired` with the unit of a reservation that ends by its time."""
        self._now = now
        self._ttl_s = ttl_s
        self._expired = expired
        self._of: dict[str, _Reservation] = {}  # the oldest first
        self._by_unit: dict[Unit, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._of)

    def put(self, pod: str, unit: Unit, groups: Iterable[str]) -> None:
        """Reserves for a pod that may go to these groups; replaces its earlier reservation."""
        self.end(pod)
        self._of[pod] = _Reservation(unit, tuple(groups), self._now())
        self._by_unit.setdefault(unit, {})[pod] = None

    def put_stranger(self, pod: str, unit: Unit) -> None:
        """Reserves for a pod that an earlier process may have let into any group."""
        self.put(pod, unit, ())

    def end(self, pod: str) -> tuple[str, ...] | None:
        """Ends the pod's reservation and returns its groups; None if it had none."""
        known = self._of.pop(pod, None)
        if known is None:
            return None
        of_unit = self._by_unit[known.unit]
        del of_unit[pod]
        if not of_unit:
            del self._by_unit[known.unit]
        return known.groups

    def expire(self) -> None:
        """Ends the reservations whose time is over."""
        late = self._now() - self._ttl_s
        while self._of:
            pod, oldest = next(iter(self._of.items()))
            if oldest.made > late:
                return
            self.end(pod)
            self._expired(oldest.unit)

    def are_coming(self, unit: Unit, but: str) -> bool:
        """Returns whether other pods of the unit will be bound soon; strangers may not be."""
        return any(self._of[pod].groups for pod in self._by_unit.get(unit, ()) if pod != but)

    def of(
        self, unit: Unit, but: str, groups: Sequence[str] = (), before: float = float("inf")
    ) -> tuple[dict[str, int], UndecidedPods]:
        """Returns the unit's other reservations: the number per group, and the undecided pods; strangers are undecided
        in all `groups`. Reservations made at `before` or later do not count.
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


class RefusedPods:
    """The pods that were refused because of reservations of other pods, and the number of ended reservations, by unit.

    kube-scheduler does not learn that a reservation has ended, and would retry such a pod only after minutes. It
    retries a pod that an extender refused when a label of the pod changes (the label `RETRY` of
    `groups/assignment.py`).
    """

    def __init__(self) -> None:
        self._pods: dict[Unit, dict[str, str]] = {}  # unit → key → uid, in the order of refusal
        self._freed: dict[Unit, int] = {}

    def refused(self, unit: Unit, key: str, uid: str) -> None:
        of_unit = self._pods.setdefault(unit, {})
        if key in of_unit or sum(map(len, self._pods.values())) < MAX_REFUSED_PODS:
            of_unit[key] = uid

    def passed(self, unit: Unit, key: str) -> None:
        """Forgets a pod that was accepted, bound or deleted."""
        of_unit = self._pods.get(unit)
        if of_unit is not None and of_unit.pop(key, None) is not None and not of_unit:
            del self._pods[unit]

    def freed(self, unit: Unit) -> None:
        """Counts an ended reservation of the unit."""
        self._freed[unit] = self._freed.get(unit, 0) + 1

    def take(self) -> list[tuple[str, str]]:
        """Returns key and uid of the pods to retry: one for each ended reservation."""
        found: list[tuple[str, str]] = []
        for unit, n in self._freed.items():
            for key in list(self._pods.get(unit, ()))[:n]:
                found.append((key, self._pods[unit][key]))
                self.passed(unit, key)
        self._freed.clear()
        return found


async def wake(
    take: Callable[[], Awaitable[list[tuple[str, str]]]], writes: Writes, may_write: Callable[[], bool], log: Log
) -> None:
    """Labels the pods to retry, until cancelled."""
    while True:
        await asyncio.sleep(RETRY_INTERVAL_S)
        if not may_write():
            continue  # the previous leader may still write
        for key, uid in await take():
            mark = f"{time.time_ns() // 1_000_000:x}"
            try:
                # Through the status subresource: the extender must not be able to change what pods run.
                await writes.patch(Pod, key, {"metadata": {"uid": uid, "labels": {RETRY: mark}}}, sub="status")
                log(3, "tried again: a reservation ended", pod=key)
            except (errors.NotFound, errors.Conflict):
                continue  # it was deleted, or another pod has its name
            except errors.ApiError as fault:
                log.report(f"pod {key} is not tried again before kube-scheduler does so by itself: {fault}")
