"""Evicts pods that stay unschedulable in their node group, so that they are assigned to another one.

A pod's affinity cannot be changed, so the pending pod is evicted (it never ran), and its owner creates another one,
which is assigned again; for a while other groups with missing pods are preferred. The intervals between attempts grow
by the controllers' rule for unschedulable replacements.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from muster.groupctl.controllers.throttle import LONGEST_PAUSE_S, REPLACEMENT_READY_S, TokenBucket
from muster.groupctl.owners import OwnerResolver
from muster.groupctl.webhook.group_slots import GroupSlots
from muster.groupctl.webhook.metrics import Metrics
from muster.groups.applications import Application, OwnerLoop, unit_of
from muster.groups.assignment import ADMITTED, ASSIGNED, is_job_pod, pinned_node
from muster.kube.informer import Delta
from muster.kube.writes import Writes
from muster.model.core import Pod
from muster.model.meta import controller
from muster.model.pod_states import is_terminating
from muster.process.logs import Log
from muster.store import errors

CHECK_PERIOD_S = 30.0


@dataclass(slots=True)
class _Pause:
    length: float
    until: float


class Reassigner:
    """Evicts unschedulable pods after `after` seconds. Call `observe` for every change of a pod; `run` works."""

    def __init__(
        self,
        writes: Writes,
        owners: OwnerResolver,
        slots: GroupSlots,
        log: Log,
        metrics: Metrics,
        after: float = REPLACEMENT_READY_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.waiting: dict[str, tuple[Pod, float]] = {}  # pod → since when it has no place
        self._writes = writes
        self._owners = owners
        self._slots = slots
        self._log = log
        self._metrics = metrics
        self._after = after
        self._now = now
        self._rate = TokenBucket()
        self._pauses: dict[str, _Pause] = {}  # by application

    def observe(self, delta: Delta) -> None:
        pod = delta.new
        if not isinstance(pod, Pod) or not _has_no_place(pod):
            self.waiting.pop(delta.key, None)
            return
        known = self.waiting.get(delta.key)
        same = known is not None and known[0].metadata.uid == pod.metadata.uid
        self.waiting[delta.key] = (pod, known[1] if known is not None and same else self._now())

    def reset_pauses(self) -> None:
        """Forgets failed attempts, because a policy or a group changed."""
        self._pauses.clear()

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            await asyncio.sleep(min(CHECK_PERIOD_S, self._after / 4))
            await self.evict_due()

    async def evict_due(self) -> None:
        """Evicts the pods that have waited long enough."""
        now = self._now()
        begun: set[str] = set()  # all pods of an application go together
        for key, (pod, since) in sorted(self.waiting.items()):
            if now < since + self._after:
                continue
            try:
                application = await self._owners.application_of(pod)
                name = str(application)
                if name in begun or self._may_evict(name, now):
                    await self._evict(key, pod, application)
                    if name not in begun:
                        begun.add(name)
                        self._pause(name, now)
            except (errors.Conflict, errors.NotFound):
                continue  # it has changed: the watch shows how
            except (errors.ApiError, OwnerLoop) as fault:
                self._log.report(f"pod {key} stays without a place for now: {fault}")

    def _may_evict(self, application: str, now: float) -> bool:
        pause = self._pauses.get(application)
        return pause is None or now >= pause.until

    def _pause(self, application: str, now: float) -> None:
        """Sets the pause before the application's next eviction; it grows with every attempt."""
        longest = self._after * LONGEST_PAUSE_S / REPLACEMENT_READY_S
        pause = self._pauses.get(application)
        length = self._after if pause is None or now > pause.until + longest else min(2 * pause.length, longest)
        self._pauses[application] = _Pause(length, now + self._after + length)

    async def _evict(self, key: str, pod: Pod, application: Application) -> None:
        group = pod.metadata.labels[ASSIGNED]
        ready = self._rate.ready(self._now())
        await asyncio.sleep(max(ready - self._now(), 0.0))
        self._rate.ready(self._now())
        self._rate.take()
        self._slots.avoid(unit_of(key, pod), group, self._after)
        # With its version: a pod that got a node meanwhile is not evicted.
        await self._writes.evict(key, uid=pod.metadata.uid, grace=0, version=pod.metadata.resource_version)
        self.waiting.pop(key, None)
        self._metrics.readmitted.inc()
        self._log(0, "evicted: unschedulable in its group", pod=key, group=group, application=str(application))


def _has_no_place(pod: Pod) -> bool:
    """Returns whether the pod has a group in which it is unschedulable."""
    meta = pod.metadata
    if controller(meta) is None or is_job_pod(pod) or is_terminating(pod):
        return False
    if ASSIGNED not in meta.labels or ADMITTED not in meta.annotations:
        return False
    # One with a nominated node waits for its victims to go; one made for a node would be made for it again.
    if pinned_node(pod) or pod.spec.scheduling_gates or pod.status.nominated_node_name:
        return False
    scheduled = [one for one in pod.status.conditions if one.type == "PodScheduled"]
    return any(one.status == "False" and one.reason == "Unschedulable" for one in scheduled)
