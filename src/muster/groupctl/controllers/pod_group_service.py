"""The running controllers of PodGroups: `muster pod-groups`."""

from __future__ import annotations

from collections.abc import Sequence

from muster.groupctl.controllers.podgroups import KINDS, PodGroupController
from muster.groupctl.controllers.queue_gates import QueueGateController
from muster.groupctl.controllers.reconcile_loop import Controller, run_controllers
from muster.groupctl.controllers.settings import PodGroupSettings
from muster.process.component import Component
from muster.process.logs import Log
from muster.store import Store


class PodGroupService(Component):
    """`muster pod-groups`: it writes the PodGroups of pods that name none."""

    name = "pod-groups"
    kinds = KINDS

    def __init__(self, settings: PodGroupSettings, log: Log) -> None:
        super().__init__(settings, log)
        self._scheduler_names = settings.scheduler_names

    async def lead(self) -> None:
        process = self.process
        await run_controllers(
            process.client, process.shared_informers, process.recorder, self._controllers, lambda loop: None
        )

    def _controllers(self, store: Store) -> Sequence[Controller]:
        report = self.log.report
        return [PodGroupController(store, self._scheduler_names, report), QueueGateController(store, report)]
