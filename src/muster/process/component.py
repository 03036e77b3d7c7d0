"""The process kit: a long-running component declares what it needs, and Process does the rest.

A component declares the kinds it follows, its work while it leads, and when it is ready. Process gives it access to the
API server, informers, an event recorder, leader election, probes, metrics and reports of missing permissions, and ends
it gracefully. docs/decisions/0018-process-kit.md describes both sides.
"""

from __future__ import annotations

import asyncio
import signal
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from typing import Any, ClassVar, Protocol

from aiohttp import web
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from muster.kube import config as access
from muster.kube.client import Client, Limits
from muster.kube.events import Recorder
from muster.kube.informers import Informers
from muster.model.meta import Object
from muster.process.application_kinds import ConfiguredKinds, Kinds, WorkloadTables
from muster.process.leadership import LeaderElection, run_until
from muster.process.logs import Log
from muster.process.own_pod import OwnPod
from muster.process.permissions import Permissions
from muster.process.settings import ClusterSettings, LeaseSettings, ProbeSettings, own_pod_key
from muster.store.errors import Permission

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Check = Callable[[], str]
"""Returns why the probe fails, or nothing."""
MAX_BODY_BYTES = 4 << 20


class ComponentSettings(Protocol):
    """The settings that every component has."""

    @property
    def cluster(self) -> ClusterSettings: ...
    @property
    def lease(self) -> LeaseSettings | None:
        """The settings of the election; None if every replica works."""
        ...

    @property
    def probes(self) -> ProbeSettings | None:
        """The settings of the probes; None if the component serves /healthz, /readyz and /metrics itself."""
        ...

    @property
    def applications(self) -> str:
        """The ConfigMap that names further kinds of applications; empty if the component uses none."""
        ...


class Component(ABC):
    """One long-running part of muster. The hooks below are called by Process, in its event loop."""

    name: ClassVar[str]
    """The name of its verb; its Lease and its Events are named muster-NAME."""
    sends_events: ClassVar[bool] = False
    kinds: tuple[type[Object], ...] = ()
    """The kinds that are followed from start to end, in `process.shared_informers`."""
    permissions: tuple[Permission, ...] = ()
    """The permissions to review at the start and every ten minutes."""
    limits: Limits = Limits()
    workload_tables: WorkloadTables | None = None
    """Where workload kinds are described, for a component that forms gangs."""
    posts: Mapping[str, Handler] = {}
    """Further paths that the probes' server answers."""

    def __init__(self, settings: ComponentSettings, log: Log, registry: CollectorRegistry | None = None) -> None:
        self.log = log
        self.registry = registry or CollectorRegistry()
        self.process = Process(self, settings)

    def election(self, settings: LeaseSettings) -> LeaderElection:
        return LeaderElection(settings, self.log)

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[dict[str, object]]:
        """Is entered at the start and left at the end, after the lease was released; yields fields for the log."""
        yield {}

    def prepare(self) -> AbstractAsyncContextManager[None]:
        """Is entered before the process takes part in the election."""
        return nullcontext()

    @abstractmethod
    async def lead(self) -> None:
        """Does the work of one leadership term, until cancelled. The informers of the kinds have synced."""

    def background(self) -> Iterable[Coroutine[Any, Any, None]]:
        """Returns the work that every replica does."""
        return ()

    async def kinds_changed(self, kinds: Kinds) -> None:  # noqa: B027 (optional)
        """Is called when further kinds of applications were configured or removed."""

    async def drain(self) -> None:  # noqa: B027 (optional)
        """Is called when the process must stop, before the term ends and the lease is released."""

    def ready(self) -> str:
        """Returns why /readyz answers 503 although the informers have synced, or an empty string."""
        return ""

    def healthy(self) -> str:
        """Returns why /healthz answers 503, or an empty string."""
        return ""


