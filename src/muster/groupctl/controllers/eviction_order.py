"""The order in which pods of an application are evicted, and what forbids the eviction of a pod."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from muster.groupctl.controllers.object_cache import ObjectCache
from muster.groups.applications import DOMAIN
from muster.model.batch import Deployment, ReplicaSet, ReplicationController, StatefulSet
from muster.model.core import Node, Pod, PodDisruptionBudget, readiness
from muster.model.custom import ConfiguredApplication
from muster.model.disruption_budgets import DisruptionLedger
from muster.model.meta import seconds
from muster.model.pod_states import is_active, is_ready
from muster.model.storage import PersistentVolume, PersistentVolumeClaim

EVICT = f"{DOMAIN}/evict"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
MIRROR = "kubernetes.io/config.mirror"
_PHASES = {"": 0, "Pending": 0, "Unknown": 1}


# Their pods are replaced. A DaemonSet's pod would come back to the same node, and a Job's work would be lost.
REPLACED_KINDS = (Deployment, ReplicaSet, StatefulSet, ReplicationController, ConfiguredApplication)


def eviction_order(pods: Sequence[Pod], *, by_ordinal: bool) -> list[Pod]:
    """Sorts the pods, the first to evict first, as Kubernetes' ReplicaSet and StatefulSet controllers scale down."""
    if by_ordinal:
        return sorted(pods, key=_ordinal, reverse=True)
    beside: dict[str, int] = {}
    for pod in pods:
        beside[pod.spec.node_name] = beside.get(pod.spec.node_name, 0) + 1

    def rank(pod: Pod) -> tuple[object, ...]:
        since = [seconds(c.last_transition_time) for c in pod.status.conditions if c.type == "Ready"]
        return (
            _PHASES.get(pod.status.phase, 2),
            is_ready(pod),
            _cost(pod),
            -beside[pod.spec.node_name],
            -max(since, default=0.0),
            -max((c.restart_count for c in pod.status.container_statuses), default=0),
            -seconds(pod.metadata.creation_timestamp),
            pod.metadata.uid,
        )

    return sorted(pods, key=rank)


def _ordinal(pod: Pod) -> tuple[int, str]:
    tail = pod.metadata.name.rpartition("-")[2]
    return (int(tail) if tail.isascii() and tail.isdigit() else -1, pod.metadata.name)


def _cost(pod: Pod) -> int:
    text = pod.metadata.annotations.get(DELETION_COST, "0")
    return int(text) if text.lstrip("-").isdecimal() and text.isascii() else 0


def eviction_blocker(pod: Pod, cache: ObjectCache) -> str | None:
    """Why the pod must not be evicted; None: it may be."""
    notes = pod.metadata.annotations
    if not is_active(pod):
        return "it is on its way out"
    if notes.get(EVICT) == "false":
        return f"it is annotated {EVICT}: false"
    if MIRROR in notes:
        return "it is a mirror pod"
    node = cache.of(Node).get(pod.spec.node_name)
    if node is None or readiness(node) != "Ready":
        # KubeEdge: a node that is offline may still run it; a replacement would run beside it.
        return f"node {pod.spec.node_name} is not ready"
    if _has_local_volume(pod, cache):
        return "it has a volume that only its node has"
    return _budget_blocker(pod, cache)


def _has_local_volume(pod: Pod, cache: ObjectCache) -> bool:
    """Whether the pod has a claim whose volume is local to one node."""
    namespace = pod.metadata.namespace or "default"
    for volume in pod.spec.volumes:
        source = volume.persistent_volume_claim
        name = source.claim_name if source is not None else f"{pod.metadata.name}-{volume.name}"
        claim = cache.of(PersistentVolumeClaim).get(f"{namespace}/{name}")
        bound = cache.of(PersistentVolume).get(claim.spec.volume_name) if claim is not None else None
        if bound is not None and _on_one_node(bound):
            return True
    return False


def _on_one_node(volume: PersistentVolume) -> bool:
    """Whether the volume's affinity names a node; a volume with a zone is available on other nodes."""
    affinity = volume.spec.node_affinity
    terms = affinity.required.node_selector_terms if affinity is not None and affinity.required is not None else ()
    return any(
        term.match_fields or any(wish.key == "kubernetes.io/hostname" for wish in term.match_expressions)
        for term in terms
    )


def _budget_blocker(pod: Pod, cache: ObjectCache) -> str | None:
    def pods(namespace: str) -> Iterable[Pod]:
        return (one for key, one in cache.of(Pod).items() if key.startswith(f"{namespace}/"))

    blocked = DisruptionLedger(cache.of(PodDisruptionBudget), pods).blocked([pod])
    if blocked is None:
        return None
    if not blocked.budget:
        return "it is under more than one PodDisruptionBudget, which the Eviction API refuses"
    return f"PodDisruptionBudget {blocked.budget} allows no disruption"
