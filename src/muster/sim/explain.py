"""Explains every plugin's answer for every node about one pod, in the state that the next cycle would see."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from muster.actions.allocate import JobStep
from muster.actions.node_set_trials import Outcome, Trial, on_set
from muster.config.names import nearest
from muster.cycle.requirements import warnings
from muster.cycle.scheduler import Scheduler
from muster.engine.core.hooks import NodeSet
from muster.engine.core.jobs import Job, Status, Task
from muster.engine.core.session import Log, Session, candidates, silent
from muster.engine.core.state import Objects, State
from muster.engine.core.subgroups import sub_group_tree
from muster.engine.devices.fragmentation import Fragmentation
from muster.engine.placement.node_sets import FAILED, divide_nodes
from muster.engine.placement.trace import NodeTrace, fit_error
from muster.engine.placement.trace import explain as trace
from muster.model.finding import Finding, InputError
from muster.sim.group_controllers import open_cluster
from muster.sim.inputs import LoadedConfig
from muster.sim.summary import gpu_fragmentation


@dataclass(slots=True)
class Explanation:
    """Whether each node would take the pod, why not, how each plugin scores it, and what the next cycle decides."""

    pod: str
    job: str
    queue: str
    nodes: dict[str, NodeTrace]
    decision: Decision
    warnings: list[str] = field(default_factory=list)
    gpu_fragmentation: Fragmentation | None = None  # None: no pod shares a GPU
    sets: list[SetTrace] | None = None  # None: not asked for, or nothing divides the nodes for this pod's job
    configuration: LoadedConfig | None = field(default=None, repr=False)
    findings: list[Finding] = field(default_factory=list)  # in the manifests and in the configuration

    def to_dict(self) -> dict[str, object]:
        """Returns what `muster explain -o json` prints."""
        plain: dict[str, object] = {
            "pod": self.pod,
            "group": self.job,
            "queue": self.queue,
            "decision": asdict(self.decision),
            "warnings": self.warnings,
            "nodes": {name: _node(trace) for name, trace in self.nodes.items()},
        }
        if self.gpu_fragmentation is not None:
            plain["gpu_fragmentation"] = self.gpu_fragmentation.to_dict()
        if self.sets is not None:
            plain["sets"] = [tried.to_dict() for tried in self.sets]
        if self.configuration is not None:
            plain["configuration"] = self.configuration.to_dict()
        return plain


@dataclass(frozen=True, slots=True)
class Decision:
    """What the next cycle does with the pod: its node, or the node whose capacity it waits for, or why it has none."""

    node: str | None
    pipelined: str | None
    reason: str | None


def _node(trace: NodeTrace) -> dict[str, object]:
    plain: dict[str, object] = {
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
        plain["notes"] = trace.notes
    return plain


def explain(
    scheduler: Scheduler,
    objects: Objects,
    now: float,
    scheduler_names: Iterable[str],
    pod: str,
    log: Log = silent,
    sets: bool = False,
) -> Explanation:
    """Explains every node's answer to the pod; with `sets` also the node sets its group is tried on.

    Raises InputError if the pod does not exist, is not ours or has a node already.
    """
    _, state = open_cluster(objects, now, scheduler_names, all_pods=True)
    task = find(state, pod)
    warned = warnings(scheduler.config, state, log)
    session = scheduler.session(state, now, log)
    try:
        nodes = trace(session, task)
        fragmentation = gpu_fragmentation(session)
        tried = sets_tried(session, task.job) if sets and task.job is not None and task.job.queue is not None else None
    finally:
        session.close()
    plan = scheduler.cycle(state, now, log)
    reason = plan.reasons.get(task.key)
    decision = Decision(plan.binds.get(task.key), plan.pipelined.get(task.key), None if reason is None else reason.text)
    job, queue = (task.job.shown, task.job.queue_name) if task.job is not None else ("", "")
    warned = list(dict.fromkeys([*warned, *plan.warnings]))
    return Explanation(task.key, job, queue, nodes, decision, warned, fragmentation, tried)


def find(state: State, pod: str) -> Task:
    """Returns the pending pod of that name; a name without a namespace is in `default`."""
    key = pod if "/" in pod else f"default/{pod}"
    task = state.tasks.get(key)
    if task is None:
        elsewhere = sorted(k for k in state.tasks if k.partition("/")[2] == pod)
        near = elsewhere[0] if elsewhere else nearest(key, state.tasks)
        raise InputError(f"there is no pod {key}" + (f": did you mean {near}?" if near else " in the input"))
    if task.pod.spec.node_name:
        raise InputError(f"pod {key} has its node already: {task.pod.spec.node_name}")
    if task.status != Status.PENDING:
        raise InputError(f"pod {key} does not wait for a node: it is {task.status.name.lower()}")
    if not state.needs_node(task):
        name = task.pod.spec.scheduler_name
        raise InputError(f"pod {key} is for the scheduler {name}: give --scheduler-name {name} to take it in")
    return task


@dataclass(frozen=True, slots=True)
class SetTrace:
    """One set: its nodes, how many of the job's pods fit in it, and why the next one did not."""

    label: str
    nodes: list[str]
    placed: int
    wanted: int
    holds: bool
    reason: str

    def to_dict(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in ("label", "nodes", "placed", "wanted", "holds", "reason")}


def sets_tried(session: Session, job: Job) -> list[SetTrace] | None:
    """Returns every node set in the order of trial, each tried on the current cluster; None if nothing divides the
    nodes.

    After them those that were not worth a trial, with the numbers that rule them out.
    """
    tasks = session.in_order(t for t in candidates(job) if not t.best_effort)
    found: Sequence[NodeSet] | None = divide_nodes(session, job, tasks) if tasks else None
    root = sub_group_tree(job)
    if found is None and (root is None or not any(group.constrained for group in root.groups())):
        return None
    everything = NodeSet(np.arange(len(session.state.nodes)))
    names = session.state.nodes.names
    traces = [_tried(session, job, tasks, s) for s in (found if found is not None else [everything])]
    for plugin in session.dividers:
        if job.attempt.refusal is None or job.attempt.refusal.code != FAILED:
            for node_set, why in plugin.left_out(job, tasks, everything):
                nodes = [names[i] for i in node_set.index]
                first = f"{tasks[0].key}: {fit_error(session, tasks[0], within=node_set.index)}"
                traces.append(SetTrace(node_set.label, nodes, 0, len(tasks), False, f"not tried: {why}; {first}"))
    return traces


def _tried(session: Session, job: Job, tasks: list[Task], within: NodeSet) -> SetTrace:
    """Tries all sets; the scheduler stops at the first that has capacity for the job."""
    assert job.queue is not None
    reasons: list[str] = []
    placed = [0]

    def failed(trial: Trial) -> None:
        placed[0] = sum(len(move.tasks) for move in trial.statement.moves)
        if job.attempt.sub_group_results:
            reasons.extend(job.attempt.sub_group_results)
        else:
            loser = next((t for t in tasks if t.status == Status.PENDING), None)
            reasons.append("" if loser is None else f"{loser.key}: {fit_error(session, loser, within=within.index)}")

    job.attempt.sub_group_results = []
    trial = on_set(session, job, tasks, within, JobStep(session, job.queue, job).place_group, failed)
    holds = trial.outcome is not Outcome.FAILED
    if holds:
        placed[0] = sum(len(move.tasks) for move in trial.statement.moves)
        trial.statement.discard()
    names = session.state.nodes.names
    label = within.label or "all nodes"
    why = "" if holds else "; ".join(reasons)
    return SetTrace(label, [names[i] for i in within.index], placed[0], len(tasks), holds, why)
