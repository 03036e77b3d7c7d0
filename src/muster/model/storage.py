"""Volumes, claims and the storage drivers of nodes."""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from muster.model.affinity import NodeSelector
from muster.model.meta import Condition, Int, LabelSelector, Object, Partial, Quantity, ResourceList
from muster.model.pod import AwsElasticBlockStore, GcePersistentDisk, VolumeClaimSpec


class ObjectReference(Partial, kw_only=True):
    """Another object by name."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class CsiVolume(Partial, kw_only=True):
    """A volume of a CSI driver."""

    driver: str = ""
    volume_handle: str = ""
    read_only: bool = False


class VolumeNodeAffinity(Partial, kw_only=True):
    """The nodes from which a volume can be reached."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Partial, kw_only=True):
    """spec of a volume."""

    capacity: ResourceList = {}
    access_modes: list[str] = []
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiVolume | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    volume_mode: str = "Filesystem"
    persistent_volume_reclaim_policy: str = ""


class PersistentVolumeStatus(Partial, kw_only=True):
    """status of a volume."""

    phase: str = ""


class PersistentVolume(Object, kw_only=True):
    """A volume."""

    namespaced: ClassVar[bool] = False

    api_version: str = "v1"
    kind: str = "PersistentVolume"
    spec: PersistentVolumeSpec = field(default_factory=PersistentVolumeSpec)
    status: PersistentVolumeStatus = field(default_factory=PersistentVolumeStatus)


class PersistentVolumeClaimStatus(Partial, kw_only=True):
    """status of a claim."""

    phase: str = ""
    access_modes: list[str] = []
    capacity: ResourceList = {}
    conditions: list[Condition] = []


class PersistentVolumeClaim(Object, kw_only=True):
    """A PersistentVolumeClaim."""

    namespaced: ClassVar[bool] = True

    api_version: str = "v1"
    kind: str = "PersistentVolumeClaim"
    spec: VolumeClaimSpec = field(default_factory=VolumeClaimSpec)
    status: PersistentVolumeClaimStatus = field(default_factory=PersistentVolumeClaimStatus)


class TopologySelectorRequirement(Partial, kw_only=True):
    """A node label with the values allowed."""

    key: str = ""
    values: list[str] = []


class TopologySelectorTerm(Partial, kw_only=True):
    """Node labels that must all match."""

    match_label_expressions: list[TopologySelectorRequirement] = []


class StorageClass(Object, kw_only=True):
    """A storage class: how its volumes are provisioned."""

    namespaced: ClassVar[bool] = False

    api_version: str = "storage.k8s.io/v1"
    kind: str = "StorageClass"
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    reclaim_policy: str = "Delete"
    allowed_topologies: list[TopologySelectorTerm] = []


class VolumeNodeResources(Partial, kw_only=True):
    """The number of volumes of a driver that a node can attach; None is no limit."""

    count: Int | None = None


class CSINodeDriver(Partial, kw_only=True):
    """A driver on a node."""

    name: str = ""
    node_id: str = field(default="", name="nodeID")
    topology_keys: list[str] = []
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Partial, kw_only=True):
    """The drivers on a node."""

    drivers: list[CSINodeDriver] = []


class CSINode(Object, kw_only=True):
    """The CSI drivers on the node of the same name."""

    namespaced: ClassVar[bool] = False

    api_version: str = "storage.k8s.io/v1"
    kind: str = "CSINode"
    spec: CSINodeSpec = field(default_factory=CSINodeSpec)


class CSIDriverSpec(Partial, kw_only=True):
    """spec of a CSI driver."""

    attach_required: bool = True
    storage_capacity: bool = False


class CSIDriver(Object, kw_only=True):
    """A CSI driver."""

    namespaced: ClassVar[bool] = False

    api_version: str = "storage.k8s.io/v1"
    kind: str = "CSIDriver"
    spec: CSIDriverSpec = field(default_factory=CSIDriverSpec)


class CSIStorageCapacity(Object, kw_only=True):
    """The capacity that a class can still provision for a selection of nodes."""

    namespaced: ClassVar[bool] = True

    api_version: str = "storage.k8s.io/v1"
    kind: str = "CSIStorageCapacity"
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None
