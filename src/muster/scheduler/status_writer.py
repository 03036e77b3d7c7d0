"""Writes what objects are told, behind the bindings: a few at a time, the latest word for each object only."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable

from muster.cycle import telling
from muster.engine.core.reading import ADMITTED
from muster.model.core import Pod
from muster.model.scheduling import PodGroup, Queue
from muster.scheduler.api import RecordEvent, SchedulerApi
from muster.scheduler.metrics import Metrics
from muster.scheduler.status import AdmissionPatch, GroupStatusPatch, PodStatusPatch, StatusPatch
from muster.store import Severity, errors

AT_ONCE = 8


class StatusWriter:
    """Run `run()` as a task."""

    def __init__(self, calls: SchedulerApi, tell: RecordEvent, metrics: Metrics) -> None:
        self._calls = calls
        self._tell = tell
        self._metrics = metrics
        self._waiting: OrderedDict[tuple[str, str], StatusPatch] = OrderedDict()
        self._some = asyncio.Event()
        self._busy = 0

    def write(self, notes: Iterable[StatusPatch]) -> None:
        """Never waits; what is not written yet about the same object is forgotten for the newer word."""
        for note in notes:
            key = (type(note).__name__, note.key)
            # Groups and queues go first: there are few of them, and other schedulers' users look at them.
            self._waiting[key] = note
            if not isinstance(note, PodStatusPatch):
                self._waiting.move_to_end(key, last=False)
        if self._waiting:
            self._some.set()

    def drop(self, pods: Iterable[str]) -> None:
        """Forget what these pods' conditions were to say: they are about to be bound."""
        for key in pods:
            self._waiting.pop((PodStatusPatch.__name__, key), None)

    def forget(self) -> None:
        """We are no longer the leader: whoever is will say it."""
        self._waiting.clear()

    @property
    def waiting(self) -> int:
        return len(self._waiting) + self._busy

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            await self._some.wait()
            if not self._waiting:
                self._some.clear()
                continue
            _, note = self._waiting.popitem(last=False)
            self._busy += 1
            try:
                await self._write(note)
            except errors.ApiError:
                # It changed or went, or could not be reached: the next cycle sees what is still to be said.
                self._metrics.status_failures.inc()
            finally:
                self._busy -= 1

    async def _write(self, note: StatusPatch) -> None:
        if isinstance(note, PodStatusPatch):
            # With the version: a condition that arrives after the pod's binding would undo PodScheduled=True.
            uid, version = note.pod.metadata.uid, note.pod.metadata.resource_version
            await self._calls.pod_condition(
                note.key, note.condition, uid=uid, version=version, nominated=note.nominated
            )
            if note.about is not None:
                self._tell(note.about, Severity.WARNING, telling.FAILED, note.condition.message)
        elif isinstance(note, AdmissionPatch):
            change = {"metadata": {"uid": note.pod.metadata.uid, "annotations": {ADMITTED: "true"}}}
            await self._calls.patch(Pod, note.key, change, sub="status")
        elif isinstance(note, GroupStatusPatch):
            await self._calls.patch_status(PodGroup, note.key, note.status, uid=note.object.metadata.uid)
            if note.said is not None:
                ready = note.said.type == telling.SCHEDULED
                severity = Severity.NORMAL if ready else Severity.WARNING
                # Volcano: a group that has what it needs is told so.
                text = "pod group is ready" if ready else note.said.message
                self._tell(note.object, severity, note.said.type, text)
        else:
            await self._calls.patch_status(Queue, note.key, note.status, uid=note.object.metadata.uid)
