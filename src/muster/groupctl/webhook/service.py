"""Runs the webhook: HTTPS with its own certificates, registration, and the work of the active replica.

Places in groups are kept in memory, so of several replicas one is active, by a Lease, and only that one is ready: a
Service sends questions there. One that is asked although it is not gates the pods that need a place, and the active one
lets them go.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

from muster.cycle.scheduler import Scheduler
from muster.groupctl.grouping_cache import GroupingCache
from muster.groupctl.owners import OwnerResolver
from muster.groupctl.webhook.gate_removal import GateRemover
from muster.groupctl.webhook.group_slots import GroupSlots
from muster.groupctl.webhook.metrics import Metrics
from muster.groupctl.webhook.mutator import Mutator
from muster.groupctl.webhook.reassignment import Reassigner
from muster.groupctl.webhook.registration import Endpoint, WebhookRegistration
from muster.groupctl.webhook.review import MAX_BODY_BYTES, AdmissionRequest, AdmissionResponse, Reviewer, ReviewHandler
from muster.groupctl.webhook.settings import WebhookSettings
from muster.groupctl.webhook.validator import Validator
from muster.kube.informer import Delta
from muster.kube.writes import Writes
from muster.model.batch import APPLICATION_KINDS
from muster.model.core import Node, Pod
from muster.model.groups import NodeGroup, OverridePolicy, PropagationPolicy
from muster.model.meta import Object
from muster.model.scheduling import Queue
from muster.process.application_kinds import Kinds
from muster.process.component import Component
from muster.process.leadership import LeaderElection
from muster.process.listener.http_listener import Listener
from muster.process.logs import Log
from muster.process.settings import LeaseSettings

KINDS: tuple[type[Object], ...] = (
    Node, Pod, NodeGroup, PropagationPolicy, OverridePolicy, Queue, *APPLICATION_KINDS,
)  # fmt: skip
DRAIN_TIMEOUT_S = 2.0  # for the informers to see the last pods answered, before another replica takes over
CATCH_UP_S = 1.0  # for the informers to see the last pods that another replica answered


class WebhookService(Component):
    """The component `muster webhook`."""

    name = "webhook"
    kinds = KINDS

    def __init__(self, settings: WebhookSettings, scheduler: Scheduler, log: Log) -> None:
        """`scheduler`: its plugins validate queues and PodGroups. Raises OSError if the client CA cannot be used."""
        self.metrics = Metrics()
        super().__init__(settings, log, self.metrics.registry)
        self.settings = settings
        self._scheduler = scheduler
        self._active = False
        endpoint = Endpoint(service=settings.service, port=settings.service_port)
        self._registration = WebhookRegistration(
            endpoint if settings.url is None else Endpoint(url=settings.url), settings.names, settings.registration,
            settings.certificate_lifetime, self.metrics, log, settings.client_ca_file,
        )  # fmt: skip

    def election(self, settings: LeaseSettings) -> LeaderElection:
        return LeaderElection(settings, self.log, writes=False)

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[dict[str, object]]:
        settings, report, process = self.settings, self.log.report, self.process
        informers, kinds, writes = process.shared_informers, process.kinds, Writes(process.client)
        owners = OwnerResolver(informers.objects, writes.get, lambda: kinds.kinds)
        grouped = GroupingCache(informers.objects)
        slots = GroupSlots(time.monotonic, authenticated=bool(settings.client_ca_file))
        mutator = Mutator(
            owners, grouped, slots, self._may_choose, privileged=settings.privileged, ungates=settings.ungate
        )
        validator = Validator(informers.objects, self._scheduler, kinds=lambda: kinds.kinds)
        self._slots = slots
        self._gate_remover = GateRemover(process.client, owners, mutator, report)
        self._reassigner = Reassigner(writes, owners, slots, self.log, self.metrics, settings.readmit_after)
        self.metrics.reserved.set_function(lambda: slots.reserved)
        self.metrics.gated.set_function(lambda: len(self._gate_remover.waiting))
        self.metrics.active.set_function(lambda: float(self._is_active()))

        def observe(delta: Delta) -> None:
            if grouped.observe(delta.kind, delta.old, delta.new) and delta.kind != "Node":
                self._reassigner.reset_pauses()
            if delta.kind == "Pod":
                slots.observe(delta)
                self._reassigner.observe(delta)
            self._gate_remover.observe(delta)

        informers.subscribe(observe)

        async def validate(request: AdmissionRequest) -> AdmissionResponse:
            return validator.review(request)

        reviewers: dict[str, Reviewer] = {"mutate": mutator.review, "validate": validate}
        loop = asyncio.get_running_loop()
        handler = ReviewHandler(reviewers, lambda: informers.is_synced, self.metrics, self.log, loop)
        at = (settings.host, settings.port)
        listener = Listener(at, handler, lambda path, authenticated: MAX_BODY_BYTES, tls=self._registration.tls)
        self.metrics.connections.set_function(lambda: len(listener.load))
        self.metrics.closed.set_function(lambda: listener.load.closed)
        self.metrics.body_bytes.set_function(lambda: listener.load.body_bytes)
        listener.start()
        try:
            yield {"port": listener.port}
        finally:
            await asyncio.to_thread(listener.stop)

    def background(self) -> Iterable[Coroutine[Any, Any, None]]:
        return (self._stay_registered(),)

    # --- leadership

    async def lead(self) -> None:
        """Assigns pods to groups, ungates waiting pods, and evicts those that find no capacity in their group."""
        await self.process.kinds.known()
        if self.settings.lease.elect:
            await asyncio.sleep(CATCH_UP_S)
        self._active = True
        self.log(0, "active")
        tasks = [asyncio.create_task(self._reassigner.run())]
        if self.settings.ungate:
            tasks.append(asyncio.create_task(self._gate_remover.run()))
        try:
            for task in asyncio.as_completed(tasks):
                await task  # neither ends by itself
        finally:
            self._active = False
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _is_active(self) -> bool:
        return self._active and not self.process.standby_reason()

    def _may_choose(self) -> bool | None:
        """Returns None in a replica that does not lead: no replica would remove the gate of a pod that waits for
        another.
        """
        return True if self._is_active() else False if self.settings.ungate else None

    async def drain(self) -> None:
        """Waits until the next leader can see what was answered here."""
        self._active = False
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_TIMEOUT_S):
                while self._slots.reserved:
                    await asyncio.sleep(0.05)

    async def kinds_changed(self, kinds: Kinds) -> None:
        """Checks the gated pods again, because their application may be of one of the new kinds."""
        self._gate_remover.check_again()

    async def _stay_registered(self) -> None:
        """Keeps the webhook registered once the informers have synced."""
        await self.process.shared_informers.synced()
        await self._registration.run(self.process.ungated, self.settings.check_period)

    def ready(self) -> str:
        if not self._registration.is_known:
            return "the webhook is not registered yet"
        if reason := self.process.standby_reason():
            return reason
        return "" if self._active else self.process.kinds.unread() or "waits for the last pods of the replica before it"
