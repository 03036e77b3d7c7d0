"""Kubernetes' own groups (scheduling.k8s.io): Workload, PodGroup and CompositePodGroup of all versions.

A type has the fields of every version: v1alpha1 (1.35) has only Workloads with groups inside, v1alpha2 (1.36) has
PodGroups, v1alpha3 and v1beta1 (1.37) rename some fields, and v1alpha3 has CompositePodGroups. The types are called by
kind and API group, because Volcano's PodGroup has the same kind.
"""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import field

from muster.model.meta import Condition, Int, Object, Partial

GROUP = "scheduling.k8s.io"
VERSIONS = ("v1beta1", "v1alpha3", "v1alpha2", "v1alpha1")  # the preferred version first


class NativeObject(Object, kw_only=True):
    """A kind of scheduling.k8s.io whose name another API group uses as well."""

    def __init_subclass__(cls) -> None:
        cls.__name__ = f"{cls.__name__.removeprefix('Native')}.{GROUP}"

    @property
    def version(self) -> str:
        return self.api_version.rpartition("/")[2]


class GangPolicy(Partial, kw_only=True):
    """So many pods (PodGroup) or groups (CompositePodGroup) start together or not at all."""

    min_count: Int = 0
    min_group_count: Int = 0


class SchedulingPolicy(Partial, kw_only=True):
    """Exactly one of the two is given."""

    basic: dict[str, Any] | None = None
    gang: GangPolicy | None = None


class LabelTopology(Partial, kw_only=True):
    """A node label of which all pods must share the value."""

    key: str = ""


class SchedulingConstraints(Partial, kw_only=True):
    """Where the pods of a group may run."""

    topology: list[LabelTopology] = []


class TemplateOfWorkload(Partial, kw_only=True):
    """v1alpha2: the Workload and the template that a PodGroup was made from."""

    workload_name: str = ""
    pod_group_template_name: str = ""


class PodGroupTemplateRef(Partial, kw_only=True):
    """v1alpha2: what a PodGroup was made from."""

    workload: TemplateOfWorkload | None = None


class WorkloadTemplateRef(Partial, kw_only=True):
    """v1alpha3 and v1beta1: the Workload and the template that a group was made from."""

    workload_name: str = ""
    template_name: str = ""


class GroupSpec(Partial, kw_only=True):
    """spec of a PodGroup or CompositePodGroup."""

    scheduling_policy: SchedulingPolicy | None = None
    scheduling_constraints: SchedulingConstraints | None = None
    # "Pod" or "PodGroup" in v1alpha2, {single: {}} or {all: {}} later
    disruption_mode: str | dict[str, Any] | None = None
    priority_class_name: str = ""
    priority: Int | None = None
    preemption_policy: str = ""
    parent_composite_pod_group_name: str = ""
    pod_group_template_ref: PodGroupTemplateRef | None = None
    workload_ref: WorkloadTemplateRef | None = None
    resource_claims: list[dict[str, Any]] = []

    @property
    def gang(self) -> GangPolicy | None:
        return self.scheduling_policy.gang if self.scheduling_policy is not None else None

    @property
    def topology_key(self) -> str:
        """The label of the required domain; empty if there is none."""
        topology = self.scheduling_constraints.topology if self.scheduling_constraints is not None else []
        return topology[0].key if topology else ""

    @property
    def disrupted_whole(self) -> bool:
        mode = self.disruption_mode
        return mode == "PodGroup" if isinstance(mode, str) else mode is not None and "all" in mode

    @property
    def workload_name(self) -> str:
        """The Workload that the group was made from; empty if it names none."""
        if self.workload_ref is not None:
            return self.workload_ref.workload_name
        made_from = self.pod_group_template_ref
        return made_from.workload.workload_name if made_from is not None and made_from.workload is not None else ""


class GroupStatus(Partial, kw_only=True):
    """status of a PodGroup or CompositePodGroup."""

    conditions: list[Condition] = []


class NativePodGroup(NativeObject, kw_only=True):
    """A group of pods that name it in spec.schedulingGroup."""

    namespaced: ClassVar[bool] = True

    api_version: str = f"{GROUP}/{VERSIONS[0]}"
    kind: str = "PodGroup"
    spec: GroupSpec = field(default_factory=GroupSpec)
    status: GroupStatus = field(default_factory=GroupStatus)


class CompositePodGroup(NativeObject, kw_only=True):
    """A group of PodGroups and CompositePodGroups that name it as their parent."""

    namespaced: ClassVar[bool] = True

    api_version: str = f"{GROUP}/v1alpha3"
    kind: str = "CompositePodGroup"
    spec: GroupSpec = field(default_factory=GroupSpec)
    status: GroupStatus = field(default_factory=GroupStatus)


class WorkloadPodGroup(Partial, kw_only=True):
    """v1alpha1: a group inside a Workload; the pods with one replica key are a gang."""

    name: str = ""
    policy: SchedulingPolicy | None = None


class WorkloadSpec(Partial, kw_only=True):
    """spec of a Workload; the scheduler reads only `podGroups` of v1alpha1."""

    controller_ref: dict[str, Any] | None = None
    pod_groups: list[WorkloadPodGroup] = []
    pod_group_templates: list[dict[str, Any]] = []
    composite_pod_group_templates: list[dict[str, Any]] = []


class NativeWorkload(NativeObject, kw_only=True):
    """What groups are made from; in v1alpha1 it has the groups itself."""

    namespaced: ClassVar[bool] = True

    api_version: str = f"{GROUP}/{VERSIONS[0]}"
    kind: str = "Workload"
    spec: WorkloadSpec = field(default_factory=WorkloadSpec)
