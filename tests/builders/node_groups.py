"""Clusters with node groups in two cities: the example of the design and variations of it."""

from __future__ import annotations

from typing import Any

from builders import manifests
from builders.manifests import typed
from muster.cluster.memory import MemoryStore, VirtualClock
from muster.model import kinds
from muster.model.meta import Object

GROUP = "groupmanagement.kubeedge.io"
REQUIRED, BINDING = f"{GROUP}/required-propagationpolicy", f"{GROUP}/binding-propagationpolicy"
REQUIRED_OVERRIDE, BINDING_OVERRIDE = f"{GROUP}/required-overridepolicy", f"{GROUP}/binding-overridepolicy"
CITIES = {"node-a": "hangzhou", "node-b": "hangzhou", "node-c": "beijing", "node-d": "beijing", "node-e": "beijing"}
CONTAINERS = [{"name": "nginx", "image": "nginx:1.14"}]
TEMPLATE = {"metadata": {"labels": {"app": "nginx"}}, "spec": {"containers": CONTAINERS}}

Document = dict[str, Any]


def thing(version: str, kind: str, name: str, meta: Document | None = None, **parts: Any) -> Object:
    namespace = {} if kind in ("Node", "NodeGroup", "PersistentVolume") else {"namespace": "default"}
    metadata = {"name": name, "uid": f"uid-{kind}-{name}".lower(), **namespace, **(meta or {})}
    return kinds.decode({"apiVersion": version, "kind": kind, "metadata": metadata, **parts})


def city_node(name: str, city: str = "", ready: bool = True, **spec: Any) -> Object:
    labels = {"location": city} if city else {}
    return typed(manifests.node(name, labels=labels, ready=ready, meta={"uid": f"uid-node-{name}"}, **spec))


def nodes(but: tuple[str, ...] = ()) -> list[Object]:
    return [city_node(name, city) for name, city in CITIES.items() if name not in but]


def node_group(name: str, *nodes: str, **labels: str) -> Object:
    return thing(f"{GROUP}/v1alpha1", "NodeGroup", name, spec={"nodes": list(nodes), "matchLabels": labels})


def groups() -> list[Object]:
    return [node_group("hangzhou", location="hangzhou"), node_group("beijing", location="beijing")]


def weights(name: str = "pp", **given: int) -> Object:
    entries = [{"nodeGroupNames": [city], "weight": weight} for city, weight in (given or DESIGN).items()]
    spec = {"propagationStrategy": "StaticWeight", "staticWeightList": entries}
    return thing(f"{GROUP}/v1alpha1", "PropagationPolicy", name, spec=spec)


DESIGN = {"Beijing": 2, "Hangzhou": 3}


def ranges(name: str = "pp", **given: tuple[int, int | None]) -> Object:
    entries = [
        {"nodeGroupNames": [city], "min": least, **({} if most is None else {"max": most})}
        for city, (least, most) in given.items()
    ]
    return thing(f"{GROUP}/v1alpha1", "PropagationPolicy", name, spec={"numRange": entries})


def overrides(*rules: Document, name: str = "op") -> Object:
    return thing(f"{GROUP}/v1alpha1", "OverridePolicy", name, spec={"overrideRules": list(rules)})


def registry(city: str) -> Document:
    """The design's rule: the group's own registry."""
    changes = [{"component": "Registry", "operator": "replace", "value": f"{city.lower()}.registry.io"}]
    return {"targetNodeGroup": [city], "imageOverrider": changes}


def bound(policy: str = "pp") -> dict[str, str]:
    return {REQUIRED: policy, BINDING: policy}


def deployment(labels: dict[str, str] | None = None, replicas: int = 5, name: str = "nginx") -> list[Object]:
    """A Deployment and its ReplicaSet."""
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "nginx"}}, "template": TEMPLATE}
    top = thing("apps/v1", "Deployment", name, {"labels": labels or {}}, spec=spec)
    below = thing("apps/v1", "ReplicaSet", f"{name}-1", owner("Deployment", name), spec=spec)
    return [top, below]


def owner(kind: str, name: str, version: str = "apps/v1") -> Document:
    uid = f"uid-{kind}-{name}".lower()
    reference = {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}
    return {"ownerReferences": [reference]}


def nginx_pod(name: str, on: str = "", phase: str = "Running", of: Document | None = None, **meta: Any) -> Object:
    """A pod of the Deployment's ReplicaSet; `of` names another owner ({}: none)."""
    owned = owner("ReplicaSet", "nginx-1") if of is None else of
    metadata = {"uid": f"uid-pod-{name}".lower(), "labels": {"app": "nginx"}, **owned, **meta}
    made = manifests.pod(name, namespace="default", on=on, phase=phase if on else "Pending", meta=metadata)
    made["spec"]["containers"] = CONTAINERS
    return typed(made)


def pods(on: dict[str, int]) -> list[Object]:
    """So many pods on each node: p-<node>-<i>."""
    return [nginx_pod(f"p-{name}-{i}", name) for name, count in on.items() for i in range(count)]


def store_of(*objects: Object) -> MemoryStore:
    return MemoryStore(VirtualClock(1000.0), objects)
