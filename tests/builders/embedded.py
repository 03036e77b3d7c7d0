"""Objects of tests of the embedded cluster, and a cluster of them."""

from __future__ import annotations

from collections.abc import Iterable

from muster.cluster.embedded import EmbeddedCluster
from muster.model.core import Container, Node, NodeStatus, Pod, PodSpec, PodTemplateSpec, ResourceRequirements
from muster.model.meta import LabelSelector, Object, ObjectMeta, OwnerReference, key


def spec(cpu: str = "1", grace: int | None = None) -> PodSpec:
    container = Container(name="main", resources=ResourceRequirements(requests={"cpu": cpu}))
    return PodSpec(containers=[container], termination_grace_period_seconds=grace)


def template(app: str = "web", cpu: str = "1", annotations: dict[str, str] | None = None) -> PodTemplateSpec:
    return PodTemplateSpec(metadata=ObjectMeta(labels={"app": app}, annotations=annotations or {}), spec=spec(cpu))


def selector(app: str = "web") -> LabelSelector:
    return LabelSelector(match_labels={"app": app})


def pod(name: str, node: str = "", phase: str = "", labels: dict[str, str] | None = None, owner: str = "") -> Pod:
    made = Pod(metadata=ObjectMeta(name=name, labels=labels or {}), spec=spec())
    made.spec.node_name = node
    made.status.phase = phase
    if owner:
        kind, _, owner_name = owner.partition("/")
        made.metadata.owner_references = [OwnerReference(kind=kind, name=owner_name, controller=True)]
    return made


def node(name: str, labels: dict[str, str] | None = None) -> Node:
    status = NodeStatus(allocatable={"cpu": "8", "memory": "16Gi", "pods": "110"})
    return Node(metadata=ObjectMeta(name=name, labels=labels or {}), status=status)


def tables(objects: Iterable[Object]) -> dict[str, dict[str, Object]]:
    found: dict[str, dict[str, Object]] = {}
    for obj in objects:
        found.setdefault(type(obj).__name__, {})[key(obj)] = obj
    return found


def cluster(*objects: Object, now: float = 1000.0) -> EmbeddedCluster:
    return EmbeddedCluster(tables(objects), now)


def pods_of(embedded: EmbeddedCluster) -> dict[str, Pod]:
    return {obj.metadata.name: obj for obj in embedded.store.list(Pod).items}


def bind_all(embedded: EmbeddedCluster, to: str) -> None:
    """Give every pod without a node this one, and let it start."""
    for name, found in pods_of(embedded).items():
        if not found.spec.node_name:
            embedded.store.bind(f"{found.metadata.namespace}/{name}", to)
    embedded.step()
