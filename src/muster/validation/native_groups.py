"""Finds native groups (scheduling.k8s.io) whose pods wait for ever: parents that are missing or form a cycle, too few
members, and pods of one group that different schedulers would place."""

from __future__ import annotations

from collections.abc import Iterator

from muster.config.names import suggest
from muster.engine.core.hooks import Reason
from muster.engine.core.jobs import Job
from muster.engine.core.native_groups import COMPOSITES, GROUPS, WORKLOADS, composite_name, group_of, root_of
from muster.engine.core.session import Session
from muster.engine.core.subgroups import SubGroup, sub_group_tree
from muster.model.finding import Finding
from muster.model.native import CompositePodGroup, NativePodGroup
from muster.validation.locator import Locator

_PARENT = "spec.parentCompositePodGroupName"


def native_group_findings(session: Session, locator: Locator) -> Iterator[Finding]:
    """Checks the parents of groups, and the schedulers of their pods; `pod_groups` checks the jobs made from them."""
    objects = session.state.objects
    cycles: set[str] = set()
    for kind in (COMPOSITES, GROUPS):
        for key, group in sorted(objects[kind].items()):
            if not isinstance(group, NativePodGroup | CompositePodGroup):
                continue
            root = root_of(group, objects)
            if not isinstance(root, Reason):
                continue
            namespace, parent = key.partition("/")[0], group.spec.parent_composite_pod_group_name
            if root.code == "no-group" and f"{namespace}/{parent}" not in objects[COMPOSITES]:
                here = [k.partition("/")[2] for k in objects[COMPOSITES] if k.startswith(f"{namespace}/")]
                message = f"its parent, CompositePodGroup {parent}, does not exist: its pods wait for ever"
                fix = f"create it, or name another; {suggest(parent, here)}"
                yield locator.finding("error", kind, key, "group-parent", message, fix, _PARENT)
            elif root.code == "group-cycle" and kind == COMPOSITES:
                ring = frozenset(root.message().rpartition(": ")[2].split(" → "))
                if key in ring and not ring & cycles:
                    cycles |= ring
                    message = f"{root.message()}: their pods wait for ever"
                    yield locator.finding("error", kind, key, "group-cycle", message, "remove one parent", _PARENT)
    yield from _schedulers(session, locator)


def _schedulers(session: Session, locator: Locator) -> Iterator[Finding]:
    """Kubernetes: all pods of a group must have one schedulerName, otherwise no scheduler sees the whole group."""
    names: dict[str, dict[str, str]] = {}  # group → schedulerName → the first pod that has it
    for key, task in sorted(session.state.tasks.items()):
        if group := group_of(task.pod):
            names.setdefault(group, {}).setdefault(task.pod.spec.scheduler_name, key)
    for group, found in sorted(names.items()):
        if len(found) > 1:
            pods = ", ".join(f"{name or '(none)'} ({pod})" for name, pod in sorted(found.items()))
            key = "/".join(group.split("/")[:2])
            kind = GROUPS if key == group else WORKLOADS
            message = f"its pods have different schedulerNames: {pods}"
            fix = "give all pods of the group the same schedulerName"
            yield locator.finding("error", kind, key, "scheduler-names", message, fix)


def of_another_scheduler(session: Session, job: Job) -> bool:
    """Returns whether only pods of other schedulers name the native group, or the groups of the tree."""
    if not job.native or job.tasks:
        return False
    groups = {job.shown, *(f"{job.namespace}/{sub.name}" for sub in job.group.spec.sub_groups)}
    return any(group_of(task.pod) in groups for task in session.state.tasks.values())


def tree_findings(job: Job, locator: Locator) -> Iterator[Finding]:
    """Checks the groups of a tree: each needs enough pods, or enough groups below it."""
    root = sub_group_tree(job)
    for part in root.groups() if root is not None else ():
        kind, name = GROUPS, part.name
        if part is root or part.name.startswith(composite_name("")):
            kind, name = COMPOSITES, job.name if part is root else part.name.removeprefix(composite_name(""))
        key = f"{job.namespace}/{name}"
        if kind == COMPOSITES and len(part.children) < (part.least or 0):
            message = f"gang.minGroupCount is {part.least}, but {len(part.children)} groups have it as their parent"
            yield locator.finding("warning", kind, key, "too-few-groups", message, "create more groups, or lower it")
        elif kind == GROUPS and len(part.own) < part.minimum:
            message = f"{_minimum(part)}, but it has {len(part.own)} pods: it waits for more"
            fix = f"create {part.minimum - len(part.own)} more pods that name the group, or lower it"
            yield locator.finding("warning", kind, key, "too-few-pods", message, fix)


def _minimum(part: SubGroup) -> str:
    return f"gang.minCount is {part.minimum}" if part.minimum > 1 else "it needs a pod"
