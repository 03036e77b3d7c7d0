"""Kubernetes' own PodGroups, and the topology domain that a group requires, in the plan checker."""

from __future__ import annotations

from muster.engine.core.plan import Plan
from oracles.plan_end import End, is_ready, priority_of

REQUIRED_DOMAIN = "kai.scheduler/topology-required-placement"


def check_native_gangs(end: End, plan: Plan) -> None:
    """A gang that got nodes has its minimum on nodes."""
    for name, group in end.native_groups.items():
        members = end.members.get(name, [])
        if group.spec.gang is None or not any(pod in plan.binds for pod in members):
            continue
        started = sum(pod in plan.binds or is_ready(end.pods[pod]) for pod in members)
        assert started >= group.spec.gang.min_count, f"{name}: {started} of {group.spec.gang.min_count}"


def domain_keys(end: End) -> dict[str, str]:
    """Group → the node label of which its pods must share the value."""
    native = {name: group.spec.topology_key for name, group in end.native_groups.items()}
    written = {name: group.metadata.annotations.get(REQUIRED_DOMAIN, "") for name, group in end.groups.items()}
    return {name: label for name, label in {**native, **written}.items() if label}


def check_domains(end: End, plan: Plan) -> None:
    """All pods of such a group that are on nodes or have been promised one are in one domain."""
    for name, label in domain_keys(end).items():
        placed = [pod for pod in end.members.get(name, ()) if pod in end.where]
        if any(pod in plan.binds or pod in plan.pipelined for pod in placed):
            domains = {end.nodes[end.where[pod]].metadata.labels.get(label) for pod in placed}
            assert len(domains) == 1 and None not in domains, f"{name} is in the domains {domains} of {label}"


def check_native_victims(end: End, plan: Plan) -> None:
    """A gang gives up its surplus or everything."""
    gone = {eviction.pod for eviction in plan.evictions}
    for name, group in end.native_groups.items():
        members = end.members.get(name, [])
        left = sum(is_ready(end.pods[pod]) and pod not in gone for pod in members)
        if left and group.spec.gang is not None and any(pod in gone for pod in members):
            assert left >= group.spec.gang.min_count, f"{name} was taken below its minimum"


def native_priority(end: End, name: str) -> int:
    """The priority of the group, of its class, or the highest of its pods."""
    spec = end.native_groups[name].spec
    if spec.priority is not None:
        return spec.priority
    if spec.priority_class_name in end.classes:
        return end.classes[spec.priority_class_name]
    return max(priority_of(end, pod) for pod in end.members[name])
