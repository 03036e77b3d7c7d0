"""What evictions could do for a pending pod, who is protected from them, and why a pod was evicted."""

from __future__ import annotations

from muster.actions.claims import Claims
from muster.actions.job_queue import ClaimQueue
from muster.engine.core.jobs import Job, Status, Task
from muster.engine.core.nodes import MoveKind
from muster.engine.core.session import Session
from muster.engine.core.statement import Move, Statement
from muster.engine.evictions.claim import PREEMPT, RECLAIM
from muster.sim.eviction_options.choice import Choice, EvictedPod, redone, undone
from muster.sim.eviction_options.option import OPTIONS, EvictionOption, refused, some
from muster.sim.eviction_options.search import OptionSearch, eviction_options

__all__ = ["ClaimWatch", "EvictedPod", "EvictionOption", "OPTIONS", "eviction_options"]




class ClaimWatch:
    """Records what the claims of one cycle mean for one pod."""

    def __init__(self, pod: str, limit: int = OPTIONS) -> None:
        self.pod = pod
        self.limit = limit
        self.evicted: EvictedPod | None = None
        self.options: list[EvictionOption] = []  # at the pod's last claim; without a claim, at the end of the cycle
        self._claimed = False

    def claimed(self, claims: Claims, job: Job, statement: Statement | None) -> None:
        """A claim of the cycle is solved by the statement, which is in effect, or has no solution."""
        moves = [] if statement is None else statement.moves
        mine = next((m for m in moves if m.kind == MoveKind.EVICT and m.task.key == self.pod), None)
        task = job.tasks.get(self.pod)
        if statement is not None and mine is not None:
            self.evicted = Choice(claims, statement, mine).explained(self.limit)
        elif task is not None and statement is None and task.status == Status.PENDING:
            found = eviction_options(claims.session, task, self.limit)
            self.options, self._claimed = [_missed(option, claims) for option in found], True
        elif task is not None and statement is not None and _serves(moves, task):
            self.options, self._claimed = _with_solution(claims, statement, task, self.limit), True

    def end(self, session: Session) -> None:
        """The cycle has decided everything. A pod that is placed or promised capacity needs no evictions."""
        task = session.state.tasks.get(self.pod)
        if not self._claimed and task is not None and task.status == Status.PENDING:
            self.options = self._without_claim(session, task)

    def _without_claim(self, session: Session, task: Task) -> list[EvictionOption]:
        if not session.evicts or session.volcano or task.job is None or task.job.queue is None:
            return eviction_options(session, task, self.limit)
        rules = [rule for rule in (RECLAIM, PREEMPT) if rule in session.config.actions]
        reasons = [ClaimQueue(session, rule).why_not(task.job) for rule in rules]
        if all(reasons):
            return refused(f"no claim was made: {'; '.join(dict.fromkeys(r.message() for r in reasons if r))}")
        found = eviction_options(session, task, self.limit)
        why = f"queue {task.job.queue_name} is fifo" if task.job.queue.fifo else "the group's turn did not come"
        return [_noted(option, f"no claim was made in this cycle: {why}") for option in found]


def _noted(option: EvictionOption, note: str) -> EvictionOption:
    fields = {name: getattr(option, name) for name in EvictionOption.__slots__}
    return EvictionOption(**{**fields, "text": f"{option.text}; {note}"})


def _missed(option: EvictionOption, claims: Claims) -> EvictionOption:
    """Notes on a possible option why the action, which has failed, does not choose it."""
    actions = claims.session.config.actions
    if option.possible and option.action == claims.rule:
        return _noted(option, "the search over all nodes did not find it: only small claims are searched exhaustively")
    if option.possible and actions.index(option.action) < actions.index(claims.rule):
        return _noted(option, f"{option.action} comes before {claims.rule} in a cycle")
    return option


def _serves(moves: list[Move], task: Task) -> bool:
    """Returns whether a claim with evictions promises a node to the task."""
    evicts = any(move.kind in (MoveKind.EVICT, MoveKind.WITHDRAW) for move in moves)
    return evicts and any(move.kind == MoveKind.PIPELINE and task in move.tasks for move in moves)


def _with_solution(claims: Claims, statement: Statement, task: Task, limit: int) -> list[EvictionOption]:
    """Returns the claim's own solution as the first option, and the options that it was not."""
    session = claims.session
    search = OptionSearch(session, task)
    placed = sorted({node for m in statement.moves if m.kind == MoveKind.PIPELINE for node in m.nodes})
    names = session.state.nodes.names
    moves = undone(statement)
    others = search.found(limit)
    redone(statement, moves)
    place = next((place for place in search.places if set(placed) <= set(place.index.tolist())), None)
    divided = place is not None and search.divided
    where = place.label if place is not None and divided else some([names[node] for node in placed])
    nodes = place.index.tolist() if place is not None and divided else placed
    chosen = search.solved(claims, statement, where, nodes, chosen=True)
    return [chosen, *(option for option in others if place is None or option.where != place.label)]
