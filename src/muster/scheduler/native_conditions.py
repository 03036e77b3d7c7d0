"""The conditions of native groups (scheduling.k8s.io) after a cycle, with the names of the version that is served.

`PodGroupScheduled` (v1alpha2) follows the group. `PodGroupInitiallyScheduled` and `CompositePodGroupInitiallyScheduled`
(v1alpha3, v1beta1) never go back to False. `DisruptionTarget` is set on a group that loses pods to the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from muster.engine.core.jobs import READY_LIKE, Job, Task
from muster.engine.core.native_groups import COMPOSITES, GROUPS, NATIVE_KINDS, composite_name, group_of
from muster.engine.core.plan import Plan
from muster.engine.core.state import State
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


def updated_conditions(group: NativeGroup, verdict: Decided, now: float) -> list[Condition]:
    """Returns the group's conditions; the same list if nothing changes."""
    given, name = group.status.conditions, condition_type(group)
    known = next((c for c in given if c.type == name), None)
    if verdict.scheduled is None or (name != _PER_VERSION and known is not None and known.status == "True"):
        return given
    if verdict.scheduled:
        return _with(given, group, name, True, SCHEDULED, "the minimum of the group has nodes", now)
    return _with(given, group, name, False, verdict.reason, verdict.message, now)


def disrupted_conditions(group: NativeGroup, message: str, now: float) -> list[Condition]:
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


class NativeStatusPatch(Struct, frozen=True):
    """The conditions of a native PodGroup or CompositePodGroup."""

    object: NativeGroup
    key: str
    status: dict[str, Any]


class NativeConditions:
    """Computes the conditions of native groups: whether they are scheduled, and whether they lost pods."""

    def __init__(self) -> None:
        self._disrupted: dict[str, tuple[str, str]] = {}  # PodGroup → its uid, why it lost pods; until it is written

    def patches(self, plan: Plan, state: State, now: float) -> Iterator[NativeStatusPatch]:
        if not any(state.objects.get(kind) for kind in NATIVE_KINDS):
            return
        self._note_victims(plan, state)
        found: dict[tuple[str, str], Decided | None] = {(GROUPS, key): None for key in self._disrupted}
        for job in state.jobs.values():
            if job.native and job.tasks:
                found.update(((one.kind, one.key), one) for one in decided(plan, job))
        for (kind, key), verdict in found.items():
            group = state.objects[kind].get(key)
            if isinstance(group, NativePodGroup | CompositePodGroup):
                conditions = self._conditions(group, key, verdict, now)
                if conditions is not group.status.conditions:
                    yield NativeStatusPatch(group, key, {"conditions": msgspec.to_builtins(conditions)})

    def _note_victims(self, plan: Plan, state: State) -> None:
        for eviction in plan.evictions:
            victim = state.tasks.get(eviction.pod)
            name = group_of(victim.pod) if victim is not None else ""
            if (lost := state.objects[GROUPS].get(name)) is not None:
                text = f"{eviction.pod} is evicted ({eviction.rule}) for {eviction.by or 'its own group'}"
                self._disrupted.setdefault(name, (lost.metadata.uid, text))

    def _conditions(self, group: NativeGroup, key: str, verdict: Decided | None, now: float) -> list[Any]:
        conditions = group.status.conditions
        if isinstance(group, NativePodGroup) and key in self._disrupted:
            uid, text = self._disrupted[key]
            changed = disrupted_conditions(group, text, now) if group.metadata.uid == uid else conditions
            if changed is conditions:
                del self._disrupted[key]  # it is written, or the group is another one
            else:
                group, conditions = replace(group, status=replace(group.status, conditions=changed)), changed
        return conditions if verdict is None else updated_conditions(group, verdict, now)
