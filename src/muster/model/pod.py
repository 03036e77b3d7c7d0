"""The pod: the fields that the scheduler and the simulated kubelet read."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import field

from muster.model.affinity import Affinity, Toleration, TopologySpreadConstraint
from muster.model.meta import (
    NO_ENTRIES,
    NO_ITEMS,
    Condition,
    Int,
    LabelSelector,
    Object,
    ObjectMeta,
    Partial,
    ResourceList,
)


class ResourceClaimName(Partial, kw_only=True):
    """The claim of the pod that a container uses."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Partial, kw_only=True):
    """resources of a container or of a whole pod."""

    requests: ResourceList = NO_ENTRIES
    limits: ResourceList = NO_ENTRIES
    claims: list[ResourceClaimName] = NO_ITEMS


class ContainerPort(Partial, kw_only=True):
    """A port; two pods on a node cannot have the same hostPort."""

    name: str = ""
    container_port: Int = 0
    host_port: Int = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = "TCP"


class Container(Partial, kw_only=True):
    """A container; an init container with restartPolicy Always is a sidecar."""

    name: str = ""
    image: str = ""
    command: list[str] = NO_ITEMS
    args: list[str] = NO_ITEMS
    env: list[dict[str, Any]] = NO_ITEMS
    ports: list[ContainerPort] = NO_ITEMS
    resources: ResourceRequirements | None = None
    restart_policy: str = ""


class PersistentVolumeClaimSource(Partial, kw_only=True):
    """A volume that refers to a claim."""

    claim_name: str = ""
    read_only: bool = False


class VolumeClaimSpec(Partial, kw_only=True):
    """spec of a claim, also of the template of an ephemeral volume."""

    access_modes: list[str] = NO_ITEMS
    selector: LabelSelector | None = None
    resources: ResourceRequirements | None = None
    volume_name: str = ""
    # None selects the default class, "" no class at all.
    storage_class_name: str | None = None
    volume_mode: str = "Filesystem"


class VolumeClaimTemplate(Partial, kw_only=True):
    """The template of an ephemeral volume's claim."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: VolumeClaimSpec = field(default_factory=VolumeClaimSpec)


class EphemeralSource(Partial, kw_only=True):
    """A volume whose claim lives as long as the pod; the claim is called <pod>-<volume>."""

    volume_claim_template: VolumeClaimTemplate | None = None


class GcePersistentDisk(Partial, kw_only=True):
    """A disk that only one pod of a node may write."""

    pd_name: str = ""
    read_only: bool = False


class AwsElasticBlockStore(Partial, kw_only=True):
    """A disk that only one pod of a node may have."""

    volume_id: str = field(default="", name="volumeID")
    read_only: bool = False


class Iscsi(Partial, kw_only=True):
    """A disk that only one pod of a node may write."""

    iqn: str = ""
    target_portal: str = ""
    lun: Int = 0
    read_only: bool = False


class Rbd(Partial, kw_only=True):
    """A Ceph image that only one pod of a node may write."""

    monitors: list[str] = NO_ITEMS
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class CsiInline(Partial, kw_only=True):
    """A volume that a CSI driver creates for this pod only."""

    driver: str = ""


class Volume(Partial, kw_only=True):
    """A volume of a pod, as far as it affects where the pod can run."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimSource | None = None
    ephemeral: EphemeralSource | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    iscsi: Iscsi | None = None
    rbd: Rbd | None = None
    csi: CsiInline | None = None


class PodResourceClaim(Partial, kw_only=True):
    """A device claim of the pod, by name or from a template."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class PodSchedulingGate(Partial, kw_only=True):
    """A gate that must be removed before the pod is scheduled."""

    name: str = ""


class SchedulingGroup(Partial, kw_only=True):
    """The PodGroup of scheduling.k8s.io that the pod is in (since 1.36)."""

    pod_group_name: str = ""


class WorkloadReference(Partial, kw_only=True):
    """The group inside a Workload of scheduling.k8s.io/v1alpha1 that the pod is in (1.35)."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class PodSpec(Partial, kw_only=True):
    """spec of a pod."""

    node_name: str = ""
    node_selector: dict[str, str] = NO_ENTRIES
    affinity: Affinity | None = None
    tolerations: list[Toleration] = NO_ITEMS
    topology_spread_constraints: list[TopologySpreadConstraint] = NO_ITEMS
    containers: list[Container] = NO_ITEMS
    init_containers: list[Container] = NO_ITEMS
    overhead: ResourceList = NO_ENTRIES
    resources: ResourceRequirements | None = None
    # Absent is not 0: Volcano counts a pod without a priority as 1.
    priority: Int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    scheduler_name: str = ""
    scheduling_gates: list[PodSchedulingGate] = NO_ITEMS
    scheduling_group: SchedulingGroup | None = None
    workload_ref: WorkloadReference | None = None
    volumes: list[Volume] = NO_ITEMS
    resource_claims: list[PodResourceClaim] = NO_ITEMS
    host_network: bool = False
    termination_grace_period_seconds: Int | None = None
    active_deadline_seconds: Int | None = None
    restart_policy: str = ""
    runtime_class_name: str = ""
    service_account_name: str = ""


class ContainerStatus(Partial, kw_only=True):
    """The restart count of a container."""

    restart_count: Int = 0


class PodStatus(Partial, kw_only=True):
    """status of a pod; an absent phase is Pending."""

    phase: str = ""
    conditions: list[Condition] = NO_ITEMS
    container_statuses: list[ContainerStatus] = NO_ITEMS
    nominated_node_name: str = ""
    start_time: str | None = None
    reason: str = ""
    message: str = ""


class Pod(Object, kw_only=True):
    """A pod."""

    namespaced: ClassVar[bool] = True

    api_version: str = "v1"
    kind: str = "Pod"
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)


class PodTemplateSpec(Partial, kw_only=True, dict=True, gc=True):
    """The template from which a workload creates its pods."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)

    @property
    def written(self) -> dict[str, Any] | None:
        """Returns the template as written in its manifest, with the fields that the model lacks; None if it was not
        kept.

        It is not a field of the struct: it is neither compared nor encoded, and a copy does not have it.
        """
        return self.__dict__.get("written")

    def keep(self, written: dict[str, Any] | None) -> None:
        self.__dict__["written"] = written
