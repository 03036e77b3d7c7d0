"""Every plugin's word on every node about one pod, in the state as the next cycle would see it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from muster.config.names import nearest
from muster.cycle.scheduler import Scheduler
from muster.engine.jobs import Status, Task
from muster.engine.session import Log, silent
from muster.engine.state import Objects, State
from muster.engine.trace import NodeTrace
from muster.engine.trace import explain as trace
from muster.sim.opening import opened


class Unexplained(Exception):
    """The pod has no next cycle: it is not there, not ours, or has its node already."""


@dataclass(slots=True)
class Explanation:
    pod: str
    nodes: dict[str, NodeTrace] = field(default_factory=dict)

    def as_dict(self) -> dict[str, object]:
        return {"nodes": {name: _node(trace) for name, trace in self.nodes.items()}}


def _node(trace: NodeTrace) -> dict[str, object]:
    return {
        "feasible": trace.feasible,
        "reasons": [
            {"plugin": plugin, "code": reason.code, "text": text, "resolvable": reason.resolvable}
            for plugin, reason, text in trace.reasons
        ],
        "scores": trace.scores,
        "terms": trace.terms,
        "total": trace.total,
    }


def explain(
    scheduler: Scheduler,
    objects: Objects,
    now: float,
    scheduler_names: Iterable[str],
    pod: str,
    log: Log = silent,
) -> Explanation:
    _, state = opened(objects, now, scheduler_names)
    task = find(state, pod)
    session = scheduler.session(state, now, log)
    try:
        return Explanation(task.key, trace(session, task))
    finally:
        session.close()


def find(state: State, pod: str) -> Task:
    """The pending pod of that name; a name without a namespace is in `default`."""
    key = pod if "/" in pod else f"default/{pod}"
    task = state.tasks.get(key)
    if task is None:
        near = nearest(key, state.tasks)
        raise Unexplained(f"there is no pod {key}" + (f": did you mean {near}?" if near else " in the input"))
    if task.pod.spec.node_name:
        raise Unexplained(f"pod {key} has its node already: {task.pod.spec.node_name}")
    if task.status != Status.PENDING:
        raise Unexplained(f"pod {key} is not pending: {task.status.name.lower()}")
    if task.pod.spec.scheduler_name not in state.ours:
        raise Unexplained(
            f"pod {key} is for the scheduler {task.pod.spec.scheduler_name} (--scheduler-name takes it in, too)"
        )
    return task
