"""A statement: a journal of moves that can be undone exactly.

A move is what happens to equal tasks in one step: they are allocated to nodes, pipelined (promised capacity that is
still being released) or evicted. The tasks belong to one job, or to several jobs of one queue with one task each. Doing
a move changes the node columns, the tasks' status, the jobs' counts and the plugins' ledgers; undoing it is the exact
inverse, in reverse order. All of it is integers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.engine.core.jobs import Status, Task, shift_one_each
from muster.engine.core.nodes import MoveKind

if TYPE_CHECKING:
    from muster.engine.core.session import Session

_ALLOCATE, _PIPELINE, _EVICT = MoveKind.ALLOCATE, MoveKind.PIPELINE, MoveKind.EVICT  # looked up for every move
_STATUS_AFTER = {_ALLOCATE: Status.ALLOCATED, _PIPELINE: Status.PIPELINED, _EVICT: Status.RELEASING}


class Move:
    """Equal tasks (one signature, one status; one job, or one queue and one task per job) and the node of each."""

    __slots__ = ("by", "job", "kind", "nodes", "previous_status", "rule", "several_jobs", "task", "tasks", "undoes")

    def __init__(
        self, kind: MoveKind, tasks: list[Task], nodes: list[int], previous_status: Status, by: Task | None = None,
        rule: str = "", undoes: Move | None = None,
    ) -> None:  # fmt: skip
        self.kind = kind
        self.tasks = tasks
        self.nodes = nodes
        self.previous_status = previous_status
        self.by = by  # evictions: for whom
        self.rule = rule  # evictions: "reclaim" | "preempt"
        self.undoes = undoes  # withdrawals: the move that made the promise
        self.task = tasks[0]
        self.job = self.task.job
        self.several_jobs = self.job is not tasks[-1].job


class Statement:
    """The moves since the last commit; `Session.committed` and `Session.reserved` hold the earlier ones."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.moves: list[Move] = []

    def allocate(self, tasks: list[Task], nodes: list[int]) -> None:
        self._do(Move(_ALLOCATE, tasks, nodes, tasks[0].status))

    def pipeline(self, tasks: list[Task], nodes: list[int]) -> None:
        self._do(Move(_PIPELINE, tasks, nodes, tasks[0].status))

    def evict(self, task: Task, by: Task | None, rule: str) -> None:
        self._do(Move(_EVICT, [task], [task.node], task.status, by, rule))

    def withdraw(self, promise: Move, by: Task | None) -> None:
        """Take back a promise that an earlier statement committed."""
        self._do(Move(MoveKind.WITHDRAW, promise.tasks, promise.nodes, promise.previous_status, by, undoes=promise))

    def _do(self, move: Move) -> None:
        perform(self.session, move)
        self.moves.append(move)

    def checkpoint(self) -> int:
        return len(self.moves)

    def rollback(self, checkpoint: int = 0) -> None:
        """Undo every move made after the checkpoint, last first."""
        while len(self.moves) > checkpoint:
            revert(self.session, self.moves.pop())

    discard = rollback

    def commit(self) -> None:
        """Makes the moves final: allocated pods will be bound, evictions executed."""
        moves, self.moves = self.moves, []
        gone = {id(move.undoes) for move in moves if move.undoes is not None}
        if gone:
            self.session.committed[:] = [move for move in self.session.committed if id(move) not in gone]
            moves = [move for move in moves if move.undoes is None]
        self.session.committed += moves

    def keep(self) -> None:
        """Volcano: a job that is only pipelined keeps what it reserved until the cycle ends; nothing is bound."""
        self.session.reserved.extend(self.moves)
        self.moves = []

    def name_claimers(self) -> None:
        """Corrects for whom pods were evicted: those that went for a pod that was not placed went for one that was."""
        placed = [move for move in self.moves if move.kind is _PIPELINE]
        claimers = {id(task) for move in placed for task in move.tasks}
        others = [move for move in self.moves if move.by is not None and id(move.by) not in claimers]
        first_on: dict[int, Task] = {}
        for move in placed if others else ():
            for task, node in zip(move.tasks, move.nodes, strict=True):
                first_on.setdefault(node, task)
        for move in others:
            move.by = first_on.get(move.nodes[0], placed[0].task)

    def merge(self, other: Statement) -> None:
        self.moves.extend(other.moves)
        other.moves = []


def perform(session: Session, move: Move) -> None:
    if move.undoes is not None:
        revert(session, move.undoes)
        return
    kind = move.kind
    session.state.nodes.apply(move.task.shape, kind, move.nodes, 1)
    _set_status(move, _STATUS_AFTER[kind])
    if kind is _EVICT:
        for ledger in session.ledgers:
            ledger.released(move)
    else:
        for task, node in zip(move.tasks, move.nodes, strict=True):
            task.node = node
        for ledger in session.ledgers:
            ledger.allocated(move)


def revert(session: Session, move: Move) -> None:
    if move.undoes is not None:
        perform(session, move.undoes)
        return
    for ledger in reversed(session.ledgers):
        (ledger.allocated if move.kind is _EVICT else ledger.released)(move)
    _set_status(move, move.previous_status)
    if move.kind is not _EVICT:
        for task in move.tasks:
            task.node = -1
    session.state.nodes.apply(move.task.shape, move.kind, move.nodes, -1)


def _set_status(move: Move, status: Status) -> None:
    if move.several_jobs:
        shift_one_each(move.tasks, status)
    elif move.job is not None:
        move.job.shift(move.tasks, status)
    else:
        for task in move.tasks:
            task.status = status
