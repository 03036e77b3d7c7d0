"""Why a run evicted a pod, and which evictions it made for a pod: from the claim itself, in another run up to it."""

from __future__ import annotations

from collections.abc import Callable

from muster.engine.core.plan import Plan
from muster.engine.core.state import State
from muster.engine.placement.turns import Turns
from muster.sim.eviction_options import ClaimWatch, EvictedPod
from muster.sim.result import Result
from muster.sim.simulate import Run

_ACTIONS = ("preempt", "reclaim")


class _Watcher:
    """Observes the claims of one cycle for one pod."""

    def __init__(self, pod: str, cycle: int) -> None:
        self.claims = ClaimWatch(pod)
        self._cycle = cycle

    def begin(self, cycle: int) -> Turns | None:
        return Turns(lambda task: False, claims=self.claims) if cycle == self._cycle else None

    def end(self, cycle: int, plan: Plan) -> None:
        """The first run has the decisions."""


def evicted_pod(again: Callable[[], Run], result: Result, pod: str) -> dict[str, object] | None:
    """Returns the last eviction of the pod with its reason; None if the run did not evict it."""
    last = next(((c.number, e) for c in reversed(result.history) for e in c.evictions if e.pod == pod), None)
    if last is None:
        return None
    cycle, eviction = last
    if eviction.rule in _ACTIONS:
        run = again()
        run.observer = watcher = _Watcher(pod, cycle)
        run.until_settled(cycle)
        if watcher.claims.evicted is not None:
            return watcher.claims.evicted.to_dict(cycle)
        why = "by Volcano's rules, pods go in victim order until the claimer fits"
        return EvictedPod(eviction.by, eviction.rule, "victim-order", eviction.node, why).to_dict(cycle)
    why = "not the scheduler but a policy evicts it"
    return EvictedPod(eviction.by, eviction.rule, "policy", eviction.node, why).to_dict(cycle)


def evictions_for(result: Result, state: State, job: str, before: int) -> list[str]:
    """Returns a note for each cycle before the given one that evicted pods for the job."""
    pods = {key for key, task in state.tasks.items() if task.job is not None and task.job.shown == job}
    notes = []
    for cycle in result.history[: max(before - 1, 0)]:
        mine = [e for e in cycle.evictions if e.by in pods]
        if mine:
            count = f"{len(mine)} pod{'s' * (len(mine) > 1)}"
            notes.append(f"cycle {cycle.number} evicted {count} for {job} ({mine[0].rule}): see --cycle {cycle.number}")
    return notes
