"""The DaemonSet controller: one pod for each eligible node."""

from __future__ import annotations

from itertools import count

from msgspec.structs import replace

from muster.cluster.owners import Owners, generated
from muster.model.affinity import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Taint,
    Toleration,
)
from muster.model.batch import DaemonSet
from muster.model.core import Node, Pod, PodSpec
from muster.model.meta import key as key_of
from muster.model.pod_states import is_active, is_finished, is_healthy
from muster.model.selectors import asks_for, tolerates

# Kubernetes: the tolerations of every pod of a DaemonSet.
_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_HOST_NETWORK = ("node.kubernetes.io/network-unavailable", "NoSchedule")


def reconcile(owners: Owners, owner: DaemonSet) -> None:
    if owners.adopt(owner, owner.spec.selector, owners.pods):
        return
    spec = _tolerating(owner.spec.template.spec)
    nodes = owners.store.of(Node)
    wanted = [name for name in sorted(nodes) if _eligible(spec, nodes[name])]
    on: dict[str, list[Pod]] = {}
    for pod in owners.pods.of(owner):
        on.setdefault(_node_of(pod), []).append(pod)
    eligible = set(wanted)
    for node in sorted(on):
        alive = [pod for pod in on[node] if is_active(pod)]
        surplus = alive if node not in eligible else sorted(alive, key=_keep_order)[1:]
        for pod in (*surplus, *(pod for pod in on[node] if is_finished(pod))):
            owners.delete_pod(pod)
    for node in wanted:
        # A terminating pod keeps its place until it is gone.
        if not any(not is_finished(pod) for pod in on.get(node, ())):
            _make(owners, owner, spec, node)
    present = [pod for node in wanted for pod in on.get(node, ()) if is_active(pod)]
    ready = sum(1 for pod in present if is_healthy(pod))
    status = replace(
        owner.status,
        desired_number_scheduled=len(wanted),
        current_number_scheduled=len({_node_of(pod) for pod in present}),
        number_ready=ready,
        number_available=ready,
    )
    owners.report(owner, status)


def _make(owners: Owners, owner: DaemonSet, spec: PodSpec, node: str) -> None:
    names = (generated(owner.metadata.name, f"DaemonSet/{key_of(owner)}/{node}/{n}") for n in count())
    name = next(name for name in names if not owners.store.known(Pod, f"{owner.metadata.namespace}/{name}"))
    owners.make(owner, owner.spec.template, name=name, spec=_pinned(spec, node))


def _eligible(spec: PodSpec, node: Node) -> bool:
    """Returns whether the DaemonSet needs a pod on the node: by selector, affinity and taints, not by free
    resources."""
    name = node.metadata.name
    if (spec.node_name and spec.node_name != name) or not asks_for(spec, name, node.metadata.labels):
        return False
    return all(_tolerated(spec, taint) for taint in node.spec.taints)


def _tolerated(spec: PodSpec, taint: Taint) -> bool:
    if taint.effect not in ("NoSchedule", "NoExecute"):
        return True
    return any(tolerates(toleration, taint) for toleration in spec.tolerations)


def _tolerating(spec: PodSpec) -> PodSpec:
    wanted = (*_TOLERATED, _HOST_NETWORK) if spec.host_network else _TOLERATED
    own = [Toleration(key=key, operator="Exists", effect=effect) for key, effect in wanted]
    return replace(spec, tolerations=[*spec.tolerations, *(t for t in own if t not in spec.tolerations)])


def _pinned(spec: PodSpec, node: str) -> PodSpec:
    """Returns the spec of a pod for one node. Kubernetes: the node's name replaces the required terms, which were
    checked before."""
    field = NodeSelectorRequirement(key="metadata.name", operator="In", values=[node])
    required = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[field])])
    affinity = spec.affinity or Affinity()
    node_affinity = replace(affinity.node_affinity or NodeAffinity(), required=required)
    return replace(spec, affinity=replace(affinity, node_affinity=node_affinity))


def _node_of(pod: Pod) -> str:
    """Returns the node of a DaemonSet's pod: the one it is bound to, or the one that its affinity names."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    for term in affinity.required.node_selector_terms if affinity is not None and affinity.required else ():
        for field in term.match_fields:
            if field.key == "metadata.name" and field.operator == "In" and field.values:
                return field.values[0]
    return ""


def _keep_order(pod: Pod) -> tuple[bool, str, str]:
    return (not pod.spec.node_name, pod.metadata.creation_timestamp or "", pod.metadata.name)
