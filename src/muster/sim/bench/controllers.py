"""`muster bench controllers`: what node group management's controllers cost after a policy changed, and at rest.

500 applications in 20 node groups, 20 pods each, in memory. Counted is the processor's time until nothing more is to be
done at that moment, and what is written while nothing happens but what always happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import process_time
from typing import Any, Protocol

from muster.cluster.clock import VirtualClock
from muster.cluster.memory import MemoryStore
from muster.groupctl.controllers.evictions import Evictions
from muster.groupctl.controllers.nodegroup import NodeGroupController
from muster.groupctl.controllers.override import OverridePolicyController
from muster.groupctl.controllers.propagation import PropagationPolicyController
from muster.groups.gate import DOMAIN, Pair
from muster.model.core import Node
from muster.model.groups import OverridePolicy, PropagationPolicy
from muster.model.kinds import decode
from muster.model.meta import Object

NAME = "controllers"
APPS, GROUPS, NODES, REPLICAS = 500, 20, 200, 20
FLOORS = {"propagation_cpu_s": 5.0, "override_cpu_s": 5.0, "writes_at_rest": 0.0}
_VERSION = f"{DOMAIN}/v1alpha1"


class _Part(Protocol):
    def run(self) -> bool: ...


def measure(apps: int = APPS) -> dict[str, float]:
    """One run: seconds of the processor after each policy's change, and the writes of a cluster at rest."""
    clock = VirtualClock(1_000.0)
    store = MemoryStore(clock, _objects(apps))
    evictions = Evictions(store)
    parts: Sequence[_Part] = (
        NodeGroupController(store, labels=True),
        PropagationPolicyController(store, evictions, seats=True),
        OverridePolicyController(store, evictions),
    )
    begin = process_time()
    _rest(parts)
    first = process_time() - begin
    version = -1
    while store.version != version:  # seats are written little by little
        version = store.version
        clock.advance(clock.now() + 60.0)
        _rest(parts)
    before = store.version
    for name in sorted(store.of(Node)):
        store.patch(Node, name, {"metadata": {"annotations": {"heartbeat": "now"}}})
    clock.advance(clock.now() + 3_600.0)
    _rest(parts)
    writes = store.version - before - NODES
    override = _timed(parts, lambda: store.patch(OverridePolicy, "default/op", {"spec": _rules("second")}))
    propagation = _timed(parts, lambda: store.patch(PropagationPolicy, "default/pp", {"spec": _weights(2)}))
    return {
        "seconds": round(first, 4),
        "propagation_cpu_s": round(propagation, 4),
        "override_cpu_s": round(override, 4),
        "writes_at_rest": float(writes),
    }


def row(runs: int) -> dict[str, object]:
    """The best of several runs, as `muster bench` tells it."""
    best = min((measure() for _ in range(runs)), key=lambda told: told["propagation_cpu_s"])
    about = f"{APPS} applications, {GROUPS} groups, {APPS * REPLICAS} pods: CPU after a policy changed, writes at rest"
    return {"work": NAME, "about": about, **best, "floor": FLOORS, "runs": runs}


def _rest(parts: Sequence[_Part]) -> None:
    while sum(part.run() for part in parts):
        pass


def _timed(parts: Sequence[_Part], change: Callable[[], object]) -> float:
    change()
    began = process_time()
    _rest(parts)
    return process_time() - began


def _objects(apps: int) -> Iterator[Object]:
    for i in range(NODES):
        status = {"allocatable": {"cpu": "64", "pods": "500"}, "conditions": [{"type": "Ready", "status": "True"}]}
        yield _made("v1", "Node", f"node-{i:03}", {"labels": {"group": f"g{i % GROUPS:02}"}}, status=status)
    for i in range(GROUPS):
        yield _made(_VERSION, "NodeGroup", f"g{i:02}", {}, spec={"matchLabels": {"group": f"g{i:02}"}})
    yield _made(_VERSION, "PropagationPolicy", "pp", {}, spec=_weights(1))
    yield _made(_VERSION, "OverridePolicy", "op", {}, spec=_rules("first"))
    labels = {Pair.PROPAGATION.required: "pp", Pair.OVERRIDE.required: "op"}
    for i in range(apps):
        containers = [{"name": "main", "image": "nginx:1"}]
        template = {"metadata": {"labels": {"app": f"app-{i}"}}, "spec": {"containers": containers}}
        spec = {"replicas": REPLICAS, "template": template}
        yield _made("apps/v1", "Deployment", f"app-{i}", {"labels": labels}, spec=spec)
        yield _made("apps/v1", "ReplicaSet", f"app-{i}-1", _owner("Deployment", f"app-{i}"), spec=spec)
        for j in range(REPLICAS):
            on = {"nodeName": f"node-{j % GROUPS:03}", "containers": containers}
            meta = _owner("ReplicaSet", f"app-{i}-1")
            yield _made("v1", "Pod", f"app-{i}-1-{j}", meta, spec=on, status={"phase": "Running"})


def _weights(first: int) -> dict[str, Any]:
    """Even weights, but that of the first group."""
    entries = [{"nodeGroupNames": [f"g{i:02}"], "weight": 1 if i else first} for i in range(GROUPS)]
    return {"propagationStrategy": "StaticWeight", "staticWeightList": entries}


def _rules(word: str) -> dict[str, Any]:
    change = {"component": "Registry", "operator": "replace", "value": "{{nodegroup}}." + word + ".example"}
    return {"overrideRules": [{"overriders": {"imageOverrider": [change]}}]}


def _owner(kind: str, name: str) -> dict[str, Any]:
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"u-{kind}-{name}", "controller": True}
    return {"ownerReferences": [reference]}


def _made(version: str, kind: str, name: str, meta: dict[str, Any], **parts: Any) -> Object:
    metadata = {"name": name, "uid": f"u-{kind}-{name}", **meta}
    return decode({"apiVersion": version, "kind": kind, "metadata": metadata, **parts})
