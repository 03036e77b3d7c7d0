"""Required rules about other pods, in the plain reading: anti-affinity and topology spread, one pod on one node.

Terms with a namespaceSelector or matchLabelKeys are not known, and required affinity is not, because nodeorder scores
it, too. A pod with them is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from muster.model.affinity import PodAffinityTerm, TopologySpreadConstraint
from muster.model.core import Node, Pod
from muster.model.selectors import asks_for, matches, tolerates

if TYPE_CHECKING:
    from oracles.naive import Task, World


def neighbours_allow(world: World, task: Task, node: str) -> bool:
    """Whether all required rules allow the pod there, with everybody where they are now."""
    return _apart(world, task, node) and all(
        _even(world, task, node, constraint) for constraint in hard(task.pod)
    )


def _there(world: World) -> Iterator[tuple[Pod, str]]:
    """Pods that are on nodes, and those that have been promised one; not those that this cycle evicts."""
    for node, tasks in world.residents.items():
        for task in tasks.values() if node else ():
            if not task.evicted:
                yield task.pod, node


def _apart(world: World, task: Task, node: str) -> bool:
    own = _anti(task.pod)
    if not own and not world.anti_affinity:
        return True
    for other, at in _there(world):
        for holder, term, selected in (
            *((task.pod, term, other) for term in own), *((other, term, task.pod) for term in _anti(other))
        ):  # fmt: skip
            if _selects(term, holder, selected) and _together(world, term.topology_key, node, at):
                return False
    return True


def _together(world: World, key: str, a: str, b: str) -> bool:
    value = world.nodes[a].metadata.labels.get(key)
    return value is not None and b in world.nodes and world.nodes[b].metadata.labels.get(key) == value


def _anti(pod: Pod) -> list[PodAffinityTerm]:
    own = pod.spec.affinity
    if own is None:
        return []
    assert not (own.pod_affinity and own.pod_affinity.required), "the plain reading knows no required affinity"
    return own.pod_anti_affinity.required if own.pod_anti_affinity else []


def _selects(term: PodAffinityTerm, holder: Pod, other: Pod) -> bool:
    assert term.namespace_selector is None and not term.match_label_keys and not term.mismatch_label_keys
    namespaces = term.namespaces or [holder.metadata.namespace]
    return other.metadata.namespace in namespaces and matches(term.label_selector, other.metadata.labels)


# --- topology spread


def hard(pod: Pod) -> list[TopologySpreadConstraint]:
    return [c for c in pod.spec.topology_spread_constraints if c.when_unsatisfiable == "DoNotSchedule"]


def _even(world: World, task: Task, node: str, constraint: TopologySpreadConstraint) -> bool:
    assert not constraint.match_label_keys and constraint.label_selector is not None
    key, labels = constraint.topology_key, world.nodes[node].metadata.labels
    if key not in labels:
        return False
    counts = {n.metadata.labels[key]: 0 for n in world.nodes.values() if _counts(n, task.pod, constraint)}
    for other, at in _there(world):
        same = other.metadata.namespace == task.pod.metadata.namespace and other.metadata.deletion_timestamp is None
        counted = same and matches(constraint.label_selector, other.metadata.labels)
        if counted and _counts(world.nodes[at], task.pod, constraint):
            counts[world.nodes[at].metadata.labels[key]] += 1
    least = min(counts.values()) if len(counts) >= (constraint.min_domains or 1) else 0
    itself = matches(constraint.label_selector, task.pod.metadata.labels)
    return counts.get(labels[key], 0) + itself - least <= constraint.max_skew


def _counts(node: Node, pod: Pod, constraint: TopologySpreadConstraint) -> bool:
    labels = node.metadata.labels
    if any(c.topology_key not in labels for c in hard(pod)):
        return False
    if constraint.node_affinity_policy != "Ignore" and not asks_for(pod.spec, node.metadata.name, labels):
        return False
    taints = [taint for taint in node.spec.taints if taint.effect != "PreferNoSchedule"]
    tolerated = all(any(tolerates(one, taint) for one in pod.spec.tolerations) for taint in taints)
    return constraint.node_taints_policy != "Honor" or tolerated
