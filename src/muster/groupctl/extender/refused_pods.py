"""Retries pods that were refused because other pods of their unit had reservations, when one of these ends.

kube-scheduler does not learn that a reservation has ended, and would retry such a pod only after minutes. It retries
a pod that an extender refused when a label of the pod changes (`groupctl/controllers/nudge.py`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from muster.groups.applications import Unit
from muster.groups.assignment import RETRY
from muster.kube.writes import Writes
from muster.model.core import Pod
from muster.process.logs import Log
from muster.store import errors

RETRY_INTERVAL_S = 1.0
MAX_REFUSED_PODS = 20_000  # of all units; later ones are retried by kube-scheduler only


class RefusedPods:
    """The refused pods and the number of ended reservations, by unit."""

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
