"""backfill: gives nodes to pods that request nothing. Filters decide; capacity and quotas are not checked.

It serves jobs that are admitted and valid, in queue, job and task order. As in Volcano, pods that an earlier action had
pipelined are unplaced first, and once a job is ready everything it holds is bound, even what allocate only reserved.
Where plugins divide the nodes for a job, the pods that it needs for its minimum go into one node set.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cmp_to_key
from itertools import chain

from muster.actions.allocate import equal_run
from muster.engine.core.hooks import NodeSet
from muster.engine.core.jobs import Job, Status, Task
from muster.engine.core.nodes import MoveKind
from muster.engine.core.session import Session
from muster.engine.core.single_jobs import runs_of_class, single_task
from muster.engine.core.statement import Move, Statement, revert
from muster.engine.placement.answers import Answers
from muster.engine.placement.node_sets import divide_nodes
from muster.engine.placement.trace import fit_error

NAME = "backfill"
_PENDING, _PIPELINED = int(Status.PENDING), int(Status.PIPELINED)  # looked up for every job in every cycle


def run(session: Session) -> None:
    waiting = _waiting(session)
    by_queue: dict[str, list[Job]] = {}
    for job in waiting:
        by_queue.setdefault(job.queue_name, []).append(job)
    queues = [queue for name, queue in session.queues.items() if name in by_queue]
    answers: dict[int, Answers] = {}
    in_order = [session.in_job_order(by_queue[q.name]) for q in sorted(queues, key=cmp_to_key(session.queue_cmp))]
    for run in runs_of_class(list(chain.from_iterable(in_order))):
        if len(run) == 1 or not _place_singles(session, run, answers):
            for job in run:
                _place(session, job, waiting[job], answers)


def _place_singles(session: Session, jobs: Sequence[Job], answers: dict[int, Answers]) -> bool:
    """Places jobs of one class with the result of one at a time; returns False if they must be placed one by one."""
    if any(plugin.divides(jobs[0]) for plugin in session.dividers):
        return False
    statement, tasks = session.statement(), [single_task(job) for job in jobs]
    placed = 0
    while placed < len(tasks) and (more := _fill_equal(session, statement, tasks[placed:], None, answers)):
        placed += more
    if placed and not session.ready(jobs[0]):
        statement.discard()
        return False
    statement.commit()
    if left := tasks[placed:]:
        unfit = [(job, task) for job, task in zip(jobs[placed:], left, strict=True) if job.attempt.refusal is None]
        if unfit and session.turns is not None:
            session.turns.refused(session, [task for _, task in unfit])
        why = fit_error(session, left[0], with_fit=False) if unfit else ""
        for job, task in unfit:
            job.attempt.unfit[task.key] = why
    return True


def _waiting(session: Session) -> dict[Job, list[Task]]:
    """Returns the pods to place per job, in task order."""
    waiting: dict[Job, list[Task]] = {}
    for job in session.active.values():
        if not (job.best_effort_pending or job.count[_PIPELINED]) or job.is_pending or session.valid(job) is not None:
            continue
        if job.count[_PIPELINED]:
            _take_back(session, job)
        tasks = [t for t in job.tasks.values() if t.best_effort and t.status == _PENDING and not t.gated]
        if tasks:
            waiting[job] = session.in_order(tasks)
    return waiting


def _take_back(session: Session, job: Job) -> None:
    """Undoes the placement of the job's pipelined pods that request nothing."""
    kept = session.promises.kept

    def promised(move: Move) -> bool:
        return move.kind == MoveKind.PIPELINE and move.job is job and move.task.best_effort and job.key not in kept

    for moves in (session.reserved, session.committed):
        for move in filter(promised, moves):
            revert(session, move)
        moves[:] = [move for move in moves if not promised(move)]


def _place(session: Session, job: Job, tasks: list[Task], answers: dict[int, Answers]) -> None:
    statement = session.statement()
    sets = divide_nodes(session, job, tasks)
    if sets is None:
        _fill(session, statement, tasks, None, answers)
    else:
        job.attempt.divided = True
        _on_sets(session, statement, job, tasks, sets, answers)
    left = [task for task in tasks if task.node < 0]
    while left and job.attempt.refusal is None:
        equal = equal_run(session, left, 0)
        if session.turns is not None:
            session.turns.refused(session, equal)
        why = fit_error(session, equal[0], with_fit=False)
        job.attempt.unfit.update((task.key, why) for task in equal)
        del left[: len(equal)]
    if statement.moves and session.ready(job):
        statement.commit()
        _bind_reserved(session, job)
    else:
        statement.keep()


def _on_sets(
    session: Session,
    statement: Statement,
    job: Job,
    tasks: list[Task],
    sets: Sequence[NodeSet],
    answers: dict[int, Answers],
) -> None:
    """Places on the first node set that takes as many pods as the job needs for its minimum."""
    placed = sum(1 for task in job.tasks.values() if task.node >= 0)
    needed = min(max(job.min_available - placed, 1), len(tasks))
    for node_set in sets:
        _fill(session, statement, tasks, node_set, answers)
        if sum(len(move.tasks) for move in statement.moves) >= needed:
            return
        statement.discard()


def _fill(
    session: Session, statement: Statement, tasks: list[Task], within: NodeSet | None, answers: dict[int, Answers]
) -> None:
    """Places as many of the tasks as find a node, in order."""
    at = 0
    while at < len(tasks):
        equal = equal_run(session, tasks, at)
        at += _fill_equal(session, statement, equal, within, answers) or len(equal)


def _fill_equal(
    session: Session, statement: Statement, tasks: Sequence[Task], within: NodeSet | None, answers: dict[int, Answers]
) -> int:
    """Places the first of these equal tasks; returns how many. 0: no node takes them."""
    placement, signature = session.placement, session.signature(tasks[0])
    if signature not in answers or not placement.caching:
        answers[signature] = Answers(placement, tasks[0], fit=False)
    chosen = placement.choose(answers[signature], len(tasks), within, MoveKind.ALLOCATE)
    if chosen:
        placed = list(tasks[: len(chosen)])
        if session.turns is not None:
            session.turns.chosen(statement, placed, chosen, chosen, within, MoveKind.ALLOCATE)
        statement.allocate(placed, chosen)
        answers[signature].placed()
    return len(chosen)


def _bind_reserved(session: Session, job: Job) -> None:
    mine = [move for move in session.reserved if move.kind == MoveKind.ALLOCATE and move.job is job]
    if mine:
        session.committed += mine
        session.reserved[:] = [move for move in session.reserved if all(move is not m for m in mine)]
