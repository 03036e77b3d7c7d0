"""The status patches after a cycle: why pods are pending, the phase of PodGroups, the usage of Queues.

Only changes are written. Counts change with every pod that comes or goes, so a new message for the same object is
written at most every few seconds; a nomination, a phase and a gang that falls below its minimum are written at once.
Whether a group is schedulable is written with its phase, or when it has been so for a moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from muster.cycle import plan_effects
from muster.engine.core.jobs import Job, Status, Task
from muster.engine.core.plan import Condition as GroupCondition
from muster.engine.core.plan import Plan
from muster.engine.core.state import State
from muster.model.core import Pod
from muster.model.meta import Condition, Object, timestamp
from muster.model.quantity import canonical
from muster.model.scheduling import PodGroup, PodGroupStatus, Queue
from muster.scheduler.backoffs import BINDING_REFUSED
from muster.scheduler.native_conditions import NativeConditions, NativeStatusPatch
from muster.scheduler.queue_usage import Usage, group_phases
from muster.store.event_reasons import EventReason

# A new message of a pod waits at least this long if its cause differs. With the same cause it waits twice as long, the
# next one four times, and so on: only counts have changed.
MESSAGE_INTERVAL_S, MESSAGE_INTERVAL_MAX_S = 15.0, 240.0
# While a gang starts, its counts change with every pod: they are written at intervals, a phase at once.
COUNT_INTERVAL_S, COUNT_INTERVAL_MAX_S = 5.0, 60.0
# A new pod gets no message at first: most pods are bound before anybody could read it. A group gets no condition while
# its pods are being created, and the one of a group that is bound is written with the phase that follows.
FIRST_MESSAGE_DELAY_S = 2.0
# The watch may not have shown a patch yet: it is not sent again in this time, whatever else has changed.
PATCH_SHOWN_TIMEOUT_S = 2.0
BELOW_MIN_MEMBER = "BelowMinMember"
_SHORT_OF_CAPACITY = ("unschedulable", "over-quota", "gang", "waiting", "pipelined")
_PHASES = {"Pending": "pending", "": "pending", "Inqueue": "inqueue", "Running": "running", "Unknown": "unknown",
           "Completed": "completed"}  # fmt: skip


class PodStatusPatch(Struct, frozen=True):
    """A pod's PodScheduled condition, and the node that is kept for it (None: unchanged)."""

    pod: Pod
    key: str
    condition: Condition
    nominated: str | None
    event_on: Object | None  # the pod, or its PodGroup for all its pods; None: no event


class GroupStatusPatch(Struct, frozen=True):
    """The changed fields of a PodGroup's status."""

    object: PodGroup
    key: str
    status: dict[str, Any]
    condition: GroupCondition | None  # if it is new


class QueueStatusPatch(Struct, frozen=True):
    """The changed fields of a Queue's status."""

    object: Queue
    key: str
    status: dict[str, Any]


class AdmissionPatch(Struct, frozen=True):
    """Marks a gated pod as admitted by its queue."""

    pod: Pod
    key: str


StatusPatch = NativeStatusPatch | PodStatusPatch | GroupStatusPatch | QueueStatusPatch | AdmissionPatch
_Counted = GroupStatusPatch | QueueStatusPatch | NativeStatusPatch


class _PodMessage(Struct, frozen=True):
    """The message that was last written on a pod."""

    uid: str
    nominated: str
    at: float
    code: str
    wait: float  # until a new message for the same reason is written
    # When a message for the pod as it was in the last cycle, with the code of its reason then, is due.
    pod: Pod | None = None
    code_now: str = ""
    due: float = 0.0


