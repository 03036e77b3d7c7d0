"""Back-off for pods whose binding was refused and for victims whose eviction was refused.

Before each cycle the tasks are marked: a pod in back-off is not scheduled, a victim in back-off is not preemptable. So
are pods that a budget protects, and pods whose owner is not known yet.
"""

from __future__ import annotations

from dataclasses import dataclass

from muster.engine.core.jobs import Task
from muster.engine.core.plan import Plan, PodReason
from muster.engine.core.podgroups import GROUP, expected_owner, owner_of
from muster.engine.core.state import State
from muster.model.meta import controller
from muster.scheduler.budgets import BudgetProtection, over_budget
from muster.scheduler.commits import by_claimer
from muster.scheduler.inbox import BindRefused, EvictionRefused

BIND_RETRY_FIRST_S, BIND_RETRY_MAX_S = 1.0, 300.0
EVICTION_RETRY_S = 30.0
BINDING_REFUSED = "binding-refused"


@dataclass(slots=True)
class _BindBackoff:
    uid: str
    why: str
    until: float
    wait: float


class Backoffs:
    """The back-offs of one leadership term."""

    def __init__(self) -> None:
        self.budgets = BudgetProtection()
        self._pods: dict[str, _BindBackoff] = {}
        self._victims: dict[str, tuple[str, float]] = {}  # pod → uid, until
        self._claimers: dict[str, tuple[str, float]] = {}  # job → why, until
        self._marked: dict[str, Task] = {}
        self._ownerless: dict[str, None] = {}  # pods whose owner may not have been observed yet

    def bind_refused(self, message: BindRefused, now: float) -> None:
        before = self._pods.get(message.key)
        again = before is not None and before.uid == message.uid
        wait = min(before.wait * 2, BIND_RETRY_MAX_S) if again and before is not None else BIND_RETRY_FIRST_S
        self._pods[message.key] = _BindBackoff(message.uid, message.why, now + wait, wait)

    def eviction_refused(self, message: EvictionRefused, now: float) -> None:
        for key, uid in message.victims.items():
            self._victims[key] = (uid, now + EVICTION_RETRY_S)
        self._claimers[message.claimer] = (message.why, now + EVICTION_RETRY_S)

    def await_owner(self, key: str) -> None:
        """Keeps the pod pending until its owner is known: the owner may declare a gang."""
        self._ownerless[key] = None

    def next_expiry(self, now: float) -> float | None:
        """Returns when the next back-off ends; a cycle should run then."""
        ends = [backoff.until for backoff in self._pods.values()] + [until for _, until in self._victims.values()]
        return min((end for end in ends if end > now), default=None)

    def mark(self, state: State, now: float) -> None:
        """Marks the tasks for the next cycle, and removes the marks of the last one."""
        for key, task in self._marked.items():
            if state.tasks.get(key) is task:
                state.upsert("Pod", key, task.pod)
        self._marked = {}
        self._drop_expired(state, now)
        self.budgets.mark(state)
        for key, backoff in self._pods.items():
            if backoff.until > now:
                self._mark(state, key).gated = True
        for key in self._ownerless:
            self._mark(state, key).gated = True
        for key in self._victims:
            self._mark(state, key).preemptable = False

    def _mark(self, state: State, key: str) -> Task:
        task = self._marked[key] = state.tasks[key]
        if task.job is not None:
            task.job.mark_changed()
        return task

    def _drop_expired(self, state: State, now: float) -> None:
        def exists(key: str, uid: str) -> bool:
            task = state.tasks.get(key)
            return task is not None and task.uid == uid

        # An expired back-off is kept as long as its pod is pending, so that the next one is longer.
        self._pods = {
            k: b for k, b in self._pods.items() if exists(k, b.uid) and not state.tasks[k].pod.spec.node_name
        }
        self._ownerless = {k: None for k in self._ownerless if k in state.tasks and lacks_owner(state, state.tasks[k])}
        self._victims = {k: (uid, end) for k, (uid, end) in self._victims.items() if end > now and exists(k, uid)}
        self._claimers = {k: (why, end) for k, (why, end) in self._claimers.items() if end > now}

    def explain(self, plan: Plan, state: State, now: float) -> None:
        """Adds the back-offs to the plan's reasons."""
        for key, backoff in self._pods.items():
            if backoff.until > now and key in plan.reasons:
                plan.reasons[key] = PodReason(BINDING_REFUSED, f"{backoff.why}; tried again in a while.")
        for key in self._ownerless:
            if key in plan.reasons:
                owner = controller(state.tasks[key].pod.metadata)
                name = f"{owner.kind} {owner.name}" if owner is not None else ""
                plan.reasons[key] = PodReason("owner-unknown", f"waits for its owner {name}, which is not known yet.")
        for job_key, (why, _) in self._claimers.items():
            job = state.jobs.get(job_key)
            for key in job.tasks if job is not None else ():
                if key in plan.reasons and key not in self._pods:
                    reason = plan.reasons[key]
                    plan.reasons[key] = PodReason(reason.code, f"{reason.text} No room was made: {why}.")

    def drop_refused_evictions(self, plan: Plan, state: State, now: float) -> None:
        """Removes the evictions of claimers that would exceed a budget from the plan, and backs the claimers off."""
        refused = over_budget(plan, state)
        if not refused:
            return
        dropped = [e for job, some in by_claimer(plan, state).items() if job in refused for e in some]
        for job, why in refused.items():
            self.eviction_refused(EvictionRefused(job, {}, why), now)
            for pod in state.jobs[job].tasks if job in state.jobs else ():
                plan.nominated.pop(pod, None)
        for by in dict.fromkeys(e.by for e in dropped if e.by in plan.pipelined):
            del plan.pipelined[by]  # its capacity is not released
            plan.reasons[by] = PodReason("unschedulable", "no node has room for it without evictions.")
        victims = {e.pod for e in dropped}
        plan.evictions = [e for e in plan.evictions if e.pod not in victims]


def lacks_owner(state: State, task: Task) -> bool:
    """Returns whether a pending pod names no group and its owner, which may declare a gang, is not known."""
    pod = task.pod
    if task.job is None or pod.spec.node_name or pod.metadata.annotations.get(GROUP) or expected_owner(pod) is None:
        return False
    return owner_of(pod, state.lookup) is None
