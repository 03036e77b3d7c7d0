"""What objects are to be told after a cycle: pods why they wait, groups their phase, queues what they hold.

Only what is not said already is written. Counts change with every pod that comes or goes, so a new wording for the same
object is written at most every few seconds; a nomination, a phase and a condition that turns at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from muster.cycle import telling
from muster.engine.core.jobs import Job, Status, Task
from muster.engine.core.plan import Condition as GroupCondition
from muster.engine.core.plan import Plan
from muster.engine.core.state import State
from muster.model.core import Pod
from muster.model.meta import Condition, Object
from muster.model.pod_states import is_terminating
from muster.model.quantity import canonical
from muster.model.scheduling import PodGroup, PodGroupStatus, Queue
from muster.scheduler.backoffs import BINDING_REFUSED
from muster.scheduler.queue_usage import Usage
from muster.store.clock import timestamp

# A new message of a pod waits at least so long if its cause is another one. With the same cause it waits twice as long,
# the next one four times, and so on: only counts have changed.
AGAIN, AGAIN_MOST = 15.0, 240.0
# While a gang starts, its counts change with every pod: the API server is told now and then, of a phase at once.
PACE, PACE_MOST = 5.0, 60.0
# A pod that has just come is told nothing: most get their node before anybody could read it.
FIRST = 2.0
BELOW = "BelowMinMember"
_SHORT_OF_CAPACITY = ("unschedulable", "over-quota", "gang", "waiting", "pipelined")
_PHASES = {"Pending": "pending", "": "pending", "Inqueue": "inqueue", "Running": "running", "Unknown": "unknown",
           "Completed": "completed"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PodStatusPatch:
    """A pod's PodScheduled condition, and the node held for it (None: unchanged)."""

    pod: Pod
    key: str
    condition: Condition
    nominated: str | None
    about: Object | None  # gets the event: the pod, or its PodGroup for all its pods; None: that has one already


@dataclass(frozen=True, slots=True)
class GroupStatusPatch:
    object: PodGroup
    key: str
    status: dict[str, Any]
    said: GroupCondition | None  # what is new in it


@dataclass(frozen=True, slots=True)
class QueueStatusPatch:
    object: Queue
    key: str
    status: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AdmissionPatch:
    """The queue has room for a pod that holds the queue's gate."""

    pod: Pod
    key: str


StatusPatch = PodStatusPatch | GroupStatusPatch | QueueStatusPatch | AdmissionPatch


@dataclass(frozen=True, slots=True)
class _Told:
    uid: str
    nominated: str
    at: float
    code: str
    wait: float  # until a new message for the same reason is written


class StatusUpdater:
    """Lives in the cycle thread; remembers what it said last to whom, and when."""

    def __init__(self) -> None:
        self._told: dict[str, _Told] = {}
        # Version, change, when, and how long a new count or message waits.
        self._sent: dict[tuple[type[StatusPatch], str], tuple[str, dict[str, Any], float, float]] = {}
        self._group_events: dict[str, float] = {}  # group → when an event about its waiting pods was last recorded
        self.again_at = float("inf")  # when there may be something to say that is held back now
        self.below: int = 0  # running gangs with fewer pods than their minimum

    def notes(
        self, plan: Plan, state: State, usage: Mapping[str, Usage], transition: str, now: float
    ) -> list[StatusPatch]:
        self.again_at = float("inf")
        others: list[GroupStatusPatch | QueueStatusPatch] = self._groups(plan, state, transition, now)
        others += _queues(plan, state, usage)
        if len(self._sent) > 2 * len(others) + 1000:
            self._sent = {key: sent for key, sent in self._sent.items() if now < sent[2] + PACE_MOST}
            self._group_events = {key: at for key, at in self._group_events.items() if now < at + AGAIN}
        return [*self._pods(plan, state, now), *(note for note in others if self._news(note, now))]

    def _news(self, note: GroupStatusPatch | QueueStatusPatch, now: float) -> bool:
        """Not if it is on its way already (the object has not changed since we sent the same), nor at every count."""
        version = note.object.metadata.resource_version
        key, says = (type(note), note.key), _without_times(note.status)
        sent = self._sent.get(key)
        if sent is not None and sent[:2] == (version, says) and now < sent[2] + AGAIN:
            return False
        turns = sent is None or _turns(note)
        if sent is not None and not turns and now < sent[2] + sent[3]:
            self.again_at = min(self.again_at, sent[2] + sent[3])
            return False
        wait = PACE if sent is None or turns else min(2 * sent[3], PACE_MOST)
        self._sent[key] = (version, says, now, wait)
        return True

    def _pods(self, plan: Plan, state: State, now: float) -> list[StatusPatch]:
        made: list[StatusPatch] = []
        told: dict[str, _Told] = {}
        for key, reason in plan.reasons.items():
            task = state.tasks.get(key)
            if task is None:
                continue
            pod = task.pod
            if pod.spec.node_name or pod.spec.scheduling_gates or is_terminating(pod):
                continue
            before = self._told.get(key)
            if before is None or before.uid != pod.metadata.uid:
                # What was tried and refused is told at once: the next try may be over before the wait is.
                wait = 0.0 if reason.code == BINDING_REFUSED else FIRST
                before = _Told(pod.metadata.uid, pod.status.nominated_node_name, now - AGAIN + wait, "", 2 * AGAIN)
            held = before.nominated
            nominated = telling.nomination(plan, key)
            due = before.at + (AGAIN if _cause(reason.code) != _cause(before.code) else before.wait)
            if nominated == held and now < due:
                told[key] = before
                self.again_at = min(self.again_at, due)
                continue
            after = telling.unschedulable(pod, reason.text, nominated, now)
            again = min(2 * before.wait, AGAIN_MOST) if before.code else before.wait
            told[key] = _Told(pod.metadata.uid, nominated, now, reason.code, again)
            if after is not pod:
                condition = next(c for c in after.status.conditions if c.type == "PodScheduled")
                changed = nominated != pod.status.nominated_node_name or nominated != held
                about = self._about(plan, state, task, reason.code, now)
                made.append(PodStatusPatch(pod, key, condition, nominated if changed else None, about))
        self._told = told
        return made

    def _about(self, plan: Plan, state: State, task: Task, code: str, now: float) -> Object | None:
        """The object that gets the event of a waiting pod. One event on the group stands for all its pods."""
        group = state.objects["PodGroup"].get(task.job.key) if task.job is not None else None
        if task.job is None or group is None or code == BINDING_REFUSED:
            return task.pod
        key = task.job.key
        said = plan.conditions.get(key)
        if said is not None and said.type == "Unschedulable":
            return None  # the group's event names the cause
        if now < self._group_events.get(key, float("-inf")) + AGAIN:
            return None
        self._group_events[key] = now
        return group

    def _groups(
        self, plan: Plan, state: State, transition: str, now: float
    ) -> list[GroupStatusPatch | QueueStatusPatch]:
        made: list[GroupStatusPatch | QueueStatusPatch] = []
        self.below = 0
        for key, group in state.objects["PodGroup"].items():
            job = state.jobs.get(key)
            if not isinstance(group, PodGroup) or job is None:
                continue
            said = plan.conditions.get(key)
            status, news = telling.group_status(group, plan.phases.get(key), said, transition, now)
            status = self._counted(status, job, now)
            if status != group.status:
                made.append(GroupStatusPatch(group, key, _change(status, group.status), said if news else None))
        return made

    def _counted(self, status: PodGroupStatus, job: Job, now: float) -> PodGroupStatus:
        count = job.count
        running, succeeded, failed = (count[s] for s in (Status.RUNNING, Status.SUCCEEDED, Status.FAILED))
        if (status.running, status.succeeded, status.failed) != (running, succeeded, failed):
            status = replace(status, running=running, succeeded=succeeded, failed=failed)
        below = running > 0 and job.ready < job.min_available
        self.below += below
        known = next((c for c in status.conditions if c.type == BELOW), None)
        if below == (known is not None and known.status == "True"):
            return status
        text = f"{job.ready} of at least {job.min_available} pods are running or about to" if below else ""
        new = Condition(
            type=BELOW, status="True" if below else "False", reason="PodsMissing" if below else "Whole", message=text,
            last_transition_time=timestamp(now),
        )  # fmt: skip
        return replace(status, conditions=[*(c for c in status.conditions if c.type != BELOW), new])


