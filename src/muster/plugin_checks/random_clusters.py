"""Small random clusters in which every feature meets every other.

`cluster()` has every feature that filters, scores and queues know; `plain` leaves out all but resources, node
selectors, taints, host ports, priorities and queues. Pods that run fit their nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from muster.engine.core.state import State
from muster.model import kinds
from muster.model.meta import Object, OwnerReference, key
from muster.model.requests import amounts
from muster.plugin_checks.choices import Choices
from muster.plugin_checks.pod_features import (
    AVOIDED_TAINT,
    CHIPS,
    GPU,
    HOST,
    PLAIN_POD_RULES,
    POD_RULES,
    REQUESTS,
    TAINT,
    ZONE,
)

__all__ = ["GPU", "GROUP", "NOW", "cluster", "state_of"]

GROUP = "scheduling.k8s.io/group-name"
NODE_GROUP = "volcano.sh/nodegroup-name"
NOW = 1_767_225_690.0  # half a minute after the latest of TIMES
TIMES = (None, "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z")


def _made(version: str, kind: str, meta: dict[str, Any], **parts: Any) -> Object:
    return kinds.decode({"apiVersion": version, "kind": kind, "metadata": meta, **parts})


def state_of(objects: Iterable[Object]) -> State:
    """The engine's state of a cluster."""
    by_kind: dict[str, dict[str, Object]] = {}
    for one in objects:
        by_kind.setdefault(type(one).__name__, {})[key(one)] = one
    state = State()
    state.load(by_kind)
    return state


# --- nodes


def _node(choices: Choices, i: int, plain: bool) -> Object:
    offered: dict[str, Any] = {
        "cpu": choices.one_of([2, 4, "3500m"]),
        "memory": choices.one_of(["4Gi", "8Gi"]),
        "pods": choices.one_of([110, 110, 2, 3]),
    }
    if choices.flip():
        offered[GPU] = 2
    labels, notes, images = {HOST: f"n{i}"}, {}, []
    spec: dict[str, Any] = {}
    extra = choices.integer(0, 6 if plain else 12)
    if extra in (1, 2, 7):
        labels["disk"] = "ssd"
    if extra == 3:
        spec["taints"] = [TAINT]
    if extra == 4:
        spec["unschedulable"] = True
    if extra == 8:
        spec["taints"] = [AVOIDED_TAINT]
    if extra == 9:
        images = [{"names": ["big"], "sizeBytes": 700 << 20}]
    if not plain:
        labels |= choices.one_of([{}, {ZONE: "a"}, {ZONE: "b"}])
        labels |= choices.one_of([{}, {NODE_GROUP: "g1"}, {NODE_GROUP: "g2"}])
        if extra in (10, 11):
            offered[CHIPS] = 8
            labels["accelerator-type"] = "module"
            notes[CHIPS] = ",".join(f"Ascend910-{i}" for i in range(8))
    meta = {"name": f"n{i}", "labels": labels, "annotations": notes}
    return _made("v1", "Node", meta, spec=spec, status={"allocatable": offered, "images": images})


# --- queues

_SOME: tuple[dict[str, Any], ...] = ({}, {}, {"cpu": 3}, {"cpu": 2, "memory": "4Gi"}, {GPU: 1, "cpu": 4})
_GROUPS = ("g1", "g2")


def _queue(choices: Choices, i: int, plain: bool) -> Object:
    spec: dict[str, Any] = {
        "weight": choices.integer(1, 3),
        "capability": choices.one_of(_SOME),
        "reclaimable": choices.one_of([None, True, False]),
        "priority": choices.one_of([0, 0, 1]),
    }
    notes = {}
    if choices.integer(0, 3) == 3:
        spec["guarantee"] = {"resource": {"cpu": 1}}
    if not plain:
        spec["deserved"] = choices.one_of(_SOME)
        spec["parent"] = choices.one_of(["", "root"])
        if choices.integer(0, 3) == 3:
            hard, soft = (f"{w}DuringSchedulingIgnoredDuringExecution" for w in ("required", "preferred"))
            spec["affinity"] = {
                "nodeGroupAffinity": {hard: choices.subset(_GROUPS), soft: choices.subset(_GROUPS)},
                "nodeGroupAntiAffinity": {hard: choices.subset(_GROUPS), soft: choices.subset(_GROUPS)},
            }
        if choices.integer(0, 5) == 5:
            notes["volcano.sh/nodegroup-resource-limits"] = '{"g1": {"cpu": 2}}'
        notes["volcano.sh/hierarchy"] = f"root/{'ab'[i % 2]}/q{i}"
        notes["volcano.sh/hierarchy-weights"] = f"1/{i + 1}/1"
    meta = {"name": f"q{i}", "annotations": notes, "creationTimestamp": choices.one_of(TIMES)}
    state = choices.one_of(["Open", "Open", "Open", "", "", "", "Closed"])
    return _made("scheduling.volcano.sh/v1beta1", "Queue", meta, spec=spec, status={"state": state})


