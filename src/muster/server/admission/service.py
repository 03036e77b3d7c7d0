"""The running webhook: informers, HTTPS with certificates of its own, registration, probes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from muster.groups.applications import APPLICATIONS
from muster.kube import config as access
from muster.kube import errors
from muster.kube.client import Client
from muster.kube.informer import Delta
from muster.kube.informers import Informers
from muster.kube.writes import Writes
from muster.live.logs import Log
from muster.live.reload import read
from muster.model.core import Node, Pod
from muster.model.groups import NodeGroup, OverridePolicy, PropagationPolicy
from muster.model.meta import Object
from muster.model.scheduling import Queue
from muster.server.admission.judging import Judging
from muster.server.admission.mutation import Mutation
from muster.server.admission.registration import NAME, Endpoint, register
from muster.server.admission.seats import Seats
from muster.server.admission.ungating import Ungating
from muster.server.admission.wire import AdmissionRequest, Verdict, WireError, read_review, write_review
from muster.server.certificates import LIFETIME, Issued, issue, server_context, use, utc_now
from muster.server.grouped import Grouped
from muster.server.owners import Owners
from muster.server.probes import Probes

KINDS: tuple[type[Object], ...] = (
    Node, Pod, NodeGroup, PropagationPolicy, OverridePolicy, Queue, *APPLICATIONS,
)  # fmt: skip
LARGEST_BODY = 8 << 20
LOOK_EVERY = 30.0  # seconds: are the configurations still as they should be, is a certificate old?
HEARD_OF = 5.0  # seconds until every API server trusts an authority that was made known


@dataclass(frozen=True, slots=True)
class Settings:
    """`names`: what the serving certificate is for, beside the endpoint's own."""

    endpoint: Endpoint
    kubeconfig: str | None = None
    context: str | None = None
    config: str | None = None
    host: str = "127.0.0.1"
    port: int = 9443
    probes_host: str = "127.0.0.1"
    probes_port: int = 8080
    names: tuple[str, ...] = ()
    registration: str = NAME
    privileged: bool = False
    ungate: bool = True
    lifetime: float = field(default=LIFETIME.total_seconds())
    look_every: float = LOOK_EVERY


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "muster_webhook_requests", "Requests by path and result", ["path", "result"], registry=self.registry
        )
        self.seconds = Histogram("muster_webhook_seconds", "Time to answer", ["path"], registry=self.registry)
        self.reserved = Gauge("muster_webhook_reservations", "Pods answered, not seen yet", registry=self.registry)
        self.gated = Gauge("muster_webhook_gated_pods", "Pods that wait for their policies", registry=self.registry)
        self.ends = Gauge("muster_webhook_certificate_ends", "End of the certificate (Unix)", registry=self.registry)
        self.written = Counter("muster_webhook_registrations", "Configurations written", registry=self.registry)


