"""The running controllers of PodGroups: `muster pod-groups`."""

from __future__ import annotations

from collections.abc import Sequence

from muster.groupctl.controllers.podgroups import KINDS, PodGroupController
from muster.groupctl.controllers.queue_gates import QueueGateController
from muster.groupctl.controllers.reconcile_loop import Controller, ReconcileLoop, run_controllers
from muster.groupctl.controllers.settings import PodGroupSettings
from muster.process.application_kinds import Kinds, WorkloadTables
from muster.process.component import Component
from muster.process.logs import Log
from muster.store import Store


class PodGroupService(Component):
    """`muster pod-groups`: it writes the PodGroups of pods that name none."""

    name = "pod-groups"
    kinds = KINDS
    sends_events = True

    def __init__(self, settings: PodGroupSettings, log: Log) -> None:
        super().__init__(settings, log)
        self.workload_tables = WorkloadTables.of(settings.workload_kinds, settings.applications)
        self._scheduler_names = settings.scheduler_names
        self._loop: ReconcileLoop | None = None

    async def lead(self) -> None:
        """Runs the controllers; they are made again whenever the described kinds change."""
        process = self.process
        # A group that was written without the description of its owner would have another name.
        await process.kinds.followed()
        while True:
            await run_controllers(
                process.client, process.shared_informers, process.recorder, self._controllers, self._at_work
            )

    def _at_work(self, loop: ReconcileLoop | None) -> None:
        self._loop = loop

    async def kinds_changed(self, kinds: Kinds) -> None:
        if self._loop is not None:
            self._loop.stop()

    def _controllers(self, store: Store) -> Sequence[Controller]:
        report, kinds = self.log.report, self.process.kinds.kinds
        return [
            PodGroupController(store, self._scheduler_names, report, custom=kinds),
            QueueGateController(store, report),
        ]
