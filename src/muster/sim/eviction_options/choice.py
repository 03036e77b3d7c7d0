"""Why a claim evicted this pod and no other, by the order and the costs of its search."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from muster.actions.claims import Claims
from muster.engine.core.hooks import QueueShares
from muster.engine.core.jobs import Queue
from muster.engine.core.nodes import MoveKind
from muster.engine.core.statement import Move, Statement, perform
from muster.engine.evictions.claim import RECLAIM, Claim, Unit
from muster.model.quantity import display
from muster.sim.eviction_options.search import OptionSearch


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
        why = [self._permitted(), self._alone_or_whole(), self._among(taken), self._nodes(cost, limit)]
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

    def _alone_or_whole(self) -> str:
        unit = self.unit
        if not unit.whole or len(unit.tasks) == 1:
            return ""
        return f"gang {unit.job.shown} is evicted as a whole ({len(unit.tasks)} pods)"

    def _among(self, taken: list[Unit]) -> str:
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
