"""The node sets that plugins divide the nodes into for a job, and how each would do: `explain --sets`."""

from __future__ import annotations

from dataclasses import dataclass

from muster.actions.allocate import equal_run
from muster.engine.hooks import NodeSet
from muster.engine.jobs import Job, Task
from muster.engine.session import Session, candidates
from muster.engine.sets import fold
from muster.engine.trace import unfit


@dataclass(frozen=True, slots=True)
class SetTrace:
    """One set: its nodes, how many of the job's pods found room in it, and why the next one did not."""

    label: str
    nodes: list[str]
    placed: int
    wanted: int
    holds: bool
    reason: str

    def as_dict(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in ("label", "nodes", "placed", "wanted", "holds", "reason")}


def sets_tried(session: Session, job: Job) -> list[SetTrace] | None:
    """Every set in the order of trial, each on the cluster as it stands; None if nothing divides the nodes."""
    tasks = session.in_order(t for t in candidates(job) if not t.best_effort)
    found = fold(session, job, tasks) if tasks else None
    if found is None:
        return None
    return [_tried(session, job, tasks, node_set) for node_set in found]


def _tried(session: Session, job: Job, tasks: list[Task], within: NodeSet) -> SetTrace:
    """The sets after the first that holds the job would not be tried by the scheduler; here they all are."""
    statement = session.statement()
    placed, reason = 0, ""
    while placed < len(tasks) and not reason:
        run = equal_run(session, tasks, placed)
        done = session.placement.place(statement, run, within)
        placed += done
        if done < len(run):
            loser = run[done]
            reason = f"{loser.key}: {unfit(session, loser, within=within.index)}"
    holds = session.ready(job) or session.pipelined(job)
    statement.discard()
    names = session.state.nodes.names
    label = within.label or "all nodes"
    return SetTrace(label, [names[i] for i in within.index], placed, len(tasks), holds, reason)
