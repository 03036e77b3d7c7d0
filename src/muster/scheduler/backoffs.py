"""Who is left alone for a while: pods whose binding was refused, victims whose eviction was, pods under a budget.

Before each cycle the marks are put on the tasks: a held pod is not placed, a spared one is nobody's victim. Budgets
count whether or not the `pdb` plugin is configured, for the Eviction API counts them, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from muster.engine.core.jobs import Task
from muster.engine.core.plan import Plan, PodReason
from muster.engine.core.podgroups import GROUP, expected_owner, owner_of
from muster.engine.core.state import State
from muster.model.meta import controller
from muster.scheduler.budgets import Budgets
from muster.scheduler.commits import by_claimer
from muster.scheduler.inbox import BindRefused, EvictionRefused

FIRST, MOST = 1.0, 300.0
BINDING_REFUSED = "binding-refused"
SPARED_FOR = 30.0


@dataclass(slots=True)
class _BindBackoff:
    uid: str
    why: str
    until: float
    wait: float


class Backoffs:
    def __init__(self) -> None:
        self.budgets = Budgets()
        self._held: dict[str, _BindBackoff] = {}
        self._spared: dict[str, tuple[str, float]] = {}  # pod → uid, until
        self._refusals: dict[str, tuple[str, float]] = {}  # job → why, until
        self._marked: dict[str, Task] = {}
        self._ownerless: dict[str, None] = {}  # pods whose owner has perhaps not been seen yet

    def hold(self, message: BindRefused, now: float) -> None:
        before = self._held.get(message.key)
        again = before is not None and before.uid == message.uid
        wait = min(before.wait * 2, MOST) if again and before is not None else FIRST
        self._held[message.key] = _BindBackoff(message.uid, message.why, now + wait, wait)

    def refused(self, message: EvictionRefused, now: float) -> None:
        for key, uid in message.victims.items():
            self._spared[key] = (uid, now + SPARED_FOR)
        self._refusals[message.claimer] = (message.why, now + SPARED_FOR)

    def look_for_owner(self, key: str) -> None:
        """The pod is not placed before its owner is known: it may ask for more pods to start together."""
        self._ownerless[key] = None

    def wake(self, now: float) -> float | None:
        """When the next hold ends; then a cycle should look again."""
        ends = [h.until for h in self._held.values()] + [until for _, until in self._spared.values()]
        return min((end for end in ends if end > now), default=None)

    def mark(self, state: State, now: float) -> None:
        """Put the marks on the tasks as they are now, and take off those that are over."""
        for key, task in self._marked.items():
            if state.tasks.get(key) is task:
                state.upsert("Pod", key, task.pod)
        self._marked = {}
        self._forget(state, now)
        self.budgets.mark(state)
        for key, hold in self._held.items():
            if hold.until > now:
                self._mark(state, key).gated = True
        for key in self._ownerless:
            self._mark(state, key).gated = True
        for key in self._spared:
            self._mark(state, key).preemptable = False

    def _mark(self, state: State, key: str) -> Task:
        task = self._marked[key] = state.tasks[key]
        if task.job is not None:
            task.job.mark_changed()
        return task

    def _forget(self, state: State, now: float) -> None:
        def there(key: str, uid: str) -> bool:
            task = state.tasks.get(key)
            return task is not None and task.uid == uid

        # An ended hold is remembered as long as its pod waits, so that the next one is longer.
        self._held = {
            k: h for k, h in self._held.items() if there(k, h.uid) and not state.tasks[k].pod.spec.node_name
        }
        self._ownerless = {k: None for k in self._ownerless if k in state.tasks and lacks_owner(state, state.tasks[k])}
        self._spared = {k: (uid, end) for k, (uid, end) in self._spared.items() if end > now and there(k, uid)}
        self._refusals = {k: (why, end) for k, (why, end) in self._refusals.items() if end > now}

    def tell(self, plan: Plan, state: State, now: float) -> None:
        """The plan's reasons, with what only we know."""
        for key, hold in self._held.items():
            if hold.until > now and key in plan.reasons:
                plan.reasons[key] = PodReason(BINDING_REFUSED, f"{hold.why}; tried again in a while.")
        for key in self._ownerless:
            if key in plan.reasons:
                owner = controller(state.tasks[key].pod.metadata)
                name = f"{owner.kind} {owner.name}" if owner is not None else ""
                plan.reasons[key] = PodReason("owner-unknown", f"waits for its owner {name}, which is not known yet.")
        for job_key, (why, _) in self._refusals.items():
            job = state.jobs.get(job_key)
            for key in job.tasks if job is not None else ():
                if key in plan.reasons and key not in self._held:
                    reason = plan.reasons[key]
                    plan.reasons[key] = PodReason(reason.code, f"{reason.text} No room was made: {why}.")


def lacks_owner(state: State, task: Task) -> bool:
    """A pod of ours that waits, names no group, and whose owner (which may ask for a gang) is not there."""
    pod = task.pod
    if task.job is None or pod.spec.node_name or pod.metadata.annotations.get(GROUP) or expected_owner(pod) is None:
        return False
    return owner_of(pod, state.lookup) is None


def over_budget(plan: Plan, state: State, budgets: Budgets) -> dict[str, str]:
    """Claimers whose evictions, after those of the claimers before them, are more than a budget allows; and why."""
    left: dict[str, int] = {}
    over: dict[str, str] = {}
    for by, evictions in by_claimer(plan, state).items():
        asked: dict[str, int] = {}
        for eviction in evictions:
            for key, budget in budgets.covering(state.tasks[eviction.pod]):
                left.setdefault(key, budget.status.disruptions_allowed or 0)
                asked[key] = asked.get(key, 0) + 1
        short = [key for key, n in sorted(asked.items()) if n > left[key]]
        if short:
            # A budget of another namespace is nobody's business there.
            near = short[0].partition("/")[0] == by.partition("/")[0]
            name = f"budget {short[0]}" if near else "a budget of another namespace"
            over[by] = f"{name} allows {left[short[0]]} more disruptions"
            continue
        for key, n in asked.items():
            left[key] -= n
    return over


def keep_to_budgets(plan: Plan, state: State, holds: Backoffs, now: float) -> None:
    """Drop the evictions of claimers that would break a budget, with the reason."""
    over = over_budget(plan, state, holds.budgets)
    if not over:
        return
    dropped = [e for job, some in by_claimer(plan, state).items() if job in over for e in some]
    for job, why in over.items():
        holds.refused(EvictionRefused(job, {}, why), now)
        for pod in state.jobs[job].tasks if job in state.jobs else ():
            plan.nominated.pop(pod, None)
    for by in dict.fromkeys(e.by for e in dropped if e.by in plan.pipelined):
        del plan.pipelined[by]  # nobody makes that room
        plan.reasons[by] = PodReason("unschedulable", "no node has room for it without evictions.")
    gone = {e.pod for e in dropped}
    plan.evictions = [e for e in plan.evictions if e.pod not in gone]
