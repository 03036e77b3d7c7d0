"""The Kubernetes objects of an installation, in the order to apply them; `muster manifests` and the Helm chart share
them.

`rights` has what each part may do, `parts` how and where it runs, `admission` the webhook configurations and what the
controllers' account may write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from muster.cli.install.parts import CONFIGURATION, FOLDER, PART_OF, PARTS, PORT, Part, Values, labels_of, selector_of
from muster.cli.install.rights import Right, own_lease

__all__ = ["ACCOUNTS", "PARTS", "Part", "Settings", "default_queue", "installation"]

Plain = dict[str, Any]

ACCOUNTS = (
    "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
    "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
)  # fmt: skip
"""The kinds of objects that a part needs but cannot create itself, without its Deployment and Service."""
_RBAC = "rbac.authorization.k8s.io"
_NOBODY = 65532
AUTHENTICATION_READER = "extension-apiserver-authentication-reader"
"""The Role in kube-system that every API server creates for servers that authenticate clients as it does."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of an installation."""

    namespace: str
    image: str
    configuration: str
    # A CEL list: the labels and annotations that OverridePolicies may change on running pods.
    override_metadata: str = "[]"
    api_servers: tuple[str, ...] = ()  # the source CIDRs of the API server's requests
    webhook_client_ca: str = ""  # the Secret with the authority of the API server's client certificate
    values: Values = field(default_factory=Values)


def installation(settings: Settings, parts: Sequence[Part]) -> list[Plain]:
    """Returns the namespace, and every part in it with its rights."""
    meta = {"name": settings.namespace, "labels": {PART_OF: "muster"}}
    objects: list[Plain] = [_object("v1", "Namespace", meta)]
    for part in parts:
        objects += part_objects(settings.values.sized(part), settings)
    return objects


def default_queue() -> Plain:
    """Returns the queue `default`, for a cluster without it: applied over an existing queue, it would label that."""
    meta = {"name": "default", "labels": labels_of("scheduler")}
    return _object("scheduling.volcano.sh/v1beta1", "Queue", meta, spec={})


def part_objects(part: Part, settings: Settings) -> Iterator[Plain]:
    """Yields the objects of one part: account, rights, configuration, Deployment, Service, budget, and admission."""
    from muster.cli.install.admission import (  # needs the model
        controller_limits,
        extender_policy,
        webhook_configurations,
    )

    if part.guarded and settings.webhook_client_ca:
        more = (*part.arguments, "--client-ca-file", f"{FOLDER}/ca.crt")
        part = replace(part, arguments=more, certificate=settings.webhook_client_ca)
    here = {"name": part.name, "namespace": settings.namespace, "labels": labels_of(part.verb)}
    yield _object("v1", "ServiceAccount", here)
    everywhere = {"name": part.name, "labels": labels_of(part.verb)}
    yield from _granted("ClusterRole", everywhere, part.rights, part.name, settings.namespace)
    at_home = (*(own_lease(part.name) if part.elects else ()), *part.at_home)
    if at_home:
        yield from _granted("Role", here, at_home, part.name, settings.namespace)
    if part.reads_authentication:
        meta = {**here, "name": f"{part.name}-authentication-reader", "namespace": "kube-system"}
        yield _bound("Role", meta, AUTHENTICATION_READER, part.name, settings.namespace)
    if part.wakes:
        yield from extender_policy(part.name, settings.namespace, labels_of(part.verb))
    if part.configured:
        here_configured = {**here, "name": CONFIGURATION}
        yield _object("v1", "ConfigMap", here_configured, data={f"{CONFIGURATION}.conf": settings.configuration})
    yield _deployment(part, here, settings)
    if part.serves:
        scheme, port = ("https", 443) if part.tls_port else ("http", 80)
        ports = [{"name": scheme, "port": port, "targetPort": scheme}]
        yield _object("v1", "Service", here, spec={"selector": selector_of(part.verb), "ports": ports})
    if part.guarded:
        yield _network_policy(part, here, settings)
    if part.replicas > 1:
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": selector_of(part.verb)}}
        yield _object("policy/v1", "PodDisruptionBudget", here, spec=spec)
    if part.verb == "webhook":
        yield from webhook_configurations(f"{settings.namespace}/{part.name}")
    if part.verb == "controllers":
        yield from controller_limits(part.name, settings.namespace, labels_of(part.verb), settings.override_metadata)


