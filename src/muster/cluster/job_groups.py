"""Makes gangs of Indexed Jobs, as the Job controller of Kubernetes does with the feature gate WorkloadWithJob.

A Job gets a native PodGroup if the gate is on, if it has `spec.scheduling` (1.37), or if the input shows that the
cluster does it: a Workload or PodGroup in it is owned by a Job. Then the pods of the Job name that group.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from muster.cluster.owners import reference
from muster.model.batch import Job
from muster.model.core import Pod
from muster.model.meta import Object, ObjectMeta
from muster.model.meta import key as key_of
from muster.model.native import GROUP, GangPolicy, GroupSpec, NativePodGroup, NativeWorkload, SchedulingPolicy
from muster.model.pod import SchedulingGroup

GATE = "WorkloadWithJob"
GATES = (GATE,)

Objects = dict[str, dict[str, Object]]


def with_job_groups(objects: Objects, feature_gates: Mapping[str, bool]) -> Objects:
    """Returns the objects with the PodGroups of Jobs, and with Jobs whose pods name them."""
    groups = objects.get(NativePodGroup.__name__, {})
    owned = {owner: name for name, group in sorted(groups.items()) if (owner := _job_of(group))}
    workloads = objects.get(NativeWorkload.__name__, {})
    everywhere = feature_gates.get(GATE, bool(owned) or any(map(_job_of, workloads.values())))
    busy = {owner for pod in objects.get(Pod.__name__, {}).values() if (owner := _job_of(pod))}
    jobs, made = dict(objects.get(Job.__name__, {})), dict(groups)
    for key, job in jobs.items():
        assert isinstance(job, Job)
        if job.spec.template.spec.scheduling_group is not None:
            continue
        if key not in owned and key not in busy and (job.spec.scheduling is not None or (everywhere and _is_gang(job))):
            group = _group(job, _free_name(key, made))
            made[key_of(group)] = group
            owned[key] = key_of(group)
        if key in owned:
            jobs[key] = _in_group(job, owned[key].partition("/")[2])
    changed = {Job.__name__: jobs, NativePodGroup.__name__: made}
    return {**objects, **{kind: table for kind, table in changed.items() if table}}


def _job_of(obj: Object) -> str:
    """The key of the batch/v1 Job that owns the object; or ""."""
    for owner in obj.metadata.owner_references:
        if owner.kind == "Job" and owner.api_version.startswith("batch/"):
            return f"{obj.metadata.namespace or 'default'}/{owner.name}"
    return ""


def _is_gang(job: Job) -> bool:
    """Kubernetes: all pods of the Job run at once, and each has its index."""
    spec = job.spec
    parallel = spec.parallelism or 0
    return parallel > 1 and spec.completion_mode == "Indexed" and spec.completions == parallel


def _group(job: Job, name: str) -> NativePodGroup:
    given = job.spec.scheduling
    minimum = job.spec.parallelism if job.spec.parallelism is not None else 1
    policy = SchedulingPolicy(gang=GangPolicy(min_count=max(minimum, 1)))
    if given is not None and given.scheduling_policy is not None:
        policy = given.scheduling_policy
        if policy.gang is not None and policy.gang.min_count < 1:
            policy = SchedulingPolicy(gang=GangPolicy(min_count=max(minimum, 1)))
    elif given is not None and not _is_gang(job):
        policy = SchedulingPolicy(basic={})
    spec = GroupSpec(scheduling_policy=policy, priority_class_name=job.spec.template.spec.priority_class_name)
    if given is not None:
        spec.scheduling_constraints, spec.disruption_mode = given.scheduling_constraints, given.disruption_mode
        spec.resource_claims = given.resource_claims
    meta = ObjectMeta(
        name=name,
        namespace=job.metadata.namespace,
        uid=f"{job.metadata.namespace or 'default'}/{name}/PodGroup",
        creation_timestamp=job.metadata.creation_timestamp,
        owner_references=[reference(job)],
    )
    version = "v1alpha2" if given is None else "v1beta1"
    return NativePodGroup(api_version=f"{GROUP}/{version}", metadata=meta, spec=spec)


def _free_name(job: str, groups: Mapping[str, Object]) -> str:
    """The Job's name, as a user would look for it; another group may have it already."""
    name, n = job, 1
    while name in groups:
        name, n = f"{job}-{n}", n + 1
    return name.partition("/")[2]


def _in_group(job: Job, group: str) -> Job:
    template = job.spec.template
    spec = replace(template.spec, scheduling_group=SchedulingGroup(pod_group_name=group))
    changed = replace(template, spec=spec)
    changed.keep(template.written)
    return replace(job, spec=replace(job.spec, template=changed))
