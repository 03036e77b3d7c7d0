"""The running controllers: leader election around the three controllers, which work in one thread."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from prometheus_client import Counter, Gauge

from muster.groupctl.controllers.application_index import KINDS
from muster.groupctl.controllers.dry_run import DryRunStore, Write
from muster.groupctl.controllers.eviction_queue import EvictionQueue
from muster.groupctl.controllers.nodegroup import NodeGroupController
from muster.groupctl.controllers.override import OverridePolicyController
from muster.groupctl.controllers.propagation import PropagationPolicyController
from muster.groupctl.controllers.reconcile_loop import Controller, ControllerComponent
from muster.groupctl.controllers.settings import ControllerSettings
from muster.groupctl.controllers.throttle import TokenBucket
from muster.groupctl.liveness import PlacerLiveness, WebhookLiveness
from muster.model.core import Pod
from muster.model.meta import Object, key
from muster.process.logs import Log
from muster.store import Store


class ControllersService(ControllerComponent):
    """`muster controllers`."""

    name = "controllers"
    kinds = KINDS
    sends_events = True

    def __init__(self, settings: ControllerSettings, log: Log) -> None:
        super().__init__(settings, log)
        self.settings = settings
        registry = self.registry
        self._logged_writes: set[tuple[str, ...]] = set()
        # Kept by the process: new controllers do not get another burst.
        self._rate = TokenBucket(settings.eviction_burst, settings.eviction_rate)
        self._requested: EvictionQueue | None = None
        self._propagation: PropagationPolicyController | None = None
        self._webhook: WebhookLiveness | None = None
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

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[dict[str, object]]:
        settings, client, report = self.settings, self.process.client, self.log.report
        self._webhook = WebhookLiveness(client, settings.webhook_lease, self._wake, report)
        self._placers = PlacerLiveness(
            client, settings.extender_lease, settings.scheduler_lease, settings.scheduler_names, self._wake, report
        )
        await self._placers.check()
        yield {}

    def background(self) -> Iterable[Coroutine[Any, Any, None]]:
        assert self._webhook is not None and self._placers is not None
        return (self._webhook.run(), self._placers.run())

    async def lead(self) -> None:
        try:
            await super().lead()
        finally:
            self._requested = self._propagation = None  # a replica that does not lead shows no figures

    def _wake(self) -> None:
        if self._loop is not None:
            self._loop.wake()

    def _controllers(self, store: Store) -> Sequence[Controller]:
        settings, report, kinds = self.settings, self.log.report, self.process.kinds.kinds
        placers, webhook = self._placers, self._webhook
        assert placers is not None and webhook is not None
        if settings.dry_run:
            store = DryRunStore(store, self._would, carry_out=False)
        evictions = self._requested = EvictionQueue(store, self._note, self._rate)
        only_report = "" if settings.node_labels else "nodes have no labels of their groups (--no-node-labels)"
        only_report = only_report if settings.daemonset_affinity else "--daemonset-affinity=false"
        self._propagation = PropagationPolicyController(
            store, evictions, deletion_cost=settings.deletion_costs, settle=settings.settle,
            placer=placers.missing_reason, failed=self._note_wrong, daemonset_affinity=only_report, custom=kinds,
            report=report,
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
        if seen not in self._logged_writes:
            self._logged_writes.add(seen)
            self.log(0, f"would {written.verb}", kind=written.kind, object=written.key, text=written.text)

    def _note(self, pod: Pod, policy: str, rule: str) -> None:
        if self.settings.dry_run:
            return
        self._evictions.labels(pod.metadata.namespace or "default", rule).inc()
        self.log(1, "evicted", pod=key(pod), node=pod.spec.node_name, policy=policy, rule=rule)

    def _note_wrong(self, app: Object, scheduler: str) -> None:
        self._wrong.labels(app.metadata.namespace or "default", scheduler).inc()
        self.log(0, "a replacement landed in the wrong node group", application=key(app), scheduler=scheduler)

    def _placer_alive(self, part: str) -> float:
        return float(self._placers is not None and self._placers.alive(part))