def _object(version: str, kind: str, meta: Plain, **more: Any) -> Plain:
    return {"apiVersion": version, "kind": kind, "metadata": dict(meta), **more}


def _granted(kind: str, meta: Plain, rights: Sequence[Right], account: str, namespace: str) -> Iterator[Plain]:
    """Yields a role with the rights, and its binding to the account."""
    yield _object(f"{_RBAC}/v1", kind, meta, rules=[right.plain() for right in rights])
    yield _bound(kind, meta, account, account, namespace)


def _bound(kind: str, meta: Plain, role: str, account: str, namespace: str) -> Plain:
    return _object(
        f"{_RBAC}/v1", f"{kind}Binding", meta,
        roleRef={"apiGroup": _RBAC, "kind": kind, "name": role},
        subjects=[{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    )  # fmt: skip


def _deployment(part: Part, meta: Plain, settings: Settings) -> Plain:
    # Only the replica with the Lease is ready: in a rolling update the new pod and the old one would wait for each
    # other.
    strategy = {"strategy": {"type": "Recreate"}} if part.serves and part.elects else {}
    return _object(
        "apps/v1", "Deployment", meta,
        spec={
            "replicas": part.replicas,
            **strategy,
            "selector": {"matchLabels": selector_of(part.verb)},
            "template": {"metadata": {"labels": labels_of(part.verb)}, "spec": _pod(part, settings)},
        },
    )  # fmt: skip


def _pod(part: Part, settings: Settings) -> Plain:
    volumes: list[Plain] = [{"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}]
    if part.certificate:
        volumes.append({"name": "certificate", "secret": {"secretName": part.certificate}})
    return {
        "serviceAccountName": part.name,
        **settings.values.placement(part),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _NOBODY,
            "runAsGroup": _NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(part, settings)],
        "volumes": volumes,
    }


def _container(part: Part, settings: Settings) -> Plain:
    # The pod's name is the identity in elections; the scheduler writes the state of its configuration on the pod.
    fields = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "POD_UID": "metadata.uid"}
    own_pod = fields if part.elects else {}
    named = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}} for name, field in own_pod.items()]
    ports: list[Plain] = [{"name": "http", "containerPort": PORT}]
    if part.tls_port:
        ports.append({"name": "https", "containerPort": part.tls_port})
    mounts: list[Plain] = [{"name": "tmp", "mountPath": "/tmp"}]
    if part.certificate:
        mounts.append({"name": "certificate", "mountPath": FOLDER, "readOnly": True})
    return {
        "name": part.verb,
        "image": settings.image,
        "args": part.command,
        **({"env": named} if named else {}),
        "ports": ports,
        "livenessProbe": _probe("/healthz", period=10, failures=6),
        "readinessProbe": _probe("/readyz", period=5, failures=2),
        "resources": {"requests": dict(part.requests), "limits": dict(part.limits)},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }


def _network_policy(part: Part, meta: Plain, settings: Settings) -> Plain:
    """Returns the policy by which only the API server reaches the TLS port. Probes and metrics are open to all."""
    # If the control plane has no route to pods, its requests come from these pods.
    tunnel = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
        "podSelector": {"matchLabels": {"k8s-app": "konnectivity-agent"}},
    }
    sources = [tunnel, *({"ipBlock": {"cidr": cidr}} for cidr in settings.api_servers)]
    ingress = [
        {"from": sources, "ports": [{"port": "https", "protocol": "TCP"}]},
        {"ports": [{"port": "http", "protocol": "TCP"}]},
    ]
    spec = {"podSelector": {"matchLabels": selector_of(part.verb)}, "policyTypes": ["Ingress"], "ingress": ingress}
    return _object("networking.k8s.io/v1", "NetworkPolicy", meta, spec=spec)


def _probe(path: str, *, period: int, failures: int) -> Plain:
    return {
        "httpGet": {"path": path, "port": "http"},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
