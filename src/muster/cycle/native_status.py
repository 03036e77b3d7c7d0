"""The conditions of native groups (scheduling.k8s.io), with the names of the version that the cluster serves.

`PodGroupScheduled` (v1alpha2) follows the group. `PodGroupInitiallyScheduled` and `CompositePodGroupInitiallyScheduled`
(v1alpha3, v1beta1) never go back to False. `DisruptionTarget` is set on a group that loses pods to the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from muster.engine.core.jobs import READY_LIKE, Job, Task
from muster.engine.core.native_groups import COMPOSITES, GROUPS, composite_name
from muster.engine.core.plan import Plan
from muster.engine.core.subgroups import SubGroup, sub_group_tree
from muster.engine.placement.node_sets import FAILED
from muster.model.meta import Condition, timestamp
from muster.model.native import CompositePodGroup, NativePodGroup

NativeGroup = NativePodGroup | CompositePodGroup

DISRUPTION_TARGET, PREEMPTION = "DisruptionTarget", "PreemptionByScheduler"
SCHEDULED, UNSCHEDULABLE, SCHEDULER_ERROR = "Scheduled", "Unschedulable", "SchedulerError"
_PER_VERSION = "PodGroupScheduled"
_INITIALLY = "PodGroupInitiallyScheduled"


class Decided(NamedTuple):
    """What a cycle decided about a group; `scheduled` None: nothing."""

    kind: str
    key: str
    scheduled: bool | None
    reason: str
    message: str


def condition_type(group: NativeGroup) -> str:
    if isinstance(group, CompositePodGroup):
        return f"Composite{_INITIALLY}"
    return _PER_VERSION if group.version == "v1alpha2" else _INITIALLY


def conditions(group: NativeGroup, verdict: Decided, now: float) -> list[Condition]:
    """Returns the group's conditions; the same list if nothing changes."""
    given, name = group.status.conditions, condition_type(group)
    known = next((c for c in given if c.type == name), None)
    if verdict.scheduled is None or (name != _PER_VERSION and known is not None and known.status == "True"):
        return given
    if verdict.scheduled:
        return _with(given, group, name, True, SCHEDULED, "the minimum of the group has nodes", now)
    return _with(given, group, name, False, verdict.reason, verdict.message, now)


def disrupted(group: NativeGroup, message: str, now: float) -> list[Condition]:
    """Returns the group's conditions once it has lost pods to the scheduler."""
    return _with(group.status.conditions, group, DISRUPTION_TARGET, True, PREEMPTION, message, now)


def _with(
    given: list[Condition], group: NativeGroup, name: str, so: bool, reason: str, message: str, now: float
) -> list[Condition]:
    status = "True" if so else "False"
    known = next((c for c in given if c.type == name), None)
    if known is not None and (known.status, known.reason, known.message) == (status, reason, message):
        return given
    since = known.last_transition_time if known is not None and known.status == status else None
    new = Condition(
        type=name,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=since or timestamp(now),
        observed_generation=group.metadata.generation,
    )
    return [*(c for c in given if c.type != name), new]


def decided(plan: Plan, job: Job) -> Iterator[Decided]:
    """Yields what was decided about each group of a native job.

    Pods that this cycle binds do not count yet: their bindings may be refused.
    """
    waits = plan.conditions.get(job.key)
    message = waits.message if waits is not None and waits.type == UNSCHEDULABLE else ""
    failed = any((why := plan.reasons.get(key)) is not None and why.code == FAILED for key in job.tasks)
    reason = SCHEDULER_ERROR if failed else UNSCHEDULABLE

    def verdict(kind: str, key: str, holds: bool) -> Decided:
        return Decided(kind, key, True if holds else False if message else None, reason, message)

    root = sub_group_tree(job)
    if root is None:
        bound = sum(_bound(plan, task) for task in job.tasks.values())
        yield verdict(GROUPS, job.shown, bool(bound) and bound >= job.min_available)
        return
    for part in root.groups():
        composite = part is root or part.name.startswith(composite_name(""))
        name = job.name if part is root else part.name.removeprefix(composite_name(""))
        yield verdict(COMPOSITES if composite else GROUPS, f"{job.namespace}/{name}", _holds(plan, part))


def _bound(plan: Plan, task: Task) -> bool:
    return task.status in READY_LIKE and task.key not in plan.binds


def _holds(plan: Plan, part: SubGroup) -> bool:
    if part.children:
        held = sum(_holds(plan, child) for child in part.children)
        return held >= (len(part.children) if part.least is None else part.least)
    bound = sum(_bound(plan, task) for task in part.own)
    return bool(bound) and bound >= part.minimum
