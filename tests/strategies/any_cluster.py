"""Clusters as hypothesis draws them: small ones in which everything meets everything.

`clusters()` has every feature that filters, scores and queues know; `clusters(plain=True)` only what a plain reading
(`naive`) knows as well. Pods that run fit their nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from hypothesis import strategies as st

from builders.ascend import RESOURCE as CHIPS
from builders.ascend import names as chip_names
from builders.queued_jobs import made
from builders.small_cluster import LABEL
from muster.engine.core.state import State
from muster.model.meta import Object, OwnerReference, key
from muster.model.requests import amounts
from oracles.neighbours import HOST, ZONE, affinity, near, spread

GPU = "nvidia.com/gpu"
GROUP = "scheduling.k8s.io/group-name"
NOW = 1_767_225_690.0  # half a minute after the latest of TIMES
TIMES = (None, "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z")

REQUESTS: tuple[dict[str, Any], ...] = (
    {"cpu": 1},
    {"cpu": 2, "memory": "2Gi"},
    {"cpu": "1500m", "memory": "1Gi"},
    {"memory": "3Gi"},
    {"cpu": 1, GPU: 1},
    {"cpu": "300m", "memory": "700Mi"},
    {},
)
_TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
_MINDED = {"key": "slow", "value": "", "effect": "PreferNoSchedule"}
_PREFERS = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 3, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}},
            {"weight": 5, "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]}},
        ]
    }
}
# what a pod may say of the node itself; plain ones come first
PLAIN_WISHES: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"nodeSelector": {"disk": "ssd"}},
    {"tolerations": [{"key": "dedicated", "operator": "Exists"}]},
    {"ports": [{"containerPort": 80, "hostPort": 8080}]},
)
WISHES: tuple[dict[str, Any], ...] = (
    *PLAIN_WISHES,
    {"affinity": _PREFERS},
    {"affinity": affinity(required=[near("x")])},
    {"affinity": affinity(anti=[near("x", HOST)])},
    {"affinity": affinity(anti=[near("y")])},
    {"affinity": affinity(preferred=[(7, near("x"))], avoided=[(4, near("y", HOST))])},
    {"topologySpreadConstraints": [spread("x")]},
    {"topologySpreadConstraints": [spread("y", soft=True), spread("y", HOST, skew=2, soft=True)]},
    {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c0"}}]},
    {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c1"}}]},
    {"image": "big"},
)


@dataclass(frozen=True)
class Cluster:
    """The objects of a cluster, in the order they were drawn."""

    objects: tuple[Object, ...]

    def state(self) -> State:
        return state_of(self.objects)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """An example as one line of JSON per object."""
        printer.text("\n".join(["Cluster", *(msgspec.json.encode(o).decode() for o in self.objects), ""]))


def state_of(objects: Any) -> State:
    held: dict[str, dict[str, Object]] = {}
    for one in objects:
        held.setdefault(type(one).__name__, {})[key(one)] = one
    state = State()
    state.load(held)
    return state


# --- nodes


def _node(draw: st.DrawFn, i: int, plain: bool) -> Object:
    offered: dict[str, Any] = {
        "cpu": draw(st.sampled_from([2, 4, "3500m"])),
        "memory": draw(st.sampled_from(["4Gi", "8Gi"])),
        "pods": draw(st.sampled_from([110, 110, 2, 3])),
    }
    if draw(st.booleans()):
        offered[GPU] = 2
    labels, notes, images = {HOST: f"n{i}"}, {}, []
    spec: dict[str, Any] = {}
    extra = draw(st.integers(0, 6 if plain else 12))
    if extra in (1, 2, 7):
        labels["disk"] = "ssd"
    if extra == 3:
        spec["taints"] = [_TAINT]
    if extra == 4:
        spec["unschedulable"] = True
    if extra == 8:
        spec["taints"] = [_MINDED]
    if extra == 9:
        images = [{"names": ["big"], "sizeBytes": 700 << 20}]
    if not plain:
        labels |= draw(st.sampled_from([{}, {ZONE: "a"}, {ZONE: "b"}]))
        labels |= draw(st.sampled_from([{}, {LABEL: "g1"}, {LABEL: "g2"}]))
        if extra in (10, 11):
            offered[CHIPS] = 8
            labels["accelerator-type"] = "module"
            notes[CHIPS] = chip_names(range(8))
    meta = {"name": f"n{i}", "labels": labels, "annotations": notes}
    return made("v1", "Node", meta, spec=spec, status={"allocatable": offered, "images": images})


# --- queues

_SOME = st.sampled_from([{}, {}, {"cpu": 3}, {"cpu": 2, "memory": "4Gi"}, {GPU: 1, "cpu": 4}])
_GROUPS = st.lists(st.sampled_from(["g1", "g2"]), unique=True, max_size=2)


def _queue(draw: st.DrawFn, i: int, plain: bool) -> Object:
    spec: dict[str, Any] = {
        "weight": draw(st.integers(1, 3)),
        "capability": draw(_SOME),
        "reclaimable": draw(st.sampled_from([None, True, False])),
        "priority": draw(st.sampled_from([0, 0, 1])),
    }
    notes = {}
    if draw(st.integers(0, 3)) == 3:
        spec["guarantee"] = {"resource": {"cpu": 1}}
    if not plain:
        spec["deserved"] = draw(_SOME)
        spec["parent"] = draw(st.sampled_from(["", "root"]))
        if draw(st.integers(0, 3)) == 3:
            hard, soft = (f"{w}DuringSchedulingIgnoredDuringExecution" for w in ("required", "preferred"))
            spec["affinity"] = {
                "nodeGroupAffinity": {hard: draw(_GROUPS), soft: draw(_GROUPS)},
                "nodeGroupAntiAffinity": {hard: draw(_GROUPS), soft: draw(_GROUPS)},
            }
        if draw(st.integers(0, 5)) == 5:
            notes["volcano.sh/nodegroup-resource-limits"] = '{"g1": {"cpu": 2}}'
        notes["volcano.sh/hierarchy"] = f"root/{'ab'[i % 2]}/q{i}"
        notes["volcano.sh/hierarchy-weights"] = f"1/{i + 1}/1"
    meta = {"name": f"q{i}", "annotations": notes, "creationTimestamp": draw(st.sampled_from(TIMES))}
    state = draw(st.sampled_from(["Open", "Open", "Open", "", "", "", "Closed"]))
    return made("scheduling.volcano.sh/v1beta1", "Queue", meta, spec=spec, status={"state": state})


# --- jobs


@dataclass
class _Room:
    """What is left on each node, so that pods that run fit."""

    left: list[dict[str, int]]

    def take(self, node: int, request: dict[str, Any]) -> bool:
        asked = {**amounts(request), "pods": 1}
        left = self.left[node]
        if any(left.get(name, 0) < amount for name, amount in asked.items()):
            return False
        for name, amount in asked.items():
            left[name] -= amount
        return True


def _job(draw: st.DrawFn, j: int, queues: int, room: _Room, plain: bool, age: str = "") -> list[Object]:
    """An old job runs as far as there is room, and has pods to spare; a new one is small and waits."""
    old, new = age == "old", age == "new"
    name, bare = f"j{j}", not plain and draw(st.integers(0, 5)) == 5
    size = draw(st.integers(1, 3 if new else 5))
    shapes = [_shape(draw, plain) for _ in range(draw(st.sampled_from([1, 1, 2])))]
    form = f"{name}-{{}}" if plain or draw(st.booleans()) else f"{name}-w-{{}}"
    filled = size if old else 0 if new else draw(st.sampled_from([0, 0, 1, 2, 3]))
    pods = []
    for i in range(size):
        request, wish = draw(st.sampled_from(shapes)) if len(shapes) > 1 else shapes[0]
        node = -1
        if i < filled and CHIPS not in request and "volumes" not in wish:
            first = draw(st.integers(0, len(room.left) - 1))
            nodes = range(first, first + len(room.left) if old else first + 1)
            node = next((n % len(room.left) for n in nodes if room.take(n % len(room.left), request)), -1)
        pods.append(_pod(draw, form.format(i), "" if bare else name, request, wish, node, plain))
    if bare:
        owner = OwnerReference(api_version="batch/v1", kind="Job", name=name, uid=name, controller=True)
        for one in pods if draw(st.booleans()) else ():
            one.metadata.owner_references = [owner]
        return pods
    if old:
        pods = [p for p in pods if p.spec.node_name]  # type: ignore[attr-defined]
    running = any(p.spec.node_name for p in pods)  # type: ignore[attr-defined]
    spec: dict[str, Any] = {
        "minMember": draw(st.integers(0, size + 1) if draw(st.integers(0, 4)) == 4 else st.integers(1, size)),
        "queue": f"q{draw(st.integers(0, queues - 1))}",
        "priorityClassName": draw(st.sampled_from(["low", ""] if old else ["", "high", "low", "high"])),
    }
    if old:
        spec["minMember"] = draw(st.sampled_from([0, 1, 1, 2]))
    if not plain and draw(st.integers(0, 4)) == 4:
        spec["minTaskMember"] = {"main": 1, "side": draw(st.integers(0, 2))}
    if draw(st.integers(0, 2)) == 2:
        spec["minResources"] = {"cpu": draw(st.integers(1, 4))}
    meta: dict[str, Any] = {"name": name, "namespace": "d", "creationTimestamp": draw(st.sampled_from(TIMES))}
    if not plain and draw(st.integers(0, 5)) == 5:
        meta["annotations"] = {"muster.io/one-node-group": "true"}
    if not plain and draw(st.integers(0, 5)) == 5:
        spec["networkTopology"] = {"mode": draw(st.sampled_from(["hard", "soft"])), "highestTierAllowed": 1}
    phase = "Running" if running else draw(st.sampled_from(["Inqueue"] if new else ["Inqueue", "Inqueue", "Pending"]))
    return [made("scheduling.volcano.sh/v1beta1", "PodGroup", meta, spec=spec, status={"phase": phase}), *pods]


def _shape(draw: st.DrawFn, plain: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    request = draw(st.sampled_from(REQUESTS))
    if not plain and draw(st.integers(0, 7)) == 7:
        request = {"cpu": 1, CHIPS: draw(st.sampled_from([1, 2, 4]))}
    return request, draw(st.sampled_from(PLAIN_WISHES if plain else WISHES))


def _pod(
    draw: st.DrawFn, name: str, group: str, request: dict[str, Any], wish: dict[str, Any], node: int, plain: bool
) -> Object:
    wish = dict(wish)
    main = {"name": "main", "image": wish.pop("image", "app"), "resources": {"requests": request}}
    main["ports"] = wish.pop("ports", [])
    notes = {GROUP: group} if group else {}
    odd = draw(st.integers(0, 11 if plain else 14))
    spec: dict[str, Any] = {"containers": [main], **wish, "nodeName": f"n{node}" if node >= 0 else ""}
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
        meta["labels"] = draw(st.sampled_from([{}, {"app": "x"}, {"app": "y"}]))
        if odd in (12, 13):
            notes["volcano.sh/task-spec"] = "main" if odd == 12 else "side"
        if odd == 14 and node < 0:
            status["nominatedNodeName"] = "n0"
    return made("v1", "Pod", meta, spec=spec, status=status)


def _storage() -> list[Object]:
    """One volume that lies on n0, and a class that makes volumes where the pod goes."""
    here = {"matchExpressions": [{"key": HOST, "operator": "In", "values": ["n0"]}]}
    body = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    wait = {"volumeBindingMode": "WaitForFirstConsumer"}
    volume = {**body, "storageClassName": "s", "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}}}
    return [
        made("storage.k8s.io/v1", "StorageClass", {"name": "s"}, provisioner="kubernetes.io/no-provisioner", **wait),
        made("storage.k8s.io/v1", "StorageClass", {"name": "m"}, provisioner="x.io/made", **wait),
        made("v1", "PersistentVolume", {"name": "v0"}, spec=volume),
        *(
            made("v1", "PersistentVolumeClaim", {"name": name, "namespace": "d"}, spec={**claim, "storageClassName": c})
            for name, c in (("c0", "s"), ("c1", "m"))
        ),
    ]


def _hyper_node(draw: st.DrawFn, name: str, nodes: int) -> Object:
    inside = draw(st.sets(st.integers(0, nodes - 1)))
    members = [{"type": "Node", "selector": {"exactMatch": {"name": f"n{i}"}}} for i in sorted(inside)]
    return made("topology.volcano.sh/v1alpha1", "HyperNode", {"name": name}, spec={"tier": 1, "members": members})


@st.composite
def clusters(draw: st.DrawFn, *, plain: bool = False, crowded: bool = False, most_jobs: int = 5) -> Cluster:
    """`crowded`: most of the room is taken by old jobs."""
    nodes = [_node(draw, i, plain) for i in range(draw(st.integers(1, 4)))]
    queues = [_queue(draw, i, plain) for i in range(draw(st.integers(1, 2 if crowded else 3)))]
    room = _Room([amounts(n.status.allocatable) for n in nodes])  # type: ignore[attr-defined]
    jobs = [o for j in range(3 * crowded) for o in _job(draw, j + 10, len(queues), room, plain, "old")]
    age = "new" if crowded else ""
    jobs += [o for j in range(draw(st.integers(1, most_jobs))) for o in _job(draw, j, len(queues), room, plain, age)]
    classes = [
        made("scheduling.k8s.io/v1", "PriorityClass", {"name": name}, value=value)
        for name, value in (("high", 10), ("low", -10), ("system-node-critical", 2_000_001_000))
    ]
    more: list[Object] = []
    if not plain:
        more = [*_storage(), *(_hyper_node(draw, name, len(nodes)) for name in ("h0", "h1"))]
        more.append(made("scheduling.volcano.sh/v1beta1", "Queue", {"name": "default"}, spec={"weight": 1}))
        if draw(st.booleans()):
            more.append(made("scheduling.volcano.sh/v1beta1", "Queue", {"name": "root"}, spec={}))
        if draw(st.integers(0, 3)) == 3:
            budget = {"selector": {"matchLabels": {"app": "x"}}, "minAvailable": 1}
            more.append(made("policy/v1", "PodDisruptionBudget", {"name": "b", "namespace": "d"}, spec=budget))
    return Cluster((*nodes, *queues, *classes, *more, *jobs))
