"""The running writer of PodGroups: `muster pod-groups`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Gauge

from muster.groupctl.controllers.podgroups import KINDS, PodGroupController
from muster.groupctl.controllers.queue_gates import QueueGateController
from muster.groupctl.controllers.reconcile_loop import Controller, ReconcileLoop
from muster.groupctl.controllers.term import run_controllers
from muster.kube import config as access
from muster.kube.client import Client
from muster.kube.events import Recorder
from muster.kube.informers import Informers
from muster.process.leadership import LeaseSettings, Terms, until
from muster.process.logs import Log
from muster.process.permissions import Permissions
from muster.process.probes import Probes, not_read
from muster.store import Store


@dataclass(frozen=True, slots=True)
class Settings:
    lease: LeaseSettings
    scheduler_names: tuple[str, ...] = ("muster",)
    kubeconfig: str | None = None
    context: str | None = None
    probes_host: str = "127.0.0.1"
    probes_port: int = 8080


class Service:
    """Use as `await Service(settings, log).run(stop)`; `stop` is an event that ends it gracefully."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self.settings = settings
        self._log = log
        self._informers: Informers | None = None
        self._loop: ReconcileLoop | None = None
        registry = CollectorRegistry()
        Gauge("muster_leader", "Whether this process works", registry=registry).set_function(
            lambda: float(self._loop is not None)
        )
        self.probes = Probes(registry, self._ready)
        self._permissions = Permissions(log, registry)

    async def run(self, stop: asyncio.Event) -> None:
        settings = self.settings
        async with Client(access.load(settings.kubeconfig, settings.context)) as client:
            client.access.on_refusal = self._permissions.refused
            await self.probes.start(settings.probes_host, settings.probes_port)
            async with Informers(client, KINDS, self._log.report) as informers:
                self._informers = informers
                self._log(0, "started", identity=settings.lease.identity, probes=self.probes.port)
                recorder = Recorder(client, "muster-pod-groups", settings.lease.identity)

                async def term() -> None:
                    await informers.synced()
                    await run_controllers(client, informers, recorder, self._parts, self._at_work)

                try:
                    await until(stop, Terms(settings.lease, self._log).run(client, term))
                finally:
                    await self.probes.stop()
                    self._log(0, "stopped")

    def _parts(self, store: Store) -> Sequence[Controller]:
        report = self._log.report
        return [
            PodGroupController(store, self.settings.scheduler_names, report),
            QueueGateController(store, report),
        ]

    def _at_work(self, loop: ReconcileLoop | None) -> None:
        self._loop = loop

    def _ready(self) -> str:
        if self._informers is None or not self._informers.is_synced:
            return not_read(self._informers)
        return ""
