"""What Volcano makes of a Job of batch.volcano.sh: the defaults of its webhook, and the PodGroup, pods and claims that
its controller creates.

Pure functions of the Job. The same objects are created on a real control plane by Volcano's controller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from muster.cluster.owners import letters, reference
from muster.engine.core.podgroups import GROUP
from muster.engine.core.reading import PREEMPTABLE
from muster.model import volcano_job
from muster.model.core import Pod, PriorityClass, Volume
from muster.model.meta import LabelSelector, ObjectMeta, ResourceList, key
from muster.model.pod import PersistentVolumeClaimSource, VolumeClaimSpec
from muster.model.quantity import LARGEST, canonical
from muster.model.requests import requests
from muster.model.scheduling import PodGroup, PodGroupSpec, SubGroupPolicy
from muster.model.storage import PersistentVolumeClaim
from muster.model.volcano_job import TASK, JobSpec, PartitionPolicy, TaskSpec, task_name

__all__ = ["claims", "group_name", "min_resources", "pod", "pod_group", "with_defaults"]

JOB_NAME = "volcano.sh/job-name"
JOB_NAMESPACE = "volcano.sh/job-namespace"
JOB_VERSION = "volcano.sh/job-version"
QUEUE_NAME = "volcano.sh/queue-name"
TASK_INDEX = "volcano.sh/task-index"
TEMPLATE_UID = "volcano.sh/template-uid"
PARTITION = "volcano.sh/partition-id"
NUMA_POLICY = "volcano.sh/numa-topology-policy"

_COOLDOWN = "volcano.sh/cooldown-time"
# Annotations and labels of a Job that its pods get, too.
_COPIED_ANNOTATIONS = (PREEMPTABLE, _COOLDOWN, "volcano.sh/revocable-zone")
_COPIED_LABELS = (PREEMPTABLE, _COOLDOWN)
# Volcano: only the first of the two disruption budgets that the Job has.
_BUDGETS = ("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable")
_MAX_RETRY = 3


def with_defaults(spec: JobSpec) -> JobSpec:
    """The spec with the defaults of Volcano's webhook."""
    tasks = [_task_with_defaults(task, i) for i, task in enumerate(spec.tasks)]
    return replace(
        spec,
        queue=spec.queue or "default",
        scheduler_name=spec.scheduler_name or "volcano",
        max_retry=spec.max_retry or _MAX_RETRY,
        tasks=tasks,
        min_available=spec.min_available or sum(task.min_available or 0 for task in tasks),
    )


def _task_with_defaults(task: TaskSpec, index: int) -> TaskSpec:
    least = task.min_available
    if least is None:
        parts = task.partition_policy
        least = parts.min_partitions * parts.partition_size if parts and parts.min_partitions > 0 else task.replicas
    return replace(task, name=task_name(task, index), min_available=least, max_retry=task.max_retry or _MAX_RETRY)


def group_name(job: volcano_job.Job) -> str:
    """The name of the Job's PodGroup; a Job without a uid in the input has a PodGroup of its own name."""
    uid = job.metadata.uid
    return job.metadata.name if "/" in uid or not uid else f"{job.metadata.name}-{uid}"


def pod_group(job: volcano_job.Job, spec: JobSpec, classes: Mapping[str, PriorityClass]) -> PodGroup:
    """The PodGroup of a Job; `spec` has the defaults, `classes` are the PriorityClasses of the cluster by name."""
    meta = job.metadata
    return PodGroup(
        metadata=ObjectMeta(
            name=group_name(job),
            namespace=meta.namespace,
            labels=meta.labels,
            annotations=meta.annotations,
            owner_references=[reference(job)],
        ),
        spec=PodGroupSpec(
            min_member=spec.min_available,
            min_task_member={task.name: task.min_available or 0 for task in spec.tasks},
            queue=spec.queue,
            priority_class_name=spec.priority_class_name,
            min_resources=min_resources(spec, classes),
            network_topology=spec.network_topology,
            sub_group_policy=[_sub_groups(task.name, p) for task in spec.tasks if (p := task.partition_policy)],
        ),
    )


def _sub_groups(task: str, partitions: PartitionPolicy) -> SubGroupPolicy:
    return SubGroupPolicy(
        name=task,
        sub_group_size=partitions.partition_size,
        min_sub_groups=partitions.min_partitions,
        label_selector=LabelSelector(match_labels={TASK: task}),
        match_label_keys=[PARTITION],
        network_topology=partitions.network_topology,
    )


