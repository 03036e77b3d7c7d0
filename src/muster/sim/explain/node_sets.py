"""The node sets on which a job is tried, and what each lacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from muster.actions.allocate import JobStep
from muster.actions.node_set_trials import Outcome, Trial, on_set
from muster.engine.core.hooks import NodeSet
from muster.engine.core.jobs import Job, Status, Task
from muster.engine.core.session import Session, candidates
from muster.engine.core.subgroups import sub_group_tree
from muster.engine.placement.node_sets import FAILED, divide_nodes
from muster.engine.placement.trace import fit_error


@dataclass(frozen=True, slots=True)
class SetTrace:
    """One set: its nodes, how many of the job's pods fit in it, and why the next one did not; or why it was chosen."""

    label: str
    nodes: list[str]
    placed: int
    wanted: int
    holds: bool
    reason: str
    waits: bool = False  # it holds the job once capacity is released
    chosen: bool = False  # the first that holds the job, those that need not wait before the others

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


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
    _choose(traces)
    for plugin in session.dividers:
        if job.attempt.refusal is None or job.attempt.refusal.code != FAILED:
            for node_set, why in plugin.left_out(job, tasks, everything):
                nodes = [names[i] for i in node_set.index]
                first = f"{tasks[0].key}: {fit_error(session, tasks[0], within=node_set.index)}"
                traces.append(SetTrace(node_set.label, nodes, 0, len(tasks), False, f"not tried: {why}; {first}"))
    return traces


def order_of_sets(session: Session, job: Job) -> str:
    """Returns how the plugins that divide the nodes for the job order the sets."""
    return "; ".join(plugin.set_order for plugin in session.dividers if plugin.set_order and plugin.divides(job))


def _choose(traces: list[SetTrace]) -> None:
    """Marks the set that the scheduler takes (`on_sets`), and says why."""
    holding = sorted((trace.waits, i) for i, trace in enumerate(traces) if trace.holds)
    if not holding:
        return
    waits, at = holding[0]
    first = traces[at]
    why = "the first that holds the group once capacity is released" if waits else "the first that can start the group"
    traces[at] = replace(first, chosen=True, reason=f"chosen: {why}")


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
    waits = holds and trial.waits
    if holds:
        placed[0] = sum(len(move.tasks) for move in trial.statement.moves)
        trial.statement.discard()
    names = session.state.nodes.names
    label = within.label or "all nodes"
    why = "" if holds else "; ".join(reasons)
    return SetTrace(label, [names[i] for i in within.index], placed[0], len(tasks), holds, why, waits)
