"""The Deployment controller: one ReplicaSet per template; a new template replaces the old one as its pods become ready.
Old and new pods together never exceed the replicas."""

from __future__ import annotations

import math

from msgspec.structs import replace

from muster.cluster.owners import TEMPLATE_HASH, Owned, Owners, reference, surplus, template_hash
from muster.model.batch import Deployment, ReplicaSet, ReplicaSetSpec, ReplicationController
from muster.model.core import Pod, PodTemplateSpec
from muster.model.meta import LabelSelector, ObjectMeta, controller
from muster.model.meta import key as key_of
from muster.model.pod_states import is_active, is_finished, is_healthy
from muster.model.selectors import matches

_NOT_COPIED_ANNOTATIONS = ("kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/")


def reconcile(owners: Owners, sets: Owned[ReplicaSet], deployment: Deployment) -> None:
    if owners.adopt(deployment, deployment.spec.selector, sets):
        return
    owned = sets.of(deployment)
    if not owned and _recreate_replica_set(owners, deployment):
        return
    wanted = max(1 if deployment.spec.replicas is None else deployment.spec.replicas, 0)
    current = _current(owned, deployment.spec.template)
    old = [s for s in owned if current is None or s.metadata.name != current.metadata.name]
    if deployment.spec.paused and (current is None or old):
        return
    ready = _ready(owners, current) if current is not None else 0
    keep = max(wanted - ready - _unavailable(deployment, wanted), 0)
    lingering = 0
    for s in sorted(old, key=key_of):
        _scale(owners, s, min(_replicas(s), keep))
        keep -= min(_replicas(s), keep)
        lingering += sum(1 for pod in owners.pods.of(s) if not is_finished(pod))
    share = max(wanted - lingering, 0)
    if current is None:
        made = owners.store.create(_replica_set(deployment, template_hash(deployment.spec.template), share))
        owners.adopt(deployment, deployment.spec.selector, owners.pods, owner=made)
        return
    owners.adopt(deployment, deployment.spec.selector, owners.pods, owner=current)
    notes = {**current.metadata.annotations, **_inherited_annotations(deployment)}
    if notes != current.metadata.annotations:
        current = owners.store.update(replace(current, metadata=replace(current.metadata, annotations=notes)))
    _scale(owners, current, share)
    _report(owners, deployment, owned, current)


def _current(owned: list[ReplicaSet], template: PodTemplateSpec) -> ReplicaSet | None:
    """Returns the ReplicaSet of the Deployment's template; of several the first by name."""
    wanted = template_hash(template)
    return next((s for s in owned if template_hash(s.spec.template) == wanted), None)


def _recreate_replica_set(owners: Owners, deployment: Deployment) -> bool:
    """Creates a ReplicaSet that the input lacks, although it has the Deployment and the pods, under the name that the
    pods give."""
    selector, namespace = deployment.spec.selector, deployment.metadata.namespace
    prefix = f"{namespace}/{deployment.metadata.name}-"
    found: dict[str, list[Pod]] = {}
    for kind, key in owners.pods.by_owner:
        if kind == "ReplicaSet" and key.startswith(prefix) and key not in owners.store.of(ReplicaSet):
            table = owners.store.of(Pod)
            members = [table[k] for k in sorted(owners.pods.by_owner[kind, key])]
            found[key] = [p for p in members if is_active(p) and matches(selector, p.metadata.labels)]
    for key, members in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        owner = controller(members[0].metadata) if members else None
        if owner is not None:
            hash_ = members[0].metadata.labels.get(TEMPLATE_HASH) or key.removeprefix(prefix)
            made = _replica_set(deployment, hash_, len(members))
            owners.store.create(replace(made, metadata=replace(made.metadata, name=owner.name, uid=owner.uid)))
            return True
    return False


