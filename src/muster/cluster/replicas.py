"""ReplicaSets and ReplicationControllers: so many pods of one template, no more."""

from __future__ import annotations

from msgspec.structs import replace

from muster.cluster.owners import Owners, surplus
from muster.model.batch import ReplicaSet, ReplicationController
from muster.model.meta import LabelSelector
from muster.model.pod_states import is_active, is_healthy


def reconcile(owners: Owners, owner: ReplicaSet | ReplicationController) -> None:
    if owners.adopt(owner, _selector(owner), owners.pods):
        return  # adopted pods are counted when the index has seen them
    alive = [pod for pod in owners.pods.of(owner) if is_active(pod)]
    wanted = max(1 if owner.spec.replicas is None else owner.spec.replicas, 0)
    for _ in range(wanted - len(alive)):
        owners.make(owner, owner.spec.template)
    for pod in surplus(alive, len(alive) - wanted):
        owners.dismiss(pod)
    ready = sum(1 for pod in alive if is_healthy(pod))
    owners.report(owner, replace(owner.status, replicas=len(alive), ready_replicas=ready, available_replicas=ready))


def _selector(owner: ReplicaSet | ReplicationController) -> LabelSelector | None:
    selector = owner.spec.selector
    if isinstance(selector, LabelSelector):
        return selector
    # A ReplicationController without a selector takes its template's labels.
    return LabelSelector(match_labels=selector or owner.spec.template.metadata.labels)
