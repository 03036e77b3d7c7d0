"""Every plugin's word on every node about one pod, in the state as the next cycle would see it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

from muster.config.names import nearest
from muster.cycle.requirements import warnings
from muster.cycle.scheduler import Scheduler
from muster.engine.core.jobs import Status, Task
from muster.engine.core.session import Log, silent
from muster.engine.core.state import Objects, State
from muster.engine.placement.trace import NodeTrace
from muster.engine.placement.trace import explain as trace
from muster.sim.opening import open_cluster
from muster.sim.sets import SetTrace, sets_tried


class Unexplained(Exception):
    """The pod has no next cycle: it is not there, not ours, or has its node already."""


@dataclass(slots=True)
class Explanation:
    pod: str
    job: str
    queue: str
    nodes: dict[str, NodeTrace]
    decision: Decision
    warnings: list[str] = field(default_factory=list)
    sets: list[SetTrace] | None = None  # None: not asked for, or nothing divides the nodes for this pod's job

    def as_dict(self) -> dict[str, object]:
        told: dict[str, object] = {
            "pod": self.pod,
            "group": self.job,
            "queue": self.queue,
            "decision": asdict(self.decision),
            "warnings": self.warnings,
            "nodes": {name: _node(trace) for name, trace in self.nodes.items()},
        }
        if self.sets is not None:
            told["sets"] = [tried.as_dict() for tried in self.sets]
        return told


@dataclass(frozen=True, slots=True)
class Decision:
    """What the next cycle does with the pod: its node, or the node whose room it waits for, or why it has none."""

    node: str | None
    pipelined: str | None
    reason: str | None


def _node(trace: NodeTrace) -> dict[str, object]:
    told: dict[str, object] = {
        "feasible": trace.feasible,
        "reasons": [
            {"plugin": plugin, "code": reason.code, "text": text, "resolvable": reason.resolvable}
            for plugin, reason, text in trace.reasons
        ],
        "scores": trace.scores,
        "terms": trace.terms,
        "total": trace.total,
    }
    if trace.notes:
        told["notes"] = trace.notes
    return told


def explain(
    scheduler: Scheduler,
    objects: Objects,
    now: float,
    scheduler_names: Iterable[str],
    pod: str,
    log: Log = silent,
    sets: bool = False,
) -> Explanation:
    """The pod's chances on every node; with `sets` also the node sets its group is tried on."""
    _, state = open_cluster(objects, now, scheduler_names)
    task = find(state, pod)
    said = warnings(scheduler.config, state, log)
    session = scheduler.session(state, now, log)
    try:
        nodes = trace(session, task)
        tried = sets_tried(session, task.job) if sets and task.job is not None and task.job.queue is not None else None
    finally:
        session.close()
    plan = scheduler.cycle(state, now, log)
    reason = plan.reasons.get(task.key)
    decision = Decision(
        plan.binds.get(task.key), plan.pipelined.get(task.key), None if reason is None else reason.text
    )
    job, queue = (task.job.key, task.job.queue_name) if task.job is not None else ("", "")
    said = list(dict.fromkeys([*said, *plan.warnings]))
    return Explanation(task.key, job, queue, nodes, decision, said, tried)


def find(state: State, pod: str) -> Task:
    """The pending pod of that name; a name without a namespace is in `default`."""
    key = pod if "/" in pod else f"default/{pod}"
    task = state.tasks.get(key)
    if task is None:
        elsewhere = sorted(k for k in state.tasks if k.partition("/")[2] == pod)
        near = elsewhere[0] if elsewhere else nearest(key, state.tasks)
        raise Unexplained(f"there is no pod {key}" + (f": did you mean {near}?" if near else " in the input"))
    if task.pod.spec.node_name:
        raise Unexplained(f"pod {key} has its node already: {task.pod.spec.node_name}")
    if task.status != Status.PENDING:
        raise Unexplained(f"pod {key} does not wait for a node: it is {task.status.name.lower()}")
    if not state.needs_node(task):
        name = task.pod.spec.scheduler_name
        raise Unexplained(f"pod {key} is for the scheduler {name}: give --scheduler-name {name} to take it in")
    return task
