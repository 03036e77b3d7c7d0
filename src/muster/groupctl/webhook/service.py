"""The running webhook: informers, HTTPS with certificates of its own, election, registration, probes.

Places in groups are kept in memory, so of several replicas one is active, by a Lease, and only that one is ready: a
Service sends questions there. One that is asked although it is not gates the pods that need a place, and the active
one lets them go.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from muster.cycle.scheduler import Scheduler
from muster.groupctl.controllers.throttle import REPLACEMENT_READY_S
from muster.groupctl.grouping_cache import GroupingCache
from muster.groupctl.owners import OwnerResolver
from muster.groupctl.webhook.answering import LARGEST_BODY, Answering, Ask
from muster.groupctl.webhook.metrics import Metrics
from muster.groupctl.webhook.mutation import Mutation
from muster.groupctl.webhook.readmission import Readmission
from muster.groupctl.webhook.registered import Registered
from muster.groupctl.webhook.registration import NAME, Endpoint
from muster.groupctl.webhook.seats import Seats
from muster.groupctl.webhook.ungating import Ungating
from muster.groupctl.webhook.validator import Validator
from muster.groupctl.webhook.wire import AdmissionRequest, Verdict
from muster.kube import config as access
from muster.kube.client import Client
from muster.kube.events import Recorder
from muster.kube.informer import Delta
from muster.kube.informers import Informers
from muster.kube.writes import Writes
from muster.model.batch import APPLICATION_KINDS
from muster.model.core import Node, Pod
from muster.model.groups import NodeGroup, OverridePolicy, PropagationPolicy
from muster.model.meta import Object
from muster.model.scheduling import Queue
from muster.process.application_kinds import ConfiguredKinds, Kinds
from muster.process.certificates import LIFETIME
from muster.process.leadership import LeaseSettings, Terms, until
from muster.process.listener.serving import Listener
from muster.process.logs import Log
from muster.process.permissions import Permissions
from muster.process.probes import Probes, not_read

KINDS: tuple[type[Object], ...] = (
    Node, Pod, NodeGroup, PropagationPolicy, OverridePolicy, Queue, *APPLICATION_KINDS,
)  # fmt: skip
LOOK_EVERY = 30.0  # seconds: are the configurations still as they should be, is a certificate old?
SEEN = 2.0  # seconds for the last pods answered to be seen, before another replica takes over
HEARD = 1.0  # seconds to hear of the last pods that another replica answered


@dataclass(frozen=True, slots=True)
class Settings:
    """`names`: what the serving certificate is for, beside the endpoint's own."""

    endpoint: Endpoint
    lease: LeaseSettings
    configured: str  # the ConfigMap that names further kinds, namespace/name
    scheduler: Scheduler  # whose plugins judge queues and PodGroups
    kubeconfig: str | None = None
    context: str | None = None
    host: str = "127.0.0.1"
    port: int = 9443
    probes_host: str = "127.0.0.1"
    probes_port: int = 8080
    names: tuple[str, ...] = ()
    registration: str = NAME
    client_authority: str = ""  # a file: only clients with a certificate of this authority are answered
    privileged: bool = False
    ungate: bool = True
    readmit_after: float = REPLACEMENT_READY_S
    lifetime: float = field(default=LIFETIME.total_seconds())
    look_every: float = LOOK_EVERY