def _replica_set(deployment: Deployment, hash_: str, replicas: int) -> ReplicaSet:
    template, meta = deployment.spec.template, deployment.spec.template.metadata
    labels = {**meta.labels, TEMPLATE_HASH: hash_}
    selector = deployment.spec.selector or LabelSelector(match_labels=meta.labels)
    own = replace(template, metadata=replace(meta, labels=labels))
    own.keep(template.written)
    return ReplicaSet(
        metadata=ObjectMeta(
            name=f"{deployment.metadata.name}-{hash_}",
            namespace=deployment.metadata.namespace,
            labels=labels,
            annotations=_inherited_annotations(deployment),
            owner_references=[reference(deployment)],
        ),
        spec=ReplicaSetSpec(
            replicas=replicas,
            selector=replace(selector, match_labels={**selector.match_labels, TEMPLATE_HASH: hash_}),
            template=own,
        ),
    )


def _inherited_annotations(deployment: Deployment) -> dict[str, str]:
    """Returns the annotations for a ReplicaSet. Kubernetes: those of its Deployment, except those of kubectl and
    controllers."""
    notes = deployment.metadata.annotations
    return {name: value for name, value in notes.items() if not name.startswith(_NOT_COPIED_ANNOTATIONS)}


def _unavailable(deployment: Deployment, wanted: int) -> int:
    """Returns how many pods may be unavailable during a roll-out; at least one, because there is no surge."""
    strategy = deployment.spec.strategy
    if strategy is not None and strategy.type == "Recreate":
        return wanted
    rolling = strategy.rolling_update if strategy is not None else None
    given = "25%" if rolling is None or rolling.max_unavailable is None else rolling.max_unavailable
    if isinstance(given, str):
        digits = given.removesuffix("%")
        given = math.floor(wanted * int(digits) / 100) if digits.isdigit() else 1
    return max(given, 1)


def _scale(owners: Owners, s: ReplicaSet, replicas: int) -> None:
    if s.spec.replicas != replicas:
        owners.store.update(replace(s, spec=replace(s.spec, replicas=replicas)))


def _replicas(s: ReplicaSet) -> int:
    return 1 if s.spec.replicas is None else s.spec.replicas


def _ready(owners: Owners, s: ReplicaSet) -> int:
    return sum(1 for pod in owners.pods.of(s) if is_healthy(pod))


def _report(owners: Owners, deployment: Deployment, owned: list[ReplicaSet], current: ReplicaSet) -> None:
    alive = [pod for s in owned for pod in owners.pods.of(s) if is_active(pod)]
    ready = sum(1 for pod in alive if is_healthy(pod))
    updated = [pod for pod in owners.pods.of(current) if is_active(pod)]
    status = replace(
        deployment.status,
        replicas=len(alive),
        ready_replicas=ready,
        available_replicas=ready,
        updated_replicas=len(updated),
        observed_generation=deployment.metadata.generation,
    )
    owners.report(deployment, status)


def reconcile_replicas(owners: Owners, owner: ReplicaSet | ReplicationController) -> None:
    if owners.adopt(owner, _selector(owner), owners.pods):
        return  # adopted pods are counted when the index has seen them
    alive = [pod for pod in owners.pods.of(owner) if is_active(pod)]
    wanted = max(1 if owner.spec.replicas is None else owner.spec.replicas, 0)
    for _ in range(wanted - len(alive)):
        owners.make(owner, owner.spec.template)
    for pod in surplus(alive, len(alive) - wanted):
        owners.delete_pod(pod)
    ready = sum(1 for pod in alive if is_healthy(pod))
    owners.report(owner, replace(owner.status, replicas=len(alive), ready_replicas=ready, available_replicas=ready))


def _selector(owner: ReplicaSet | ReplicationController) -> LabelSelector | None:
    selector = owner.spec.selector
    if isinstance(selector, LabelSelector):
        return selector
    # A ReplicationController without a selector takes its template's labels.
    return LabelSelector(match_labels=selector or owner.spec.template.metadata.labels)
