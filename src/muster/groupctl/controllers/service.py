"""The running controllers: informers, election, and the three of them at work in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge

from muster.groupctl.controllers.application_index import KINDS
from muster.groupctl.controllers.dry_run import DryRunStore, Write
from muster.groupctl.controllers.evictions import EvictionQueue
from muster.groupctl.controllers.liveness import PlacerLiveness
from muster.groupctl.controllers.nodegroup import NodeGroupController
from muster.groupctl.controllers.override import OverridePolicyController
from muster.groupctl.controllers.propagation import PropagationPolicyController
from muster.groupctl.controllers.reconcile_loop import Controller, ReconcileLoop
from muster.groupctl.controllers.term import run_controllers
from muster.groupctl.controllers.throttle import (
    EVICTION_BURST,
    EVICTIONS_PER_SECOND,
    STABLE_BEFORE_EVICTION_S,
    TokenBucket,
)
from muster.groupctl.controllers.webhook_lease import WebhookLiveness
from muster.kube import config as access
from muster.kube.client import Client
from muster.kube.events import Recorder
from muster.kube.informers import Informers
from muster.model.core import Pod
from muster.model.meta import Object, key
from muster.process.application_kinds import ConfiguredKinds, Kinds
from muster.process.leadership import LeaseSettings, Terms, until
from muster.process.logs import Log
from muster.process.permissions import Permissions
from muster.process.probes import Probes, not_read
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
    settle: float = STABLE_BEFORE_EVICTION_S
    rest: float = REST
    seats: bool = True
    node_labels: bool = True
    privileged: bool = False
    revert: bool = False
    exclusive: bool = False
    webhook_lease: str = "kube-system/muster-webhook"
    extender_lease: str = "kube-system/muster-extender"
    scheduler_lease: str = "kube-system/muster-scheduler"
    scheduler_names: tuple[str, ...] = ("muster", "volcano")
    eviction_rate: float = EVICTIONS_PER_SECOND
    eviction_burst: float = EVICTION_BURST
    daemonset_affinity: bool = True
    dry_run: bool = False


class Service:
    """Use as `await Service(settings, log).run(stop)`; `stop` is an event that ends it gracefully."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self.settings = settings
        self._log = log
        self._terms = Terms(settings.lease, log)
        self._informers: Informers | None = None
        self._loop: ReconcileLoop | None = None
        self._told: dict[tuple[str, ...], None] = {}
        registry = CollectorRegistry()
        Gauge("muster_leader", "Whether this process works", registry=registry).set_function(
            lambda: float(self._loop is not None)
        )
        # Of the process: controllers that are made anew have no burst again.
        self._rate = TokenBucket(settings.eviction_burst, settings.eviction_rate)
        self._requested: EvictionQueue | None = None
        self._propagation: PropagationPolicyController | None = None
        self._placers: PlacerLiveness | None = None
        labels = ("namespace", "rule")
        self._evictions = Counter("muster_controllers_evictions", "Pods evicted", labels, registry=registry)
        self._wrong = Counter(
            "muster_controllers_wrong_replacements", "Replacements of evicted pods that landed in the wrong node group",
            ("namespace", "scheduler"), registry=registry,
        )  # fmt: skip
        Gauge(
            "muster_controllers_evictions_waiting", "Applications that wait for the eviction rate", registry=registry
        ).set_function(lambda: float(self._requested.waiting if self._requested is not None else 0))
        Gauge(
            "muster_controllers_evictions_paused", "Applications in back-off, as their replacements failed",
            registry=registry,
        ).set_function(lambda: float(self._propagation.paused if self._propagation is not None else 0))  # fmt: skip
        alive = Gauge("muster_controllers_placer_alive", "Whether a part that places pods by policies is alive",
                      ("part",), registry=registry)  # fmt: skip
        for part in ("extender", "scheduler"):
            alive.labels(part).set_function(partial(self._placer_alive, part))
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
                recorder = Recorder(client, "muster-controllers", settings.lease.identity)
                kinds = ConfiguredKinds(client, informers, settings.configured, recorder, self._log.report)
                webhook = WebhookLiveness(client, settings.webhook_lease, self._wake, self._log.report)
                placers = self._placers = PlacerLiveness(
                    client, settings.extender_lease, settings.scheduler_lease, settings.scheduler_names, self._wake,
                    self._log.report,
                )  # fmt: skip
                await placers.check()

                async def term() -> None:
                    await self._work(client, informers, recorder, kinds, webhook)

                try:
                    await until(
                        stop, recorder.run(), webhook.run(), placers.run(), kinds.run(self._begin_anew),
                        self._terms.run(client, term),
                    )  # fmt: skip
                finally:
                    await self.probes.stop()
                    self._log(0, "stopped")

    async def _work(
        self, client: Client, informers: Informers, recorder: Recorder, kinds: ConfiguredKinds, webhook: WebhookLiveness
    ) -> None:
        """One term: the controllers, made anew whenever the configured kinds become others."""
        await informers.synced()
        while True:

            def make(store: Store) -> Sequence[Controller]:
                return self._parts(store, kinds.kinds, webhook)

            await run_controllers(client, informers, recorder, make, self._at_work)

    def _at_work(self, loop: ReconcileLoop | None) -> None:
        self._loop = loop
        if loop is None:
            self._requested = self._propagation = None

    def _wake(self) -> None:
        if self._loop is not None:
            self._loop.wake()

    async def _begin_anew(self, kinds: Kinds) -> None:
        if self._loop is not None:
            self._loop.stop()

    def _parts(self, store: Store, kinds: Kinds, webhook: WebhookLiveness) -> Sequence[Controller]:
        settings, report = self.settings, self._log.report
        if settings.dry_run:
            store = DryRunStore(store, self._would, carry_out=False)
        evictions = self._requested = EvictionQueue(store, self._note, self._rate)
        assert self._placers is not None
        only_report = "" if settings.node_labels else "nodes have no labels of their groups (--no-node-labels)"
        only_report = only_report if settings.daemonset_affinity else "--daemonset-affinity=false"
        self._propagation = PropagationPolicyController(
            store, evictions, deletion_cost=settings.seats, settle=settings.settle, placer=self._placers.missing_reason,
            failed=self._note_wrong, daemonset_affinity=only_report, custom=kinds, report=report,
        )  # fmt: skip
        return [
            NodeGroupController(store, labels=settings.node_labels, exclusive=settings.exclusive, report=report),
            self._propagation,
            OverridePolicyController(
                store, evictions, privileged=settings.privileged, rest=settings.rest, settle=settings.settle,
                webhook=lambda: webhook.alive, revert=settings.revert, custom=kinds, report=report,
            ),
        ]  # fmt: skip

    def _would(self, written: Write) -> None:
        """What would be written, once each."""
        seen = (written.verb, written.kind, written.key, written.text)
        if seen not in self._told:
            self._told[seen] = None
            self._log(0, f"would {written.verb}", kind=written.kind, object=written.key, text=written.text)

    def _note(self, pod: Pod, policy: str, rule: str) -> None:
        if self.settings.dry_run:
            return
        self._evictions.labels(pod.metadata.namespace or "default", rule).inc()
        self._log(1, "evicted", pod=key(pod), node=pod.spec.node_name, policy=policy, rule=rule)

    def _note_wrong(self, app: Object, scheduler: str) -> None:
        self._wrong.labels(app.metadata.namespace or "default", scheduler).inc()
        self._log(0, "a replacement landed in the wrong node group", application=key(app), scheduler=scheduler)

    def _placer_alive(self, part: str) -> float:
        return float(self._placers is not None and self._placers.alive(part))

    def _ready(self) -> str:
        if self._informers is None or not self._informers.is_synced:
            return not_read(self._informers)
        return ""
