"""The running extender: an HTTP server whose threads answer from memory, while this replica leads."""

from __future__ import annotations

import asyncio
import gc
import ssl
import sys
from collections.abc import AsyncIterator, Coroutine, Iterable
from concurrent.futures import TimeoutError as Late
from contextlib import asynccontextmanager
from typing import Any

from muster.cycle.scheduler import Scheduler
from muster.groupctl.extender.cluster_index import KINDS
from muster.groupctl.extender.group_scheduling import GroupScheduling
from muster.groupctl.extender.lease_heartbeat import LeaseHeartbeat
from muster.groupctl.extender.plugin_scores import KINDS as SCORING
from muster.groupctl.extender.plugin_scores import PluginScores
from muster.groupctl.extender.refused_pods import wake
from muster.groupctl.extender.server import ExtenderServer, Scheduling
from muster.groupctl.extender.settings import ExtenderSettings
from muster.groupctl.extender.standby import StandbyScheduling
from muster.groupctl.owners import OwnerResolver
from muster.kube.store import KubeStore
from muster.kube.writes import Writes
from muster.model.extender import ExtenderArgs, FilterResult, PreemptionArgs, PreemptionResult, Score
from muster.model.meta import Object
from muster.process.application_kinds import Kinds
from muster.process.component import Component
from muster.process.leadership import LeaderElection
from muster.process.logs import Log
from muster.process.settings import LeaseSettings
from muster.store import Store, errors

OWNER_TIMEOUT_S = 2.0
# A thread that decodes a burst of changes must not keep a question waiting for long.
THREAD_SWITCH_INTERVAL_S = 0.0005


class ExtenderService(Component):
    """`muster extender` on a live cluster."""

    name = "extender"

    def __init__(
        self, settings: ExtenderSettings, log: Log, *, tls: ssl.SSLContext | None = None, trusted: bool = True,
        scheduler: Scheduler | None = None,
    ) -> None:  # fmt: skip
        """`trusted`: clients count as authenticated without a certificate. `scheduler`: its plugins are asked about
        pods without a policy.
        """
        super().__init__(settings, log)
        self.settings = settings
        self.kinds = KINDS if scheduler is None else (*KINDS, *(kind for kind in SCORING if kind not in KINDS))
        self._tls = tls
        self._trusted = trusted
        self._scheduler = scheduler
        self._active: GroupScheduling | None = None

    def election(self, settings: LeaseSettings) -> LeaderElection:
        return LeaderElection(settings, self.log, writes=False)

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[dict[str, object]]:
        settings, process = self.settings, self.process
        client, kinds = process.client, process.kinds
        sys.setswitchinterval(THREAD_SWITCH_INTERVAL_S)
        owners = OwnerResolver(process.shared_informers.objects, Writes(client).get, lambda: kinds.kinds)
        self._ask = _Asked(owners)
        self._standby: Scheduling = StandbyScheduling(
            self._ask, process.ready, lambda: owners.custom() if kinds.are_known else None,
            gate_override=settings.gate_override,
        )  # fmt: skip
        self._server = server = ExtenderServer(
            (settings.host, settings.port), _Switch(self), self._tls, settings.max_request_bytes, process.ready,
            trusted=self._trusted, probes=settings.plain_probes,
        )  # fmt: skip
        lease = settings.lease
        self._heartbeat = LeaseHeartbeat(
            client, settings.presence_lease, lease, lambda: self._active is not None, self.log.report
        )
        server.start()
        yield {"port": server.port, "probes": server.probes_port}

    def background(self) -> Iterable[Coroutine[Any, Any, None]]:
        return () if self.settings.lease.elect else (self._heartbeat.run(),)

    async def drain(self) -> None:
        """Stops answering before the lease is given back."""
        await asyncio.to_thread(self._server.stop)
        if not self.settings.lease.elect:
            await self._heartbeat.end()

    async def lead(self) -> None:
        """Answers until cancelled."""
        process = self.process
        await process.kinds.known()
        writes = Writes(process.client)
        store = KubeStore(process.shared_informers, writes, process.recorder)
        try:
            active = self._active = await asyncio.to_thread(self._made, store, process.kinds.kinds)
            gc.collect()
            gc.freeze()  # these objects stay: collecting them again and again is useless
            self.log(0, "answering", strangers=active.reserved)
            may_write = process.client.gate or (lambda: True)
            await wake(lambda: asyncio.to_thread(active.to_wake), writes, may_write, self.log)
        finally:
            self._active = None
            store.close()
            gc.unfreeze()

    def _made(self, store: Store, kinds: Kinds) -> GroupScheduling:
        settings, scheduler = self.settings, self._scheduler
        return GroupScheduling(
            store, legacy=settings.legacy, gate_override=settings.gate_override, custom=kinds, ask=self._ask,
            plugins=None if scheduler is None else PluginScores(store, scheduler),
        )  # fmt: skip

    async def kinds_changed(self, kinds: Kinds) -> None:
        active = self._active
        if active is not None:
            await asyncio.to_thread(active.use, kinds)

    def ready(self) -> str:
        if reason := self.process.standby_reason():
            return reason
        if self._active is not None:
            return ""
        return self.process.kinds.unread() or "the cluster was read and is being taken over"

    @property
    def answers(self) -> Scheduling:
        """Who answers at this moment."""
        active = self._active
        return active if active is not None and not self.process.standby_reason() else self._standby


class _Switch:
    """The server's one partner, whoever answers."""

    def __init__(self, service: ExtenderService) -> None:
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
            return asking.result(OWNER_TIMEOUT_S)
        except Late:
            asking.cancel()
            raise errors.TimedOut(f"GET {kind} {key}", f"no answer in {OWNER_TIMEOUT_S:g} s") from None