class StatusUpdater:
    """Computes the status patches in the cycle thread, and limits how often they are written."""

    def __init__(self) -> None:
        self._messages: dict[str, _PodMessage] = {}
        # resourceVersion, patch, when, and how long a new count or message waits.
        self._sent: dict[tuple[type[StatusPatch], str], tuple[str, dict[str, Any], float, float]] = {}
        self._delayed: dict[str, tuple[str, float]] = {}  # group → the condition that is not written yet, since when
        self._group_events: dict[str, float] = {}  # group → when an event about its waiting pods was last recorded
        self.next_at = float("inf")  # when a delayed patch is due
        self._native = NativeConditions()
        self.below_minimum: int = 0  # running gangs with fewer pods than their minimum

    def patches(
        self, plan: Plan, state: State, usage: Mapping[str, Usage], transition: str, now: float
    ) -> list[StatusPatch]:
        self.next_at = float("inf")
        others: list[_Counted] = [*self._groups(plan, state, transition, now), *self._native.patches(plan, state, now)]
        others += _queues(plan, state, usage)
        if len(self._sent) > 2 * len(others) + 1000:
            self._sent = {key: sent for key, sent in self._sent.items() if now < sent[2] + COUNT_INTERVAL_MAX_S}
            self._group_events = {key: at for key, at in self._group_events.items() if now < at + MESSAGE_INTERVAL_S}
        return [*self._pods(plan, state, now), *(patch for patch in others if self._is_due(patch, now))]

    def _is_due(self, patch: _Counted, now: float) -> bool:
        """Returns whether to send the patch: not if the same one is in flight, and not for every count."""
        version = patch.object.metadata.resource_version
        name = patch.key if not isinstance(patch, NativeStatusPatch) else f"{patch.object.kind} {patch.key}"
        key, content = (type(patch), name), _without_times(patch.status)
        sent = self._sent.get(key)
        if sent is not None and sent[1] == content:
            again = sent[2] + (MESSAGE_INTERVAL_S if sent[0] == version else PATCH_SHOWN_TIMEOUT_S)
            if now < again:
                self.next_at = min(self.next_at, again)
                return False
        at_once = sent is None or _is_transition(patch)
        if sent is not None and not at_once and now < sent[2] + sent[3]:
            self.next_at = min(self.next_at, sent[2] + sent[3])
            return False
        wait = COUNT_INTERVAL_S if sent is None or at_once else min(2 * sent[3], COUNT_INTERVAL_MAX_S)
        self._sent[key] = (version, content, now, wait)
        return True

    def _pods(self, plan: Plan, state: State, now: float) -> list[StatusPatch]:
        made: list[StatusPatch] = []
        messages: dict[str, _PodMessage] = {}
        next_at = self.next_at
        for key, reason in plan.reasons.items():
            task = state.tasks.get(key)
            if task is None:
                continue
            pod, before = task.pod, self._messages.get(key)
            if (
                before is not None and before.pod is pod and before.code_now == reason.code and now < before.due
                and plan_effects.nomination(plan, key) == before.nominated
            ):  # fmt: skip
                messages[key] = before  # most pods that wait long: as in the last cycle
                next_at = min(next_at, before.due)
                continue
            if not plan_effects.gets_condition(pod):
                continue
            if before is None or before.uid != pod.metadata.uid:
                # A refused binding is reported at once: the next attempt may be over before the delay is.
                wait = 0.0 if reason.code == BINDING_REFUSED else FIRST_MESSAGE_DELAY_S
                last = now - MESSAGE_INTERVAL_S + wait
                nominated = pod.status.nominated_node_name
                before = _PodMessage(pod.metadata.uid, nominated, last, "", 2 * MESSAGE_INTERVAL_S)
            nominated = plan_effects.nomination(plan, key)
            same_cause = _cause(reason.code) == _cause(before.code)
            due = before.at + (before.wait if same_cause else MESSAGE_INTERVAL_S)
            if nominated == before.nominated and now < due:
                uid, at, code, wait = before.uid, before.at, before.code, before.wait
                messages[key] = _PodMessage(uid, nominated, at, code, wait, pod, reason.code, due)
                next_at = min(next_at, due)
                continue
            after = plan_effects.unschedulable(pod, reason.text, nominated, now)
            wait = min(2 * before.wait, MESSAGE_INTERVAL_MAX_S) if before.code else before.wait
            messages[key] = _PodMessage(pod.metadata.uid, nominated, now, reason.code, wait)
            if after is not pod:
                condition = next(c for c in after.status.conditions if c.type == "PodScheduled")
                unchanged = pod.status.nominated_node_name == before.nominated == nominated
                event_on = self._event_on(plan, state, task, reason.code, now)
                made.append(PodStatusPatch(pod, key, condition, None if unchanged else nominated, event_on))
        self._messages, self.next_at = messages, next_at
        return made

    def _event_on(self, plan: Plan, state: State, task: Task, code: str, now: float) -> Object | None:
        """Returns the object that gets the event of a pending pod. One event on the group is for all its pods."""
        group = state.objects["PodGroup"].get(task.job.key) if task.job is not None else None
        if task.job is None or group is None or code == BINDING_REFUSED:
            return task.pod
        key = task.job.key
        condition = plan.conditions.get(key)
        if condition is not None and condition.type == EventReason.UNSCHEDULABLE:
            return None  # the event of the group's condition names the cause
        if now < self._group_events.get(key, float("-inf")) + MESSAGE_INTERVAL_S:
            return None
        self._group_events[key] = now
        return group

    def _groups(self, plan: Plan, state: State, transition: str, now: float) -> list[_Counted]:
        made: list[_Counted] = []
        self.below_minimum = 0
        delayed, self._delayed = self._delayed, {}
        for key, group in state.objects["PodGroup"].items():
            job = state.jobs.get(key)
            if not isinstance(group, PodGroup) or job is None:
                continue
            condition = plan.conditions.get(key)
            if condition is not None and key not in plan.phases and not _has_condition(group, condition.type):
                before = delayed.get(key)
                since = before[1] if before is not None and before[0] == condition.type else now
                if now < since + FIRST_MESSAGE_DELAY_S:
                    self._delayed[key] = condition.type, since
                    self.next_at = min(self.next_at, since + FIRST_MESSAGE_DELAY_S)
                    condition = None
            status, is_new = plan_effects.group_status(group, plan.phases.get(key), condition, transition, now)
            status = self._with_counts(status, job, now)
            if status != group.status:
                made.append(GroupStatusPatch(group, key, _change(status, group.status), condition if is_new else None))
        return made

    def _with_counts(self, status: PodGroupStatus, job: Job, now: float) -> PodGroupStatus:
        count = job.count
        running, succeeded, failed = (count[s] for s in (Status.RUNNING, Status.SUCCEEDED, Status.FAILED))
        if (status.running, status.succeeded, status.failed) != (running, succeeded, failed):
            status = replace(status, running=running, succeeded=succeeded, failed=failed)
        below = running > 0 and job.ready < job.min_available
        self.below_minimum += below
        known = next((c for c in status.conditions if c.type == BELOW_MIN_MEMBER), None)
        if below == (known is not None and known.status == "True"):
            return status
        text = f"{job.ready} of at least {job.min_available} pods are running or about to" if below else ""
        new = Condition(
            type=BELOW_MIN_MEMBER, status="True" if below else "False", reason="PodsMissing" if below else "Whole",
            message=text, last_transition_time=timestamp(now),
        )  # fmt: skip
        return replace(status, conditions=[*(c for c in status.conditions if c.type != BELOW_MIN_MEMBER), new])


