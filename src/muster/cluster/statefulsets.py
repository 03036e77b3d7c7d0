"""The StatefulSet controller: numbered pods, created one after the other, each with its claims."""

from __future__ import annotations

from msgspec.structs import replace

from muster.cluster.owners import Owners
from muster.cluster.volume_controller import make_claim
from muster.model.batch import StatefulSet
from muster.model.core import Pod, PodSpec, Volume
from muster.model.meta import ObjectMeta
from muster.model.pod import PersistentVolumeClaimSource
from muster.model.pod_states import is_active, is_finished, is_healthy
from muster.model.quantity import whole
from muster.model.storage import PersistentVolumeClaim

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"


def reconcile(owners: Owners, owner: StatefulSet) -> None:
    if owners.adopt(owner, owner.spec.selector, owners.pods):
        return
    spec = owner.spec
    start = spec.ordinals.start if spec.ordinals is not None else 0
    wanted = max(1 if spec.replicas is None else spec.replicas, 0)
    names = {f"{owner.metadata.name}-{ordinal}": ordinal for ordinal in range(start, start + wanted)}
    present = {pod.metadata.name: pod for pod in owners.pods.of(owner)}
    ordered = spec.pod_management_policy != "Parallel"
    whole = _fill(owners, owner, names, present, ordered)
    beyond = sorted((pod for name, pod in present.items() if name not in names), key=_ordinal, reverse=True)
    if not ordered:
        for pod in beyond:
            owners.delete_pod(pod)
    elif beyond and whole:
        owners.delete_pod(beyond[0])
    alive = [pod for pod in present.values() if is_active(pod)]
    ready = sum(1 for pod in alive if is_healthy(pod))
    owners.report(owner, replace(owner.status, replicas=len(alive), ready_replicas=ready, available_replicas=ready))


def _fill(owners: Owners, owner: StatefulSet, names: dict[str, int], present: dict[str, Pod], ordered: bool) -> bool:
    """Creates missing pods; returns whether all pods exist and are ready."""
    whole = True
    for name, ordinal in names.items():
        pod = present.get(name)
        if pod is None and f"{owner.metadata.namespace}/{name}" not in owners.store.of(Pod):
            _make(owners, owner, name, ordinal)
        elif pod is not None and is_finished(pod):
            owners.delete_pod(pod)
        elif pod is not None and is_healthy(pod):
            continue
        whole = False
        if ordered:
            break  # OrderedReady: the next one waits until this one is ready
    return whole


def _make(owners: Owners, owner: StatefulSet, name: str, ordinal: int) -> None:
    labels = {POD_NAME: name, POD_INDEX: str(ordinal)}
    for template in owner.spec.volume_claim_templates:
        meta = ObjectMeta(
            name=f"{template.metadata.name}-{name}",
            namespace=owner.metadata.namespace,
            labels={**template.metadata.labels, **(owner.spec.selector.match_labels if owner.spec.selector else {})},
            annotations=template.metadata.annotations,
        )
        make_claim(owners.store, PersistentVolumeClaim(metadata=meta, spec=template.spec))
    owners.make(owner, owner.spec.template, name=name, labels=labels, spec=_spec(owner, name))


def _spec(owner: StatefulSet, name: str) -> PodSpec:
    """Returns the template's spec with the claims of this pod as volumes."""
    spec, claims = owner.spec.template.spec, owner.spec.volume_claim_templates
    if not claims:
        return spec
    own = [
        Volume(
            name=claim.metadata.name,
            persistent_volume_claim=PersistentVolumeClaimSource(claim_name=f"{claim.metadata.name}-{name}"),
        )
        for claim in claims
    ]
    taken = [volume.name for volume in own]
    return replace(spec, volumes=[*(v for v in spec.volumes if v.name not in taken), *own])


def _ordinal(pod: Pod) -> int:
    tail = pod.metadata.name.rpartition("-")[2]
    number = whole(tail)
    return -1 if number is None else number