class Process:
    """Runs one component: `await component.process.run(stop)`."""

    client: Client
    """Writes only while this replica leads."""
    ungated: Client
    """Writes whether this replica leads or not."""
    recorder: Recorder
    kinds: ConfiguredKinds

    def __init__(self, component: Component, settings: ComponentSettings) -> None:
        self.informers: Informers | None = None
        self._shared: Informers | None = None  # the informers of all terms
        self.at_work = False
        """Whether a leadership term is in progress and the informers have synced."""
        self._component = component
        self._settings = settings
        lease = settings.lease
        self.identity = lease.identity if lease is not None else ""
        self.election = component.election(lease) if lease is not None else None
        self.permissions = Permissions(component.log, component.registry)
        if lease is not None:
            leader = Gauge("muster_leader", "1 while this process leads", registry=component.registry)
            leader.set_function(lambda: float(self.leading()))

    async def run(self, stop: asyncio.Event) -> None:
        """Runs until `stop` is set. Raises NoAccess if no API server is configured, OSError if a port is in use."""
        component, settings, log = self._component, self._settings, self._component.log
        loaded = access.load(settings.cluster.kubeconfig, settings.cluster.context)
        loaded.on_refusal = self.permissions.refused
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            self.client = await enter(Client(loaded, limits=component.limits))
            self.ungated = await enter(Client(loaded))
            self.recorder = Recorder(self.client, f"muster-{component.name}", self.identity)
            fields: dict[str, object] = {"identity": self.identity, "server": loaded.host}
            probes = None
            if settings.probes is not None:
                probes = Probes(component.registry, self.ready, component.healthy, component.posts)
                await probes.start(settings.probes.host, settings.probes.port)
                fields["probes"] = probes.port
            if component.kinds:
                informers = self._shared = await enter(self.follow(component.kinds))
                if self._follows_kinds:
                    self.kinds = self.application_kinds(informers, self.recorder)
            stack.callback(log, 0, "stopped")
            if probes is not None:
                stack.push_async_callback(probes.stop)
            log(0, "started", **fields, **await enter(component.serve()))
            await run_until(stop, self._work(), *self._background(), drain=component.drain)

    @property
    def _follows_kinds(self) -> bool:
        return bool(self._settings.applications) or self._component.workload_tables is not None

    def ready(self) -> str:
        """Returns why /readyz answers 503, or an empty string."""
        if self.informers is None or not self.informers.is_synced:
            return not_read(self.informers)
        return self._component.ready()

    def leading(self) -> bool:
        return self.at_work and (self.election is None or self.election.leading())

    def standby_reason(self) -> str:
        """Returns the answer of /readyz while another replica leads, for a component that only the leader may serve."""
        if self.election is None or self.election.leading():
            return ""
        return f"another replica holds the Lease {self.election.settings.key}"

    @property
    def shared_informers(self) -> Informers:
        """The informers of the kinds that the component declares."""
        assert self._shared is not None, "the component declares no kinds"
        return self._shared

    @asynccontextmanager
    async def follow(self, kinds: Iterable[type[Object]]) -> AsyncIterator[Informers]:
        """Watches the kinds; /readyz fails until their informers have synced."""
        self.informers = informers = Informers(self.client, kinds, self._component.log.report)
        try:
            async with informers:
                yield informers
        finally:
            if self.informers is informers:
                self.informers = None

    def application_kinds(self, informers: Informers, recorder: Recorder) -> ConfiguredKinds:
        """Follows the further kinds of applications that the ConfigMap names, once its `run` is started."""
        key, report = self._settings.applications, self._component.log.report
        tables = self._component.workload_tables
        return ConfiguredKinds(self.client, informers, key, recorder, report, tables)

    async def _work(self) -> None:
        """Takes part in the election and works in every leadership term; without an election it works at once."""
        async with self._component.prepare():
            if self.election is not None:
                await self.election.run(self.client, self._term)
            else:
                await self._term()

    async def _term(self) -> None:
        if self._shared is not None:
            await self._shared.synced()
        self.at_work = True
        try:
            await self._component.lead()
        finally:
            self.at_work = False

    def _background(self) -> Iterable[Coroutine[Any, Any, None]]:
        component = self._component
        if component.sends_events:
            yield self.recorder.run()
        if component.permissions:
            pod = OwnPod(self.ungated, own_pod_key())
            yield self.permissions.run(self.ungated, component.permissions, pod)
        if self._shared is not None and self._follows_kinds:
            yield self.kinds.run(component.kinds_changed)
        yield from component.background()


def run_until_signalled(component: Component) -> None:
    """Runs the component until SIGTERM or SIGINT."""
    import uvloop

    async def main() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await component.process.run(stop)

    uvloop.run(main())  # API calls over TLS cost half the CPU time of asyncio's own loop


class Probes:
    """Serves /healthz, /readyz and /metrics over plain HTTP on a separate port; `posts` handle further paths."""

    def __init__(
        self, registry: CollectorRegistry, ready: Check, healthy: Check = lambda: "",
        posts: Mapping[str, Handler] | None = None,
    ) -> None:  # fmt: skip
        self._registry = registry
        application = web.Application(client_max_size=MAX_BODY_BYTES)
        application.router.add_get("/healthz", _answer(healthy))
        application.router.add_get("/readyz", _answer(ready))
        application.router.add_get("/metrics", self._scrape)
        for path, handler in (posts or {}).items():
            application.router.add_post(path, handler)
        self._runner = web.AppRunner(application, access_log=None)
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Starts to listen; port 0 takes a free one."""
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _scrape(self, request: web.Request) -> web.Response:
        text = generate_latest(self._registry)
        return web.Response(body=text, headers={"Content-Type": "text/plain; version=0.0.4"})


def not_read(informers: Informers | None) -> str:
    """Returns the answer of /readyz before the informers have synced."""
    return "the cluster has not been read yet: " + ("waits for its turn" if informers is None else informers.unread())


def _answer(check: Check) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        wrong = check()
        return web.Response(text=wrong or "ok", status=503 if wrong else 200)

    return answer
