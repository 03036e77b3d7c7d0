"""Claims and volumes: what the volume controllers and provisioners do with what the scheduler chose.

Claims that the input has stay as they are until a plan says otherwise. Claims that the cluster makes itself (for
StatefulSets and ephemeral volumes) get their volume at once if their class binds at once and can make volumes.
"""

from __future__ import annotations

from msgspec.structs import replace

from muster.cluster.memory import MemoryStore
from muster.cluster.owners import reference
from muster.model.affinity import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from muster.model.core import Node, Pod
from muster.model.meta import ObjectMeta, seconds
from muster.model.meta import key as key_of
from muster.model.storage import (
    CSINode,
    CsiVolume,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    TopologySelectorTerm,
    VolumeNodeAffinity,
)
from muster.store import Conflict, NotFound

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def settle_claim(store: MemoryStore, key: str, volume: str, node: str) -> None:
    """Binds the claim to the volume, or without one to a volume that is provisioned for the node."""
    claim = store.get(PersistentVolumeClaim, key)
    if claim.spec.volume_name and claim.status.phase == "Bound":
        if volume and claim.spec.volume_name != volume:
            raise Conflict.of("PersistentVolumeClaim", key, f"is bound to {claim.spec.volume_name} already")
        return
    if volume:
        _bind(store, claim, store.get(PersistentVolume, volume))
        return
    notes = {**claim.metadata.annotations, SELECTED_NODE: node}
    claim = replace(claim, metadata=replace(claim.metadata, annotations=notes))
    _provision(store, claim, store.of(Node).get(node))


def make_claim(store: MemoryStore, claim: PersistentVolumeClaim) -> None:
    """Creates a claim unless it exists, with the defaults of admission and the volume controllers."""
    if key_of(claim) in store.of(PersistentVolumeClaim):
        return
    if claim.spec.storage_class_name is None:
        claim = replace(claim, spec=replace(claim.spec, storage_class_name=_default_class(store)))
    claim = store.create(claim)
    found = store.of(StorageClass).get(claim.spec.storage_class_name or "")
    if found is not None and found.volume_binding_mode == "Immediate" and found.provisioner not in ("", NO_PROVISIONER):
        _provision(store, claim, None)


def make_ephemeral_claims(store: MemoryStore, pod: Pod) -> None:
    """Creates the claims of a pod's ephemeral volumes, which are deleted with it."""
    for volume in pod.spec.volumes:
        source = volume.ephemeral
        if source is None or source.volume_claim_template is None:
            continue
        template = source.volume_claim_template
        meta = ObjectMeta(
            name=f"{pod.metadata.name}-{volume.name}",
            namespace=pod.metadata.namespace,
            labels=template.metadata.labels,
            annotations=template.metadata.annotations,
            owner_references=[reference(pod)],
        )
        make_claim(store, PersistentVolumeClaim(metadata=meta, spec=template.spec))


def _default_class(store: MemoryStore) -> str | None:
    """Returns the newest default class; None if there is none, and then the claim stays as it is."""
    marked = [
        (-seconds(c.metadata.creation_timestamp), name)
        for name, c in store.of(StorageClass).items()
        if c.metadata.annotations.get(_DEFAULT_CLASS) == "true"
    ]
    return min(marked)[1] if marked else None


def _bind(store: MemoryStore, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
    meta = claim.metadata
    bound_to = volume.spec.claim_ref
    if bound_to is not None and f"{bound_to.namespace or 'default'}/{bound_to.name}" != key_of(claim):
        raise Conflict.of(
            "PersistentVolume", volume.metadata.name, f"belongs to claim {bound_to.namespace}/{bound_to.name}"
        )
    owner = ObjectReference(
        api_version="v1", kind="PersistentVolumeClaim", namespace=meta.namespace, name=meta.name, uid=meta.uid
    )
    store.write(
        replace(volume, spec=replace(volume.spec, claim_ref=owner), status=replace(volume.status, phase="Bound"))
    )
    status = replace(claim.status, phase="Bound", access_modes=volume.spec.access_modes, capacity=volume.spec.capacity)
    store.write(
        replace(
            claim,
            metadata=replace(meta, annotations={**meta.annotations, BIND_COMPLETED: "yes"}),
            spec=replace(claim.spec, volume_name=volume.metadata.name),
            status=status,
        )
    )


def _provision(store: MemoryStore, claim: PersistentVolumeClaim, node: Node | None) -> None:
    """Provisions a volume for the claim, with the topology of its class and driver."""
    name = claim.spec.storage_class_name
    found = store.of(StorageClass).get((_default_class(store) if name is None else name) or "")
    if found is None or found.provisioner in ("", NO_PROVISIONER):
        raise NotFound.of("StorageClass", f"{name or '(none)'} with a provisioner")
    handle = f"pvc-{claim.metadata.uid.replace('/', '-')}"
    spec = PersistentVolumeSpec(
        capacity=claim.spec.resources.requests if claim.spec.resources is not None else {},
        access_modes=claim.spec.access_modes,
        storage_class_name=found.metadata.name,
        volume_mode=claim.spec.volume_mode,
        persistent_volume_reclaim_policy=found.reclaim_policy,
        csi=CsiVolume(driver=found.provisioner, volume_handle=handle),
        node_affinity=_node_affinity(store, found, node),
    )
    volume = PersistentVolume(
        metadata=ObjectMeta(name=handle), spec=spec, status=PersistentVolumeStatus(phase="Available")
    )
    _bind(store, claim, store.create(volume))


def _node_affinity(store: MemoryStore, found: StorageClass, node: Node | None) -> VolumeNodeAffinity | None:
    """Returns the volume's node affinity: the chosen node's values of the driver's topology keys, else of the
    class's."""
    if node is None:
        terms = [_allowed(term) for term in found.allowed_topologies]
        return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms)) if terms else None
    labels = node.metadata.labels
    csi = store.of(CSINode).get(node.metadata.name)
    drivers = csi.spec.drivers if csi is not None else []
    keys = [key for driver in drivers if driver.name == found.provisioner for key in driver.topology_keys]
    if not keys:
        keys = [e.key for term in found.allowed_topologies for e in term.match_label_expressions]
    wanted = [
        NodeSelectorRequirement(key=key, operator="In", values=[labels[key]])
        for key in dict.fromkeys(keys)
        if key in labels
    ]
    if not wanted:
        return None
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=wanted)]))


def _allowed(term: TopologySelectorTerm) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        match_expressions=[
            NodeSelectorRequirement(key=e.key, operator="In", values=e.values) for e in term.match_label_expressions
        ]
    )