class Service:
    """Use as `await Service(settings, log).run(stop)`; `stop` is an event that ends it gracefully."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.port = 0
        self._log = log
        self._informers: Informers | None = None
        self._terms = Terms(settings.lease, log, writes=False)
        self._active = False
        self._registered = Registered(
            settings.endpoint, settings.names, settings.registration, settings.lifetime, self.metrics, log,
            settings.client_authority,
        )  # fmt: skip
        self.probes = Probes(self.metrics.registry, self._ready)

    async def run(self, stop: asyncio.Event) -> None:
        settings = self.settings
        loaded = access.load(settings.kubeconfig, settings.context)
        loaded.on_refusal = Permissions(self._log, self.metrics.registry).refused
        # The second one writes only while this replica is the active one.
        async with Client(loaded) as client, Client(loaded) as active:
            await self.probes.start(settings.probes_host, settings.probes_port)
            async with Informers(client, KINDS, self._log.report) as informers, self._serving(active, informers):
                identity = settings.lease.identity
                self._log(0, "started", identity=identity, probes=self.probes.port, port=self.port, server=loaded.host)
                try:
                    await until(
                        stop, self._kinds.run(self._use), self._stay_registered(client, informers),
                        self._terms.run(active, self._work), leave=self._leave,
                    )  # fmt: skip
                finally:
                    await self.probes.stop()
                    self._log(0, "stopped")

    @asynccontextmanager
    async def _serving(self, active: Client, informers: Informers) -> AsyncIterator[None]:
        settings, report = self.settings, self._log.report
        self._informers = informers
        # It only reads: what is to be said about the configuration the controllers say.
        recorder = Recorder(active, "muster-webhook", settings.lease.identity)
        self._kinds = ConfiguredKinds(active, informers, settings.configured, recorder, report)
        owners = OwnerResolver(informers.objects, Writes(active).get, lambda: self._kinds.kinds)
        grouped = GroupingCache(informers.objects)
        seats = Seats(time.monotonic, authenticated=bool(settings.client_authority))
        mutation = Mutation(
            owners, grouped, seats, self._may_choose, privileged=settings.privileged, ungates=settings.ungate
        )
        validator = Validator(informers.objects, settings.scheduler, kinds=lambda: self._kinds.kinds)
        self._seats = seats
        self._ungating = Ungating(active, owners, mutation, report)
        self._readmission = Readmission(Writes(active), owners, seats, self._log, self.metrics, settings.readmit_after)
        self.metrics.reserved.set_function(lambda: seats.reserved)
        self.metrics.gated.set_function(lambda: len(self._ungating.waiting))
        self.metrics.active.set_function(lambda: float(self._is_active()))

        def notice(delta: Delta) -> None:
            if grouped.observe(delta.kind, delta.old, delta.new) and delta.kind != "Node":
                self._readmission.forgive()
            if delta.kind == "Pod":
                seats.notice(delta)
                self._readmission.notice(delta)
            self._ungating.notice(delta)

        informers.subscribe(notice)

        async def validate(request: AdmissionRequest) -> Verdict:
            return validator.review(request)

        asks: dict[str, Ask] = {"mutate": mutation.answer, "validate": validate}
        loop = asyncio.get_running_loop()
        handler = Answering(asks, lambda: informers.is_synced, self.metrics, self._log, loop)
        at = (settings.host, settings.port)
        listener = Listener(at, handler, lambda path, authenticated: LARGEST_BODY, tls=self._registered.tls)
        self.metrics.connections.set_function(lambda: len(listener.load))
        self.metrics.closed.set_function(lambda: listener.load.closed)
        self.metrics.body_bytes.set_function(lambda: listener.load.held)
        self.port = listener.port
        listener.start()
        try:
            yield
        finally:
            await asyncio.to_thread(listener.stop)

    # --- one of several

    async def _work(self) -> None:
        """One term: give pods their groups, let those go that waited, and see to those without a place."""
        assert self._informers is not None
        await self._informers.synced()
        await self._kinds.known()
        if self.settings.lease.elect:
            await asyncio.sleep(HEARD)
        self._active = True
        self._log(0, "active")
        tasks = [asyncio.create_task(self._readmission.run())]
        if self.settings.ungate:
            tasks.append(asyncio.create_task(self._ungating.run()))
        try:
            for task in asyncio.as_completed(tasks):
                await task  # neither ends by itself
        finally:
            self._active = False
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _is_active(self) -> bool:
        return self._active and self._terms.leading()

    def _may_choose(self) -> bool | None:
        """None: not this replica, and nobody would let a pod go that is made to wait for the other one."""
        return True if self._is_active() else False if self.settings.ungate else None

    async def _leave(self) -> None:
        """Whoever comes next must see what was answered here."""
        self._active = False
        with suppress(TimeoutError):
            async with asyncio.timeout(SEEN):
                while self._seats.reserved:
                    await asyncio.sleep(0.05)

    async def _use(self, kinds: Kinds) -> None:
        """Applications may be of other kinds now: pods that wait for one may be let go."""
        self._ungating.look()

    async def _stay_registered(self, client: Client, informers: Informers) -> None:
        """Only once there is something to answer from."""
        await informers.synced()
        await self._registered.run(client, self.settings.look_every)

    def _ready(self) -> str:
        if self._informers is None or not self._informers.is_synced:
            return not_read(self._informers)
        if not self._registered.is_known:
            return "the webhook is not registered yet"
        if not self._terms.leading():
            return f"another replica holds the Lease {self.settings.lease.key}"
        return "" if self._active else self._kinds.unread() or "waits for the last pods of the replica before it"
