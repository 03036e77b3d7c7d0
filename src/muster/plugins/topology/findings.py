"""Findings about topologies, and about groups whose constraints would keep pods pending."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from muster.engine.core.hooks import NodeSetError
from muster.engine.core.jobs import Job, Task
from muster.engine.core.podgroups import NETWORK_MODE, NETWORK_TIER
from muster.engine.core.requirements import Requirement, about
from muster.engine.core.state import State
from muster.engine.core.subgroups import SubGroup, sub_group_tree
from muster.engine.domains.demand import Counts, Demand, unplaced
from muster.engine.domains.domain_capacity import EmptyClusterCapacity
from muster.engine.domains.domain_sources import Fault
from muster.model.finding import Finding, Severity
from muster.model.scheduling import LabelDomain, NetworkTopology
from muster.plugins.topology.constraints import (
    PREFERRED,
    REQUIRED,
    TOPOLOGY,
    LevelConstraint,
    Trees,
    constraint_of,
    constraint_of_group,
    level_constraint_of,
)

if TYPE_CHECKING:
    from muster.engine.core.session import Session

_OF_GROUPS = frozenset({TOPOLOGY, REQUIRED, PREFERRED, NETWORK_MODE, NETWORK_TIER})
_ERRORS = ("topology-without-levels", "topology-level", "hypernode-cycle", "hypernode-pattern")


def findings(trees: Trees, session: Session) -> list[Finding]:
    """Returns faults of the objects that define domains, and of the constraints of groups."""
    faults = [fault for name in trees.topologies for fault in trees.topology(name).faults]
    if trees.hypernodes:
        faults += trees.network().faults
    found = [_of(fault) for fault in faults]
    capacity = EmptyClusterCapacity(session)
    for job in session.jobs.values():
        found += _job(trees, job, about(job, session.state), capacity)
        if session.state.group_object(job) is not None:
            found += _on_pods(job)
    return found


def level_without_topology(job: Job) -> str:
    """Returns a warning for a level without a topology, which has no effect in KAI and is easily overlooked."""
    notes = job.group.metadata.annotations
    levels = [key for key in (REQUIRED, PREFERRED) if key in notes]
    if not levels or notes.get(TOPOLOGY):
        return ""
    return f"annotation {levels[0]} has no effect: the annotation {TOPOLOGY} is missing"


def required_by(state: State) -> Iterator[Requirement]:
    """Yields the constraints of groups and sub-groups, whether or not they can be satisfied."""
    for job in state.jobs.values():
        root = sub_group_tree(job)
        parts = [] if root is None else [group for group in root.groups() if group is not root]
        asked = [("", constraint_of(job)), *((f"sub-group {g.name}: ", constraint_of_group(job, g)) for g in parts)]
        for who, constraint in asked:
            if constraint is None or isinstance(constraint, LabelDomain):
                continue  # a native group is kept in its domain whatever is configured
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


def _on_pods(job: Job) -> Iterator[Finding]:
    """Yields annotations on pods that only have an effect on the PodGroup; one finding for all pods of a group."""
    annotated = [task for task in job.tasks.values() if not _OF_GROUPS.isdisjoint(task.pod.metadata.annotations)]
    for key in sorted({key for task in annotated for key in _OF_GROUPS & task.annotations.keys()}):
        pods = [task.key for task in annotated if key in task.annotations]
        if key in job.group.metadata.annotations:
            continue
        hard = key in (REQUIRED, NETWORK_MODE) and constraint_of(job) is None
        message = f"annotation {key} has no effect on a pod: its PodGroup {job.shown} does not have it"
        more = f" (and {len(pods) - 1} more pods of the group)" if len(pods) > 1 else ""
        fix = f"move it to metadata.annotations of PodGroup {job.shown}"
        severity: Severity = "error" if hard else "warning"
        yield Finding(severity, "", None, f"Pod {min(pods)}", "topology-on-pod", message + more, fix)


def _too_large(
    wanted: LevelConstraint, tasks: Sequence[Task], need: int, who: str, capacity: EmptyClusterCapacity
) -> str:
    """Returns why no allowed domain could hold so many pods even if it were empty; empty if one could."""
    tasks, need = unplaced(tasks, need)
    if wanted.required is None or not 0 < need <= len(tasks):
        return ""
    counts = Counts(capacity, wanted.tree.everything, Demand(capacity.session, tasks, need), None)
    if any(counts.fits(level, counts.demand.least).any() for level in wanted.levels):
        return ""
    domains = np.flatnonzero(counts.cut.tiers[wanted.required].real).tolist()
    if not domains:
        return ""  # a topology without nodes is reported separately
    largest = max(domains, key=lambda segment: counts.capacity(wanted.required or 0, segment))
    name, path = wanted.tree.levels[wanted.required], counts.cut.path(wanted.required, largest)
    why = counts.why_not(wanted.required, largest)
    return f"{who} requires one domain of level {name}, and the largest ({path}), if it were empty, {why}"


def _no_node(wanted: LevelConstraint, constraint: object, who: str) -> str:
    if isinstance(constraint, LabelDomain):
        return f"{who} requires one domain of the node label {constraint.topology}, which no node has"
    if isinstance(constraint, NetworkTopology):
        return f"{who} requires one HyperNode, and no node is in any"
    tree = wanted.tree
    missing = f"no node has the labels of all levels of topology {tree.name}"
    return f"{who} requires one domain of level {tree.levels[wanted.required or 0]}, and {missing}"


def _least(group: SubGroup) -> int:
    """Returns how many pods a sub-group needs at least: its own and those of its required sub-groups."""
    parts = sorted(_least(part) for part in group.children)
    return group.minimum + sum(parts if group.least is None else parts[: group.least])


def _job(trees: Trees, job: Job, about: str, capacity: EmptyClusterCapacity) -> Iterator[Finding]:
    if message := level_without_topology(job):
        fix = f"name a Topology with {TOPOLOGY}"
        yield Finding("error", "", None, about, "topology-not-named", message, fix)
    asked = [("the group", constraint_of(job), list(job.tasks.values()), job.min_available)]
    root = sub_group_tree(job)
    if root is not None:
        asked += [
            (f"sub-group {group.name}", constraint_of_group(job, group), list(group.all_tasks()), _least(group))
            for group in root.groups()
            if group is not root
        ]
    for who, constraint, tasks, need in asked:
        if constraint is None:
            continue
        if isinstance(constraint, NetworkTopology) and constraint.mode not in ("hard", "soft"):
            message = f"networkTopology.mode is {constraint.mode!r}: it is taken as hard"
            yield Finding("warning", "", None, about, "topology-mode", message, "use hard or soft")
        try:
            wanted = level_constraint_of(constraint, trees, who)
        except NodeSetError as fault:
            fix = "correct the annotations or the spec, or create what is missing"
            yield Finding("error", "", None, about, "topology", f"{fault}: its pods wait for ever", fix)
            continue
        if wanted.required is not None and not len(wanted.tree.everything.members):
            message = _no_node(wanted, constraint, who)
            yield Finding("error", "", None, about, "topology-without-nodes", message, "label the nodes")
        if message := _too_large(wanted, tasks, need, who, capacity):
            fix = "lower the minimum, require a wider level, or request less"
            yield Finding("error", "", None, about, "topology-too-large", message, fix)
