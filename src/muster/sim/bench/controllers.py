"""The cost of node group management's controllers after a policy change, and in an idle cluster.

500 applications in 20 node groups, 20 pods each, in memory. Measured are the CPU seconds until the controllers have
nothing more to do, and the number of writes in a cluster in which only nodes send heartbeats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any, Protocol

from muster.model.core import Node
from muster.model.groups import OverridePolicy, PropagationPolicy
from muster.model.kinds import decode
from muster.model.meta import Object
from muster.sim.bench.measurement import Figures

APPS, GROUPS, NODES, REPLICAS = 500, 20, 200, 20
_GROUP = "groupmanagement.kubeedge.io"
_VERSION = f"{_GROUP}/v1alpha1"


class _Controller(Protocol):
    def run(self) -> bool: ...


@dataclass(frozen=True)
class ControllersCost:
    """`seconds` is the CPU time until nothing is left to do after the start."""

    name: str
    about: str
    floors: Mapping[str, float]

    def run(self) -> Figures:
        # Not above: every benchmark imports this module, and its peak memory counts.
        from muster.cluster.memory import MemoryStore, VirtualClock
        from muster.groupctl.controllers.eviction_queue import EvictionQueue
        from muster.groupctl.controllers.nodegroup import NodeGroupController
        from muster.groupctl.controllers.override import OverridePolicyController
        from muster.groupctl.controllers.propagation import PropagationPolicyController

        clock = VirtualClock(1_000.0)
        store = MemoryStore(clock, _objects())
        evictions = EvictionQueue(store)
        controllers: Sequence[_Controller] = (
            NodeGroupController(store, labels=True),
            PropagationPolicyController(store, evictions, deletion_cost=True),
            OverridePolicyController(store, evictions),
        )
        begin = process_time()
        _run_until_settled(controllers)
        first = process_time() - begin
        version = -1
        while store.version != version:  # deletion costs are written in several steps
            version = store.version
            clock.advance(clock.now() + 60.0)
            _run_until_settled(controllers)
        before = store.version
        for name in sorted(store.of(Node)):
            store.patch(Node, name, {"metadata": {"annotations": {"heartbeat": "now"}}})
        clock.advance(clock.now() + 3_600.0)
        _run_until_settled(controllers)
        writes = store.version - before - NODES
        rules, weights = {"spec": _rules("second")}, {"spec": _weights(2)}
        override = _cpu_seconds(controllers, lambda: store.patch(OverridePolicy, "default/op", rules))
        propagation = _cpu_seconds(controllers, lambda: store.patch(PropagationPolicy, "default/pp", weights))
        return {
            "seconds": first,
            "propagation_cpu_s": propagation,
            "override_cpu_s": override,
            "writes_at_rest": float(writes),
        }

    def derived(self, best: Figures) -> dict[str, object]:
        return {"pods_per_s": round(APPS * REPLICAS / best["seconds"])}


CONTROLLERS = ControllersCost(
    "controllers",
    "500 applications, 20 groups, 10,000 pods: CPU after a policy changed, writes at rest",
    {"propagation_cpu_s": 5.0, "override_cpu_s": 5.0, "writes_at_rest": 0.0},
)


def _run_until_settled(controllers: Sequence[_Controller]) -> None:
    while sum(part.run() for part in controllers):
        pass


def _cpu_seconds(controllers: Sequence[_Controller], change: Callable[[], object]) -> float:
    change()
    began = process_time()
    _run_until_settled(controllers)
    return process_time() - began


def _objects() -> Iterator[Object]:
    for i in range(NODES):
        status = {"allocatable": {"cpu": "64", "pods": "500"}, "conditions": [{"type": "Ready", "status": "True"}]}
        yield _made("v1", "Node", f"node-{i:03}", {"labels": {"group": f"g{i % GROUPS:02}"}}, status=status)
    for i in range(GROUPS):
        yield _made(_VERSION, "NodeGroup", f"g{i:02}", {}, spec={"matchLabels": {"group": f"g{i:02}"}})
    yield _made(_VERSION, "PropagationPolicy", "pp", {}, spec=_weights(1))
    yield _made(_VERSION, "OverridePolicy", "op", {}, spec=_rules("first"))
    labels = {f"{_GROUP}/required-propagationpolicy": "pp", f"{_GROUP}/required-overridepolicy": "op"}
    for i in range(APPS):
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
    """Returns equal weights for all groups but the first."""
    entries = [{"nodeGroupNames": [f"g{i:02}"], "weight": 1 if i else first} for i in range(GROUPS)]
    return {"propagationStrategy": "StaticWeight", "staticWeightList": entries}


def _rules(word: str) -> dict[str, Any]:
    change = {"component": "Registry", "operator": "replace", "value": "{{nodegroup}}." + word + ".example"}
    return {"overrideRules": [{"overriders": {"imageOverrider": [change]}}]}


def _owner(kind: str, name: str) -> dict[str, Any]:
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"u-{kind}-{name}", "controller": True}
    return {"ownerReferences": [reference]}


def _made(version: str, kind: str, name: str, meta: dict[str, Any], **fields: Any) -> Object:
    metadata = {"name": name, "uid": f"u-{kind}-{name}", **meta}
    return decode({"apiVersion": version, "kind": kind, "metadata": metadata, **fields})
