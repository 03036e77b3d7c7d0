"""What pods and groups are told of a plan: the words, and the statuses that carry them.

The embedded cluster and the live binder carry a plan out by different calls, but say the same with the same bytes.
"""

from __future__ import annotations

from msgspec.structs import replace

from muster.engine.core.plan import Condition as GroupCondition
from muster.engine.core.plan import Eviction, Plan
from muster.model.core import Pod
from muster.model.meta import Condition
from muster.model.scheduling import PodGroup, PodGroupStatus
from muster.store.clock import timestamp

SCHEDULED = "Scheduled"
FAILED = "FailedScheduling"
FAILED_BINDING = "FailedBinding"
EVICTED = "Evict"


def assigned(pod: str, node: str) -> str:
    return f"Successfully assigned {pod} to {node}"


def may_be_named(eviction: Eviction) -> bool:
    """May the one side be named to the other? Whoever reads the one need not know of other namespaces' pods."""
    return not eviction.by or eviction.by.partition("/")[0] == eviction.pod.partition("/")[0]


def claimer_shown(eviction: Eviction) -> str:
    """For whom a pod had to go."""
    if not eviction.by:
        return "nobody: its gang could not be completed"
    return eviction.by if may_be_named(eviction) else "a pod of another namespace"


def eviction_text(eviction: Eviction) -> str:
    if not eviction.by:
        return "evicted because its gang could not be completed"
    return f"evicted by {eviction.rule} to make room for {claimer_shown(eviction)}"


def nomination(plan: Plan, pod: str) -> str:
    """The node whose capacity is kept for a pod, so that the next cycles, and another scheduler's, know of it."""
    return plan.nominated.get(pod, "")


def unschedulable(pod: Pod, message: str, nominated: str, now: float) -> Pod:
    """The pod with the reason why it has no node; the very same pod if it says so already."""
    status = pod.status
    old = next((c for c in status.conditions if c.type == "PodScheduled"), None)
    same = old is not None and (old.status, old.reason, old.message) == ("False", "Unschedulable", message)
    if same and status.nominated_node_name == nominated:
        return pod
    since = old.last_transition_time if old is not None and old.status == "False" else timestamp(now)
    # muster: the reason is always Unschedulable while a pod has no node, because autoscalers look at it.
    new = Condition(
        type="PodScheduled", status="False", reason="Unschedulable", message=message, last_transition_time=since
    )
    others = [c for c in status.conditions if c.type != new.type]
    conditions = sorted([*others, new], key=lambda c: c.type)
    return replace(
        pod, status=replace(status, phase="Pending", conditions=conditions, nominated_node_name=nominated)
    )


def group_status(
    group: PodGroup, phase: str | None, said: GroupCondition | None, transition: str, now: float
) -> tuple[PodGroupStatus, bool]:
    """The group's status after a cycle, and whether it says something new."""
    status = group.status if phase is None else replace(group.status, phase=phase)
    if said is None or _says(group, said):
        return status, False
    return replace(status, conditions=_conditions(group, said, transition, timestamp(now))), True


def _conditions(group: PodGroup, said: GroupCondition, transition: str, now: str) -> list[Condition]:
    """The group's conditions with the new one; its opposite, if there, no longer holds."""
    new = Condition(
        type=said.type,
        status="True",
        reason=said.reason,
        message=said.message,
        last_transition_time=now,
        transition_id=transition,
    )
    others = []
    for old in group.status.conditions:
        if old.type == said.type:
            continue
        if old.status == "True" and old.type in ("Scheduled", "Unschedulable"):
            old = replace(old, status="False", last_transition_time=now)
        others.append(old)
    return [*others, new]


def _says(group: PodGroup, said: GroupCondition) -> bool:
    return any(
        (c.type, c.status, c.reason, c.message) == (said.type, "True", said.reason, said.message)
        for c in group.status.conditions
    )