# --- jobs


@dataclass
class _Free:
    """What is free on each node, so that pods that run fit."""

    left: list[dict[str, int]]

    def take(self, node: int, request: dict[str, Any]) -> bool:
        asked = {**amounts(request), "pods": 1}
        left = self.left[node]
        if any(left.get(name, 0) < amount for name, amount in asked.items()):
            return False
        for name, amount in asked.items():
            left[name] -= amount
        return True


def _job(choices: Choices, j: int, queues: int, free: _Free, plain: bool, age: str = "") -> list[Object]:
    """An old job runs as far as there is capacity, and has pods to spare; a new one is small and waits."""
    old, new = age == "old", age == "new"
    name, bare = f"j{j}", not plain and choices.integer(0, 5) == 5
    size = choices.integer(1, 3 if new else 5)
    shapes = [_shape(choices, plain) for _ in range(choices.one_of([1, 1, 2]))]
    form = f"{name}-{{}}" if plain or choices.flip() else f"{name}-w-{{}}"
    filled = size if old else 0 if new else choices.one_of([0, 0, 1, 2, 3])
    pods: list[Any] = []
    for i in range(size):
        request, rules = choices.one_of(shapes) if len(shapes) > 1 else shapes[0]
        node = -1
        if i < filled and CHIPS not in request and "volumes" not in rules:
            first = choices.integer(0, len(free.left) - 1)
            nodes = range(first, first + len(free.left) if old else first + 1)
            node = next((n % len(free.left) for n in nodes if free.take(n % len(free.left), request)), -1)
        pods.append(_pod(choices, form.format(i), "" if bare else name, request, rules, node, plain))
    if bare:
        owner = OwnerReference(api_version="batch/v1", kind="Job", name=name, uid=name, controller=True)
        for one in pods if choices.flip() else ():
            one.metadata.owner_references = [owner]
        return pods
    if old:
        pods = [p for p in pods if p.spec.node_name]
    running = any(p.spec.node_name for p in pods)
    spec: dict[str, Any] = {
        "minMember": choices.integer(0, size + 1) if choices.integer(0, 4) == 4 else choices.integer(1, size),
        "queue": f"q{choices.integer(0, queues - 1)}",
        "priorityClassName": choices.one_of(["low", ""] if old else ["", "high", "low", "high"]),
    }
    if old:
        spec["minMember"] = choices.one_of([0, 1, 1, 2])
    if not plain and choices.integer(0, 4) == 4:
        spec["minTaskMember"] = {"main": 1, "side": choices.integer(0, 2)}
    if choices.integer(0, 2) == 2:
        spec["minResources"] = {"cpu": choices.integer(1, 4)}
    meta: dict[str, Any] = {"name": name, "namespace": "d", "creationTimestamp": choices.one_of(TIMES)}
    if not plain and choices.integer(0, 5) == 5:
        meta["annotations"] = {"muster.io/one-node-group": "true"}
    if not plain and choices.integer(0, 5) == 5:
        spec["networkTopology"] = {"mode": choices.one_of(["hard", "soft"]), "highestTierAllowed": 1}
    phase = "Running" if running else choices.one_of(["Inqueue"] if new else ["Inqueue", "Inqueue", "Pending"])
    return [_made("scheduling.volcano.sh/v1beta1", "PodGroup", meta, spec=spec, status={"phase": phase}), *pods]


