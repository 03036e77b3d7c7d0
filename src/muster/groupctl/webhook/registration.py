"""Keeps the webhook configurations correct, and serves with a certificate that they trust.

The configurations are part of the manifests; muster writes the certificate authority and corrects drift. The webhook's
account may get and update them by name, and cannot create them. A process with more rights creates missing
configurations.

Several replicas may serve, each with its own authority: the configurations contain those of all replicas that have not
expired.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from muster.groupctl.webhook.metrics import Metrics
from muster.groups.applications import DOMAIN
from muster.groups.assignment import OPT_IN
from muster.kube.client import Client
from muster.process.certificates import IssuedTls, bundle, utc_now
from muster.process.logs import Log
from muster.store import errors

Plain = dict[str, Any]

NAME = "muster-webhook"
_SELECTOR = {"matchLabels": {OPT_IN: "enabled"}}
_ROOT = "/apis/admissionregistration.k8s.io/v1"
_MAX_ATTEMPTS = 5


class NotRegistered(Exception):
    """Raised if a configuration is missing; the text has its name and the fix."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How the API server reaches the webhook: by a Service (ns/name), or by a URL."""

    service: str = ""
    url: str = ""
    port: int = 443

    def client_config(self, path: str) -> Plain:
        if self.url:
            return {"url": f"{self.url.rstrip('/')}{path}"}
        namespace, _, name = self.service.partition("/")
        return {"service": {"namespace": namespace, "name": name, "path": path, "port": self.port}}


def configurations(endpoint: Endpoint, name: str = NAME) -> list[tuple[str, Plain]]:
    """Returns the path of the collection and the object of each configuration, without the CA bundle."""
    pods = _webhook(f"pods.{DOMAIN}", endpoint, "/mutate", [_rule("", "v1", "pods", operations=("CREATE",))])
    pods |= {"namespaceSelector": _SELECTOR, "sideEffects": "NoneOnDryRun", "reinvocationPolicy": "IfNeeded"}
    ours = [_rule(DOMAIN, "v1alpha1", "nodegroups", "propagationpolicies", "overridepolicies")]
    ours.append(_rule("scheduling.volcano.sh", "v1beta1", "queues", "podgroups"))
    objects = _webhook(f"objects.{DOMAIN}", endpoint, "/validate", ours)
    workloads = [
        _rule("apps", "v1", "deployments", "replicasets", "statefulsets"),
        _rule("batch", "v1", "jobs", "cronjobs"),
        _rule("", "v1", "replicationcontrollers"),
    ]
    jobs = _webhook(f"workloads.{DOMAIN}", endpoint, "/validate", workloads) | {"namespaceSelector": _SELECTOR}
    return [
        (f"{_ROOT}/mutatingwebhookconfigurations", _object("MutatingWebhookConfiguration", name, [pods])),
        (f"{_ROOT}/validatingwebhookconfigurations", _object("ValidatingWebhookConfiguration", name, [objects, jobs])),
    ]


async def register(
    client: Client, endpoint: Endpoint, mine: Sequence[bytes], now: Callable[[], datetime], name: str = NAME
) -> bool:
    """Corrects both configurations and their CA bundles; returns whether one was written."""
    wrote = False
    for path, wanted in configurations(endpoint, name):
        for attempt in range(_MAX_ATTEMPTS):
            try:
                wrote = await _settle(client, path, wanted, mine, now()) or wrote
                break
            except (errors.Conflict, errors.AlreadyExists):
                if attempt == _MAX_ATTEMPTS - 1:
                    raise
    return wrote


