"""Volcano's Job and CronJob (batch.volcano.sh/v1alpha1), with all their fields.

Kubernetes has kinds of the same names, so the types are called by kind and API group in object tables
(`Job.batch.volcano.sh`). Import the module, not its classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import field

from muster.model.custom import CustomApplication, Path
from muster.model.meta import Int, ObjectMeta, Partial
from muster.model.pod import Pod, PodTemplateSpec, VolumeClaimSpec
from muster.model.scheduling import NetworkTopology
from muster.model.storage import ObjectReference

__all__ = ["API_VERSION", "TASK", "CronJob", "DependsOn", "Job", "JobSpec", "LifecyclePolicy", "PartitionPolicy",
           "TaskSpec", "VolumeSpec", "task_name"]  # fmt: skip

API_VERSION = "batch.volcano.sh/v1alpha1"
TASK = "volcano.sh/task-spec"  # annotation and label of a pod: the task it belongs to


class LifecyclePolicy(Partial, kw_only=True):
    """What the controller does after an event of a pod or a task; with an exit code instead of an event."""

    action: str = ""
    event: str = ""
    events: list[str] = []
    exit_code: Int | None = None
    timeout: str = ""


class DependsOn(Partial, kw_only=True):
    """The tasks that must run before the pods of a task are created."""

    name: list[str] = []
    iteration: str = ""


class PartitionPolicy(Partial, kw_only=True):
    """How the pods of a task are divided into sub-groups."""

    total_partitions: Int = 0
    partition_size: Int = 0
    network_topology: NetworkTopology | None = None
    min_partitions: Int = 0


class TaskSpec(Partial, kw_only=True):
    """One task: pods of one template. An absent minAvailable is filled in by Volcano's webhook."""

    name: str = ""
    replicas: Int = 0
    min_available: Int | None = None
    template: PodTemplateSpec = field(default_factory=PodTemplateSpec)
    policies: list[LifecyclePolicy] = []
    topology_policy: str = ""
    max_retry: Int = 0
    depends_on: DependsOn | None = None
    partition_policy: PartitionPolicy | None = None


class VolumeSpec(Partial, kw_only=True):
    """A claim that all pods of the Job mount: an existing one, or one that the controller creates."""

    mount_path: str = ""
    volume_claim_name: str = ""
    volume_claim: VolumeClaimSpec | None = None


class JobSpec(Partial, kw_only=True):
    """spec of a Job."""

    scheduler_name: str = ""
    min_available: Int = 0
    volumes: list[VolumeSpec] = []
    tasks: list[TaskSpec] = []
    policies: list[LifecyclePolicy] = []
    plugins: dict[str, list[str] | None] = {}
    running_estimate: str = ""
    queue: str = ""
    max_retry: Int = 0
    ttl_seconds_after_finished: Int | None = None
    priority_class_name: str = ""
    min_success: Int | None = None
    network_topology: NetworkTopology | None = None


class JobState(Partial, kw_only=True):
    """The phase of a Job."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class JobStatus(Partial, kw_only=True):
    """What Volcano's controller writes."""

    state: JobState = field(default_factory=JobState)
    min_available: Int = 0
    pending: Int = 0
    running: Int = 0
    succeeded: Int = 0
    failed: Int = 0
    terminating: Int = 0
    unknown: Int = 0
    version: Int = 0
    retry_count: Int = 0


class Job(CustomApplication, kw_only=True):
    """A Job of Volcano: one gang of several tasks."""

    group: ClassVar[str] = "batch.volcano.sh"
    version: ClassVar[str] = "v1alpha1"
    plural: ClassVar[str] = "jobs"
    template_path: ClassVar[Path] = ("spec", "tasks", "*", "template")

    api_version: str = API_VERSION
    kind: str = "Job"
    spec: JobSpec = field(default_factory=JobSpec)
    status: JobStatus = field(default_factory=JobStatus)

    @property
    def replicas(self) -> int | None:
        return _replicas(self.spec)

    @property
    def templates(self) -> Sequence[PodTemplateSpec]:
        return [task.template for task in self.spec.tasks]

    def template_index(self, pod: Pod) -> int | None:
        return _task_index(self.spec, pod)


class JobTemplateSpec(Partial, kw_only=True):
    """What a CronJob makes its Jobs from."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: JobSpec = field(default_factory=JobSpec)


class CronJobSpec(Partial, kw_only=True):
    """spec of a CronJob."""

    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: Int | None = None
    concurrency_policy: str = "Allow"
    suspend: bool = False
    job_template: JobTemplateSpec = field(default_factory=JobTemplateSpec)
    successful_jobs_history_limit: Int | None = None
    failed_jobs_history_limit: Int | None = None


class CronJobStatus(Partial, kw_only=True):
    """What a CronJob last did."""

    active: list[ObjectReference] = []
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(CustomApplication, kw_only=True):
    """A CronJob of Volcano, which creates Jobs of Volcano."""

    group: ClassVar[str] = "batch.volcano.sh"
    version: ClassVar[str] = "v1alpha1"
    plural: ClassVar[str] = "cronjobs"
    template_path: ClassVar[Path] = ("spec", "jobTemplate", "spec", "tasks", "*", "template")
    makes: ClassVar[tuple[type[CustomApplication], ...]] = (Job,)

    api_version: str = API_VERSION
    kind: str = "CronJob"
    spec: CronJobSpec = field(default_factory=CronJobSpec)
    status: CronJobStatus = field(default_factory=CronJobStatus)

    @property
    def replicas(self) -> int | None:
        return _replicas(self.spec.job_template.spec)

    @property
    def templates(self) -> Sequence[PodTemplateSpec]:
        return [task.template for task in self.spec.job_template.spec.tasks]

    def template_index(self, pod: Pod) -> int | None:
        return _task_index(self.spec.job_template.spec, pod)


def task_name(task: TaskSpec, index: int) -> str:
    """Volcano's webhook: a task without a name is called by its position."""
    return task.name or f"default{index}"


def _replicas(spec: JobSpec) -> int:
    return sum(max(task.replicas, 0) for task in spec.tasks)


def _task_index(spec: JobSpec, pod: Pod) -> int | None:
    named = pod.metadata.annotations.get(TASK, pod.metadata.labels.get(TASK, ""))
    return next((i for i, task in enumerate(spec.tasks) if task_name(task, i) == named), None)
