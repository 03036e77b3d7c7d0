"""The running gate: informers of applications, the log, the proxy over TLS, probes and POST /gate."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from muster.groupctl.edge_gate import front_proxy
from muster.groupctl.edge_gate.asking import Asking
from muster.groupctl.edge_gate.changes import Changes
from muster.groupctl.edge_gate.connections import Connections
from muster.groupctl.edge_gate.editions import Editions
from muster.groupctl.edge_gate.metrics import Metrics
from muster.groupctl.edge_gate.proxy import Proxy
from muster.groupctl.edge_gate.releases import Releases
from muster.groupctl.edge_gate.upstream import Upstream
from muster.groupctl.edge_gate.verdicts import Verdicts
from muster.groupctl.grouping_cache import GroupingCache
from muster.groupctl.owners import OwnerResolver
from muster.kube import config as access
from muster.kube.client import Client
from muster.kube.events import Recorder
from muster.kube.informer import Delta
from muster.kube.informers import Informers
from muster.kube.writes import Writes
from muster.model.batch import APPLICATION_KINDS
from muster.model.core import Node, Pod
from muster.model.groups import NodeGroup, OverridePolicy, PropagationPolicy
from muster.model.kinds import decode_as
from muster.model.meta import Object
from muster.model.shape import Problem
from muster.process.application_kinds import ConfiguredKinds, Kinds
from muster.process.certificates import FileTls, Issued, issue, server_context, use, utc_now
from muster.process.leadership import until
from muster.process.listener.limits import is_loopback
from muster.process.logs import Log
from muster.process.permissions import Permissions
from muster.process.probes import Probes, not_read
from muster.store import errors

EDITION_KINDS: tuple[type[Object], ...] = (Node, NodeGroup, PropagationPolicy, OverridePolicy)
LOOK_EVERY = 3600.0
TRUSTED_EVERY_S = 60.0
TLS_HANDSHAKE_S = 10.0


@dataclass(frozen=True, slots=True)
class Settings:
    """`certificate` is a file with its key in another (or ""); without one the gate makes its own for `names`."""

    configured: str  # the ConfigMap that names further kinds, namespace/name
    kubeconfig: str | None = None
    context: str | None = None
    host: str = "127.0.0.1"
    port: int = 6444
    probes_host: str = "127.0.0.1"
    probes_port: int = 8080
    certificate: tuple[str, str] | None = None
    names: tuple[str, ...] = ("localhost", "127.0.0.1")
    authority_file: str = ""
    client_authority: str = ""
    front_proxy: tuple[str, str] | None = None
    verdict_port: int | None = None  # of POST /gate over HTTPS, for clients with a certificate of the client authority
    hold_outdated: bool = False
    hold_strict: bool = False
    privileged: bool = False


class Service:
    """Use as `await Service(settings, log).run(stop)`; `stop` is an event that ends it gracefully."""

    def __init__(self, settings: Settings, log: Log) -> None:
        """OSError (ssl.SSLError is one) if a certificate cannot be used."""
        self.settings = settings
        self.metrics = Metrics()
        self.changes = Changes()
        self.port = 0
        self._log = log
        self._begun = False
        self._waits_for: Callable[[], str] = lambda: "the applications have not been read yet"
        self._issued: Issued | None = None
        self._tls = self._context()
        self._asking = Asking(self._verdict)
        anyone = is_loopback(settings.probes_host)
        self.probes = Probes(
            self.metrics.registry, self._ready, posts={"/gate": self._asking.plain if anyone else self._asking.refuse}
        )
        self.metrics.log.set_function(lambda: len(self.changes))

    async def run(self, stop: asyncio.Event) -> None:
        settings = self.settings
        # Clients come and go in the middle of an answer: that is no news.
        logging.getLogger("asyncio").setLevel(logging.ERROR)
        followed = (*APPLICATION_KINDS, *(EDITION_KINDS if settings.hold_outdated else ()))
        async with (
            Client(access.load(settings.kubeconfig, settings.context)) as client,
            Upstream(client.access, settings.front_proxy) as upstream,
            Informers(client, followed, self._log.report) as informers,
        ):
            client.access.on_refusal = Permissions(self._log, self.metrics.registry).refused
            await self.probes.start(settings.probes_host, settings.probes_port)
            # It only reads: what is to be said about the configuration the controllers say.
            recorder = Recorder(client, "muster-edge-gate", "")
            kinds = ConfiguredKinds(client, informers, settings.configured, recorder, self._log.report)
            trusted = None if settings.front_proxy is None else await front_proxy.read(upstream)
            server, releases = await self._serve(client, upstream, informers, kinds)
            self._proxy.front_proxy = trusted
            if settings.verdict_port is not None:
                self._asking.listen((settings.host, settings.verdict_port), self._tls)
            self._log(
                0, "started", probes=self.probes.port, port=self.port, server=client.access.host,
                gate=self._asking.port,
            )  # fmt: skip

            async def use(_: Kinds) -> None:
                if self._begun:
                    releases.reconfigured()

            try:
                await until(
                    stop, releases.run(), kinds.run(use), self._work(informers, kinds), self._follow_trusted(upstream)
                )
            finally:
                server.close()
                await asyncio.to_thread(self._asking.stop)
                await self._connections.shutdown()
                await self.probes.stop()
                self._log(0, "stopped")

    async def _serve(
        self, client: Client, upstream: Upstream, informers: Informers, kinds: ConfiguredKinds
    ) -> tuple[asyncio.Server, Releases]:
        settings = self.settings
        owners = OwnerResolver(informers.objects, Writes(client).get, lambda: kinds.kinds)
        grouped = GroupingCache(informers.objects) if settings.hold_outdated else None
        editions = None
        if grouped is not None:
            editions = Editions(informers.objects, grouped, Writes(client).whole, privileged=settings.privileged)
        self._verdicts = Verdicts(owners, editions, upstream.pod, strict=settings.hold_strict)
        releases = Releases(client, owners, self.changes, self._log.report, grouped=grouped)

        def notice(delta: Delta) -> None:
            if self._begun:
                releases.notice(delta)
            elif grouped is not None:
                grouped.observe(delta.kind, delta.old, delta.new)

        informers.subscribe(notice)
        self._proxy = Proxy(upstream, self._verdicts, self.changes, self._ready, self.metrics, self._log.report)
        self._connections = Connections(self._proxy.handle, self._log.report, self.metrics)
        server = await asyncio.get_running_loop().create_server(
            self._connections, settings.host, settings.port, ssl=self._tls, backlog=1024,
            ssl_handshake_timeout=TLS_HANDSHAKE_S,
        )  # fmt: skip
        self.port = server.sockets[0].getsockname()[1]
        return server, releases

    async def _work(self, informers: Informers, kinds: ConfiguredKinds) -> None:
        await self._begin(informers, kinds)
        await self._renew()

    async def _begin(self, informers: Informers, kinds: ConfiguredKinds) -> None:
        """From the moment that all applications are known, the log is whole."""
        self._waits_for = lambda: not_read(informers) if informers.unread() else kinds.unread()
        await informers.synced()
        await kinds.known()
        versions = [int(one.resource_version) for one in informers.informers if one.resource_version.isdecimal()]
        self.changes.begin(max(versions, default=0))
        self._begun = True

    async def _follow_trusted(self, upstream: Upstream) -> None:
        """An API server that is restarted with other flags trusts other headers."""
        while self.settings.front_proxy is not None:
            await asyncio.sleep(TRUSTED_EVERY_S)
            known = self._proxy.front_proxy
            try:
                found = await front_proxy.read(upstream)
            except access.NoAccess as why:
                self._log.report(f"{why}; the headers that were read before are still used")
            else:
                self._proxy.front_proxy = found if known is None else found.with_those_of(known)
        await asyncio.Event().wait()

    def _ready(self) -> str:
        return "" if self._begun else self._waits_for()

    # --- POST /gate

    async def _verdict(self, text: bytes) -> tuple[int, dict[str, str]]:
        """A pod in, `send` or `hold` out."""
        if self._ready():
            return 503, {"error": self._ready()}
        try:
            pod = decode_as(Pod, msgspec.json.decode(text, type=dict))
            reason = await self._verdicts.held(pod, text)
        except (msgspec.DecodeError, Problem) as fault:
            return 400, {"error": f"the body is no pod: {fault}"}
        except errors.ApiError as fault:
            return 502, {"error": str(fault)}
        return 200, {"decision": "send" if reason is None else "hold", "reason": reason or ""}

    # --- certificates

    def _context(self) -> ssl.SSLContext:
        settings = self.settings
        if settings.front_proxy is not None:
            # Looked at now, so that a bad file is told before anything is served.
            ssl.create_default_context().load_cert_chain(settings.front_proxy[0], settings.front_proxy[1] or None)
        if settings.certificate is not None:
            given, report = settings.certificate, self._log.report
            return FileTls(*given, settings.client_authority, required=False, report=report).context
        context = server_context()
        self._use_new(context)
        if settings.client_authority:
            context.load_verify_locations(settings.client_authority)
            context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def _use_new(self, context: ssl.SSLContext) -> None:
        self._issued = issued = issue(self.settings.names)
        if self.settings.authority_file:
            Path(self.settings.authority_file).write_bytes(issued.authority)
        use(context, issued)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            if self._issued is not None and self._issued.is_old(utc_now()):
                self._use_new(self._tls)
