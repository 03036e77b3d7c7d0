"""Runs the edge gate: informers of applications, the change log, the proxy over TLS, probes and POST /gate."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import TimeoutError as Late
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from muster.groupctl.edge_gate import authentication
from muster.groupctl.edge_gate.change_log import ChangeLog, ChangeRecorder
from muster.groupctl.edge_gate.connections import Connections
from muster.groupctl.edge_gate.metrics import Metrics
from muster.groupctl.edge_gate.proxy import Proxy
from muster.groupctl.edge_gate.settings import GateSettings
from muster.groupctl.edge_gate.upstream import Upstream
from muster.groupctl.edge_gate.visibility import EditionCheck, PodVisibility
from muster.groupctl.grouping_cache import GroupingCache
from muster.groupctl.owners import OwnerResolver
from muster.kube import config as access
from muster.kube.informer import Delta
from muster.kube.writes import Writes
from muster.model.batch import APPLICATION_KINDS
from muster.model.core import Node, Pod
from muster.model.groups import NodeGroup, OverridePolicy, PropagationPolicy
from muster.model.kinds import decode_as
from muster.model.meta import Object
from muster.model.shape import Problem
from muster.process.application_kinds import Kinds
from muster.process.certificates import FileTls, Issued, IssuedTls, ServerTls
from muster.process.component import Component
from muster.process.listener.http_listener import Listener, Request, Response
from muster.process.listener.limits import MIB, is_loopback
from muster.process.logs import Log
from muster.store import errors

EDITION_KINDS: tuple[type[Object], ...] = (Node, NodeGroup, PropagationPolicy, OverridePolicy)
CERTIFICATE_CHECK_PERIOD_S = 3600.0
TRUSTED_HEADERS_PERIOD_S = 60.0
TLS_HANDSHAKE_TIMEOUT_S = 10.0
MAX_BODY_BYTES = 4 * MIB
_CLOSED = (
    "POST /gate is answered on this port only if it listens on a loopback address; ask on --gate-port, with a client "
    "certificate of --client-ca-file"
)

Decide = Callable[[bytes], Awaitable[tuple[int, dict[str, str]]]]
"""Takes a pod in JSON; returns the HTTP status and the answer."""


class GateService(Component):
    """The component `muster edge-gate`."""

    name = "edge-gate"

    def __init__(self, settings: GateSettings, log: Log) -> None:
        """Raises OSError (ssl.SSLError is one) if a certificate cannot be used."""
        self.settings = settings
        self.metrics = Metrics()
        self.kinds = (*APPLICATION_KINDS, *(EDITION_KINDS if settings.hold_outdated else ()))
        super().__init__(settings, log, self.metrics.registry)
        self.changes = ChangeLog()
        self._started = False
        self._tls = self._server_tls()
        self._decision_endpoint = DecisionEndpoint(self._decide)
        anyone = is_loopback(settings.probes.host)
        self.posts = {"/gate": self._decision_endpoint.plain if anyone else self._decision_endpoint.refuse}
        self.metrics.log.set_function(lambda: len(self.changes))

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[dict[str, object]]:
        settings, client = self.settings, self.process.client
        # Clients disconnect in the middle of a response: asyncio need not log it.
        logging.getLogger("asyncio").setLevel(logging.ERROR)
        async with Upstream(client.access, settings.front_proxy) as upstream:
            self._upstream = upstream
            trusted = None if settings.front_proxy is None else await authentication.read_trusted_headers(upstream)
            server = await self._listen(upstream)
            self._proxy.front_proxy = trusted
            if settings.gate_port is not None:
                self._decision_endpoint.listen((settings.host, settings.gate_port), self._tls.context)
            try:
                yield {"port": server.sockets[0].getsockname()[1], "gate": self._decision_endpoint.port}
            finally:
                server.close()
                await asyncio.to_thread(self._decision_endpoint.stop)
                await self._connections.shutdown()

    def background(self) -> Iterable[Coroutine[Any, Any, None]]:
        return (self._change_recorder.run(), self._refresh_trusted_headers())

    async def kinds_changed(self, kinds: Kinds) -> None:
        if self._started:
            self._change_recorder.on_kinds_changed()

    async def _listen(self, upstream: Upstream) -> asyncio.Server:
        settings, process = self.settings, self.process
        client, informers, kinds = process.client, process.shared_informers, process.kinds
        owners = OwnerResolver(informers.objects, Writes(client).get, lambda: kinds.kinds)
        grouped = GroupingCache(informers.objects) if settings.hold_outdated else None
        editions = None
        if grouped is not None:
            editions = EditionCheck(informers.objects, grouped, Writes(client).whole, privileged=settings.privileged)
        self._visibility = PodVisibility(owners, editions, upstream.pod, strict=settings.hold_strict)
        change_recorder = ChangeRecorder(client, owners, self.changes, self.log.report, grouped=grouped)
        self._change_recorder = change_recorder

        def observe(delta: Delta) -> None:
            if self._started:
                change_recorder.observe(delta)
            elif grouped is not None:
                grouped.observe(delta.kind, delta.old, delta.new)

        informers.subscribe(observe)
        self._proxy = Proxy(upstream, self._visibility, self.changes, self.process.ready, self.metrics, self.log.report)
        self._connections = Connections(self._proxy.handle, self.log.report, self.metrics)
        return await asyncio.get_running_loop().create_server(
            self._connections, settings.host, settings.port, ssl=self._tls.context, backlog=1024,
            ssl_handshake_timeout=TLS_HANDSHAKE_TIMEOUT_S,
        )  # fmt: skip

    async def lead(self) -> None:
        """Declares the change log complete once all applications are known, then renews the certificate."""
        informers = self.process.shared_informers
        await self.process.kinds.known()
        versions = [int(one.resource_version) for one in informers.informers if one.resource_version.isdecimal()]
        self.changes.start_at(max(versions, default=0))
        self._started = True
        while True:
            await asyncio.sleep(CERTIFICATE_CHECK_PERIOD_S)
            if isinstance(self._tls, IssuedTls) and (fresh := self._tls.successor()):
                self._publish(fresh)
                self._tls.use(fresh)

    async def _refresh_trusted_headers(self) -> None:
        """Reads the trusted headers again: an API server that restarts with other flags trusts other headers."""
        while self.settings.front_proxy is not None:
            await asyncio.sleep(TRUSTED_HEADERS_PERIOD_S)
            known = self._proxy.front_proxy
            try:
                found = await authentication.read_trusted_headers(self._upstream)
            except access.NoAccess as why:
                self.log.report(f"{why}; the headers that were read before are still used")
            else:
                self._proxy.front_proxy = found if known is None else found.merged_with(known)
        await asyncio.Event().wait()

    def ready(self) -> str:
        return "" if self._started else self.process.kinds.unread() or "the applications have not been read yet"

    # --- POST /gate

    async def _decide(self, text: bytes) -> tuple[int, dict[str, str]]:
        """Takes a pod in JSON; returns the HTTP status and `send` or `hold` with the reason."""
        if not_ready := self.process.ready():
            return 503, {"error": not_ready}
        try:
            pod = decode_as(Pod, msgspec.json.decode(text, type=dict))
            reason = await self._visibility.hold_reason(pod, text)
        except (msgspec.DecodeError, Problem) as fault:
            return 400, {"error": f"the body is no pod: {fault}"}
        except errors.ApiError as fault:
            return 502, {"error": str(fault)}
        return 200, {"decision": "send" if reason is None else "hold", "reason": reason or ""}

    # --- certificates

    def _server_tls(self) -> ServerTls:
        settings = self.settings
        if settings.front_proxy is not None:
            # Loaded now, so that an invalid file is reported before anything is served.
            ssl.create_default_context().load_cert_chain(settings.front_proxy[0], settings.front_proxy[1] or None)
        if settings.tls_cert_file:
            files = (settings.tls_cert_file, settings.tls_private_key_file, settings.client_ca_file)
            return FileTls(*files, required=False, report=self.log.report)
        tls = IssuedTls(settings.names, settings.client_ca_file, required=False, report=self.log.report)
        self._publish(tls.issued)
        return tls

    def _publish(self, issued: Issued) -> None:
        if self.settings.write_ca_file:
            Path(self.settings.write_ca_file).write_bytes(issued.authority)


class DecisionEndpoint:
    """Serves POST /gate over HTTPS, and on the port of the probes: whether a pod is sent to its node or held back.

    The answer names the policies of an application, so only authenticated callers get one. On a loopback address every
    caller counts as authenticated; elsewhere only HTTPS clients with a certificate do.
    """

    def __init__(self, decide: Decide) -> None:
        self.port: int | None = None
        self._decide = decide
        self._listener: Listener | None = None

    def listen(self, at: tuple[str, int], tls: ssl.SSLContext) -> None:
        """Listens over HTTPS until `stop`; raises OSError if it cannot."""
        self._loop = asyncio.get_running_loop()
        # The pod of a caller that will be refused is not read.
        self._listener = Listener(at, self._answer, lambda path, known: MAX_BODY_BYTES if known else 1024, tls=tls)
        self.port = self._listener.port
        self._listener.start()

    def stop(self) -> None:
        if self._listener is not None:
            self._listener.stop()

    async def plain(self, request: web.Request) -> web.Response:
        status, answer = await self._decide(await request.read())
        return web.json_response(answer, status=status)

    async def refuse(self, request: web.Request) -> web.Response:
        return web.json_response({"error": _CLOSED}, status=403)

    def _answer(self, request: Request) -> Response:
        if not request.authenticated:
            return _json(401, {"error": "POST /gate needs a client certificate"})
        if (request.method, request.path) != ("POST", "/gate"):
            return _json(404, {"error": "only POST /gate is answered here"})

        async def decide() -> tuple[int, dict[str, str]]:
            return await self._decide(bytes(request.body))

        asked = asyncio.run_coroutine_threadsafe(decide(), self._loop)
        try:
            return _json(*asked.result(max(request.deadline - time.monotonic(), 0.0)))
        except Late:
            asked.cancel()
            return _json(503, {"error": "no answer in time"})


def _json(status: int, answer: dict[str, str]) -> Response:
    return Response(status, msgspec.json.encode(answer))