def _cause(code: str) -> str:
    """While capacity comes and goes, a waiting gang is short of it in one way and then in another."""
    return "capacity" if code in _SHORT_OF_CAPACITY else code


def _queues(plan: Plan, state: State, usage: Mapping[str, Usage]) -> list[QueueStatusPatch]:
    """What each queue's jobs hold, and how many groups it has of each phase. Groups in memory are not counted."""
    made: list[QueueStatusPatch] = []
    for key, found in state.objects["Queue"].items():
        queue = state.queues.get(key)
        if queue is None or not isinstance(found, Queue):
            continue
        allocated = usage[key].allocated
        counts = dict.fromkeys(("pending", "inqueue", "running", "unknown", "completed"), 0)
        for job in queue.jobs.values():
            if job.key in state.objects["PodGroup"]:
                counts[_PHASES.get(plan.phases.get(job.key, job.phase), "unknown")] += 1
        amounts = {name: canonical(name, n) for name, n in sorted(allocated.items()) if n and name != "pods"}
        old = found.status
        change: dict[str, Any] = {name: n for name, n in counts.items() if getattr(old, name) != n}
        if {name: str(value) for name, value in old.allocated.items()} != amounts:
            # A merge patch keeps what it does not name: resources no longer held are taken away by name.
            change["allocated"] = {**dict.fromkeys(old.allocated), **amounts}
        if not old.state:
            change["state"] = "Open"
        if change:
            # Volcano: its own definition of Queue takes no status without it.
            change.setdefault("allocated", {})
            made.append(QueueStatusPatch(found, key, change))
    return made


def _turns(note: GroupStatusPatch | QueueStatusPatch) -> bool:
    """A phase, a state, or a condition that came to hold or no longer does: more than a count or a wording."""
    if "phase" in note.status or "state" in note.status:
        return True
    if isinstance(note, QueueStatusPatch) or "conditions" not in note.status:
        return False
    before = {c.type: c.status for c in note.object.status.conditions}
    return {c["type"]: c["status"] for c in note.status["conditions"]} != before


def _without_times(status: dict[str, Any]) -> dict[str, Any]:
    """What is said, whenever it was said first."""
    conditions = [{k: v for k, v in c.items() if k in ("type", "status", "reason", "message")}
                  for c in status.get("conditions", ())]  # fmt: skip
    return {**status, "conditions": conditions}


def _change(new: PodGroupStatus, old: PodGroupStatus) -> dict[str, Any]:
    """The fields of the status that differ; a list is written whole."""
    names = ("phase", "conditions", "running", "succeeded", "failed")
    changed = {name: getattr(new, name) for name in names if getattr(new, name) != getattr(old, name)}
    return {name: msgspec.to_builtins(value) for name, value in changed.items()}