def min_resources(spec: JobSpec, classes: Mapping[str, PriorityClass]) -> ResourceList:
    """The requests of the pods that make up the Job's minimum, those of tasks with a higher priority first."""

    def priority(task: TaskSpec) -> int:
        named = classes.get(task.template.spec.priority_class_name)
        return named.value if named is not None else 0

    tasks = sorted(spec.tasks, key=priority, reverse=True)  # stable: equal tasks stay in the order of the Job
    total: dict[str, int] = {}
    for task, count in zip(tasks, _members(tasks, spec.min_available), strict=True):
        for name, amount in requests(task.template.spec).items() if count > 0 else ():
            total[name] = total.get(name, 0) + amount * count
    return {name: canonical(name, min(amount, LARGEST)) for name, amount in total.items() if name != "pods"}


def _members(tasks: list[TaskSpec], least: int) -> list[int]:
    """How many pods of each task the minimum is made of."""
    minima = [task.min_available or 0 for task in tasks]
    if least < sum(minima):
        return _filled(least, [task.replicas for task in tasks])
    counts = _filled(least, minima)
    rest = [task.replicas - count for task, count in zip(tasks, minima, strict=True)]
    further = _filled(least - sum(counts), rest)
    return [count + more for count, more in zip(counts, further, strict=True)]


def _filled(amount: int, most: list[int]) -> list[int]:
    """Divides an amount in order, to each at most what it takes."""
    found = []
    for limit in most:
        found.append(max(min(amount, limit), 0))
        amount -= found[-1]
    return found


def pod(job: volcano_job.Job, spec: JobSpec, task: TaskSpec, index: int, group: str) -> Pod:
    """The pod of a task with that index, in that PodGroup; `spec` and `task` have the defaults."""
    meta, template = job.metadata, task.template
    labels = {
        **template.metadata.labels,
        TASK_INDEX: str(index),
        JOB_NAME: meta.name,
        TASK: task.name,
        JOB_NAMESPACE: meta.namespace,
        QUEUE_NAME: spec.queue,
        **{name: meta.labels[name] for name in _COPIED_LABELS if name in meta.labels},
    }
    if task.partition_policy is not None and task.partition_policy.partition_size > 0:
        labels[PARTITION] = str(index // task.partition_policy.partition_size)
    budgets = [name for name in _BUDGETS if name in meta.annotations][:1]
    annotations = {
        **template.metadata.annotations,
        TASK_INDEX: str(index),
        TASK: task.name,
        GROUP: group,
        JOB_NAME: meta.name,
        QUEUE_NAME: spec.queue,
        JOB_VERSION: str(job.status.version),
        TEMPLATE_UID: f"{meta.name}-{task.name}",
        **({NUMA_POLICY: task.topology_policy} if task.topology_policy else {}),
        **{n: meta.annotations[n] for n in (*_COPIED_ANNOTATIONS, *budgets) if n in meta.annotations},
    }
    return Pod(
        metadata=ObjectMeta(
            name=f"{meta.name}-{task.name}-{index}",
            namespace=meta.namespace,
            labels=labels,
            annotations=annotations,
            owner_references=[reference(job)],
        ),
        spec=replace(
            template.spec,
            scheduler_name=template.spec.scheduler_name or spec.scheduler_name,
            priority_class_name=template.spec.priority_class_name or spec.priority_class_name,
            volumes=[*template.spec.volumes, *_volumes(job)] if spec.volumes else template.spec.volumes,
        ),
    )


def claims(job: volcano_job.Job) -> Iterator[tuple[str, VolumeClaimSpec | None]]:
    """The name of each claim that the Job's pods mount; with its spec if the controller creates it."""
    for i, volume in enumerate(job.spec.volumes):
        if volume.volume_claim_name:
            yield volume.volume_claim_name, None
        else:
            # Volcano chooses 12 random letters.
            yield f"{job.metadata.name}-pvc-{letters(f'{key(job)}/{i}', 12)}", volume.volume_claim


def claim(job: volcano_job.Job, name: str, spec: VolumeClaimSpec) -> PersistentVolumeClaim:
    """The claim that the controller creates for a volume of the Job."""
    meta = ObjectMeta(name=name, namespace=job.metadata.namespace, owner_references=[reference(job)])
    return PersistentVolumeClaim(metadata=meta, spec=spec)


def _volumes(job: volcano_job.Job) -> list[Volume]:
    names = dict.fromkeys(name for name, _ in claims(job))  # Volcano: a claim that two volumes name is mounted once
    return [
        Volume(
            name=f"{job.metadata.name}-{letters(f'{key(job)}/{name}', 12)}",
            persistent_volume_claim=PersistentVolumeClaimSource(claim_name=name),
        )
        for name in names
    ]
