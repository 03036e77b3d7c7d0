"""The running controllers of PodGroups: `muster pod-groups`. One of them opens the gates of admitted pods."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from muster.engine.core.reading import ADMITTED, waits_for_queue
from muster.groupctl.controllers.object_cache import ObjectCache
from muster.groupctl.controllers.podgroups import KINDS, PodGroupController
from muster.groupctl.controllers.reconcile_loop import Controller, ControllerComponent
from muster.groupctl.controllers.retries import Retries
from muster.groupctl.controllers.settings import PodGroupSettings
from muster.model.core import Pod
from muster.process.application_kinds import WorkloadTables
from muster.process.logs import Log
from muster.store import NotFound, Store


class PodGroupService(ControllerComponent):
    """`muster pod-groups`: it writes the PodGroups of pods that name none."""

    name = "pod-groups"
    kinds = KINDS
    sends_events = True

    def __init__(self, settings: PodGroupSettings, log: Log) -> None:
        super().__init__(settings, log)
        self.workload_tables = WorkloadTables.of(settings.workload_kinds, settings.applications)
        self._scheduler_names = settings.scheduler_names

    async def lead(self) -> None:
        # A group that was written without the description of its owner would have another name.
        await self.process.kinds.followed()
        await super().lead()

    def _controllers(self, store: Store) -> Sequence[Controller]:
        report, kinds = self.log.report, self.process.kinds.kinds
        return [
            PodGroupController(store, self._scheduler_names, report, custom=kinds),
            QueueGateController(store, report),
        ]


class QueueGateController:
    """Removes the gate of pods that the scheduler has annotated as admitted."""

    def __init__(self, store: Store, report: Callable[[str], None] = lambda _: None) -> None:
        self._store = store
        self._cache = ObjectCache(store, (Pod,))
        self._retries: Retries[str] = Retries(report)

    def run(self) -> bool:
        now = self._store.clock.now()
        keys = {
            change.key: None
            for change in self._cache.take_changes()
            if isinstance(change.new, Pod) and _admitted(change.new)
        }
        keys.update(dict.fromkeys(self._retries.due(now)))
        wrote = False
        for key in keys:
            with self._retries.attempt(key, now):
                wrote = self._open(key) or wrote
        return wrote

    def next_time(self) -> float | None:
        return self._retries.next_time()

    def _open(self, key: str) -> bool:
        pod = self._cache.of(Pod).get(key)
        if pod is None or not _admitted(pod):
            return False
        try:
            self._store.patch(Pod, key, {"metadata": {"uid": pod.metadata.uid}, "spec": {"schedulingGates": None}})
        except NotFound:
            return False
        return True


def _admitted(pod: Pod) -> bool:
    return waits_for_queue(pod) and pod.metadata.annotations.get(ADMITTED) == "true"
