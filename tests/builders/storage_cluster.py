"""Builds small clusters with volumes, and asks the volume rules about them."""

from __future__ import annotations

from builders import manifests
from builders.manifests import Manifest, state_of
from muster.config.types import Arguments, Config, PluginOption
from muster.engine.core.hooks import NodeFilter
from muster.engine.core.jobs import Task
from muster.engine.core.session import Session
from muster.engine.volumes.volume_binder import VolumeBinder
from muster.plugins.predicates import Predicates


def zone_node(name: str, /, **labels: str) -> Manifest:
    """`zone` is short for the zone label; every node has its hostname label."""
    given = {"kubernetes.io/hostname": name}
    if "zone" in labels:
        given["topology.kubernetes.io/zone"] = labels.pop("zone")
    return manifests.node(name, memory="8Gi", pods=20, labels=given | labels)


def pod_with_volumes(name: str, *volumes: str | Manifest, on: str = "") -> Manifest:
    """A text is the name of a claim; with `on` the pod runs there."""
    listed = [
        {"name": f"v{i}", "persistentVolumeClaim": {"claimName": v}} if isinstance(v, str) else {"name": f"v{i}"} | v
        for i, v in enumerate(volumes)
    ]
    return manifests.pod(name, on=on, cpu=None, volumes=listed)


def claim(name: str, storage_class: str | None = "local", size: str = "1Gi", **spec: object) -> Manifest:
    body: Manifest = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}} | spec
    if storage_class is not None:
        body["storageClassName"] = storage_class
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": body}


def volume(name: str, size: str = "1Gi", at: str = "", storage_class: str = "local", **spec: object) -> Manifest:
    body: Manifest = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
    } | spec
    if at:
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": at.split()}]}
        body["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": body}


def storage_class(
    name: str, provisioner: str = "kubernetes.io/no-provisioner", mode: str = "WaitForFirstConsumer", **more: object
) -> Manifest:
    meta = {"name": name}
    body = {"provisioner": provisioner, "volumeBindingMode": mode}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": meta} | body | more


def csi_node(name: str, migrated: str = "", **limits: int) -> Manifest:
    drivers = [{"name": d.replace("_", "."), "nodeID": name, "allocatable": {"count": n}} for d, n in limits.items()]
    meta: Manifest = {"name": name}
    if migrated:
        meta["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": migrated}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": meta, "spec": {"drivers": drivers}}


class Cluster:
    """A session over some manifests."""

    def __init__(self, *given: Manifest) -> None:
        self.state = state_of(*given)
        self.predicates = Predicates(Arguments({}), PluginOption("predicates"))
        self.session = Session(self.state, Config(), [[self.predicates]], 0.0)
        self.volumes = self.session.shared(VolumeBinder)

    def task(self, name: str) -> Task:
        return self.state.tasks[f"default/{name}"]

    def term(self, kind: type[NodeFilter]) -> NodeFilter:
        return next(t for t in self.predicates.filters() if isinstance(t, kind))

    def refusals(self, kind: type[NodeFilter], pod_name: str) -> dict[str, str]:
        """Node → the text of the term's refusal, "" where it takes the pod."""
        verdict = self.term(kind).filter(self.task(pod_name), self.state.nodes.everything())
        return {
            name: verdict.reasons[code - 1].message(i) if code else ""
            for i, (name, code) in enumerate(zip(self.state.nodes.names, verdict.code.tolist(), strict=True))
        }

    def taken_by(self, kind: type[NodeFilter], pod_name: str) -> list[str]:
        """The nodes where the term takes the pod."""
        return [name for name, text in self.refusals(kind, pod_name).items() if not text]

    def place(self, pod_name: str, node_name: str) -> None:
        statement = self.session.statement()
        statement.allocate([self.task(pod_name)], [self.state.nodes.rank[node_name]])
        statement.commit()

    def effects(self, pod_name: str) -> dict[str, dict[str, str]]:
        task = self.task(pod_name)
        return {effect.key: effect.values for effect in self.predicates.effects(task, task.node)}
