"""Checks native groups (scheduling.k8s.io) one by one, as the API server does: what it refuses is not used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from muster.model.batch import JobScheduling
from muster.model.native import (
    CompositePodGroup,
    NativePodGroup,
    NativeWorkload,
    SchedulingConstraints,
    SchedulingPolicy,
)
from muster.model.shape import Problem

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
