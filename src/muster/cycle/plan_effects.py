"""What a plan changes on pods and PodGroups: annotations, conditions, nominations, statuses and events.

The in-memory cluster (`cluster.plan_executor`) and the live binder send different calls, but write the same content.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from muster.engine.core.plan import Condition as GroupCondition
from muster.engine.core.plan import Eviction, Plan
from muster.model.core import Pod
from muster.model.meta import Condition, Object, timestamp
from muster.model.meta import key as key_of
from muster.model.pod_states import is_terminating
from muster.model.scheduling import PodGroup, PodGroupStatus
from muster.store import Severity
from muster.store.event_reasons import EventReason

MAX_NAMED_PODS = 5  # in the message of one event


class PlanEvent(NamedTuple):
    """An Event to record on an object."""

    object: Object
    severity: Severity
    reason: EventReason
    message: str


# --- bindings


def binding_events(bound: Sequence[tuple[Pod, str]], group: PodGroup | None) -> Iterator[PlanEvent]:
    """Yields the events of pods that were bound together: one on their PodGroup, or one on each pod."""
    if group is None or len(bound) == 1:
        for pod, node in bound:
            text = f"Successfully assigned {key_of(pod)} to {node}"
            yield PlanEvent(pod, Severity.NORMAL, EventReason.SCHEDULED, text)
    elif bound:
        nodes = len({node for _, node in bound})
        shown = ", ".join(f"{pod.metadata.name} to {node}" for pod, node in bound[:MAX_NAMED_PODS])
        text = f"Successfully assigned {len(bound)} pods to {nodes} node{'s'[: nodes != 1]}: {shown}"
        yield PlanEvent(group, Severity.NORMAL, EventReason.SCHEDULED, text + ", …" * (len(bound) > MAX_NAMED_PODS))


def binding_failed(pod: Pod, why: str) -> PlanEvent:
    return PlanEvent(pod, Severity.WARNING, EventReason.FAILED_BINDING, why)


# --- evictions


def same_namespace(eviction: Eviction) -> bool:
    """Returns whether the victim may name the claimer and the reverse.

    A user of one namespace must not learn the names of pods in another one.
    """
    return not eviction.by or eviction.by.partition("/")[0] == eviction.pod.partition("/")[0]


def claimer_shown(eviction: Eviction) -> str:
    """Returns the claimer as it is named on the victim."""
    if not eviction.by:
        return "no pod: its gang could not be completed"
    return eviction.by if same_namespace(eviction) else "a pod of another namespace"


def victim_events(
    evicted: Sequence[tuple[Eviction, Pod]], group_of: Mapping[str, PodGroup]
) -> Iterator[PlanEvent]:
    """Yields the events of victims: one for all victims of a PodGroup, or one on the pod."""
    of_groups: dict[tuple[str, str], tuple[PodGroup, list[str]]] = {}
    for eviction, pod in evicted:
        text = f"evicted by {eviction.rule} to make room for {claimer_shown(eviction)}"
        if not eviction.by:
            text = "evicted because its gang could not be completed"
        group = group_of.get(eviction.pod)
        if group is None:
            yield PlanEvent(pod, Severity.WARNING, EventReason.EVICT, text)
        else:
            of_groups.setdefault((key_of(group), text), (group, []))[1].append(eviction.pod)
    for (_, text), (group, pods) in of_groups.items():
        text = f"{_count(len(pods))} {text}: {_listed(sorted(pods))}"
        yield PlanEvent(group, Severity.WARNING, EventReason.EVICT, text)


def claimer_events(
    evictions: Sequence[Eviction], claimers: Sequence[Pod], group_of: Mapping[str, PodGroup]
) -> Iterator[PlanEvent]:
    """Yields the events of the pods that get the capacity: one for all of a PodGroup, or one on the pod."""
    for obj, pods in claimer_objects(claimers, group_of):
        names = {key_of(pod) for pod in pods}
        mine = [e for e in evictions if e.by in names]
        if mine:
            near = sorted(e.pod for e in mine if same_namespace(e))
            named = f": {_listed(near)}" if near else ""
            text = f"{mine[0].rule} evicts {_count(len(mine))}{named}"
            yield PlanEvent(obj, Severity.NORMAL, EventReason.EVICTING, text)


def claimer_objects(claimers: Sequence[Pod], group_of: Mapping[str, PodGroup]) -> list[tuple[Object, list[Pod]]]:
    """Returns the objects that get the events of the claimers (their PodGroup, or the pod itself) with their pods."""
    found: dict[str, tuple[Object, list[Pod]]] = {}
    for pod in claimers:
        group = group_of.get(key_of(pod))
        at = f"PodGroup {key_of(group)}" if group is not None else key_of(pod)
        found.setdefault(at, (group or pod, []))[1].append(pod)
    return list(found.values())


def _count(number: int) -> str:
    return f"{number} pod{'s'[: number != 1]}"


def _listed(pods: list[str]) -> str:
    more = f" and {len(pods) - MAX_NAMED_PODS} more" if len(pods) > MAX_NAMED_PODS else ""
    return f"{', '.join(pods[:MAX_NAMED_PODS])}{more}"


# --- pending pods


def gets_condition(pod: Pod) -> bool:
    """Returns whether the pod may get the condition PodScheduled=False. kube-scheduler leaves gated pods alone."""
    return not (pod.spec.node_name or pod.spec.scheduling_gates or is_terminating(pod))


def nomination(plan: Plan, pod: str) -> str:
    """Returns the node whose capacity is kept for the pod, which the next cycles and other schedulers must respect."""
    return plan.nominated.get(pod, "")


def unschedulable(pod: Pod, message: str, nominated: str, now: float) -> Pod:
    """Returns the pod with the condition why it has no node; the same object if it has it already."""
    status = pod.status
    old = next((c for c in status.conditions if c.type == "PodScheduled"), None)
    same = old is not None and (old.status, old.reason, old.message) == ("False", EventReason.UNSCHEDULABLE, message)
    if same and status.nominated_node_name == nominated:
        return pod
    since = old.last_transition_time if old is not None and old.status == "False" else timestamp(now)
    # muster: the reason is always Unschedulable while a pod has no node, because autoscalers look at it.
    reason = EventReason.UNSCHEDULABLE
    new = Condition(
        type="PodScheduled", status="False", reason=reason, message=message, last_transition_time=since
    )
    others = [c for c in status.conditions if c.type != new.type]
    conditions = sorted([*others, new], key=lambda c: c.type)
    return replace(
        pod, status=replace(status, phase="Pending", conditions=conditions, nominated_node_name=nominated)
    )


def pending_event(obj: Object, message: str) -> PlanEvent:
    return PlanEvent(obj, Severity.WARNING, EventReason.FAILED_SCHEDULING, message)


# --- PodGroups


def group_status(
    group: PodGroup, phase: str | None, condition: GroupCondition | None, transition: str, now: float
) -> tuple[PodGroupStatus, bool]:
    """Returns the group's status after a cycle, and whether the condition is new."""
    status = group.status if phase is None else replace(group.status, phase=phase)
    if condition is None or _has(group, condition):
        return status, False
    return replace(status, conditions=_conditions(group, condition, transition, timestamp(now))), True


def group_event(group: PodGroup, condition: GroupCondition) -> PlanEvent:
    if condition.type == EventReason.SCHEDULED:
        # Volcano: a group that has what it needs gets this message.
        return PlanEvent(group, Severity.NORMAL, EventReason.SCHEDULED, "pod group is ready")
    return PlanEvent(group, Severity.WARNING, EventReason.UNSCHEDULABLE, condition.message)


def _conditions(group: PodGroup, condition: GroupCondition, transition: str, now: str) -> list[Condition]:
    """Returns the group's conditions with the new one; the opposite condition becomes False."""
    new = Condition(
        type=condition.type,
        status="True",
        reason=condition.reason,
        message=condition.message,
        last_transition_time=now,
        transition_id=transition,
    )
    others = []
    for old in group.status.conditions:
        if old.type == condition.type:
            continue
        if old.status == "True" and old.type in (EventReason.SCHEDULED, EventReason.UNSCHEDULABLE):
            old = replace(old, status="False", last_transition_time=now)
        others.append(old)
    return [*others, new]


def _has(group: PodGroup, condition: GroupCondition) -> bool:
    return any(
        (c.type, c.status, c.reason, c.message) == (condition.type, "True", condition.reason, condition.message)
        for c in group.status.conditions
    )
