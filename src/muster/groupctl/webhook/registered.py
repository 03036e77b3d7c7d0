"""The webhook stays known to the API server, and serves with a certificate that it trusts."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from datetime import timedelta

from muster.groupctl.webhook.metrics import Metrics
from muster.groupctl.webhook.registration import Endpoint, Unregistered, register
from muster.kube.client import Client
from muster.process.certificates import Issued, Reloaded, issue, server_context, trust_clients, utc_now
from muster.process.logs import Log
from muster.store import errors

HEARD_OF = 5.0  # seconds until every API server trusts an authority that was made known


class Registered:
    """`tls` serves with the certificate of the moment; `is_known` once the API server was told of it."""

    def __init__(
        self, endpoint: Endpoint, names: Sequence[str], name: str, lifetime: float, metrics: Metrics, log: Log,
        client_authority: str = "",
    ) -> None:  # fmt: skip
        """`names`: what the certificate is for, beside the endpoint's own; `name`: of the configurations.

        `client_authority`: a file; only clients with a certificate of it are answered. OSError if it cannot be used.
        """
        self.is_known = False
        self._endpoint = endpoint
        self._names = names
        self._name = name
        self._lifetime = lifetime
        self._metrics = metrics
        self._log = log
        self._issued = self._issue()
        self._client_authority = client_authority
        self._tls = Reloaded(self._context, log.report, client_authority)
        self.tls = self._tls.context

    def _context(self) -> ssl.SSLContext:
        context = server_context(self._issued)
        trust_clients(context, self._client_authority)
        return context

    async def run(self, client: Client, every: float) -> None:
        """Until cancelled: looked at again now and then."""
        while True:
            try:
                await self._settle(client, every)
            except Unregistered as fault:
                self.is_known = False
                self._log(0, str(fault))
            except errors.ApiError as fault:
                self._log(0, f"the webhook configurations could not be written: {fault}")
            await asyncio.sleep(every)

    async def _settle(self, client: Client, every: float) -> None:
        trusted = [self._issued.authority]
        fresh = self._issue() if self._issued.is_old(utc_now()) else None
        if fresh is not None:
            trusted.append(fresh.authority)
        if await register(client, self._endpoint, trusted, utc_now, self._name):
            self._metrics.written.inc()
            self._log(0, "registered", name=self._name)
        self.is_known = True
        if fresh is not None:
            await asyncio.sleep(min(HEARD_OF, every))
            self._issued = fresh
            self._tls.renew()
            self._log(0, "certificate renewed", ends=fresh.ends.isoformat())

    def _issue(self) -> Issued:
        namespace, _, name = self._endpoint.service.partition("/")
        own = [f"{name}.{namespace}.svc", f"{name}.{namespace}.svc.cluster.local"] if name else []
        made = issue([*own, *self._names], utc_now, timedelta(seconds=self._lifetime))
        self._metrics.ends.set(made.ends.timestamp())
        return made
