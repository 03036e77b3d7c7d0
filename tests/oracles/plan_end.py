"""The cluster at the end of a plan, which the plan checker and the rules beside it look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from muster.engine.core.plan import Plan
from muster.model.core import Node, Pod, PodDisruptionBudget, PriorityClass
from muster.model.meta import Object, key
from muster.model.native import NativePodGroup
from muster.model.requests import requests
from muster.model.scheduling import PodGroup, Queue

GROUP = "scheduling.k8s.io/group-name"
CRITICAL = ("system-cluster-critical", "system-node-critical")


@dataclass
class End:
    """The cluster once the plan is carried out and what is terminating has left."""

    nodes: dict[str, Node]
    pods: dict[str, Pod]
    groups: dict[str, PodGroup]
    native_groups: dict[str, NativePodGroup]  # by what `group_of` says of their pods
    queues: dict[str, Queue]
    classes: dict[str, int]
    budgets: dict[str, PodDisruptionBudget]
    there: dict[str, str]  # pod → its node before the plan
    where: dict[str, str]  # pod → its node at the end; evicted and terminating pods are gone, pipelined ones have come
    holding: dict[str, str]  # pod → its node right after the bindings: terminating pods are still there

    @classmethod
    def of(cls, objects: Iterable[Object], plan: Plan) -> End:
        every = list(objects)
        pods = {key(o): o for o in every if isinstance(o, Pod)}
        there = {k: p.spec.node_name for k, p in pods.items() if p.spec.node_name and p.status.phase != "Succeeded"}
        gone = {e.pod for e in plan.evictions} | {k for k, p in pods.items() if p.metadata.deletion_timestamp}
        staying = {k: n for k, n in there.items() if k not in gone}
        return cls(
            {key(o): o for o in every if isinstance(o, Node)},
            pods,
            {key(o): o for o in every if isinstance(o, PodGroup)},
            {f"native {key(o)}": o for o in every if isinstance(o, NativePodGroup)},
            {key(o): o for o in every if isinstance(o, Queue)},
            {key(o): o.value for o in every if isinstance(o, PriorityClass)},
            {key(o): o for o in every if isinstance(o, PodDisruptionBudget)},
            there,
            {**staying, **plan.pipelined, **plan.binds},
            {**there, **plan.binds},
        )

    @cached_property
    def members(self) -> dict[str, list[str]]:
        """Group → its pods."""
        found: dict[str, list[str]] = {}
        for name, pod in self.pods.items():
            found.setdefault(group_of(name, pod), []).append(name)
        found.pop("", None)
        return found

    @cached_property
    def requests(self) -> dict[str, dict[str, int]]:
        """Pod → what it requests."""
        return {name: requests(pod.spec) for name, pod in self.pods.items()}

    @cached_property
    def residents(self) -> dict[str, list[str]]:
        """Node → the pods that are on it before the plan."""
        found: dict[str, list[str]] = {}
        for name, node in self.there.items():
            found.setdefault(node, []).append(name)
        return found

    def held(self, where: Mapping[str, str]) -> dict[str, Counter[str]]:
        """Node → what the pods on it request."""
        found: dict[str, Counter[str]] = {}
        for pod, node in where.items():
            found.setdefault(node, Counter()).update(self.requests[pod])
        return found


def group_of(name: str, pod: Pod) -> str:
    """The group of a pod, Volcano's or Kubernetes' own; empty if it has none."""
    space, native = name.partition("/")[0], pod.spec.scheduling_group
    if native is not None and native.pod_group_name:
        return f"native {space}/{native.pod_group_name}"
    group = pod.metadata.annotations.get(GROUP, "")
    return f"{space}/{group}" if group else ""


def minimum_of(end: End, group: str) -> int:
    """How many pods of the group start together or not at all."""
    if group in end.native_groups:
        gang = end.native_groups[group].spec.gang
        return gang.min_count if gang is not None else 1
    return end.groups[group].spec.min_member


def is_ready(pod: Pod) -> bool:
    gone = pod.metadata.deletion_timestamp is not None
    return pod.status.phase == "Succeeded" or (bool(pod.spec.node_name) and not gone)


def is_empty(pod: Pod) -> bool:
    return not any(v for name, v in requests(pod.spec).items() if name != "pods")


def role_of(pod: Pod) -> str:
    return pod.metadata.annotations.get("volcano.sh/task-spec", "")


def queue_of(end: End, name: str) -> str:
    group = end.groups.get(group_of(name, end.pods[name]))
    return (group.spec.queue if group is not None else "") or "default"


def priority_of(end: End, name: str) -> int:
    spec = end.pods[name].spec
    return spec.priority if spec.priority is not None else end.classes.get(spec.priority_class_name, 1)
