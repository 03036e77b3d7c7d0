"""Tries a job on one node set after the other until a set can hold it; a failed attempt is undone completely.

A set that could start the job now is better than a set where it must wait for capacity that is being released: the
latter is remembered and used if there is no other. Where pods differ in size and all of them are needed, a set that
failed in task order is tried with the largest first, and then by a search (`arrangements`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum

from msgspec import Struct

from muster.actions.arrangements import largest_first, mixed, node_for_each, selections
from muster.actions.placement_search import PlacementSearch
from muster.actions.role_failures import SWITCH
from muster.engine.core.hooks import NodeSet
from muster.engine.core.jobs import Job, Queue, Task
from muster.engine.core.nodes import MoveKind
from muster.engine.core.session import Session
from muster.engine.core.statement import Statement
from muster.engine.core.subgroups import sub_group_tree

ALLOCATE = "allocate"  # the action whose arguments hold here
PlaceTasks = Callable[[Statement, list[Task], NodeSet | None], None]  # removes the tasks that it placed or gave up


class Outcome(Enum):
    READY = "ready"  # may be committed
    KEPT = "kept"  # waits for capacity that is being released; what it reserved stays reserved this cycle
    FAILED = "failed"  # everything is undone


class Trial(Struct):
    """An attempt with its statement, which the caller must settle or discard."""

    outcome: Outcome
    statement: Statement
    left: list[Task]  # neither placed nor given up

    def settle(self) -> None:
        if self.outcome is Outcome.READY:
            self.statement.commit()
        elif self.outcome is Outcome.KEPT:
            self.statement.keep()
        else:
            self.statement.discard()

    @property
    def waits(self) -> bool:
        return any(move.kind == MoveKind.PIPELINE for move in self.statement.moves)


Watch = Callable[[Trial], None]


def attempt(session: Session, job: Job, tasks: Sequence[Task], within: NodeSet | None, place: PlaceTasks) -> Trial:
    """Makes one attempt in one order of the tasks."""
    statement, left = session.statement(), list(tasks)
    place(statement, left, within)
    moved = within is None or bool(statement.moves)
    if moved and session.ready(job):
        outcome = Outcome.READY
    elif moved and session.pipelined(job):
        outcome = Outcome.KEPT
    else:
        outcome = Outcome.FAILED
        job.attempt.would_fit = {t.key: n for m in statement.moves for t, n in zip(m.tasks, m.nodes, strict=True)}
    return Trial(outcome, statement, left)


def on_set(
    session: Session, job: Job, tasks: Sequence[Task], within: NodeSet | None, place: PlaceTasks,
    failed: Watch | None = None,
) -> Trial:  # fmt: skip
    """Makes all attempts on one set: in task order, then in other orders where that may help.

    `failed` is called after the attempt in task order, before its placements are undone.
    """
    trial = attempt(session, job, tasks, within, place)
    if trial.outcome is Outcome.FAILED:
        if failed is not None:
            failed(trial)
        trial.settle()
        # Volcano tries only task order.
        all_needed = within is not None and session.missing(job) >= len(tasks)
        if mixed(session, tasks) and (all_needed or not session.volcano):
            for order, how in _arrangements(session, job, tasks, within, place):
                trial = attempt(session, job, order, within, how)
                # On all nodes another order must let the job start now: recorded decisions of Volcano show that a job
                # that fails in task order keeps no capacity that is being released.
                if trial.outcome is Outcome.READY or (trial.outcome is Outcome.KEPT and within is not None):
                    break
                trial.statement.discard()
                trial.outcome = Outcome.FAILED
        if trial.outcome is Outcome.FAILED and not session.volcano and job.queue is not None:
            return _searched(session, job, job.queue, tasks, within) or trial
    return trial


def _searched(session: Session, job: Job, queue: Queue, tasks: Sequence[Task], within: NodeSet | None) -> Trial | None:
    """Searches for a placement of a small gang; None if there is none, or the job has sub-groups with node sets.

    Volcano: pods of a role share their failures, so for them only the attempts in order count.
    """
    if any(task.role for task in tasks) and session.arguments(ALLOCATE).bool(SWITCH, True):
        return None
    root = sub_group_tree(job) if session.dividers else None
    if root is not None and any(group.constrained for group in root.groups()):
        return None
    search = PlacementSearch(session, job, within, queue)
    for chosen in search.selections(tasks, session.missing(job)):
        statement = session.statement()
        if search.place(statement, chosen):
            if session.turns is not None:
                session.turns.assigned(statement)
            placed = {task.key for task in chosen}
            return Trial(Outcome.READY, statement, [task for task in tasks if task.key not in placed])
    return None


def on_sets(
    session: Session, job: Job, tasks: list[Task], sets: Sequence[NodeSet | None], place: PlaceTasks
) -> Outcome:
    """Returns the trial on the first set that can hold the job; removes the tasks that were placed or given up."""
    later: NodeSet | None = None
    found = False
    for node_set in sets:
        trial = on_set(session, job, tasks, node_set, place)
        if trial.outcome is Outcome.FAILED:
            continue
        if not trial.waits:
            trial.settle()
            tasks[:] = trial.left
            return trial.outcome
        trial.statement.discard()
        if not found:
            later, found = node_set, True
    if not found:
        return Outcome.FAILED
    trial = on_set(session, job, tasks, later, place)
    trial.settle()
    tasks[:] = trial.left
    return trial.outcome


def _arrangements(
    session: Session, job: Job, tasks: Sequence[Task], within: NodeSet | None, place: PlaceTasks
) -> Iterator[tuple[list[Task], PlaceTasks]]:
    """Yields other orders: the largest pods first, the smallest first, then each on the node that a search found."""
    largest = largest_first(session, tasks, within)
    for order in (largest, largest[::-1]):
        if any(a is not b for a, b in zip(order, tasks, strict=True)):
            yield order, place
    for chosen in selections(session, job, tasks, session.missing(job)):
        found = node_for_each(session, chosen, within)
        if found is None:
            continue
        target = {task.key: alone for task, alone in zip(chosen, found, strict=True)}

        def each_on_its_own(
            statement: Statement, left: list[Task], _: NodeSet | None, target: dict[str, NodeSet] = target
        ) -> None:
            while left and left[0].key in target:
                before = len(statement.moves)
                place(statement, left[:1], target[left[0].key])
                if len(statement.moves) == before:
                    return  # a rule that the search does not know
                del left[0]

        others = [task for task in tasks if task.key not in target]
        yield [*chosen, *others], each_on_its_own
