"""Objects of tests of the embedded cluster, and a cluster of them."""

from __future__ import annotations

from builders.manifests import Manifest, tables
from muster.cluster.embedded import EmbeddedCluster
from muster.model.core import Container, Pod, PodSpec, PodTemplateSpec, ResourceRequirements
from muster.model.meta import LabelSelector, Object, ObjectMeta


def spec(cpu: str = "1", grace: int | None = None) -> PodSpec:
    container = Container(name="main", resources=ResourceRequirements(requests={"cpu": cpu}))
    return PodSpec(containers=[container], termination_grace_period_seconds=grace)


def template(app: str = "web", cpu: str = "1", annotations: dict[str, str] | None = None) -> PodTemplateSpec:
    return PodTemplateSpec(metadata=ObjectMeta(labels={"app": app}, annotations=annotations or {}), spec=spec(cpu))


def selector(app: str = "web") -> LabelSelector:
    return LabelSelector(match_labels={"app": app})


def owned_by(owner: str) -> Manifest:
    """The metadata of an object that `Kind/name` controls."""
    kind, _, name = owner.partition("/")
    return {"ownerReferences": [{"kind": kind, "name": name, "controller": True}]}


def cluster(*objects: Object | Manifest, now: float = 1000.0) -> EmbeddedCluster:
    return EmbeddedCluster(tables(objects), now)


def pods_of(embedded: EmbeddedCluster) -> dict[str, Pod]:
    return {obj.metadata.name: obj for obj in embedded.store.list(Pod).items}


def bind_all(embedded: EmbeddedCluster, to: str) -> None:
    """Give every pod without a node this one, and let it start."""
    for name, found in pods_of(embedded).items():
        if not found.spec.node_name:
            embedded.store.bind(f"{found.metadata.namespace}/{name}", to)
    embedded.step()
