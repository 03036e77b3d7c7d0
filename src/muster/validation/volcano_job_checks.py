"""Checks Volcano's Jobs and CronJobs: what Volcano's webhook and the schema of its CustomResourceDefinitions refuse.

Each fault is a Problem with the path of its field.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from muster.config.names import suggest
from muster.model.cron import check_schedule, check_time_zone
from muster.model.pod import Container, PodSpec
from muster.model.quantity import QuantityError
from muster.model.requests import amount
from muster.model.scheduling import NetworkTopology
from muster.model.shape import Problem
from muster.model.volcano_job import CronJob, Job, JobSpec, LifecyclePolicy, TaskSpec, VolumeSpec, task_name
from muster.validation.part_checks import Problems, claim_spec, not_negative, pod_spec

__all__ = ["check_cron_job", "check_job"]

EVENTS = ("*", "PodPending", "PodRunning", "PodFailed", "PodEvicted", "Unknown", "TaskCompleted", "TaskFailed",
          "JobUpdated")  # fmt: skip
ACTIONS = ("AbortJob", "RestartJob", "RestartTask", "RestartPod", "RestartPartition", "TerminateJob", "CompleteJob",
           "ResumeJob")  # fmt: skip
PLUGINS = ("env", "ssh", "svc", "tensorflow", "mpi", "pytorch", "ray", "hcclrank")
NUMA_POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
_CONCURRENCY = ("Allow", "Forbid", "Replace")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_MAX_NAME_CHARS = 63
_MAX_CRON_NAME_CHARS = _MAX_NAME_CHARS - 11  # Volcano appends the time to the name of the Job


def check_job(job: Job) -> Problems:
    """Yields the faults of a Job."""
    yield from _spec(job.spec, job.metadata.name, "spec")


def check_cron_job(cron: CronJob) -> Problems:
    """Yields the faults of a CronJob and of its Job template."""
    spec, name = cron.spec, cron.metadata.name
    if len(name) > _MAX_CRON_NAME_CHARS:
        message = f"has {len(name)} characters, more than {_MAX_CRON_NAME_CHARS}"
        yield Problem("metadata.name", message, "give it a shorter name: the time is appended to the names of its Jobs")
    if not spec.schedule:
        yield Problem("spec.schedule", "is missing", "write a cron schedule, such as 0 3 * * *")
    elif "TZ" in spec.schedule:
        yield Problem("spec.schedule", "has a time zone in it", "write it in spec.timeZone")
    else:
        try:
            check_schedule(spec.schedule)
        except ValueError as error:
            yield Problem("spec.schedule", f"is not a cron schedule: {error}", "write it like 0 3 * * *")
    if spec.time_zone is not None:
        try:
            check_time_zone(spec.time_zone)
        except ValueError as error:
            yield Problem("spec.timeZone", str(error), "write a name of the tz database, such as Europe/Berlin")
    yield from _choice(spec.concurrency_policy, _CONCURRENCY, "spec.concurrencyPolicy")
    yield from not_negative(spec.starting_deadline_seconds, "spec.startingDeadlineSeconds")
    yield from not_negative(spec.successful_jobs_history_limit, "spec.successfulJobsHistoryLimit")
    yield from not_negative(spec.failed_jobs_history_limit, "spec.failedJobsHistoryLimit")
    yield from _spec(spec.job_template.spec, name, "spec.jobTemplate.spec")


def _spec(spec: JobSpec, name: str, path: str) -> Problems:
    yield from not_negative(spec.min_available, f"{path}.minAvailable")
    yield from not_negative(spec.max_retry, f"{path}.maxRetry")
    yield from not_negative(spec.ttl_seconds_after_finished, f"{path}.ttlSecondsAfterFinished")
    if spec.min_success is not None and spec.min_success < 1:
        yield Problem(f"{path}.minSuccess", f"{spec.min_success} is below 1", "leave it out, or write 1 or more")
    if not spec.tasks:
        yield Problem(f"{path}.tasks", "the Job has no tasks", "add a task with a pod template")
        return
    for i, task in enumerate(spec.tasks):
        yield from _task(task, task_name(task, i), name, f"{path}.tasks[{i}]")
    yield from _names(spec.tasks, f"{path}.tasks")
    yield from _dependencies(spec.tasks, f"{path}.tasks")
    total = sum(task.replicas for task in spec.tasks)
    if spec.min_available > total:
        message = f"{spec.min_available} is more than the replicas of all tasks together ({total})"
        yield Problem(f"{path}.minAvailable", message, f"write {total} or less, or leave it out")
    yield from _policies(spec.policies, f"{path}.policies")
    for plugin in sorted(spec.plugins):
        if plugin not in PLUGINS:
            message = f"Volcano has no job plugin {plugin}"
            yield Problem(f"{path}.plugins", message, suggest(plugin, PLUGINS))
    yield from _volumes(spec.volumes, f"{path}.volumes")
    yield from _network(spec.network_topology, f"{path}.networkTopology")


def _task(task: TaskSpec, name: str, job: str, path: str) -> Problems:
    if not _LABEL.fullmatch(name) or len(name) > _MAX_NAME_CHARS:
        message = f"{name!r} is not a name: lower-case letters, digits and -, at most {_MAX_NAME_CHARS}"
        yield Problem(f"{path}.name", message, "rename the task")
    elif len(longest := f"{job}-{name}-{max(task.replicas - 1, 0)}") > _MAX_NAME_CHARS:
        message = f"the name of its pod {longest} has {len(longest)} characters, more than {_MAX_NAME_CHARS}"
        yield Problem(f"{path}.name", message, "shorten the name of the task or of the Job")
    yield from not_negative(task.replicas, f"{path}.replicas")
    yield from not_negative(task.min_available, f"{path}.minAvailable")
    yield from not_negative(task.max_retry, f"{path}.maxRetry")
    if task.min_available is not None and task.min_available > task.replicas >= 0:
        message = f"{task.min_available} is more than its replicas ({task.replicas})"
        yield Problem(f"{path}.minAvailable", message, f"write {task.replicas} or less, or leave it out")
    yield from _partitions(task, f"{path}.partitionPolicy")
    yield from _policies(task.policies, f"{path}.policies")
    if not task.template.spec.containers:
        yield Problem(f"{path}.template.spec.containers", "the pod template has no containers", "add one")
    faults = list(pod_spec(task.template.spec, f"{path}.template.spec"))
    yield from faults
    yield from _choice(task.topology_policy or "none", NUMA_POLICIES, f"{path}.topologyPolicy")
    if task.topology_policy not in ("", "none") and not faults and not _whole_cpus(task.template.spec):
        message = f"{task.topology_policy} needs guaranteed pods with whole CPUs"
        fix = "set the limits of cpu and memory of each container, cpu as a whole number, and no other requests"
        yield Problem(f"{path}.topologyPolicy", message, fix)


def _names(tasks: Sequence[TaskSpec], path: str) -> Problems:
    seen: dict[str, int] = {}
    for i, task in enumerate(tasks):
        name = task_name(task, i)
        if name in seen:
            message = f"the name {name} is that of tasks[{seen[name]}] too"
            yield Problem(f"{path}[{i}].name", message, "give each task a name of its own")
        seen.setdefault(name, i)


def _dependencies(tasks: Sequence[TaskSpec], path: str) -> Problems:
    """Checks that dependsOn names tasks of the Job, and that no task waits for itself."""
    names = {task_name(task, i): i for i, task in reversed(list(enumerate(tasks)))}
    needs = [task.depends_on.name if task.depends_on is not None else [] for task in tasks]
    unknown = False
    for i, depends in enumerate(needs):
        for name in depends:
            if name not in names:
                unknown = True
                message = f"depends on task {name}, which the Job does not have"
                yield Problem(f"{path}[{i}].dependsOn.name", message, suggest(name, names))
    left = dict.fromkeys(sorted(names, key=lambda name: names[name]))
    while not unknown:
        ready = [name for name in left if not any(need in left for need in needs[names[name]])]
        if not ready:
            break
        for name in ready:
            del left[name]
    if left and not unknown:
        first = next(iter(left))
        message = f"the tasks {', '.join(left)} depend on each other in a cycle"
        yield Problem(f"{path}[{names[first]}].dependsOn", message, "remove dependsOn from one of them")


def _partitions(task: TaskSpec, path: str) -> Problems:
    parts = task.partition_policy
    if parts is None:
        return
    for name, number in (("totalPartitions", parts.total_partitions), ("partitionSize", parts.partition_size)):
        if number < 1:
            yield Problem(f"{path}.{name}", f"{number} is below 1", "write 1 or more")
    if parts.total_partitions * parts.partition_size != task.replicas:
        message = f"totalPartitions × partitionSize is {parts.total_partitions * parts.partition_size}, "
        message += f"but the task has {task.replicas} replicas"
        yield Problem(path, message, "make them equal")
    yield from not_negative(parts.min_partitions, f"{path}.minPartitions")
    if parts.min_partitions > parts.total_partitions:
        message = f"{parts.min_partitions} is more than totalPartitions ({parts.total_partitions})"
        yield Problem(f"{path}.minPartitions", message, f"write {parts.total_partitions} or less")
    yield from _network(parts.network_topology, f"{path}.networkTopology")


def _policies(policies: Sequence[LifecyclePolicy], path: str) -> Problems:
    events: dict[str, None] = {}
    codes: set[int] = set()
    for i, policy in enumerate(policies):
        place = f"{path}[{i}]"
        given = list(dict.fromkeys([*policy.events, *([policy.event] if policy.event else [])]))
        if given and policy.exit_code is not None:
            yield Problem(place, "has both an event and an exitCode", "leave one out")
        elif not given and policy.exit_code is None:
            yield Problem(place, "has neither an event nor an exitCode", "write one of them")
        for event in given:
            yield from _choice(event, EVENTS, f"{place}.event")
            if event in events:
                yield Problem(f"{place}.event", f"another policy has the event {event} too", "leave one out")
            events[event] = None
        if policy.exit_code == 0:
            yield Problem(f"{place}.exitCode", "0 is not an error code", "write the code of a failure")
        if policy.exit_code is not None:
            if policy.exit_code in codes:
                yield Problem(f"{place}.exitCode", f"another policy has {policy.exit_code} too", "leave one out")
            codes.add(policy.exit_code)
        if given:  # Volcano does not check the action of an exit code
            yield from _choice(policy.action, ACTIONS, f"{place}.action")
    if "*" in events and len(events) > 1:
        yield Problem(path, "the event * includes all others", "leave the other events out")


def _volumes(volumes: Sequence[VolumeSpec], path: str) -> Problems:
    mounted: set[str] = set()
    for i, volume in enumerate(volumes):
        place = f"{path}[{i}]"
        if not volume.mount_path:
            yield Problem(f"{place}.mountPath", "is missing", "write where the volume is mounted")
        elif ":" in volume.mount_path:
            yield Problem(f"{place}.mountPath", "cannot have a : in it", "write another path")
        elif volume.mount_path in mounted:
            yield Problem(f"{place}.mountPath", f"{volume.mount_path} is mounted twice", "write another path")
        mounted.add(volume.mount_path)
        name = volume.volume_claim_name
        if volume.volume_claim is None and not name:
            message = "has neither volumeClaim nor volumeClaimName"
            yield Problem(place, message, "name an existing claim, or describe one")
        if volume.volume_claim is not None and name:
            message = "has both volumeClaim and volumeClaimName"
            yield Problem(place, message, "leave volumeClaimName out to create a claim, or volumeClaim to use that one")
        if name and not _SUBDOMAIN.fullmatch(name):
            yield Problem(f"{place}.volumeClaimName", f"{name!r} is not a name", "write the name of a claim")
        if volume.volume_claim is not None:
            yield from claim_spec(volume.volume_claim, f"{place}.volumeClaim")


def _network(network: NetworkTopology | None, path: str) -> Problems:
    if network is None:
        return
    yield from _choice(network.mode, ("hard", "soft"), f"{path}.mode")
    yield from not_negative(network.highest_tier_allowed, f"{path}.highestTierAllowed")
    if network.highest_tier_allowed is not None and network.highest_tier_name:
        message = "is set together with highestTierAllowed"
        yield Problem(f"{path}.highestTierName", message, "give only one of the two")


def _choice(given: str, known: Iterable[str], path: str) -> Problems:
    if given not in known:
        message = f"{given!r} is none of {', '.join(known)}" if given else "is missing"
        yield Problem(path, message, suggest(given, known) if given else f"write one of {', '.join(known)}")


def _whole_cpus(spec: PodSpec) -> bool:
    """Whether every container has a guaranteed and whole number of CPUs."""
    return all(_is_guaranteed(container) for container in (*spec.containers, *spec.init_containers))


def _is_guaranteed(container: Container) -> bool:
    given = container.resources
    if given is None or not {"cpu", "memory"} <= given.limits.keys():
        return False
    try:
        limits = {name: amount(name, given.limits[name]) for name in ("cpu", "memory")}
        asked = {name: amount(name, given.requests.get(name, given.limits[name])) for name in limits}
    except QuantityError:
        return False
    return limits == asked and limits["cpu"] > 0 and limits["cpu"] % 1000 == 0
