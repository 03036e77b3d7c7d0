"""Records when a pod's turn comes in a cycle, so that `explain` can look at the cluster at that moment.

Cycles are deterministic: a first run notes the turns of some pods by their numbers, and a second run, which decides the
same, calls a function at the numbers of interest. A cycle that nobody observes has no `Turns`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from muster.engine.core.hooks import NodeSet
from muster.engine.core.jobs import Job, Status, Task
from muster.engine.core.nodes import MoveKind
from muster.engine.core.statement import Statement, perform, revert

if TYPE_CHECKING:
    from muster.engine.core.session import Session

END = 0  # the number of the end of a cycle


class TurnKind(IntEnum):
    END = 0  # the end of the cycle: the pod's turn did not come
    JOB = 1  # node sets are tried for the pod's job
    CHOSEN = 2  # a node was chosen by score
    ASSIGNED = 3  # the node was known: an earlier cycle promised it, or a search found it
    REFUSED = 4  # no node takes the pod, or its queue does not admit it
    CLAIM = 5  # evictions are considered for the pod's job


class Turn(Struct, frozen=True):
    """The moment of a turn: nothing of what the turn decides has happened yet."""

    kind: TurnKind
    task: Task
    within: NodeSet | None = None  # CHOSEN: the nodes that were compared; None: all nodes
    move: MoveKind = MoveKind.ALLOCATE  # CHOSEN and ASSIGNED


Look = Callable[["Session", Turn], None]


class ClaimObserver(Protocol):
    """Observes the claims of a cycle; what it tries must be undone when it returns."""

    def claimed(self, claims: Any, job: Job, statement: Statement | None) -> None:
        """A claim of the job is solved (the statement is in effect and not committed yet), or has no solution."""
        ...

    def end(self, session: Session) -> None:
        """Everything is decided, and nothing is undone yet."""
        ...


class Turns:
    """The turns of one cycle. `looks`: number of a turn → pod, function to call."""

    def __init__(
        self,
        wanted: Callable[[Task], bool],
        looks: Mapping[int, tuple[str, Look]] | None = None,
        claims: ClaimObserver | None = None,
    ) -> None:
        self._wanted = wanted
        self._claims = claims
        self._looks = looks or {}
        self._count = END
        self.numbers: dict[str, dict[TurnKind, int]] = {}  # pod → kind → number of its last turn of that kind

    def job(self, session: Session, tasks: Sequence[Task]) -> None:
        self._at_once(session, TurnKind.JOB, tasks)

    def refused(self, session: Session, tasks: Sequence[Task]) -> None:
        self._at_once(session, TurnKind.REFUSED, tasks)

    def claim(self, session: Session, tasks: Sequence[Task]) -> None:
        self._at_once(session, TurnKind.CLAIM, tasks)

    def claimed(self, session: Session, claims: object, job: Job, statement: Statement | None) -> None:
        if self._claims is not None:
            session.turns = None  # what the observer tries is no turn
            self._claims.claimed(claims, job, statement)
            session.turns = self

    def chosen(
        self,
        statement: Statement,
        tasks: Sequence[Task],
        picks: Sequence[int],
        nodes: Sequence[int],
        within: NodeSet | None,
        move: MoveKind,
    ) -> None:
        """Equal tasks are about to be placed on `nodes`, which were picked one by one in the order of `picks`.

        A task's turn is the moment of the pick of its node; the picks before it count as placed.
        """
        task = self._next(TurnKind.CHOSEN, tasks)
        if task is None:
            return
        at = tasks.index(task)
        nth = list(nodes[: at + 1]).count(nodes[at])
        before = [i for i, node in enumerate(picks) if node == nodes[at]][nth - 1]
        others = [other for other in tasks if other is not task][:before]
        trial = statement.session.statement()
        if others and move == MoveKind.ALLOCATE:
            trial.allocate(others, list(picks[:before]))
        elif others:
            trial.pipeline(others, list(picks[:before]))
        self._look(statement.session, Turn(TurnKind.CHOSEN, task, within, move))
        trial.discard()

    def assigned(self, statement: Statement) -> None:
        """The statement has placed tasks on nodes that were known. A task's turn is the moment before its move."""
        session = statement.session
        moves = [m for m in statement.moves if m.kind in (MoveKind.ALLOCATE, MoveKind.PIPELINE)]
        task = self._next(TurnKind.ASSIGNED, [task for move in moves for task in move.tasks])
        if task is None:
            return
        at = next(i for i, move in enumerate(statement.moves) if task in move.tasks)
        for move in reversed(statement.moves[at:]):
            revert(session, move)
        self._look(session, Turn(TurnKind.ASSIGNED, task, move=statement.moves[at].kind))
        for move in statement.moves[at:]:
            perform(session, move)

    def end(self, session: Session) -> None:
        """Everything is decided, and nothing is undone yet."""
        if self._claims is not None:
            session.turns = None
            self._claims.end(session)
            session.turns = self
        if END in self._looks:
            task = session.state.tasks.get(self._looks[END][0])
            if task is not None:
                self._look(session, Turn(TurnKind.END, task), END)

    def _at_once(self, session: Session, kind: TurnKind, tasks: Sequence[Task]) -> None:
        task = self._next(kind, tasks)
        if task is not None:
            self._look(session, Turn(kind, task))

    def _next(self, kind: TurnKind, tasks: Sequence[Task]) -> Task | None:
        """Counts a turn of these tasks; returns the task for which there is something to look at."""
        self._count += 1
        target = self._looks.get(self._count)
        for task in tasks:
            if self._wanted(task):
                self.numbers.setdefault(task.key, {})[kind] = self._count
        return None if target is None else next((task for task in tasks if task.key == target[0]), None)

    def _look(self, session: Session, turn: Turn, number: int | None = None) -> None:
        look = self._looks[self._count if number is None else number][1]
        session.turns = None  # what the function tries is no turn
        look(session, turn)
        session.turns = self


def placed_so_far(session: Session) -> int:
    """Returns how many pods have got a node in this cycle, without those that earlier cycles promised one."""
    kept = session.promises.kept
    earlier = sum(len(pods) for key, pods in kept.items() if key not in session.promises.made)
    count = sum(job.count[Status.ALLOCATED] + job.count[Status.PIPELINED] for job in session.jobs.values())
    return max(count - earlier, 0)
