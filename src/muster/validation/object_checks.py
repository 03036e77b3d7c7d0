"""Checks the fields of one object: quantities, selectors, timestamps, negative numbers.

The API server would reject such an object; here each fault is a Problem with the path of its field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from muster.config.names import nearest
from muster.model import batch, core, native, scheduling, storage, topology, volcano_job
from muster.model.batch import JobScheduling
from muster.model.meta import LabelSelector, Object, seconds
from muster.model.native import (
    CompositePodGroup,
    NativePodGroup,
    NativeWorkload,
    SchedulingConstraints,
    SchedulingPolicy,
)
from muster.model.quantity import QuantityError, parse
from muster.model.selectors import check_node_selector, matches
from muster.model.shape import Problem, below
from muster.model.timestamps import timestamps
from muster.validation.part_checks import (
    Problems,
    checked,
    claim_spec,
    not_negative,
    pod_spec,
    quantities,
    selector,
)
from muster.validation.volcano_job_checks import check_cron_job, check_job

TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_PERCENT = re.compile(r"\d{1,3}%", re.ASCII)


def check(obj: Object) -> Problems:
    """Yields every fault of the object."""
    for path, text in timestamps(obj):
        try:
            seconds(text)
        except ValueError as error:
            yield Problem(path, str(error), "write it like 2026-01-31T08:00:00Z")
    check_kind = _CHECKS.get(type(obj))
    if check_kind is not None:
        yield from check_kind(obj)


def _pod(pod: core.Pod) -> Problems:
    return pod_spec(pod.spec, "spec")


def _node(node: core.Node) -> Problems:
    yield from quantities(node.status.allocatable, "status.allocatable")
    yield from quantities(node.status.capacity, "status.capacity")
    for i, taint in enumerate(node.spec.taints):
        if taint.effect not in TAINT_EFFECTS:
            yield Problem(
                f"spec.taints[{i}].effect",
                f"{taint.effect!r} is not one of {', '.join(TAINT_EFFECTS)}",
                "use one of them",
            )


def _queue(queue: scheduling.Queue) -> Problems:
    spec = queue.spec
    yield from quantities(spec.capability, "spec.capability")
    yield from quantities(spec.deserved, "spec.deserved")
    if spec.guarantee is not None:
        yield from quantities(spec.guarantee.resource, "spec.guarantee.resource")
    for i, cluster in enumerate(spec.extend_clusters):
        yield from quantities(cluster.capacity, f"spec.extendClusters[{i}].capacity")
    yield from not_negative(spec.weight, "spec.weight")
    yield from quantities(queue.status.allocated, "status.allocated")
    if queue.status.reservation is not None:
        yield from quantities(queue.status.reservation.resource, "status.reservation.resource")


def _pod_group(group: scheduling.PodGroup) -> Problems:
    spec = group.spec
    yield from quantities(spec.min_resources or {}, "spec.minResources")
    yield from not_negative(spec.min_member, "spec.minMember")
    for role, number in spec.min_task_member.items():
        yield from not_negative(number, f"spec.minTaskMember[{role}]")
    for i, policy_ in enumerate(spec.sub_group_policy):
        yield from selector(policy_.label_selector, f"spec.subGroupPolicy[{i}].labelSelector")
        yield from not_negative(policy_.sub_group_size, f"spec.subGroupPolicy[{i}].subGroupSize")
        yield from not_negative(policy_.min_sub_groups, f"spec.subGroupPolicy[{i}].minSubGroups")
    for i, sub_group in enumerate(spec.sub_groups):
        yield from not_negative(sub_group.min_member, f"spec.subGroups[{i}].minMember")


def _budget(budget: core.PodDisruptionBudget) -> Problems:
    spec = budget.spec
    yield from selector(spec.selector, "spec.selector")
    if spec.min_available is not None and spec.max_unavailable is not None:
        yield Problem("spec.maxUnavailable", "is set together with minAvailable", "give only one of the two")
    for name, value in (("minAvailable", spec.min_available), ("maxUnavailable", spec.max_unavailable)):
        if isinstance(value, str) and not _PERCENT.fullmatch(value):
            yield Problem(f"spec.{name}", f"{value!r} is neither a whole number nor a percentage", "write 2 or 50%")
        elif isinstance(value, int):
            yield from not_negative(value, f"spec.{name}")


def _workload(workload: Any) -> Problems:
    """Checks an object with a pod template: its numbers, its selector, its template."""
    spec, path = workload.spec, "spec"
    if isinstance(workload, batch.CronJob):
        spec, path = workload.spec.job_template.spec, "spec.jobTemplate.spec"
    for name, attribute in (("replicas", "replicas"), ("parallelism", "parallelism"), ("completions", "completions")):
        yield from not_negative(getattr(spec, attribute, None), below(path, name))
    if isinstance(spec.selector, LabelSelector):
        yield from selector(spec.selector, f"{path}.selector")
    yield from _template_labels(workload, spec, path)
    yield from pod_spec(spec.template.spec, f"{path}.template.spec")
    if isinstance(workload, batch.Job | batch.CronJob) and spec.scheduling is not None:
        yield from job_scheduling(spec.scheduling, below(path, "scheduling"))
    if isinstance(workload, batch.StatefulSet):
        for i, claim in enumerate(workload.spec.volume_claim_templates):
            yield from claim_spec(claim.spec, f"spec.volumeClaimTemplates[{i}].spec")


def _template_labels(workload: Object, spec: Any, path: str) -> Problems:
    """Checks that the selector matches the pod template; the API server rejects a workload whose selector does not."""
    labels, given = spec.template.metadata.labels or {}, spec.selector
    if isinstance(workload, batch.Job | batch.CronJob) and not spec.manual_selector:
        return  # the API server writes the selector and the label itself
    if isinstance(given, dict):
        given = LabelSelector(match_labels=given)
    try:
        if given is None or matches(given, labels):
            return
    except ValueError:
        return  # reported as a faulty selector
    wrong = {key for key, value in given.match_labels.items() if labels.get(key) != value}
    near = [f"{key}: {labels[key]}" for key in sorted(wrong & labels.keys())]
    near += [f"{close}: {labels[close]}" for key in sorted(wrong - labels.keys()) if (close := nearest(key, labels))]
    has = ", ".join(f"{key}: {value}" for key, value in sorted(labels.items())) or "none"
    message = f"does not match the labels of {path}.template ({has})"
    fix = f"did you mean {', '.join(near)}?" if near else f"give both the same labels under {path}.template.metadata"
    yield Problem(f"{path}.selector", message, fix)


def pods_at_once(workload: Object) -> tuple[str, int]:
    """Returns the field that sets the number of pods of a workload, and the number; 0 for DaemonSets, which have one
    per node."""
    if isinstance(workload, batch.Job):
        most = workload.spec.completions
        given = workload.spec.parallelism
        return "spec.parallelism", min(given or 0, given or 0 if most is None else most)
    if isinstance(workload, volcano_job.Job | volcano_job.CronJob):
        return ".".join(workload.template_path).partition(".*")[0], workload.replicas or 0
    replicas = getattr(getattr(workload, "spec", None), "replicas", None)
    return "spec.replicas", replicas if isinstance(replicas, int) else 0


def _volume(volume: storage.PersistentVolume) -> Problems:
    yield from quantities(volume.spec.capacity, "spec.capacity")
    if volume.spec.node_affinity is not None:
        yield from checked(check_node_selector, volume.spec.node_affinity.required, "spec.nodeAffinity.required")


def _claim(claim: storage.PersistentVolumeClaim) -> Problems:
    yield from claim_spec(claim.spec, "spec")
    yield from quantities(claim.status.capacity, "status.capacity")


def _capacity(capacity: storage.CSIStorageCapacity) -> Problems:
    yield from selector(capacity.node_topology, "nodeTopology")
    for name, value in (("capacity", capacity.capacity), ("maximumVolumeSize", capacity.maximum_volume_size)):
        if value is not None:
            try:
                if parse(value) < 0:
                    raise QuantityError(f"{value!r} is negative", "a size is 0 or more")
            except QuantityError as error:
                yield Problem(name, error.message, error.fix)


def _hyper_node(hyper_node: topology.HyperNode) -> Problems:
    for i, member in enumerate(hyper_node.spec.members):
        path = f"spec.members[{i}]"
        if member.type not in ("Node", "HyperNode"):
            yield Problem(f"{path}.type", f"{member.type!r} is neither Node nor HyperNode", "use one of them")
        yield from selector(member.selector.label_match, f"{path}.selector.labelMatch")
        if member.selector.regex_match is not None:
            try:
                re.compile(member.selector.regex_match.pattern)
            except re.error as error:
                yield Problem(
                    f"{path}.selector.regexMatch.pattern",
                    f"is not a regular expression: {error}",
                    "correct the pattern",
                )


_POLICIES = ("", "PreemptLowerPriority", "Never")


def native_group(group: NativePodGroup | CompositePodGroup) -> Iterator[Problem]:
    spec = group.spec
    field = "minGroupCount" if isinstance(group, CompositePodGroup) else "minCount"
    yield from _policy(spec.scheduling_policy, "spec.schedulingPolicy", field)
    yield from _topology(spec.scheduling_constraints, "spec.schedulingConstraints.topology")
    yield from _disruption_mode(spec.disruption_mode, "spec.disruptionMode", group.version)
    if spec.preemption_policy not in _POLICIES:
        message = f"{spec.preemption_policy!r} is neither PreemptLowerPriority nor Never"
        yield Problem("spec.preemptionPolicy", message, "write one of them")


def job_scheduling(scheduling: JobScheduling, path: str) -> Iterator[Problem]:
    """`spec.scheduling` of a batch/v1 Job; without minCount a gang needs all pods of the Job."""
    policy = scheduling.scheduling_policy
    if policy is not None and (policy.gang is None or policy.basic is not None or policy.gang.min_count):
        yield from _policy(policy, f"{path}.schedulingPolicy", "minCount")
    yield from _topology(scheduling.scheduling_constraints, f"{path}.schedulingConstraints.topology")
    yield from _disruption_mode(scheduling.disruption_mode, f"{path}.disruptionMode", "v1beta1")


def native_workload(workload: NativeWorkload) -> Iterator[Problem]:
    seen: set[str] = set()
    for i, group in enumerate(workload.spec.pod_groups):
        path = f"spec.podGroups[{i}]"
        if not group.name:
            yield Problem(f"{path}.name", "is missing", "give the group a name")
        elif group.name in seen:
            yield Problem(f"{path}.name", f"{group.name} is there twice", "give it another name")
        seen.add(group.name)
        yield from _policy(group.policy, f"{path}.policy", "minCount")


def _policy(policy: SchedulingPolicy | None, path: str, field: str) -> Iterator[Problem]:
    """Exactly one of basic and gang, and a minimum of at least 1."""
    if policy is None or (policy.basic is None and policy.gang is None):
        yield Problem(path, "has neither basic nor gang", f"write `basic: {{}}`, or `gang` with {field}")
    elif policy.gang is not None and policy.basic is not None:
        yield Problem(path, "has both basic and gang", "keep one of them")
    elif policy.gang is not None:
        given = policy.gang.min_group_count if field == "minGroupCount" else policy.gang.min_count
        if given < 1:
            yield Problem(f"{path}.gang.{field}", f"is {given}, but must be at least 1", "write 1 or more")


def _topology(constraints: SchedulingConstraints | None, path: str) -> Iterator[Problem]:
    topology = constraints.topology if constraints is not None else []
    if len(topology) > 1:
        yield Problem(f"{path}[1]", f"there are {len(topology)} entries, but only one is allowed", "keep one entry")
    if topology and not topology[0].key:
        yield Problem(f"{path}[0].key", "is empty", "name a node label")


def _disruption_mode(mode: str | dict[str, Any] | None, path: str, version: str) -> Iterator[Problem]:
    if version == "v1alpha2":
        if mode is not None and mode not in ("Pod", "PodGroup"):
            yield Problem(path, "is neither Pod nor PodGroup", "write one of them")
    elif mode is not None and (isinstance(mode, str) or set(mode) not in ({"single"}, {"all"})):
        yield Problem(path, "has neither or both of single and all", "write `single: {}` or `all: {}`")


_CHECKS: dict[type[Object], Callable[[Any], Problems]] = {
    core.Pod: _pod,
    core.Node: _node,
    scheduling.Queue: _queue,
    scheduling.PodGroup: _pod_group,
    core.PodDisruptionBudget: _budget,
    native.NativePodGroup: native_group,
    native.CompositePodGroup: native_group,
    native.NativeWorkload: native_workload,
    **dict.fromkeys(batch.APPLICATION_KINDS, _workload),
    storage.PersistentVolume: _volume,
    storage.PersistentVolumeClaim: _claim,
    storage.CSIStorageCapacity: _capacity,
    topology.HyperNode: _hyper_node,
    volcano_job.Job: check_job,
    volcano_job.CronJob: check_cron_job,
}