class Service:
    """Use as `await Service(settings, log).run(stop)`; `stop` is an event that ends it gracefully."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.port = 0
        self._log = log
        self._scheduler = read(settings.config).scheduler
        self._informers: Informers | None = None
        self._registered = False
        self._issued = self._issue()
        self._tls = server_context(self._issued)
        self.probes = Probes(self.metrics.registry, self._ready)

    async def run(self, stop: asyncio.Event) -> None:
        settings = self.settings
        async with Client(access.load(settings.kubeconfig, settings.context)) as client:
            await self.probes.start(settings.probes_host, settings.probes_port)
            async with Informers(client, KINDS, self._log.report) as informers:
                runner = await self._serve(client, informers)
                self._log(0, "started", probes=self.probes.port, port=self.port, server=client.access.host)
                tasks = [asyncio.create_task(self._stay_registered(client, informers))]
                if settings.ungate:
                    tasks.append(asyncio.create_task(self._ungating.run()))
                stopping = asyncio.create_task(stop.wait())
                try:
                    done, _ = await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
                    for task in done - {stopping}:
                        task.result()  # neither ends by itself: a fault of ours, to be seen
                finally:
                    for task in (stopping, *tasks):
                        task.cancel()
                    await asyncio.gather(stopping, *tasks, return_exceptions=True)
                    await runner.cleanup()
                    await self.probes.stop()
                    self._log(0, "stopped")

    async def _serve(self, client: Client, informers: Informers) -> web.AppRunner:
        self._informers = informers
        owners = Owners(informers.objects, Writes(client).get)
        grouped, seats = Grouped(informers.objects), Seats(time.monotonic)
        mutation = Mutation(owners, grouped, seats, privileged=self.settings.privileged)
        judging = Judging(informers.objects, self._scheduler)
        self._ungating = Ungating(client, owners, mutation, lambda: informers.is_synced, self._log.report)
        self.metrics.reserved.set_function(lambda: len(seats.reservations))
        self.metrics.gated.set_function(lambda: len(self._ungating.waiting))

        def notice(delta: Delta) -> None:
            grouped.notice(delta.kind, delta.old, delta.new)
            if delta.kind == "Pod":
                seats.notice(delta)
            self._ungating.notice(delta)

        informers.subscribe(notice)

        async def judge(request: AdmissionRequest) -> Verdict:
            return judging.answer(request)

        application = web.Application(client_max_size=LARGEST_BODY)
        application.router.add_post("/mutate", self._answering("mutate", mutation.answer))
        application.router.add_post("/validate", self._answering("validate", judge))
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, self.settings.host, self.settings.port, ssl_context=self._tls).start()
        self.port = runner.addresses[0][1]
        return runner

    def _answering(
        self, path: str, ask: Callable[[AdmissionRequest], Awaitable[Verdict]]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answer(request: web.Request) -> web.Response:
            began = time.perf_counter()
            result, body, status = "error", b"", 200
            try:
                asked = read_review(await request.read())
                if self._informers is None or not self._informers.is_synced:
                    verdict = Verdict(warnings=["muster has not read the cluster yet: nothing was done"])
                else:
                    verdict = await ask(asked)
                body = write_review(asked.uid, verdict)
                result = "refused" if verdict.refusal else "patched" if verdict.patch else "allowed"
            except WireError as fault:
                status, body = 400, str(fault).encode()
            except web.HTTPRequestEntityTooLarge:
                status, body = 413, f"a body above the limit of {LARGEST_BODY} bytes".encode()
            except Exception as fault:  # one bad object never stops the rest
                status, body = 500, f"unexpected {type(fault).__name__}: {fault}".encode()
                self._log(0, f"{path}: unexpected {type(fault).__name__}: {fault}")
            self.metrics.requests.labels(path, result).inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - began)
            return web.Response(body=body, status=status, content_type="application/json")

        return answer

    # --- certificates and registration

    def _issue(self) -> Issued:
        settings = self.settings
        namespace, _, name = settings.endpoint.service.partition("/")
        names = [f"{name}.{namespace}.svc", f"{name}.{namespace}.svc.cluster.local"] if name else []
        made = issue([*names, *settings.names], utc_now, timedelta(seconds=settings.lifetime))
        self.metrics.ends.set(made.ends.timestamp())
        return made

    async def _stay_registered(self, client: Client, informers: Informers) -> None:
        """Registered only once there is something to answer from; looked at again now and then."""
        await informers.synced()
        while True:
            try:
                trusted = [self._issued.authority]
                fresh = self._issue() if self._issued.is_old(utc_now()) else None
                if fresh is not None:
                    trusted.append(fresh.authority)
                endpoint = self.settings.endpoint
                if await register(client, endpoint, trusted, utc_now, self.settings.registration):
                    self.metrics.written.inc()
                    self._log(0, "registered", name=self.settings.registration)
                self._registered = True
                if fresh is not None:
                    await asyncio.sleep(min(HEARD_OF, self.settings.look_every))
                    self._issued = fresh
                    use(self._tls, fresh)
                    self._log(0, "certificate renewed", ends=fresh.ends.isoformat())
            except errors.ApiError as fault:
                self._log(0, f"the webhook configurations could not be written: {fault}")
            await asyncio.sleep(self.settings.look_every)

    def _ready(self) -> str:
        if self._informers is None or not self._informers.is_synced:
            return "the cluster has not been read yet"
        return "" if self._registered else "the webhook is not registered yet"
