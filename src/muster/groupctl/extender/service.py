"""Runs the extender: an HTTP server whose threads answer from memory while this replica leads.

Before its informers have synced, and while another replica leads, the extender cannot decide about pods with a policy.
Most pods have no policy and must not wait. StandbyScheduling asks the API server for the owners of a pod to find out.
If that fails, or the pod has a policy, the response is an error, and kube-scheduler retries the pod.
"""

from __future__ import annotations

import asyncio
import gc
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Mapping
from concurrent.futures import TimeoutError as Late
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec import Raw

from muster.cycle.scheduler import Scheduler
from muster.groupctl.extender.cluster_index import KINDS
from muster.groupctl.extender.group_scheduling import GroupScheduling
from muster.groupctl.extender.plugin_scores import KINDS as SCORING
from muster.groupctl.extender.plugin_scores import PluginScores
from muster.groupctl.extender.reservations import wake
from muster.groupctl.extender.server import ExtenderServer, Scheduling
from muster.groupctl.extender.settings import ExtenderSettings
from muster.groupctl.liveness import LeaseHeartbeat
from muster.groupctl.owners import FetchOwner, OwnerResolver, owner_lookup
from muster.groups.applications import (
    BindingState,
    OwnerLoop,
    PolicyLabels,
    application_of,
    binding_state,
    hold_reason,
    unbound_reason,
)
from muster.kube.store import KubeStore
from muster.kube.writes import Writes
from muster.model.core import Pod
from muster.model.extender import ExtenderArgs, FilterResult, KnownNames, PreemptionArgs, PreemptionResult, Score
from muster.model.meta import Object, controller, key
from muster.process.application_kinds import Kinds
from muster.process.component import Component
from muster.process.leadership import LeaderElection
from muster.process.logs import Log
from muster.process.settings import LeaseSettings
from muster.store import ApiError, Store, errors

OWNER_TIMEOUT_S = 2.0
# A thread that decodes a burst of changes must not delay a request for long.
THREAD_SWITCH_INTERVAL_S = 0.0005


class ExtenderService(Component):
    """The component `muster extender` on a live cluster."""

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
        self._fetch_owner = _OwnerFetcher(owners)
        self._standby: Scheduling = StandbyScheduling(
            self._fetch_owner, process.ready, lambda: owners.custom() if kinds.are_known else None,
            gate_override=settings.gate_override,
        )  # fmt: skip
        self._server = server = ExtenderServer(
            (settings.host, settings.port), _CurrentScheduling(self), self._tls, settings.max_request_bytes,
            process.ready, trusted=self._trusted, probes=settings.plain_probes, registry=self.registry,
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
        """Stops answering before the lease is released."""
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
            active = self._active = await asyncio.to_thread(self._build, store, process.kinds.kinds)
            gc.collect()
            gc.freeze()  # these objects stay: collecting them again and again is useless
            self.log(0, "answering", strangers=active.reserved)
            may_write = process.client.gate or (lambda: True)
            await wake(lambda: asyncio.to_thread(active.to_wake), writes, may_write, self.log)
        finally:
            self._active = None
            store.close()
            gc.unfreeze()

    def _build(self, store: Store, kinds: Kinds) -> GroupScheduling:
        settings, scheduler = self.settings, self._scheduler
        return GroupScheduling(
            store, legacy=settings.legacy, gate_override=settings.gate_override, custom=kinds,
            fetch_owner=self._fetch_owner, plugins=None if scheduler is None else PluginScores(store, scheduler),
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
        """The part that answers at the moment."""
        active = self._active
        return active if active is not None and not self.process.standby_reason() else self._standby


class _CurrentScheduling:
    """Passes each request to the part that answers at the moment."""

    def __init__(self, service: ExtenderService) -> None:
        self._service = service

    @property
    def reserved(self) -> int:
        return self._service.answers.reserved

    @property
    def waits(self) -> int:
        return self._service.answers.waits

    @property
    def known_names(self) -> KnownNames | None:
        return self._service.answers.known_names

    def filter(self, args: ExtenderArgs) -> FilterResult:
        return self._service.answers.filter(args)

    def prioritize(self, args: ExtenderArgs) -> list[Score]:
        return self._service.answers.prioritize(args)

    def preempt(self, args: PreemptionArgs) -> PreemptionResult:
        return self._service.answers.preempt(args)


class _OwnerFetcher:
    """Fetches owners from the API server, for a thread of the HTTP server."""

    def __init__(self, owners: OwnerResolver) -> None:
        self._loop = asyncio.get_running_loop()
        self._owners = owners

    def __call__(self, kind: str, key: str, uid: str) -> Object | None:
        future = asyncio.run_coroutine_threadsafe(self._owners.fetch(kind, key, uid), self._loop)
        try:
            return future.result(OWNER_TIMEOUT_S)
        except Late:
            future.cancel()
            raise errors.TimedOut(f"GET {kind} {key}", f"no answer in {OWNER_TIMEOUT_S:g} s") from None


class StandbyScheduling:
    """Answers for pods without a policy. `fetch_owner` fetches owners, `why` returns what the extender waits for, and
    `custom` the names of the configured kinds (None if they are not known yet)."""

    reserved = waits = 0
    known_names = None

    def __init__(
        self,
        fetch_owner: FetchOwner,
        why: Callable[[], str],
        custom: Callable[[], Collection[str] | None],
        *,
        gate_override: bool = False,
    ) -> None:
        self._fetch_owner = fetch_owner
        self._why = why
        self._custom = custom
        self._refused = hold_reason if gate_override else _propagation

    def filter(self, args: ExtenderArgs) -> FilterResult:
        try:
            labels = self._labels(args.pod)
        except (OwnerLoop, ApiError) as fault:
            return FilterResult(error=str(fault))
        refused = self._refused(labels)
        if refused is not None:
            text = Raw(msgspec.json.encode(refused))
            result = FilterResult(failed_and_unresolvable_nodes=dict.fromkeys(args.names, text))
            kept: list[Raw] = []
        elif binding_state(labels, PolicyLabels.PROPAGATION) == BindingState.BOUND:
            return FilterResult(error=self._why())
        else:
            result, kept = FilterResult(), args.nodes or []
        if args.nodes is None:
            result.node_names = [] if refused is not None else args.names
        else:
            result.nodes = {"metadata": {}, "items": kept}
        return result

    def prioritize(self, args: ExtenderArgs) -> list[Score]:
        return [Score(name, 0) for name in args.names]

    def preempt(self, args: PreemptionArgs) -> PreemptionResult:
        try:
            labels = self._labels(args.pod)
            bound = binding_state(labels, PolicyLabels.PROPAGATION) == BindingState.BOUND
            free = not bound and self._refused(labels) is None
        except (OwnerLoop, ApiError):
            free = False
        return PreemptionResult({n: v for n, v in args.victims.items() if free and v.pods})

    def _labels(self, pod: Pod) -> dict[str, str]:
        """Returns the labels of the pod's application, which bind it to policies."""
        direct = controller(pod.metadata)
        if direct is None:
            return pod.metadata.labels
        custom = self._custom()
        top = application_of(pod, owner_lookup(pod, {}, self._fetch_owner), custom or ()).object
        if custom is None and controller(top.metadata) is not None:
            raise ApiError(self._why(), f"the owner of {type(top).__name__} {key(top)} may be an application")
        return top.metadata.labels


def _propagation(labels: Mapping[str, str]) -> str | None:
    return unbound_reason(labels, PolicyLabels.PROPAGATION)
