"""Workloads: what makes pods, as far as the simulated controllers and node group management read it."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import field

from muster.model.meta import Condition, Int, LabelSelector, Object, ObjectMeta, Partial
from muster.model.native import SchedulingConstraints, SchedulingPolicy
from muster.model.pod import PodTemplateSpec
from muster.model.storage import ObjectReference, PersistentVolumeClaim


class RollingUpdate(Partial, kw_only=True):
    """How many pods a roll-out may add or miss; numbers or percentages."""

    max_surge: Int | str | None = None
    max_unavailable: Int | str | None = None
    partition: Int = 0


class UpdateStrategy(Partial, kw_only=True):
    """How a workload goes over to a new template."""

    type: str = ""
    rolling_update: RollingUpdate | None = None


class WorkloadStatus(Partial, kw_only=True):
    """Counts that a replica controller writes."""

    replicas: Int = 0
    ready_replicas: Int = 0
    available_replicas: Int = 0
    updated_replicas: Int = 0
    observed_generation: Int = 0
    current_revision: str = ""
    update_revision: str = ""
    conditions: list[Condition] = []


class DeploymentSpec(Partial, kw_only=True):
    """spec of a Deployment; absent replicas are 1."""

    replicas: Int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = field(default_factory=PodTemplateSpec)
    strategy: UpdateStrategy | None = None
    paused: bool = False


class Deployment(Object, kw_only=True):
    """A Deployment."""

    namespaced: ClassVar[bool] = True

    api_version: str = "apps/v1"
    kind: str = "Deployment"
    spec: DeploymentSpec = field(default_factory=DeploymentSpec)
    status: WorkloadStatus = field(default_factory=WorkloadStatus)


class ReplicaSetSpec(Partial, kw_only=True):
    """spec of a ReplicaSet; absent replicas are 1."""

    replicas: Int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = field(default_factory=PodTemplateSpec)


class ReplicaSet(Object, kw_only=True):
    """A ReplicaSet."""

    namespaced: ClassVar[bool] = True

    api_version: str = "apps/v1"
    kind: str = "ReplicaSet"
    spec: ReplicaSetSpec = field(default_factory=ReplicaSetSpec)
    status: WorkloadStatus = field(default_factory=WorkloadStatus)


class ReplicationControllerSpec(Partial, kw_only=True):
    """spec of a ReplicationController; its selector is a plain map, absent it is the template's labels."""

    replicas: Int | None = None
    selector: dict[str, str] = {}
    template: PodTemplateSpec = field(default_factory=PodTemplateSpec)


class ReplicationController(Object, kw_only=True):
    """A ReplicationController."""

    namespaced: ClassVar[bool] = True

    api_version: str = "v1"
    kind: str = "ReplicationController"
    spec: ReplicationControllerSpec = field(default_factory=ReplicationControllerSpec)
    status: WorkloadStatus = field(default_factory=WorkloadStatus)


class Ordinals(Partial, kw_only=True):
    """The number a StatefulSet counts from."""

    start: Int = 0


class StatefulSetSpec(Partial, kw_only=True):
    """spec of a StatefulSet; absent replicas are 1."""

    replicas: Int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = field(default_factory=PodTemplateSpec)
    service_name: str = ""
    pod_management_policy: str = "OrderedReady"
    ordinals: Ordinals | None = None
    update_strategy: UpdateStrategy | None = None
    volume_claim_templates: list[PersistentVolumeClaim] = []


class StatefulSet(Object, kw_only=True):
    """A StatefulSet."""

    namespaced: ClassVar[bool] = True

    api_version: str = "apps/v1"
    kind: str = "StatefulSet"
    spec: StatefulSetSpec = field(default_factory=StatefulSetSpec)
    status: WorkloadStatus = field(default_factory=WorkloadStatus)


