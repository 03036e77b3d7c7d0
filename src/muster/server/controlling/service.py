"""The running controllers: informers, election, and the three of them at work in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge

from muster.controllers.applications import KINDS
from muster.controllers.evictions import Evictions
from muster.controllers.nodegroup import NodeGroupController
from muster.controllers.override import OverridePolicyController
from muster.controllers.pace import SETTLE
from muster.controllers.propagation import PropagationPolicyController
from muster.controllers.told import ToldStore, Written
from muster.kube import config as access
from muster.kube.client import Client
from muster.kube.events import Recorder
from muster.kube.informers import Informers
from muster.live.logs import Log
from muster.live.probes import Probes, not_read
from muster.live.terms import LeaseSettings, Terms, until
from muster.model.core import Pod
from muster.model.meta import key
from muster.server.configured import ConfiguredKinds, Kinds
from muster.server.controlling.rounds import Part, Rounds
from muster.server.controlling.term import turns
from muster.server.controlling.webhook import WebhookLife
from muster.store import Store

REST = 10.0


@dataclass(frozen=True, slots=True)
class Settings:
    lease: LeaseSettings
    configured: str  # the ConfigMap that names further kinds, namespace/name
    kubeconfig: str | None = None
    context: str | None = None
    probes_host: str = "127.0.0.1"
    probes_port: int = 8080
    settle: float = SETTLE
    rest: float = REST
    seats: bool = True
    node_labels: bool = True
    privileged: bool = False
    revert: bool = False
    exclusive: bool = False
    webhook_lease: str = "kube-system/muster-webhook"
    dry_run: bool = False


class Service:
    """Use as `await Service(settings, log).run(stop)`; `stop` is an event that ends it gracefully."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self.settings = settings
        self._log = log
        self._terms = Terms(settings.lease, log)
        self._informers: Informers | None = None
        self._rounds: Rounds | None = None
        self._told: dict[tuple[str, ...], None] = {}
        registry = CollectorRegistry()
        Gauge("muster_leader", "Whether this process works", registry=registry).set_function(
            lambda: float(self._rounds is not None)
        )
        self._evictions = Counter("muster_controllers_evictions", "Pods evicted", registry=registry)
        self.probes = Probes(registry, self._ready)

    async def run(self, stop: asyncio.Event) -> None:
        settings = self.settings
        async with Client(access.load(settings.kubeconfig, settings.context)) as client:
            await self.probes.start(settings.probes_host, settings.probes_port)
            async with Informers(client, KINDS, self._log.report) as informers:
                self._informers = informers
                self._log(0, "started", identity=settings.lease.identity, probes=self.probes.port)
                recorder = Recorder(client, "muster-controllers", settings.lease.identity)
                kinds = ConfiguredKinds(client, informers, settings.configured, recorder, self._log.report)
                webhook = WebhookLife(client, settings.webhook_lease, self._wake, self._log.report)

                async def term() -> None:
                    await self._work(client, informers, recorder, kinds, webhook)

                try:
                    await until(
                        stop, recorder.run(), webhook.run(), kinds.run(self._begin_anew), self._terms.run(client, term)
                    )
                finally:
                    await self.probes.stop()
                    self._log(0, "stopped")

    async def _work(
        self, client: Client, informers: Informers, recorder: Recorder, kinds: ConfiguredKinds, webhook: WebhookLife
    ) -> None:
        """One term: the controllers, made anew whenever the configured kinds become others."""
        await informers.synced()
        while True:

            def make(store: Store) -> Sequence[Part]:
                return self._parts(store, kinds.kinds, webhook)

            await turns(client, informers, recorder, make, self._at_work)

    def _at_work(self, rounds: Rounds | None) -> None:
        self._rounds = rounds

    def _wake(self) -> None:
        if self._rounds is not None:
            self._rounds.wake()

    async def _begin_anew(self, kinds: Kinds) -> None:
        if self._rounds is not None:
            self._rounds.stop()

    def _parts(self, store: Store, kinds: Kinds, webhook: WebhookLife) -> Sequence[Part]:
        settings, report = self.settings, self._log.report
        if settings.dry_run:
            store = ToldStore(store, self._would, carry_out=False)
        evictions = Evictions(store, self._note)
        return [
            NodeGroupController(store, labels=settings.node_labels, exclusive=settings.exclusive, report=report),
            PropagationPolicyController(
                store, evictions, seats=settings.seats, settle=settings.settle, custom=kinds, report=report
            ),
            OverridePolicyController(
                store, evictions, privileged=settings.privileged, rest=settings.rest, settle=settings.settle,
                webhook=lambda: webhook.alive, revert=settings.revert, custom=kinds, report=report,
            ),
        ]  # fmt: skip

    def _would(self, written: Written) -> None:
        """What would be written, once each."""
        seen = (written.verb, written.kind, written.key, written.text)
        if seen not in self._told:
            self._told[seen] = None
            self._log(0, f"would {written.verb}", kind=written.kind, object=written.key, text=written.text)

    def _note(self, pod: Pod, policy: str, rule: str) -> None:
        if self.settings.dry_run:
            return
        self._evictions.inc()
        self._log(1, "evicted", pod=key(pod), node=pod.spec.node_name, policy=policy, rule=rule)

    def _ready(self) -> str:
        if self._informers is None or not self._informers.is_synced:
            return not_read(self._informers)
        return ""
