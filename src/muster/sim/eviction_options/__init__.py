"""What evictions could do for a pending pod, who is protected from them, and why a pod was evicted."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from muster.actions.claims import Claims
from muster.actions.job_queue import ClaimQueue
from muster.engine.core.hooks import QueueShares
from muster.engine.core.jobs import Job, Queue, Status, Task
from muster.engine.core.nodes import MoveKind
from muster.engine.core.session import Session
from muster.engine.core.statement import Move, Statement, perform
from muster.engine.evictions.claim import PREEMPT, RECLAIM, Claim, Unit
from muster.model.quantity import display
from muster.sim.eviction_options.option import MAX_OPTIONS, EvictionOption, refused, some
from muster.sim.eviction_options.search import OptionSearch, eviction_options

__all__ = ["ClaimWatch", "EvictedPod", "EvictionOption", "MAX_OPTIONS", "eviction_options"]


class ClaimWatch:
    """Records what the claims of one cycle mean for one pod."""

    def __init__(self, pod: str, limit: int = MAX_OPTIONS) -> None:
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


@dataclass(frozen=True, slots=True)
class EvictedPod:
    """For whom a pod was evicted, by which action and rule, and why this pod was chosen."""

    by: str
    action: str
    rule: str  # "priority" | "queue-share"
    node: str
    why: str

    def to_dict(self, cycle: int) -> dict[str, object]:
        plain = asdict(self)
        return {"for": plain.pop("by"), **plain, "cycle": cycle}


def undone(statement: Statement) -> list[Move]:
    """Takes the statement's moves out of effect; `redone` repeats them."""
    moves = list(statement.moves)
    statement.rollback()
    return moves


def redone(statement: Statement, moves: list[Move]) -> None:
    for move in moves:
        perform(statement.session, move)
    statement.moves.extend(moves)


class Choice:
    """Why a claim evicts this pod and no other."""

    def __init__(self, claims: Claims, statement: Statement, move: Move) -> None:
        assert claims.solution is not None
        self.claims = claims
        self.session = claims.session
        self.evicting = claims.solution
        self.claim: Claim = claims.solution.claim
        self.statement = statement
        self.move = move
        self.names = self.session.state.nodes.names
        self.node = self.names[move.nodes[0]]
        self.placed = sorted({n for m in statement.moves if m.kind == MoveKind.PIPELINE for n in m.nodes})
        self.unit = next(u for u in self.evicting.taken(statement) if move.task in u.tasks)

    def explained(self, limit: int) -> EvictedPod:
        taken = self.evicting.taken(self.statement)
        cost = self.evicting.costs.of(taken, self.claim.tasks[0], 1)
        moves = undone(self.statement)
        why = [self._permitted(), self._unit_text(), self._comparison_text(taken), self._nodes(cost, limit)]
        redone(self.statement, moves)
        by = self.move.by.key if self.move.by is not None else ""
        rule = "queue-share" if self.move.rule == RECLAIM else "priority"
        return EvictedPod(by, self.move.rule, rule, self.node, "; ".join(part for part in why if part))

    def _permitted(self) -> str:
        """Returns the inequality that makes the pod a possible victim."""
        if self.move.rule != RECLAIM:
            return f"priority {self.move.task.priority} is lower than {self.claim.pod_priority}"
        queue = self.unit.job.queue
        assert queue is not None
        text = self._shares(queue)
        return text or f"queue {queue.name} may be reclaimed from"

    def _shares(self, queue: Queue) -> str:
        shares = next(iter(self.session.flat(QueueShares)), None)
        deserved = {} if shares is None else shares.deserved().get(queue.name, {})
        used = next((used for used, _ in self.session.usage(queue)), {})
        parts = [
            f"has {display(n, used.get(n, 0))} {n} and deserves {display(n, deserved[n])}"
            for n in self.claim.request
            if n in deserved and used.get(n, 0) > deserved[n]
        ]
        return f"queue {queue.name} {', '.join(parts)}" if parts else ""

    def _unit_text(self) -> str:
        unit = self.unit
        if not unit.whole or len(unit.tasks) == 1:
            return ""
        return f"gang {unit.job.shown} is evicted as a whole ({len(unit.tasks)} pods)"

    def _comparison_text(self, taken: list[Unit]) -> str:
        """Returns how the pod's unit compares with the units on its node that stay, by the order of the search."""
        gone = {task.key for unit in taken for task in unit.tasks}
        on = self.move.nodes[0]
        if on not in self.placed:
            alone = len(self.unit.tasks) == 1
            return f"queue {self.claim.queue.name} would exceed its limit without this eviction" if alone else ""
        here = [u for u in self.evicting.units_on(on) if self.claims.units.protected(self.claim, u) is None]
        pods = {task.key for unit in here for task in unit.tasks if task.node == on}
        others = [u for u in here if not gone & {task.key for task in u.tasks}]
        if not others:
            only = f"it is the only pod that may be evicted on {self.node}"
            return only if len(pods) == 1 else f"all {len(pods)} pods that may be evicted on {self.node} are needed"
        count = f"of {len(pods)} pods that may be evicted on {self.node}"
        best = min(others, key=lambda unit: unit.cost)
        mine = self.unit.cost
        if mine > best.cost:
            less = "does not free enough" if not self._enough(best) else "would make the victims as a whole cost more"
            return f"{best.tasks[0].key} would go first, but {less}"
        size = f"smallest unit ({len(self.unit.tasks)} pods)"
        texts = (f"lowest priority ({self.unit.priority})", size, "surplus of its gang", "newest")
        for text, cost, other in zip(texts, mine, best.cost, strict=True):
            if cost < other:
                return f"{text} {count}"
        return f"last by name {count}" if self._enough(best) else f"it frees more than others {count}"

    def _enough(self, unit: Unit) -> bool:
        """Returns whether the unit alone would free enough for a pod of the claim on the node."""
        trial = self.session.statement()
        self.evicting.evict(trial, unit, self.claim.tasks[0])
        enough = any(self.evicting.enough(task, self.move.nodes[0]) for task in self.claim.tasks)
        trial.discard()
        return enough

    def _nodes(self, cost: tuple[float, ...], limit: int) -> str:
        """Returns how the victims compare with those on the other nodes."""
        task = self.claim.tasks[0]
        options = [o for o in OptionSearch(self.session, task).found(limit) if o.possible]
        node = self.names[self.placed[0]]
        others = [o for o in options if o.where != node and o.action == self.move.rule]
        if len(self.claim.tasks) > 1 or not others:
            return ""
        best = others[0]
        count = f"{node} costs least of {len(others) + 1} nodes"
        if cost[0] < best.cost[0]:
            return f"{count}: on {best.where} a pod of priority {best.cost[0]:.0f} would go"
        if cost[1] < best.cost[1]:
            return f"{count}: on {best.where} {len(best.victims)} pods would go"
        if cost[2] < best.cost[2]:
            return f"{count}: on {best.where} a whole gang would go"
        if cost[3] < best.cost[3]:
            return f"{count}: on {best.where} an older pod would go"
        return f"{node} has the best score of {len(others) + 1} nodes of equal cost" if cost == best.cost else ""
