"""The running scheduler: access, election, informers, probes, and one term of leading after another.

A process that is elected reads the whole cluster, and only then decides. If the lease ran out under a dead leader, the
process uses the caches of its time as a standby, and has the dead leader's bindings refused (takeover.py). When it
loses the lease everything of its term is dropped; the calls' gate is closed by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from muster.config.announced_config import lease_annotations
from muster.cycle.registry import kinds_read
from muster.engine.core.podgroups import OWNING
from muster.kube.client import Client, Limits
from muster.kube.events import Recorder
from muster.kube.informer import InformerState
from muster.kube.informers import Informers
from muster.kube.resources import resource_of
from muster.kube.writes import Writes
from muster.model import core, groups, native, scheduling, storage, topology
from muster.model.custom import CustomApplication, custom_kinds
from muster.model.meta import Object
from muster.process.application_kinds import ConfiguredKinds, Kinds, WorkloadTables
from muster.process.component import Component
from muster.process.config_sources import ConfigFile, ConfigMapKey, ConfigSource
from muster.process.config_watcher import ConfigWatcher
from muster.process.leadership import LeaderElection
from muster.process.logs import Log
from muster.process.own_pod import OwnPod
from muster.process.settings import LeaseSettings, own_pod_key
from muster.scheduler.binder import Binder
from muster.scheduler.cache import Cache
from muster.scheduler.cluster_metrics import CycleStatistics
from muster.scheduler.configuration import REPEAT_S, ConfigurationFindings, LoadedConfig, load_config, read_config
from muster.scheduler.decider import Decider
from muster.scheduler.inbox import Observed
from muster.scheduler.loop import Loop
from muster.scheduler.metrics import Metrics
from muster.scheduler.settings import SchedulerSettings
from muster.scheduler.status_writer import StatusWriter
from muster.scheduler.takeover import Fence, Ready, Standby
from muster.store.errors import Permission

# Taking each event of a watch at once costs several times its decoding, and the next cycle is further away than this.
# Components that answer calls (webhook, extender, gate) must know a deletion before the replacement comes: they do not
# wait.
WATCH_INTERVAL_S = 0.02
# What decisions are made from, whatever is configured; plugins may read more kinds (`Plugin.reads`).
KINDS: tuple[type[Object], ...] = (
    core.Node, core.Pod, core.Namespace, core.PriorityClass, core.PodDisruptionBudget,
    storage.PersistentVolume, storage.PersistentVolumeClaim, storage.StorageClass, storage.CSINode, storage.CSIDriver,
    storage.CSIStorageCapacity, scheduling.Queue, scheduling.PodGroup, topology.Topology, topology.HyperNode,
    native.NativePodGroup, native.CompositePodGroup, native.NativeWorkload,
    groups.NodeGroup, groups.PropagationPolicy, *OWNING,
)  # fmt: skip
EVENT_FLUSH_TIMEOUT_S = 2.0
LAST_CALLS_TIMEOUT_S = 5.0


class SchedulerService(Component):
    """`muster scheduler`. Its informers are those of a leadership term, or of the standby before it."""

    name = "scheduler"

    def __init__(self, settings: SchedulerSettings, log: Log, permissions: tuple[Permission, ...] = ()) -> None:
        """InvalidConfig if the configuration file has errors."""
        self.settings = settings
        self.metrics = Metrics()
        self.permissions = permissions
        self.limits = Limits(writes_at_once=settings.binds_in_flight, watch_interval=WATCH_INTERVAL_S)
        self._loaded: LoadedConfig = read_config(settings.config_file)
        self._findings = ConfigurationFindings(self.metrics, log)
        self._loop: Loop | None = None
        self._decider: Decider | None = None
        self._changing: asyncio.Future[None] | None = None  # kept, or it may be collected before it has run
        self._fences = 0
        self._kinds: ConfiguredKinds | None = None
        self._standby = Standby(self._prepared, log, self.metrics.faults.inc)
        self._election = LeaderElection(
            settings.lease, log, settle=False, standby=self._standby.while_another_leads,
            on_error=self.metrics.faults.inc,
        )  # fmt: skip
        super().__init__(settings, log, self.metrics.registry)
        self.workload_tables = WorkloadTables.of(settings.workload_kinds, settings.applications)

    def election(self, settings: LeaseSettings) -> LeaderElection:
        return self._election

    @asynccontextmanager
    async def prepare(self) -> AsyncIterator[None]:
        """Loads the configuration and watches it for as long as the process runs."""
        settings, process = self.settings, self.process
        self.metrics.answers = process.client.answers
        try:
            source: ConfigSource
            if settings.config_map:
                source = ConfigMapKey(process.ungated, settings.config_map, self.log.report)
            elif settings.config_file is not None:
                source = ConfigFile(settings.config_file)
            else:
                self._announce()
                yield
                return
            recorder = self._recorder(process.ungated)
            pod = OwnPod(process.ungated, own_pod_key())
            watcher = ConfigWatcher(source, load_config, pod, recorder, self.metrics.configuration, self.log)
            try:
                if settings.config_map:
                    self._loaded = await watcher.first()
                self._announce()
                async with asyncio.TaskGroup() as group:
                    group.create_task(recorder.run())
                    group.create_task(watcher.run(self._loaded, self._use))
                    group.create_task(self._repeat_findings())
                    yield
            finally:
                await recorder.close(EVENT_FLUSH_TIMEOUT_S)
        finally:
            await self._standby.end()

    def _recorder(self, client: Client) -> Recorder:
        return Recorder(client, "muster", self.process.identity)

    def _announce(self) -> None:
        """What is found in the configuration goes to the log and the metrics, its name and hash to the Lease."""
        settings, loaded = self.settings, self._loaded
        source = settings.config_source
        self._election.annotations.update(lease_annotations(source, loaded.hash, settings.scheduler_names))
        self.log(0, "configuration in use", source=source, version=loaded.version, hash=loaded.hash)
        self._findings.of(loaded)

    async def _repeat_findings(self) -> None:
        while True:
            await asyncio.sleep(REPEAT_S)
            self._findings.of(self._loaded)

    # --- leadership terms

    @asynccontextmanager
    async def _prepared(self, client: Client) -> AsyncIterator[Ready]:
        """Returns a new scheduler that has read the whole cluster."""
        settings, metrics = self.settings, self.metrics
        followed = _more_kinds(self._loaded)
        async with self.process.follow((*KINDS, *followed)) as informers:
            tasks: list[asyncio.Task[None]] = []
            try:
                await informers.synced()
                cache = Cache(settings.scheduler_names)
                decider = Decider(cache, self._loaded, settings.lease.identity, settings.period, metrics, self.log)
                loop = Loop(decider, metrics)
                recorder = self._recorder(client)
                kinds = self._kinds = self.process.application_kinds(informers, recorder)
                self._want_applications(self._loaded)
                following = kinds.run(partial(_use_kinds, loop, cache))
                tasks += [asyncio.create_task(one) for one in (recorder.run(), following)]
                # Without them pods of a gang would be taken for single pods that no policy is about.
                await kinds.followed()
                decider.use(self._loaded)  # it may have changed meanwhile
                self._decider, self._loop = decider, loop
                stream = informers.stream(replay=False)
                if _more_kinds(self._loaded) != followed:
                    self._use(self._loaded)  # it changed while the cluster was read, and needs more kinds
                try:
                    await loop.load(informers.objects)
                    with loop.garbage_collection.frozen():
                        yield Ready(informers, decider, loop, stream)
                finally:
                    loop.close()
            finally:
                self._loop = self._decider = None
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def lead(self) -> None:
        """Reads the cluster, schedules until cancelled, and then waits for the calls in flight."""
        settings, metrics, client = self.settings, self.metrics, self.process.client
        recorder, writes = self._recorder(client), Writes(client)
        # A leader that gave the lease back wrote a moment ago; our watches may not have shown it yet, so read again.
        async with self._standby.for_term(client, warm=self._election.taken_over) as ready:
            informers, loop = ready.informers, ready.loop
            writer = StatusWriter(writes, recorder.record, metrics)
            binder = Binder(
                writes, loop.put, recorder.record, metrics,
                observe=informers.observe, volume_timeout_s=settings.volume_patience,
                at_once=settings.binds_in_flight,
            )  # fmt: skip
            recorder.busy = lambda: binder.sending > 0 or loop.in_burst()
            tasks = [asyncio.create_task(recorder.run()), asyncio.create_task(writer.run())]
            try:
                await self._fence(client, informers)
                self.log(0, "cluster read", **{kind: len(table) for kind, table in informers.objects.items() if table})
                await loop.run(ready.stream, binder, writer)
            finally:
                self._loop = self._decider = None
                metrics.statistics = CycleStatistics()  # the next leader has those of the cluster
                writer.forget()
                finished = await binder.finished(min(settings.lease.renew_deadline, LAST_CALLS_TIMEOUT_S))
                self._election.unfinished = not finished
                if not finished:
                    self.log(0, "ends with calls in flight", calls=binder.in_flight)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await recorder.close(EVENT_FLUSH_TIMEOUT_S)

    async def _fence(self, client: Client, informers: Informers) -> None:
        """Nothing to do where no call of a former leader, or of a former term of ours, can be on its way."""
        election, lease = self._election, self.settings.lease
        if election.taken_over or election.unfinished:
            self._fences += 1
            fence = Fence(client, informers, self.settings.scheduler_names, self.log)
            await fence.close(f"{lease.identity}.{election.term}.{self._fences}", lease.duration)

    def _use(self, loaded: LoadedConfig) -> None:
        """A new configuration: the next cycle is decided with it."""
        self._loaded = loaded
        self._want_applications(loaded)
        self._announce()
        loop, decider = self._loop, self._decider
        if loop is not None and decider is not None:
            self._changing = asyncio.ensure_future(self._change(loaded, loop, decider))

    def _want_applications(self, loaded: LoadedConfig) -> None:
        """Has the configured kinds of applications followed, once a plugin reads them."""
        if self._kinds is not None and CustomApplication in kinds_read(loaded.config):
            self._kinds.want_applications()

    async def _change(self, loaded: LoadedConfig, loop: Loop, decider: Decider) -> None:
        informers = self.process.informers
        if informers is not None:
            # Without its kinds the plugin would take every pod for one that no policy is about.
            new = [kind for kind in _more_kinds(loaded) if not informers.follows(kind)]
            for kind in new:
                informers.add(kind)
            names = [resource_of(kind).name for kind in new]
            while any(informers.states()[name] is InformerState.STARTING for name in names):
                await asyncio.sleep(0.05)
        if self._loaded is loaded and self._loop is loop:
            await loop.in_thread(lambda: decider.use(loaded))
            loop.request_cycle()

    # --- probes

    def healthy(self) -> str:
        return self._loop.stuck() if self._loop is not None else ""

    def ready(self) -> str:
        loaded = self._loop is not None and self._loop.loaded
        return "" if loaded else "the cluster was read and is being taken over"


async def _use_kinds(loop: Loop, cache: Cache, kinds: Kinds) -> None:
    """Pods wait for owners of these kinds. The objects of kinds that are not configured any more are gone for us:
    nobody follows them."""

    def use() -> None:
        cache.state.use_kinds(kinds)
        for kind in custom_kinds(cache.state.objects):
            if kind not in kinds:
                for key in list(cache.state.objects[kind.__name__]):
                    cache.put(Observed(kind.__name__, key, None))

    await loop.in_thread(use)
    loop.request_cycle()


def _more_kinds(loaded: LoadedConfig) -> tuple[type[Object], ...]:
    """The kinds that are watched only because a configured plugin reads them."""
    return tuple(kind for kind in kinds_read(loaded.config) if kind not in KINDS and kind is not CustomApplication)