def _shape(choices: Choices, plain: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    request = choices.one_of(REQUESTS)
    if not plain and choices.integer(0, 7) == 7:
        request = {"cpu": 1, CHIPS: choices.one_of([1, 2, 4])}
    return request, choices.one_of(PLAIN_POD_RULES if plain else POD_RULES)


def _pod(
    choices: Choices, name: str, group: str, request: dict[str, Any], rules: dict[str, Any], node: int, plain: bool
) -> Object:
    rules = dict(rules)
    main = {"name": "main", "image": rules.pop("image", "app"), "resources": {"requests": request}}
    main["ports"] = rules.pop("ports", [])
    notes = {GROUP: group} if group else {}
    odd = choices.integer(0, 11 if plain else 14)
    spec: dict[str, Any] = {"containers": [main], **rules, "nodeName": f"n{node}" if node >= 0 else ""}
    meta: dict[str, Any] = {"name": name, "namespace": "d", "annotations": notes}
    meta["creationTimestamp"] = TIMES[odd % 3]
    if odd in (3, 4):
        spec["priority"] = odd
    if odd == 5:
        spec["preemptionPolicy"] = "Never"
    if odd == 6 and node < 0:
        spec["schedulingGates"] = [{"name": "wait"}]
    if odd == 7:
        notes["volcano.sh/preemptable"] = "false"
    if odd == 8:
        spec["priorityClassName"] = "system-node-critical"
    if odd in (9, 10) and node >= 0:
        meta["deletionTimestamp"] = TIMES[1]
    status: dict[str, Any] = {"phase": "Running" if node >= 0 and odd != 11 else "Pending"}
    if not plain:
        meta["labels"] = choices.one_of([{}, {"app": "x"}, {"app": "y"}])
        if odd in (12, 13):
            notes["volcano.sh/task-spec"] = "main" if odd == 12 else "side"
        if odd == 14 and node < 0:
            status["nominatedNodeName"] = "n0"
    return _made("v1", "Pod", meta, spec=spec, status=status)


def _storage() -> list[Object]:
    """One volume that lies on n0, and a class that makes volumes where the pod goes."""
    here = {"matchExpressions": [{"key": HOST, "operator": "In", "values": ["n0"]}]}
    body = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    wait = {"volumeBindingMode": "WaitForFirstConsumer"}
    volume = {**body, "storageClassName": "s", "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}}}
    return [
        _made("storage.k8s.io/v1", "StorageClass", {"name": "s"}, provisioner="kubernetes.io/no-provisioner", **wait),
        _made("storage.k8s.io/v1", "StorageClass", {"name": "m"}, provisioner="x.io/made", **wait),
        _made("v1", "PersistentVolume", {"name": "v0"}, spec=volume),
        *(
            _made("v1", "PersistentVolumeClaim", {"name": n, "namespace": "d"}, spec={**claim, "storageClassName": c})
            for n, c in (("c0", "s"), ("c1", "m"))
        ),
    ]


def _hyper_node(choices: Choices, name: str, nodes: int) -> Object:
    inside = choices.subset(range(nodes))
    members = [{"type": "Node", "selector": {"exactMatch": {"name": f"n{i}"}}} for i in sorted(inside)]
    return _made("topology.volcano.sh/v1alpha1", "HyperNode", {"name": name}, spec={"tier": 1, "members": members})


def cluster(
    choices: Choices, *, plain: bool = False, crowded: bool = False, most_jobs: int = 5
) -> tuple[Object, ...]:
    """The objects of a cluster. `crowded`: old jobs use most of the capacity."""
    nodes: list[Any] = [_node(choices, i, plain) for i in range(choices.integer(1, 4))]
    queues = [_queue(choices, i, plain) for i in range(choices.integer(1, 2 if crowded else 3))]
    free = _Free([amounts(n.status.allocatable) for n in nodes])
    jobs = [o for j in range(3 * crowded) for o in _job(choices, j + 10, len(queues), free, plain, "old")]
    age = "new" if crowded else ""
    jobs += [o for j in range(choices.integer(1, most_jobs)) for o in _job(choices, j, len(queues), free, plain, age)]
    classes = [
        _made("scheduling.k8s.io/v1", "PriorityClass", {"name": name}, value=value)
        for name, value in (("high", 10), ("low", -10), ("system-node-critical", 2_000_001_000))
    ]
    more: list[Object] = []
    if not plain:
        more = [*_storage(), *(_hyper_node(choices, name, len(nodes)) for name in ("h0", "h1"))]
        more.append(_made("scheduling.volcano.sh/v1beta1", "Queue", {"name": "default"}, spec={"weight": 1}))
        if choices.flip():
            more.append(_made("scheduling.volcano.sh/v1beta1", "Queue", {"name": "root"}, spec={}))
        if choices.integer(0, 3) == 3:
            budget = {"selector": {"matchLabels": {"app": "x"}}, "minAvailable": 1}
            more.append(_made("policy/v1", "PodDisruptionBudget", {"name": "b", "namespace": "d"}, spec=budget))
    return (*nodes, *queues, *classes, *more, *jobs)
