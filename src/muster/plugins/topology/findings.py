"""What an administrator should know of topologies and of groups that ask for them, before a pod waits for ever."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from muster.engine.domain_sources import Fault
from muster.engine.hooks import NodeSetError
from muster.engine.jobs import Job
from muster.engine.requirements import Requirement, about
from muster.engine.state import State
from muster.engine.subgroups import grouped
from muster.model.finding import Finding, Severity
from muster.model.scheduling import NetworkTopology
from muster.plugins.topology.constraints import (
    PREFERRED,
    REQUIRED,
    TOPOLOGY,
    Trees,
    constraint_of,
    constraint_of_group,
    wish_of,
)

_ERRORS = ("topology-without-levels", "topology-level", "hypernode-cycle", "hypernode-pattern")


def findings(trees: Trees, jobs: Iterable[Job]) -> list[Finding]:
    """Faults of the objects that domains are made of, and of what groups ask of them."""
    faults = [fault for name in trees.topologies for fault in trees.topology(name).faults]
    if trees.hypernodes:
        faults += trees.network().faults
    found = [_of(fault) for fault in faults]
    for job in jobs:
        found += _job(trees, job)
    return found


def level_without_topology(job: Job) -> str:
    """KAI: a level says nothing unless a topology is named; that is easily overlooked."""
    notes = job.group.metadata.annotations
    levels = [key for key in (REQUIRED, PREFERRED) if key in notes]
    if not levels or notes.get(TOPOLOGY):
        return ""
    return f"annotation {levels[0]} has no effect: the annotation {TOPOLOGY} is missing"


def required_by(state: State) -> Iterator[Requirement]:
    """What groups and sub-groups say of topologies, whether or not it can be had."""
    for job in state.jobs.values():
        root = grouped(job)
        parts = [] if root is None else [group for group in root.groups() if group is not root]
        asked = [("", constraint_of(job)), *((f"sub-group {g.name}: ", constraint_of_group(job, g)) for g in parts)]
        for who, constraint in asked:
            if constraint is None:
                continue
            if isinstance(constraint, NetworkTopology):
                hard, text = constraint.mode != "soft", f"has a networkTopology with mode {constraint.mode}"
            elif level := constraint.required_topology_level:
                hard, text = True, f"requires the level {level} of topology {constraint.topology}"
            else:
                level = constraint.preferred_topology_level
                hard, text = False, f"prefers the level {level} of topology {constraint.topology}"
            yield Requirement(about(job, state), who + text, hard)
        if level_without_topology(job):
            hard = REQUIRED in job.group.metadata.annotations
            yield Requirement(about(job, state), "names a topology level in an annotation", hard)


def _of(fault: Fault) -> Finding:
    severity: Severity = "error" if fault.code in _ERRORS else "warning"
    return Finding(severity, "", None, fault.object, fault.code, fault.message, fault.fix)


def _job(trees: Trees, job: Job) -> Iterator[Finding]:
    about = f"PodGroup {job.key}"
    if message := level_without_topology(job):
        fix = f"name a Topology with {TOPOLOGY}"
        yield Finding("error", "", None, about, "topology-not-named", message, fix)
    asked = [("the group", constraint_of(job))]
    root = grouped(job)
    if root is not None:
        asked += [(f"sub-group {g.name}", constraint_of_group(job, g)) for g in root.groups() if g is not root]
    for who, constraint in asked:
        if constraint is None:
            continue
        if isinstance(constraint, NetworkTopology) and constraint.mode not in ("hard", "soft"):
            message = f"networkTopology.mode is {constraint.mode!r}: it is taken as hard"
            yield Finding("warning", "", None, about, "topology-mode", message, "use hard or soft")
        try:
            wish_of(constraint, trees, who)
        except NodeSetError as fault:
            fix = "correct the annotations or the spec, or create what is missing"
            yield Finding("error", "", None, about, "topology", f"{fault}: its pods wait for ever", fix)
