"""The running extender: informers, election, and an HTTP server whose threads answer from what they hold."""

from __future__ import annotations

import asyncio
import gc
import ssl
import sys
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass

from muster.cycle.scheduler import Scheduler
from muster.groupctl.extender.before import BeforeSync
from muster.groupctl.extender.deciding import GroupScheduling
from muster.groupctl.extender.http import LARGEST_WHOLE, Answers, ExtenderServer
from muster.groupctl.extender.presence import Presence
from muster.groupctl.extender.scoring import KINDS as SCORING
from muster.groupctl.extender.scoring import PluginScores
from muster.groupctl.extender.view import KINDS
from muster.groupctl.extender.waiting import wake
from muster.groupctl.owners import FetchOwner, OwnerResolver
from muster.kube import config as access
from muster.kube.client import Client
from muster.kube.events import Recorder
from muster.kube.informers import Informers
from muster.kube.store import KubeStore
from muster.kube.writes import Writes
from muster.model.extender import ExtenderArgs, FilterResult, PreemptionArgs, PreemptionResult, Score
from muster.model.meta import Object
from muster.process.application_kinds import ConfiguredKinds, Kinds
from muster.process.leadership import LeaseSettings, Terms, until
from muster.process.logs import Log
from muster.process.permissions import Permissions
from muster.process.probes import not_read
from muster.store import Store, errors

PATIENCE = 2.0  # seconds for an owner that is asked for
# A thread that decodes a burst of changes must not keep a question waiting for long.
_SWITCH = 0.0005


@dataclass(frozen=True, slots=True)
class Settings:
    lease: LeaseSettings
    configured: str  # the ConfigMap that names further kinds, namespace/name
    kubeconfig: str | None = None
    context: str | None = None
    host: str = "127.0.0.1"
    port: int = 8888
    context_tls: ssl.SSLContext | None = None
    trusted: bool = True  # clients need no certificate to count as authenticated: only on loopback
    probes: tuple[str, int] | None = None  # where GET is answered over plain HTTP; None: only at host and port
    largest_whole: int = LARGEST_WHOLE
    legacy: bool = False
    gate_override: bool = False
    presence: str = ""  # without an election: the Lease that says that an extender is alive, namespace/name
    scheduler: Scheduler | None = None  # whose plugins are asked about pods without a policy


class Service:
    """Use as `await Service(settings, log).run(stop)`; `stop` is an event that ends it gracefully."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self.settings = settings
        self._log = log
        self._terms = Terms(settings.lease, log, writes=False)
        self._informers: Informers | None = None
        self._active: GroupScheduling | None = None
        self._before: Answers | None = None
        self._kinds: ConfiguredKinds | None = None

    async def run(self, stop: asyncio.Event) -> None:
        settings = self.settings
        sys.setswitchinterval(_SWITCH)
        async with Client(access.load(settings.kubeconfig, settings.context)) as client:
            client.access.on_refusal = Permissions(self._log).refused
            followed = KINDS if settings.scheduler is None else (*KINDS, *(k for k in SCORING if k not in KINDS))
            async with Informers(client, followed, self._log.report) as informers:
                self._informers = informers
                # It only reads: what is to be said about the configuration the controllers say.
                recorder = Recorder(client, "muster-extender", settings.lease.identity)
                kinds = self._kinds = ConfiguredKinds(
                    client, informers, settings.configured, recorder, self._log.report
                )
                owners = OwnerResolver(informers.objects, Writes(client).get, lambda: kinds.kinds)
                ask = _Asked(owners)
                self._before = BeforeSync(
                    ask, self.ready, lambda: owners.custom() if kinds.are_known else None,
                    gate_override=settings.gate_override,
                )  # fmt: skip
                at = (settings.host, settings.port)
                server = ExtenderServer(
                    at, _Switch(self), settings.context_tls, settings.largest_whole, self.ready,
                    trusted=settings.trusted, probes=settings.probes,
                )  # fmt: skip
                server.start()
                identity = settings.lease.identity
                self._log(0, "started", identity=identity, port=server.port, probes=server.probes_port)

                async def term() -> None:
                    await self._serve(client, informers, recorder, ask, kinds)

                own, active = settings.lease, lambda: self._active is not None
                presence = Presence(client, settings.presence or own.key, own, active, self._log.report)
                alone = () if own.elect else (presence.run(),)

                async def leave() -> None:
                    # First nobody is answered any more, then the lease is given back.
                    await asyncio.to_thread(server.stop)
                    if not own.elect:
                        await presence.end()

                try:
                    await until(stop, kinds.run(self._use), self._terms.run(client, term), *alone, leave=leave)
                finally:
                    self._log(0, "stopped")

    async def _serve(
        self, client: Client, informers: Informers, recorder: Recorder, ask: FetchOwner, kinds: ConfiguredKinds
    ) -> None:
        """One term: answer until cancelled."""
        await informers.synced()
        await kinds.known()
        writes = Writes(client)
        store = KubeStore(informers, writes, recorder)
        try:
            active = self._active = await asyncio.to_thread(self._made, store, kinds.kinds, ask)
            gc.collect()
            gc.freeze()  # what is there now stays: looking at it again and again is in vain
            self._log(0, "answering", strangers=active.reserved)
            may_write = client.gate or (lambda: True)
            await wake(lambda: asyncio.to_thread(active.to_wake), writes, may_write, self._log)
        finally:
            self._active = None
            store.close()
            gc.unfreeze()

    def _made(self, store: Store, kinds: Kinds, ask: FetchOwner) -> GroupScheduling:
        scheduler = self.settings.scheduler
        plugins = None if scheduler is None else PluginScores(store, scheduler)
        settings = self.settings
        return GroupScheduling(
            store, legacy=settings.legacy, gate_override=settings.gate_override, custom=kinds, ask=ask, plugins=plugins
        )

    async def _use(self, kinds: Kinds) -> None:
        active = self._active
        if active is not None:
            await asyncio.to_thread(active.use, kinds)

    def ready(self) -> str:
        if self._informers is None or not self._informers.is_synced:
            return not_read(self._informers)
        if not self._terms.leading():
            return f"another replica holds the Lease {self.settings.lease.key}"
        if self._active is not None:
            return ""
        unread = self._kinds.unread() if self._kinds is not None else ""
        return unread or "the cluster was read and is being taken over"

    @property
    def answers(self) -> Answers:
        """Who answers at this moment."""
        active = self._active
        if active is not None and self._terms.leading():
            return active
        assert self._before is not None
        return self._before


class _Switch:
    """The server's one partner, whoever answers."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @property
    def reserved(self) -> int:
        return self._service.answers.reserved

    @property
    def waits(self) -> int:
        return self._service.answers.waits

    def filter(self, args: ExtenderArgs) -> FilterResult:
        return self._service.answers.filter(args)

    def prioritize(self, args: ExtenderArgs) -> list[Score]:
        return self._service.answers.prioritize(args)

    def preempt(self, args: PreemptionArgs) -> PreemptionResult:
        return self._service.answers.preempt(args)


class _Asked:
    """Owners from the API server itself, asked for in a thread of the HTTP server."""

    def __init__(self, owners: OwnerResolver) -> None:
        self._loop = asyncio.get_running_loop()
        self._owners = owners

    def __call__(self, kind: str, key: str, uid: str) -> Object | None:
        asking = asyncio.run_coroutine_threadsafe(self._owners.fetch(kind, key, uid), self._loop)
        try:
            return asking.result(PATIENCE)
        except Late:
            asking.cancel()
            raise errors.TimedOut(f"GET {kind} {key}", f"no answer in {PATIENCE:g} s") from None