class DaemonSetSpec(Partial, kw_only=True):
    """spec of a DaemonSet."""

    selector: LabelSelector | None = None
    template: PodTemplateSpec = field(default_factory=PodTemplateSpec)
    update_strategy: UpdateStrategy | None = None


class DaemonSetStatus(Partial, kw_only=True):
    """Counts that the DaemonSet controller writes."""

    desired_number_scheduled: Int = 0
    current_number_scheduled: Int = 0
    number_ready: Int = 0
    number_available: Int = 0
    number_misscheduled: Int = 0
    updated_number_scheduled: Int = 0
    observed_generation: Int = 0


class DaemonSet(Object, kw_only=True):
    """A DaemonSet."""

    namespaced: ClassVar[bool] = True

    api_version: str = "apps/v1"
    kind: str = "DaemonSet"
    spec: DaemonSetSpec = field(default_factory=DaemonSetSpec)
    status: DaemonSetStatus = field(default_factory=DaemonSetStatus)


class ControllerRevision(Object, kw_only=True):
    """A template that a StatefulSet or a DaemonSet has or had, under spec.template of its data, with all its fields."""

    namespaced: ClassVar[bool] = True

    api_version: str = "apps/v1"
    kind: str = "ControllerRevision"
    data: dict[str, Any] = {}
    revision: Int = 0


class JobScheduling(Partial, kw_only=True):
    """1.37: what the PodGroup of the Job requests."""

    scheduling_policy: SchedulingPolicy | None = None
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: str | dict[str, Any] | None = None
    resource_claims: list[dict[str, Any]] = []


class JobSpec(Partial, kw_only=True):
    """spec of a Job; absent parallelism and completions are 1 (completions absent beside parallelism: a work queue)."""

    parallelism: Int | None = None
    completions: Int | None = None
    completion_mode: str = "NonIndexed"
    backoff_limit: Int | None = None
    active_deadline_seconds: Int | None = None
    ttl_seconds_after_finished: Int | None = None
    suspend: bool = False
    manual_selector: bool = False
    selector: LabelSelector | None = None
    scheduling: JobScheduling | None = None
    template: PodTemplateSpec = field(default_factory=PodTemplateSpec)


class JobStatus(Partial, kw_only=True):
    """Counts that the Job controller writes."""

    active: Int = 0
    succeeded: Int = 0
    failed: Int = 0
    ready: Int = 0
    completed_indexes: str = ""
    start_time: str | None = None
    completion_time: str | None = None
    conditions: list[Condition] = []


class Job(Object, kw_only=True):
    """A Job."""

    namespaced: ClassVar[bool] = True

    api_version: str = "batch/v1"
    kind: str = "Job"
    spec: JobSpec = field(default_factory=JobSpec)
    status: JobStatus = field(default_factory=JobStatus)


class JobTemplateSpec(Partial, kw_only=True):
    """What a CronJob makes its Jobs from."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: JobSpec = field(default_factory=JobSpec)


class CronJobSpec(Partial, kw_only=True):
    """spec of a CronJob."""

    schedule: str = ""
    suspend: bool = False
    concurrency_policy: str = "Allow"
    job_template: JobTemplateSpec = field(default_factory=JobTemplateSpec)


class CronJobStatus(Partial, kw_only=True):
    """What a CronJob last did."""

    active: list[ObjectReference] = []
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(Object, kw_only=True):
    """A CronJob."""

    namespaced: ClassVar[bool] = True

    api_version: str = "batch/v1"
    kind: str = "CronJob"
    spec: CronJobSpec = field(default_factory=CronJobSpec)
    status: CronJobStatus = field(default_factory=CronJobStatus)


APPLICATION_KINDS: dict[type[Object], str] = {
    Deployment: "apps",
    ReplicaSet: "apps",
    StatefulSet: "apps",
    DaemonSet: "apps",
    Job: "batch",
    CronJob: "batch",
    ReplicationController: "",
}
"""The kinds of Kubernetes that own pods, directly or through another one, and the API group of each."""
