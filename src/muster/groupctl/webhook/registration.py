"""The webhook configurations: part of the manifests; muster writes the authority to trust, and corrects drift.

The webhook's account may get and update them by name, and cannot create them. A process that runs with other rights
creates them where they are missing.

Several replicas may serve, each with an authority of its own: what is trusted is what all of them have written there,
as far as it has not ended.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from muster.groups.assignment import OPT_IN
from muster.groups.binding import DOMAIN
from muster.kube.client import Client
from muster.process.certificates import bundle
from muster.store import errors

Plain = dict[str, Any]

NAME = "muster-webhook"
_SELECTOR = {"matchLabels": {OPT_IN: "enabled"}}
_ROOT = "/apis/admissionregistration.k8s.io/v1"
_TRIES = 5


class Unregistered(Exception):
    """A configuration is missing; the text says which, and what to do."""


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
    """Path of the collection and object of each configuration, without the authority."""
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
    """See that both configurations are there as they should be and trust our authorities; whether one was written."""
    wrote = False
    for path, wanted in configurations(endpoint, name):
        for attempt in range(_TRIES):
            try:
                wrote = await _settle(client, path, wanted, mine, now()) or wrote
                break
            except (errors.Conflict, errors.AlreadyExists):
                if attempt == _TRIES - 1:
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
            raise Unregistered(f"{what}: apply the manifests (muster manifests --part webhook)") from fault
        return True
    if [*hooks] == [hook["name"] for hook in webhooks] and all(_has(hooks[hook["name"]], hook) for hook in webhooks):
        return False
    await client.request("PUT", f"{path}/{name}", body={**known, "webhooks": webhooks}, repeatable=False)
    return True


def _has(stored: Any, wanted: Any) -> bool:
    """Is all that is wanted stored so? The API server fills in fields that were left out."""
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