def _has_condition(group: PodGroup, name: str) -> bool:
    return any(c.type == name and c.status == "True" for c in group.status.conditions)


def _cause(code: str) -> str:
    """Returns the code, or one code for all kinds of missing capacity, between which a pending gang changes often."""
    return "capacity" if code in _SHORT_OF_CAPACITY else code


def _queues(plan: Plan, state: State, usage: Mapping[str, Usage]) -> list[QueueStatusPatch]:
    """Returns the patches of Queues: their usage, and their PodGroups by phase. Groups in memory are not counted."""
    made: list[QueueStatusPatch] = []
    phases = group_phases(plan, state)
    for key, found in state.objects["Queue"].items():
        if key not in state.queues or not isinstance(found, Queue):
            continue
        allocated = usage[key].allocated
        counts = dict.fromkeys(("pending", "inqueue", "running", "unknown", "completed"), 0)
        for phase, n in phases.get(key, {}).items():
            counts[_PHASES.get(phase, "unknown")] += n
        amounts = {name: canonical(name, n) for name, n in sorted(allocated.items()) if n and name != "pods"}
        old = found.status
        change: dict[str, Any] = {name: n for name, n in counts.items() if getattr(old, name) != n}
        if {name: str(value) for name, value in old.allocated.items()} != amounts:
            # A merge patch keeps what it does not name: resources that are no longer allocated are removed by name.
            change["allocated"] = {**dict.fromkeys(old.allocated), **amounts}
        if not old.state:
            change["state"] = "Open"
        if change:
            # Volcano: its definition of Queue requires this field in a status.
            change.setdefault("allocated", {})
            made.append(QueueStatusPatch(found, key, change))
    return made


def _is_transition(patch: _Counted) -> bool:
    """Returns whether a phase, a state or the status of a condition changes, not only a count or a message."""
    if "phase" in patch.status or "state" in patch.status:
        return True
    if isinstance(patch, QueueStatusPatch) or "conditions" not in patch.status:
        return False
    before = {c.type: c.status for c in patch.object.status.conditions}
    return {c["type"]: c["status"] for c in patch.status["conditions"]} != before


def _without_times(status: dict[str, Any]) -> dict[str, Any]:
    """Returns the status without timestamps."""
    conditions = [{k: v for k, v in c.items() if k in ("type", "status", "reason", "message")}
                  for c in status.get("conditions", ())]  # fmt: skip
    return {**status, "conditions": conditions}


def _change(new: PodGroupStatus, old: PodGroupStatus) -> dict[str, Any]:
    """Returns the fields of the status that differ; a list is written completely."""
    names = ("phase", "conditions", "running", "succeeded", "failed")
    changed = {name: getattr(new, name) for name in names if getattr(new, name) != getattr(old, name)}
    return {name: msgspec.to_builtins(value) for name, value in changed.items()}