async def _settle(client: Client, path: str, wanted: Plain, mine: Sequence[bytes], now: datetime) -> bool:
    name = wanted["metadata"]["name"]
    try:
        known: Plain | None = msgspec.json.decode(await client.request("GET", f"{path}/{name}"))
    except errors.NotFound:
        known = None
    hooks = {hook["name"]: hook for hook in (known or {}).get("webhooks") or ()}
    webhooks = []
    for hook in wanted["webhooks"]:
        before = hooks.get(hook["name"], {})
        trusted = base64.b64decode(before.get("clientConfig", {}).get("caBundle", ""))
        authority = base64.b64encode(bundle(trusted, mine, now)).decode()
        webhooks.append({**hook, "clientConfig": {**hook["clientConfig"], "caBundle": authority}})
    if known is None:
        try:
            await client.request("POST", path, body={**wanted, "webhooks": webhooks})
        except errors.Forbidden as fault:
            what = f"{wanted['kind']} {name} does not exist, and this account may not create it"
            raise NotRegistered(f"{what}: apply the manifests (muster manifests --part webhook)") from fault
        return True
    if [*hooks] == [hook["name"] for hook in webhooks] and all(_has(hooks[hook["name"]], hook) for hook in webhooks):
        return False
    await client.request("PUT", f"{path}/{name}", body={**known, "webhooks": webhooks}, repeatable=False)
    return True


def _has(stored: Any, wanted: Any) -> bool:
    """Returns whether all wanted fields are stored; the API server adds defaults."""
    if isinstance(wanted, dict):
        return isinstance(stored, dict) and all(_has(stored.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list):
        same = isinstance(stored, list) and len(stored) == len(wanted)
        return same and all(_has(one, other) for one, other in zip(stored, wanted, strict=True))
    return bool(stored == wanted)


def _object(kind: str, name: str, webhooks: list[Plain]) -> Plain:
    labels = {"name": "muster", "component": "webhook", "part-of": "muster"}
    meta = {"name": name, "labels": {f"app.kubernetes.io/{label}": value for label, value in labels.items()}}
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": meta, "webhooks": webhooks}


def _webhook(name: str, endpoint: Endpoint, path: str, rules: list[Plain]) -> Plain:
    return {
        "name": name,
        "clientConfig": endpoint.client_config(path),
        "rules": rules,
        # A webhook that is down must not keep pods from being created.
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "admissionReviewVersions": ["v1"],
    }


def _rule(group: str, version: str, *resources: str, operations: tuple[str, ...] = ("CREATE", "UPDATE")) -> Plain:
    rule = {"apiGroups": [group], "apiVersions": [version], "resources": list(resources)}
    return {**rule, "operations": list(operations), "scope": "*"}


TRUST_DELAY_S = 5.0  # seconds until every API server trusts an authority that was made known


class WebhookRegistration:
    """Keeps the configurations current. `tls` serves with the current certificate; `is_known` is true once the API
    server trusts it."""

    def __init__(
        self, endpoint: Endpoint, names: Sequence[str], name: str, lifetime: float, metrics: Metrics, log: Log,
        client_authority: str = "",
    ) -> None:  # fmt: skip
        """`names`: further names of the certificate; `name`: that of the configurations. `client_authority`: a file;
        only clients with a certificate of it are answered. Raises OSError if it cannot be used."""
        self.is_known = False
        self._endpoint = endpoint
        self._name = name
        self._metrics = metrics
        self._log = log
        namespace, _, service = endpoint.service.partition("/")
        own = [f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local"] if service else []
        self._tls = IssuedTls(
            [*own, *names], client_authority, report=log.report, lifetime=timedelta(seconds=lifetime)
        )
        self.tls = self._tls.context
        metrics.ends.set_function(lambda: self._tls.issued.ends.timestamp())

    async def run(self, client: Client, every: float) -> None:
        """Checks the configurations periodically, until cancelled."""
        while True:
            try:
                await self._settle(client, every)
            except NotRegistered as fault:
                self.is_known = False
                self._log(0, str(fault))
            except errors.ApiError as fault:
                self._log(0, f"the webhook configurations could not be written: {fault}")
            await asyncio.sleep(every)

    async def _settle(self, client: Client, every: float) -> None:
        fresh = self._tls.successor()
        trusted = [one.authority for one in (self._tls.issued, fresh) if one is not None]
        if await register(client, self._endpoint, trusted, utc_now, self._name):
            self._metrics.written.inc()
            self._log(0, "registered", name=self._name)
        self.is_known = True
        if fresh is not None:
            await asyncio.sleep(min(TRUST_DELAY_S, every))
            self._tls.use(fresh)
            self._log(0, "certificate renewed", ends=fresh.ends.isoformat())
