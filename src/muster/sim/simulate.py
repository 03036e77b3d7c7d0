"""Runs scheduling cycles over a cluster of manifests and tells what became of each pod."""

from __future__ import annotations

from collections.abc import Iterable

from muster.cycle.scheduler import Scheduler
from muster.engine.jobs import Status
from muster.engine.session import Log, silent
from muster.engine.state import Objects, State
from muster.sim.result import Result


def simulate(
    scheduler: Scheduler,
    objects: Objects,
    now: float,
    scheduler_names: Iterable[str],
    cycles: int | None = None,
    log: Log = silent,
) -> Result:
    """Cycles until nothing changes, or so many."""
    state = State(scheduler_names)
    state.load(objects)
    result = Result()
    plan = scheduler.cycle(state, now, log)
    result.cycles = 1
    result.binds.update(plan.binds)
    result.pipelined = plan.pipelined
    result.evicts = [eviction.pod for eviction in plan.evictions]
    result.devices.update(plan.devices)
    for key, reason in plan.reasons.items():
        task = state.tasks.get(key)
        if task is None or (task.status == Status.PENDING and task.pod.spec.scheduler_name in state.ours):
            result.pending[key] = reason.text
    return result
