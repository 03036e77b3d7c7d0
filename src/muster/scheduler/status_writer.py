"""Writes status patches in the background, after the bindings: a few at a time, only the latest for each object."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable

from muster.cycle import plan_effects
from muster.engine.core.reading import ADMITTED
from muster.model.core import Pod
from muster.model.scheduling import PodGroup, Queue
from muster.scheduler.api import RecordEvent, SchedulerApi
from muster.scheduler.metrics import Metrics
from muster.scheduler.native_conditions import NativeStatusPatch
from muster.scheduler.status import AdmissionPatch, GroupStatusPatch, PodStatusPatch, StatusPatch
from muster.store import errors

CONCURRENT_WRITES = 8


class StatusWriter:
    """Holds the patches that are not written yet. Run `run()` as a task."""

    def __init__(self, api: SchedulerApi, record: RecordEvent, metrics: Metrics) -> None:
        self._api = api
        self._record = record
        self._metrics = metrics
        self._waiting: OrderedDict[tuple[str, str], StatusPatch] = OrderedDict()
        self._some = asyncio.Event()
        self._busy = 0

    def write(self, patches: Iterable[StatusPatch]) -> None:
        """Queues the patches and returns at once. A newer patch of an object replaces one that is not written yet."""
        for patch in patches:
            kind = patch.object.kind if isinstance(patch, NativeStatusPatch) else ""
            key = (type(patch).__name__ + kind, patch.key)
            # Groups and queues go first: there are few of them, and users look at them.
            self._waiting[key] = patch
            if not isinstance(patch, PodStatusPatch):
                self._waiting.move_to_end(key, last=False)
        if self._waiting:
            self._some.set()

    def drop(self, pods: Iterable[str]) -> None:
        """Drops the conditions of these pods: they are about to be bound."""
        for key in pods:
            self._waiting.pop((PodStatusPatch.__name__, key), None)

    def forget(self) -> None:
        """Drops everything: the next leader writes it."""
        self._waiting.clear()

    @property
    def waiting(self) -> int:
        return len(self._waiting) + self._busy

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(CONCURRENT_WRITES):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            await self._some.wait()
            if not self._waiting:
                self._some.clear()
                continue
            _, patch = self._waiting.popitem(last=False)
            self._busy += 1
            try:
                await self._write(patch)
            except errors.ApiError:
                # The object changed or is gone, or there was no answer: the next cycle computes the patch again.
                self._metrics.status_failures.inc()
            finally:
                self._busy -= 1

    async def _write(self, patch: StatusPatch) -> None:
        if isinstance(patch, PodStatusPatch):
            # With the version: a condition that arrives after the pod's binding would undo PodScheduled=True.
            uid, version = patch.pod.metadata.uid, patch.pod.metadata.resource_version
            await self._api.pod_condition(
                patch.key, patch.condition, uid=uid, version=version, nominated=patch.nominated
            )
            if patch.event_on is not None:
                self._record(*plan_effects.pending_event(patch.event_on, patch.condition.message))
        elif isinstance(patch, AdmissionPatch):
            change = {"metadata": {"uid": patch.pod.metadata.uid, "annotations": {ADMITTED: "true"}}}
            await self._api.patch(Pod, patch.key, change, sub="status")
        elif isinstance(patch, NativeStatusPatch):
            group = patch.object
            change = {"metadata": {"uid": group.metadata.uid}, "status": patch.status}
            await self._api.patch(type(group), patch.key, change, sub="status", api_version=group.api_version)
        elif isinstance(patch, GroupStatusPatch):
            await self._api.patch_status(PodGroup, patch.key, patch.status, uid=patch.object.metadata.uid)
            if patch.condition is not None:
                self._record(*plan_effects.group_event(patch.object, patch.condition))
        else:
            await self._api.patch_status(Queue, patch.key, patch.status, uid=patch.object.metadata.uid)
