"""The one `node`, `pod`, `queue` and `group` of all tests: plain manifests, and typed objects made from them.

The other modules of this package add what a kind of test needs (racks, chips, volumes, applications in cities) under
names that say so (`gpu_node`, `member_pod`, `affinity_queue`); each builds its manifests here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from muster.engine.core.state import State
from muster.model import kinds
from muster.model.meta import Object, key

Manifest = dict[str, Any]
VOLCANO = "scheduling.volcano.sh/v1beta1"
GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
CLUSTER_SCOPED = frozenset({
    "ClusterRole", "ClusterRoleBinding", "CSIDriver", "CSINode", "CustomResourceDefinition", "HyperNode", "Namespace",
    "MutatingWebhookConfiguration", "Node", "NodeGroup", "PersistentVolume", "PriorityClass", "Queue", "StorageClass",
    "Topology", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration",
})  # fmt: skip


def manifest(
    version: str,
    kind: str,
    name: str,
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    meta: Mapping[str, Any] | None = None,
    **parts: Any,
) -> Manifest:
    """Any object; `parts` are its top-level fields, `meta` are further fields of its metadata."""
    metadata: Manifest = {"name": name, "labels": dict(labels or {}), "annotations": dict(annotations or {})}
    if namespace and kind not in CLUSTER_SCOPED:
        metadata["namespace"] = namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata | dict(meta or {}), **parts}


def node(
    name: str = "n1",
    *,
    cpu: object = 8,
    memory: object = "16Gi",
    pods: object = 110,
    resources: Mapping[str, object] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    ready: bool | None = None,
    images: Sequence[Manifest] = (),
    meta: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Manifest:
    """A node; `resources` are allocatable besides cpu, memory and pods; other keywords are fields of its spec."""
    offered = {"cpu": str(cpu), "memory": str(memory), "pods": str(pods)}
    offered |= {resource: str(amount) for resource, amount in (resources or {}).items()}
    status: Manifest = {"allocatable": offered, "capacity": offered, "images": list(images)}
    if ready is not None:
        status["conditions"] = [{"type": "Ready", "status": str(ready)}]
    return manifest("v1", "Node", name, labels=labels, annotations=annotations, meta=meta, spec=spec, status=status)


def pod(
    name: str,
    group: str = "",
    on: str = "",
    *,
    namespace: str = "default",
    cpu: object = 1,
    memory: object = None,
    requests: Mapping[str, object] | None = None,
    limits: Mapping[str, object] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    phase: str | None = None,
    meta: Mapping[str, Any] | None = None,
    container: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Manifest:
    """A pod with one container: it runs on the node `on`, or is pending.

    It requests `cpu` and `memory`, where they are not None; `requests` replaces both. `group` is its PodGroup,
    `container` has further fields of the container; other keywords are fields of its spec.
    """
    asked = {"cpu": cpu, "memory": memory} if requests is None else requests
    resources = {"requests": {resource: str(amount) for resource, amount in asked.items() if amount is not None}}
    if limits:
        resources["limits"] = {resource: str(amount) for resource, amount in limits.items()}
    main = {"name": "main", "resources": resources, **(container or {})}
    notes = {**({GROUP_ANNOTATION: group} if group else {}), **(annotations or {})}
    body: Manifest = {"containers": [main], **spec, **({"nodeName": on} if on else {})}
    status = {"phase": ("Running" if on else "Pending") if phase is None else phase}
    return manifest(
        "v1", "Pod", name, namespace=namespace, labels=labels, annotations=notes, meta=meta, spec=body, status=status
    )


def queue(
    name: str = "default", *, state: str = "", annotations: Mapping[str, str] | None = None, **spec: Any
) -> Manifest:
    status = {"state": state} if state else {}
    return manifest(VOLCANO, "Queue", name, annotations=annotations, spec=spec, status=status)


def group(
    name: str,
    queue: str = "",
    *,
    namespace: str = "default",
    minMember: int = 1,
    phase: str = "",
    annotations: Mapping[str, str] | None = None,
    created: str | None = None,
    **spec: Any,
) -> Manifest:
    """A PodGroup; other keywords are fields of its spec (`minResources`, `priorityClassName` …)."""
    body = {"minMember": minMember, **({"queue": queue} if queue else {}), **spec}
    status = {"phase": phase} if phase else {}
    meta = {"creationTimestamp": created} if created else None
    return manifest(
        VOLCANO, "PodGroup", name, namespace=namespace, annotations=annotations, meta=meta, spec=body, status=status
    )


def priority_class(name: str, value: int, **more: Any) -> Manifest:
    return manifest("scheduling.k8s.io/v1", "PriorityClass", name, value=value, **more)


def definition(group: str, kind: str, *, scope: str = "Namespaced") -> Manifest:
    """A CustomResourceDefinition, version v1, whose objects may have any field."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    singular = kind.lower()
    names = {"kind": kind, "plural": f"{singular}s", "singular": singular, "listKind": f"{kind}List"}
    spec = {"group": group, "scope": scope, "names": names, "versions": [version]}
    name = f"{singular}s.{group}"
    return manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", name, spec=spec)


def typed(item: Object | Manifest) -> Any:
    """The typed object of a manifest; an object as it is."""
    return kinds.decode(item) if isinstance(item, dict) else item


def tables(objects: Iterable[Any]) -> dict[str, dict[str, Object]]:
    """Kind → key → object, of manifests, typed objects and lists of both."""
    found: dict[str, dict[str, Object]] = {}
    for item in objects:
        for one in item if isinstance(item, list) else [item]:
            made = typed(one)
            found.setdefault(type(made).__name__, {})[key(made)] = made
    return found


def state_of(*objects: Any) -> State:
    """The engine's state of manifests, typed objects and lists of both."""
    state = State()
    state.load(tables(objects))
    return state
