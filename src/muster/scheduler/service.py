"""The running scheduler: access, election, informers, probes, and one term of leading after another.

A process that is elected reads the whole cluster, and only then decides. If the lease ran out under a dead leader, the
process uses the caches that it kept while standing by, and has the dead leader's bindings refused (fence.py). When it
loses the lease everything of its term is dropped; the calls' gate is closed by then.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial

from muster.config.announced import BUILT_IN, PREFIX, lease_annotations
from muster.engine.core.podgroups import OWNING
from muster.kube import config as access
from muster.kube.client import Client, Limits
from muster.kube.events import Recorder
from muster.kube.informer import Standing
from muster.kube.informers import Informers
from muster.kube.resources import resource_of
from muster.kube.writes import Writes
from muster.model import batch, core, groups, scheduling, storage, topology
from muster.model.custom import custom_kinds
from muster.model.meta import Object
from muster.process.application_kinds import Changed, ConfiguredKinds, Kinds
from muster.process.config_sources import ConfigFile, ConfigMapKey, ConfigSource
from muster.process.config_watcher import ConfigWatcher
from muster.process.leadership import LeaseSettings, Terms, until
from muster.process.logs import Log
from muster.process.own_pod import OwnPod
from muster.process.permissions import Permissions
from muster.process.probes import Probes, not_read
from muster.scheduler.binder import Binder
from muster.scheduler.cache import Cache
from muster.scheduler.cluster_metrics import CycleStatistics
from muster.scheduler.configuration import LoadedConfig, load_config, read_config
from muster.scheduler.decider import Decider
from muster.scheduler.fence import Fence
from muster.scheduler.findings import REPEAT_S, ConfigurationFindings
from muster.scheduler.inbox import Observed
from muster.scheduler.loop import Loop
from muster.scheduler.metrics import Metrics
from muster.scheduler.standby import Ready, Standby
from muster.scheduler.status_writer import StatusWriter
from muster.store.errors import Permission

# What decisions are made from. ConfigMaps and workloads are not among it.
KINDS: tuple[type[Object], ...] = (
    core.Node, core.Pod, core.Namespace, core.PriorityClass, core.PodDisruptionBudget,
    storage.PersistentVolume, storage.PersistentVolumeClaim, storage.StorageClass, storage.CSINode, storage.CSIDriver,
    storage.CSIStorageCapacity, scheduling.Queue, scheduling.PodGroup, topology.Topology, topology.HyperNode,
    groups.NodeGroup, groups.PropagationPolicy, *OWNING,
)  # fmt: skip
# Whose pods, too, the policies of node group management are about; followed if its plugin is configured.
OWNERS: tuple[type[Object], ...] = tuple(kind for kind in batch.APPLICATION_KINDS if kind not in OWNING)


@dataclass(frozen=True, slots=True)
class Settings:
    lease: LeaseSettings
    kubeconfig: str | None = None
    context: str | None = None
    config: str | None = None
    config_map: str = ""  # NAMESPACE/NAME or NAMESPACE/NAME/KEY, in place of a file
    pod: str = ""  # our own, as NAMESPACE/NAME
    scheduler_names: tuple[str, ...] = ("muster",)
    metrics_host: str = "127.0.0.1"
    metrics_port: int = 8080
    period: float = 10.0
    at_once: int = 64
    claim_patience: float = 600.0
    needs: tuple[Permission, ...] = ()  # the permissions to ask for at the start
    applications: str = ""  # the ConfigMap that names further kinds of applications, namespace/name; empty: none


class Service:
    """Use as `await Service(settings, log).run(stop)`; `stop` is an event that ends it gracefully."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.log = log
        self._loaded: LoadedConfig = read_config(settings.config)
        self._findings = ConfigurationFindings(self.metrics, log)
        self._informers: Informers | None = None
        self._loop: Loop | None = None
        self._decider: Decider | None = None
        self._reloaded = asyncio.Event()
        self._changing: asyncio.Future[None] | None = None  # kept, or it may be collected before it has run
        self._fences = 0
        on_fault = self.metrics.faults.inc
        self._standby = Standby(self._prepared, log, on_fault)
        standing_by = self._standby.while_another_leads
        self._terms = Terms(settings.lease, log, settle=False, standing_by=standing_by, on_fault=on_fault)
        self.metrics.leading.set_function(lambda: float(self._terms.leading()))
        self.probes = Probes(self.metrics.registry, self._ready, self._healthy)
        self._permissions = Permissions(log, self.metrics.registry)

    async def run(self, stop: asyncio.Event) -> None:
        settings = self.settings
        limits = Limits(writes_at_once=settings.at_once)
        async with Client(access.load(settings.kubeconfig, settings.context), limits=limits) as client:
            self.metrics.answers = client.answers
            client.access.on_refusal = self._permissions.refused
            await self.probes.start(settings.metrics_host, settings.metrics_port)
            self.log(0, "started", identity=settings.lease.identity, probes=self.probes.port, server=client.access.host)
            try:
                # A client without a gate: every replica says what it lacks.
                async with Client(client.access) as calm:
                    reviews = self._permissions.run(calm, settings.needs, OwnPod(calm, settings.pod))
                    await until(stop, self._configured(client), reviews)
            finally:
                await self.probes.stop()
                self.log(0, "stopped")

    async def _configured(self, client: Client) -> None:
        """Lead, and follow the configuration meanwhile."""
        settings = self.settings
        # With slots of their own and without a gate: every replica tells what became of its configuration.
        async with Client(client.access) as calm:
            source: ConfigSource
            if settings.config_map:
                source = ConfigMapKey(calm, settings.config_map, self.log.report)
            elif settings.config is not None:
                source = ConfigFile(settings.config)
            else:
                self._announce()
                await self._lead(client)
                return
            recorder = Recorder(calm, "muster", settings.lease.identity)
            watcher = ConfigWatcher(
                source, load_config, OwnPod(calm, settings.pod), recorder, self.metrics.configuration, self.log
            )
            try:
                if settings.config_map:
                    self._loaded = await watcher.first()
                self._announce()
                async with asyncio.TaskGroup() as group:
                    group.create_task(recorder.run())
                    group.create_task(watcher.run(self._loaded, self._use))
                    group.create_task(self._lead(client))
                    group.create_task(self._repeat_findings())
            finally:
                await recorder.close(2.0)

    def _announce(self) -> None:
        """What is found in the configuration goes to the log and the metrics, its name and hash to the Lease."""
        settings, loaded = self.settings, self._loaded
        source = f"{PREFIX}{settings.config_map}" if settings.config_map else settings.config or BUILT_IN
        settings.lease.annotations.update(lease_annotations(source, loaded.hash, settings.scheduler_names))
        self.log(0, "configuration in use", source=source, version=loaded.version, hash=loaded.hash)
        self._findings.of(loaded)

    async def _repeat_findings(self) -> None:
        while True:
            await asyncio.sleep(REPEAT_S)
            self._findings.of(self._loaded)

    # --- terms

    async def _lead(self, client: Client) -> None:
        try:
            await self._terms.run(client, lambda: self._term(client))
        finally:
            await self._standby.end()

    @contextlib.asynccontextmanager
    async def _prepared(self, client: Client) -> AsyncIterator[Ready]:
        """A scheduler made anew, with the whole cluster in it."""
        settings, metrics = self.settings, self.metrics
        followed = _owners(self._loaded)
        informers = self._informers = Informers(client, (*KINDS, *followed), self.log.report)
        async with informers:
            tasks: list[asyncio.Task[None]] = []
            try:
                await informers.synced()
                cache = Cache(settings.scheduler_names)
                decider = Decider(cache, self._loaded, settings.lease.identity, settings.period, metrics, self.log)
                loop = Loop(decider, metrics)
                if settings.applications:
                    recorder = Recorder(client, "muster", settings.lease.identity)
                    kinds = ConfiguredKinds(client, informers, settings.applications, recorder, self.log.report)
                    following = self._follow_kinds(kinds, partial(_forget_others, loop, cache))
                    tasks += [asyncio.create_task(one) for one in (recorder.run(), following)]
                    if _owners(self._loaded):
                        # Without them the plugin would take their pods for ones that no policy is about.
                        await kinds.followed()
                        decider.use(self._loaded)  # it may have changed meanwhile
                self._decider, self._loop = decider, loop
                stream = informers.stream(replay=False)
                if _owners(self._loaded) != followed:
                    self._use(self._loaded)  # it changed while the cluster was read, and needs more kinds
                try:
                    await loop.load(informers.objects)
                    with loop.collecting.for_long():
                        yield Ready(informers, decider, loop, stream)
                finally:
                    loop.close()
            finally:
                self._informers = self._loop = self._decider = None
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _term(self, client: Client) -> None:
        """Read the cluster, then decide and carry out until cancelled; then see that what is in flight arrives."""
        settings, metrics = self.settings, self.metrics
        recorder = Recorder(client, "muster", settings.lease.identity)
        writes = Writes(client)
        # A leader that gave the lease back wrote a moment ago, which our watches may not have told yet: read anew then.
        async with self._standby.for_term(client, warm=self._terms.taken_over) as ready:
            informers, loop = ready.informers, ready.loop
            writer = StatusWriter(writes, recorder.record, metrics)
            binder = Binder(writes, loop.put, recorder.record, metrics, claim_patience=settings.claim_patience)
            tasks = [asyncio.create_task(recorder.run()), asyncio.create_task(writer.run())]
            try:
                await self._fence(client, informers)
                self.log(0, "cluster read", **{kind: len(table) for kind, table in informers.objects.items() if table})
                await loop.run(ready.stream, binder, writer)
            finally:
                self._loop = self._decider = None
                metrics.statistics = CycleStatistics()  # whoever leads next has the cluster's
                writer.forget()
                unfinished = self._terms.unfinished = not await binder.finished(min(settings.lease.renew_deadline, 5.0))
                if unfinished:
                    self.log(0, "ends with calls in flight", calls=binder.in_flight)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await recorder.close(2.0)

    async def _fence(self, client: Client, informers: Informers) -> None:
        """Nothing to do where no call of a former leader, or of a former term of ours, can be on its way."""
        terms, lease = self._terms, self.settings.lease
        if terms.taken_over or terms.unfinished:
            self._fences += 1
            fence = Fence(client, informers, self.settings.scheduler_names, self.log)
            await fence.close(f"{lease.identity}.{terms.term}.{self._fences}", lease.duration)

    async def _follow_kinds(self, kinds: ConfiguredKinds, changed: Changed) -> None:
        """From when the plugin propagation is configured."""
        while not _owners(self._loaded):
            self._reloaded.clear()
            await self._reloaded.wait()
        await kinds.run(changed)

    def _use(self, loaded: LoadedConfig) -> None:
        """A new configuration: the next cycle is decided with it."""
        self._loaded = loaded
        self._reloaded.set()
        self._announce()
        loop, decider = self._loop, self._decider
        if loop is not None and decider is not None:
            self._changing = asyncio.ensure_future(self._change(loaded, loop, decider))

    async def _change(self, loaded: LoadedConfig, loop: Loop, decider: Decider) -> None:
        informers = self._informers
        if informers is not None:
            # Without its kinds the plugin would take every pod for one that no policy is about.
            new = [kind for kind in _owners(loaded) if not informers.follows(kind)]
            for kind in new:
                informers.add(kind)
            names = [resource_of(kind).name for kind in new]
            while any(informers.standing()[name] is Standing.STARTING for name in names):
                await asyncio.sleep(0.05)
        if self._loaded is loaded and self._loop is loop:
            await loop.in_thread(lambda: decider.use(loaded))
            loop.soon()

    # --- probes

    def _healthy(self) -> str:
        return self._loop.stuck() if self._loop is not None else ""

    def _ready(self) -> str:
        if self._informers is None or not self._informers.is_synced:
            return not_read(self._informers)
        if self._loop is None or not self._loop.loaded:
            return "the cluster was read and is being taken over"
        return ""


async def _forget_others(loop: Loop, cache: Cache, kinds: Kinds) -> None:
    """The objects of kinds that are not configured any more are gone for us: nobody follows them."""

    def forget() -> None:
        for kind in custom_kinds(cache.state.objects):
            if kind not in kinds:
                for key in list(cache.state.objects[kind.__name__]):
                    cache.put(Observed(kind.__name__, key, None))

    await loop.in_thread(forget)
    loop.soon()


def _owners(loaded: LoadedConfig) -> tuple[type[Object], ...]:
    """What has to be followed for this configuration alone."""
    return OWNERS if loaded.config.plugin("propagation") is not None else ()
