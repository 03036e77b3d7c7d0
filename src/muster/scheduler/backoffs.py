"""Back-off for pods whose binding was refused, for victims whose eviction was refused, and for nodes that rejected a
pod.

Before each cycle the tasks are marked: a pod in back-off is not scheduled, a victim in back-off is not preemptable. So
are pods that a budget protects, and pods whose owner is not known yet.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muster.config.types import Arguments, PluginOption
from muster.engine.core.hooks import Batch, NodeFilter, Plugin, Reason, Scope, Verdict
from muster.engine.core.jobs import Shape, Task
from muster.engine.core.nodes import NodeView
from muster.engine.core.plan import Plan, PodReason
from muster.engine.core.podgroups import GROUP, expected_owner, owner_of
from muster.engine.core.session import Session
from muster.engine.core.state import State
from muster.model.core import Pod
from muster.model.meta import controller
from muster.scheduler.budgets import BudgetProtection, over_budget
from muster.scheduler.commits import by_claimer
from muster.scheduler.inbox import BindRefused, EvictionRefused

BIND_RETRY_FIRST_S, BIND_RETRY_MAX_S = 1.0, 300.0
EVICTION_RETRY_S = 30.0
BINDING_REFUSED = "binding-refused"
BACKOFF_FIRST_S, BACKOFF_MAX_S = 10.0, 600.0
_REJECTED = Reason("kubelet-rejected", "node(s) had rejected such a pod a moment ago")


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

    def kept_victims(self, now: float) -> set[str]:
        """Returns the pods whose eviction was refused a moment ago."""
        return {key for key, (_, until) in self._victims.items() if until > now}

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
                    plan.reasons[key] = PodReason(reason.code, f"{reason.text} No capacity was freed: {why}.")

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
            plan.reasons[by] = PodReason("unschedulable", "no node has enough free capacity without evictions.")
        victims = {e.pod for e in dropped}
        plan.evictions = [e for e in plan.evictions if e.pod not in victims]


def lacks_owner(state: State, task: Task) -> bool:
    """Returns whether a pending pod names no group and its owner, which may declare a gang, is not known."""
    pod = task.pod
    if task.job is None or pod.spec.node_name or pod.metadata.annotations.get(GROUP) or expected_owner(pod) is None:
        return False
    return owner_of(pod, state.lookup) is None


class KubeletRejections(Plugin, NodeFilter):
    """A node filter that every live scheduler has after the configured plugins: a node gets no pod of a rejected shape
    for a while.

    A kubelet rejects a pod that is bound to it (OutOfcpu, OutOfnvidia.com/gpu, UnexpectedAdmissionError …) when its own
    view of the node differs from the node's status. It would reject the next such pod as well.
    """

    name = "kubelet-rejections"
    scope = Scope.NODE

    def __init__(self) -> None:
        super().__init__(Arguments({}), PluginOption(self.name))
        self._until: dict[tuple[int, str], tuple[float, float]] = {}  # shape, node → when it ends, how long it lasts
        self._seen: set[str] = set()  # uids
        self._now = 0.0
        self._refusing: dict[int, list[str]] = {}

    def add(self, shape: Shape, pod: Pod, now: float) -> bool:
        """Records a rejection; returns False if it is known already."""
        if pod.metadata.uid in self._seen:
            return False
        self._seen.add(pod.metadata.uid)
        key = (shape.id, pod.spec.node_name)
        before = self._until.get(key)
        lasts = BACKOFF_FIRST_S if before is None else min(before[1] * 2, BACKOFF_MAX_S)
        self._until[key] = (now + lasts, lasts)
        return True

    def forget(self, uid: str) -> None:
        self._seen.discard(uid)

    def next_expiry(self, now: float) -> float | None:
        return min((end for end, _ in self._until.values() if end > now), default=None)

    def open(self, session: Session) -> None:
        self._now = session.now
        # An expired back-off is kept for as long again, so that the next rejection doubles it.
        self._until = {k: (end, lasts) for k, (end, lasts) in self._until.items() if end + lasts > self._now}
        self._refusing = {}
        for (shape, node), (end, _) in self._until.items():
            if end > self._now:
                self._refusing.setdefault(shape, []).append(node)

    def batch(self, task: Task) -> Batch:
        return Batch.COLUMNS if task.shape.id in self._refusing else Batch.SKIP

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        refused = np.zeros(len(nodes.nodes), np.bool_)
        for name in self._refusing.get(task.shape.id, ()):
            node = nodes.nodes.rank.get(name, -1)
            if node >= 0:
                refused[node] = True
        return Verdict.of(refused[nodes.index], _REJECTED)
