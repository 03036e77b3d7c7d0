"""Finds nodes for tasks: filters and scores over columns, cached per signature, repaired where something changed.

Tasks of one signature share an `Answers`: which nodes take them and what each is worth. After a placement only the
changed columns are computed again, by the same code on a slice. A run of equal tasks is placed in one vector step
(`batch`); where a term's answer may change with each placement the run is cut (`hooks.Batch`).
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import numpy as np

from muster.engine.core.hooks import Batch, Bools, Floats, Index, NodeFilter, NodeScorer, NodeSet, Scope
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import MoveKind
from muster.engine.core.shares import ShareScorer, Stacks
from muster.engine.core.static import constraints
from muster.engine.placement.answers import Answers, ColumnAnswers, FilterTerm, ScoreTerm
from muster.engine.placement.batch import neighbours, picks
from muster.engine.placement.class_answers import FixedClasses
from muster.engine.placement.lone_tasks import LoneTasks, Upcoming
from muster.engine.placement.node_classes import NodeClasses
from muster.engine.placement.single_columns import ColumnLists
from muster.engine.placement.static_answers import StaticAnswers
from muster.engine.placement.task_terms import TaskTerms

if TYPE_CHECKING:
    from muster.engine.core.session import Session
    from muster.engine.core.statement import Statement
    from muster.engine.placement.turns import Turns

_ALLOCATE = MoveKind.ALLOCATE  # looked up for every run
_CACHE_BYTES = 48 << 20


class Placement:
    def __init__(self, session: Session) -> None:
        self.session = session
        self.nodes = session.state.nodes
        self.nodes.log.clear()
        self.node_classes = NodeClasses(self.nodes)
        self.column_lists = ColumnLists(self.nodes)
        self.fixed_classes = FixedClasses(len(self.nodes))
        self.stacks = Stacks()
        self._lone_tasks = LoneTasks(self)
        self.gather([], [])
        self.caching = True  # off only in tests: cache on ≡ cache off
        self._answers: OrderedDict[int, Answers] = OrderedDict()
        self._columns: WeakValueDictionary[Hashable, ColumnAnswers] = WeakValueDictionary()  # of those answers
        self._terms: WeakValueDictionary[Hashable, TaskTerms] = WeakValueDictionary()  # of those columns
        self._static: WeakValueDictionary[Hashable, StaticAnswers] = WeakValueDictionary()  # of those terms
        self._copies: dict[int, tuple[int, int]] = {}  # shape → length of the log, `most_copies` then

    def gather(self, filters: list[FilterTerm], scorers: list[ScoreTerm]) -> None:
        self.filters, self.scorers = filters, scorers
        self.node_filters = [term for _, term in filters if term.scope == Scope.NODE]
        self.cluster_filters = [term for _, term in filters if term.scope == Scope.CLUSTER]
        terms: list[NodeFilter | NodeScorer] = [*(term for _, term in filters), *(term for _, term in scorers)]
        self.cluster_terms = [term for term in terms if term.scope == Scope.CLUSTER]
        self._node_batches = [term.batch for term in terms if term.scope == Scope.NODE]
        stacking = [scorer for _, scorer in scorers if isinstance(scorer, ShareScorer) and scorer.stacked]
        self.share_scorers: dict[NodeScorer, ShareScorer] = {scorer: scorer for scorer in stacking}
        self._read_requests = [t for t in terms if t.scope == Scope.STATIC and not t.constraints_only]
        per_signature = max(1, len(self.nodes)) * (24 + 8 * len(scorers))
        self._most = max(8, _CACHE_BYTES // per_signature)

    def answers(self, task: Task) -> Answers:
        """The current answers for tasks like this one."""
        signature = self.session.signature(task)
        known = self._answers.get(signature)
        if known is None or not self.caching:
            known = self._answers[signature] = Answers(self, task)
            if len(self._answers) > self._most:
                self._answers.popitem(last=False)
        else:
            self._answers.move_to_end(signature)
        return known

    def column_answers(self, task: Task) -> ColumnAnswers:
        """Returns the part of the answers that tasks of different pod classes share."""
        signature = self.session.node_signature(task)
        known = self._columns.get(signature)
        if known is None or not self.caching:
            known = self._columns[signature] = ColumnAnswers(self, task, self.task_terms(task, signature))
        return known

    def task_terms(self, task: Task, signature: Hashable) -> TaskTerms:
        """Returns the terms that concern the task and read one node only, which tasks with different requests share.

        `signature`: see `Session.node_signature`.
        """
        key = self._static_key(task, signature), tuple([batch(task) for batch in self._node_batches])
        known = self._terms.get(key)
        if known is None or not self.caching:
            known = self._terms[key] = TaskTerms(self, task)
        return known

    def static_signature(self, task: Task) -> Hashable:
        """Tasks for which this is equal get the same answers from static terms."""
        return self._static_key(task, self.session.node_signature(task))

    def _static_key(self, task: Task, signature: Hashable) -> Hashable:
        if self._read_requests and any(term.batch(task) for term in self._read_requests):
            return signature
        return constraints(task.shape.spec), signature[1:] if isinstance(signature, tuple) else ()

    def static_answers(self, task: Task) -> StaticAnswers:
        """Returns the part of the answers that tasks with different requests share."""
        signature = self.static_signature(task)
        known = self._static.get(signature)
        if known is None or not self.caching:
            known = self._static[signature] = StaticAnswers(self, task)
        return known

    # --- placing

    def place(self, statement: Statement, tasks: Sequence[Task], within: NodeSet | None = None) -> int:
        """Allocates equal tasks in order, or pipelines them to capacity that is being released; returns how many."""
        if tasks[0].nominated:
            return self._place_nominated(statement, tasks, within)
        turns = self.session.turns
        done = self._take(statement, tasks, within, _ALLOCATE, turns)
        if done < len(tasks) and self._releasing(within):
            done += self._take(statement, tasks[done:], within, MoveKind.PIPELINE, turns)
        return done

    def allocate(self, statement: Statement, tasks: Sequence[Task], upcoming: Upcoming | None = None) -> int:
        """Allocates equal tasks in order to what is free now; returns how many. `upcoming`: see `choose`."""
        return self._take(statement, tasks, None, _ALLOCATE, self.session.turns, upcoming)

    def promise(self, statement: Statement, tasks: Sequence[Task], within: NodeSet | None = None) -> int:
        """Pipeline equal tasks, also onto what is free at once: nothing of them may be bound before the rest can."""
        return self._take(statement, tasks, within, MoveKind.PIPELINE)

    def _take(
        self, statement: Statement, tasks: Sequence[Task], within: NodeSet | None, kind: MoveKind,
        turns: Turns | None = None, upcoming: Upcoming | None = None,
    ) -> int:  # fmt: skip
        done = 0
        while done < len(tasks):
            # again for each piece: a piece may have pushed the answers out of the cache
            answers = self.answers(tasks[done])
            picks = chosen = self.choose(answers, len(tasks) - done, within, kind, upcoming)
            if not chosen:
                break
            if within is not None and within.near is not None and len(chosen) > 1:
                chosen = neighbours(chosen, within.near)
            piece = list(tasks[done : done + len(chosen)])
            if turns is not None:
                turns.chosen(statement, piece, picks, chosen, within, kind)
            if kind is _ALLOCATE:
                statement.allocate(piece, chosen)
            else:
                statement.pipeline(piece, chosen)
            answers.placed()
            done += len(chosen)
        return done

    def _place_nominated(self, statement: Statement, tasks: Sequence[Task], within: NodeSet | None) -> int:
        """Volcano: the node a pod was promised is tried alone first."""
        done = 0
        for task in tasks:
            node = self.nodes.rank.get(task.nominated, -1)
            alone = NodeSet(np.array([node])) if node >= 0 else None
            nominated, task.nominated = task.nominated, ""
            if alone is not None and (within is None or node in within.index):
                placed = self.place(statement, [task], alone)
            else:
                placed = 0
            placed = placed or self.place(statement, [task], within)
            task.nominated = nominated
            if not placed:
                break
            done += 1
        return done

    def _releasing(self, within: NodeSet | None) -> bool:
        """Returns whether pods terminate there. Otherwise a pod that cannot be allocated cannot be pipelined.

        What is free is not enough to ask: ports and the number of pods count terminating pods, too.
        """
        releasing = self.nodes.releasing
        return bool((releasing if within is None else releasing[within.index]).any())

    def choose(
        self, answers: Answers, count: int, within: NodeSet | None, kind: MoveKind, upcoming: Upcoming | None = None
    ) -> list[int]:
        """Nodes for up to `count` equal tasks, in the order one at a time would take them. Empty: no node fits.

        `upcoming` returns tasks of which some are probably next: they may be evaluated together with this one.
        """
        index = None if within is None else within.index
        ahead = answers.look_ahead
        if kind is _ALLOCATE and (within is None or within.score is None):
            if ahead.valid(count, len(self.nodes.log), index):
                return ahead.take(count)
            size = ahead.size
        else:
            size = 0
        ahead.hold([], index)  # what was computed ahead would not know of this placement
        how = answers.batch()
        if within is None and kind is _ALLOCATE and (
            how == Batch.SINGLE or (count == 1 and answers.scored_by_other_nodes)
        ):
            by_class = answers.by_class()
            if by_class is not None:
                best = by_class.best(answers.columns.key(kind))
                return [] if best < 0 else [best]
        plain = answers.read_columns_only
        if plain and count == 1 and within is None and size <= 1:
            alone = self._lone_tasks.best(answers.columns, kind, upcoming)
            if alone is not None:
                return [] if alone < 0 else [alone]
        key = answers.columns.key(kind) if plain else answers.key(kind)
        if within is not None:
            key = key[index]
            if within.score is not None:
                key = key + within.score
        extra = None if plain else self._extra(answers, key, index)
        if extra is not None:
            key = np.where(key > -np.inf, key + extra, key)
        wanted = max(count, size) if extra is None else count
        if how == Batch.SINGLE or wanted == 1:
            best = int(key.argmax()) if len(key) else 0
            if not len(key) or key[best] == -np.inf:
                return []
            return [best if index is None else int(index[best])]

        def copies(positions: Index, j: Index) -> Floats:
            at = positions if index is None else index[positions]
            scores = answers.columns.evaluate(self.nodes.hypothetical(at, answers.shape, kind, j), kind)
            if within is not None and within.score is not None:
                scores = scores + within.score[positions]
            return scores if extra is None else scores + extra[positions]

        def never(positions: Index, j: Index) -> Floats:
            return np.full(len(positions), -np.inf)

        def most(positions: Index) -> int:
            return answers.columns.most_copies(positions if index is None else index[positions], kind)

        more = never if how == Batch.ONCE else copies
        order = picks(key, wanted, more, most)
        if extra is not None and len(order) > 1:
            order = self._until_full(order, more)
        chosen: list[int] = (order if index is None else index[order]).tolist()
        ahead.hold(chosen, index)
        return ahead.take(count)

    def _extra(self, answers: Answers, key: Floats, index: Index | None) -> Floats | None:
        """What normalised terms add; None when that is the same for all candidates.

        A constant is left out of the choice on every path alike: it cannot turn the order of two nodes.
        """
        candidates: Bools | None = None
        total: Floats | None = None
        for term, raw in answers.normalised():
            if index is not None:
                raw = raw[index]
            if candidates is None:
                candidates = key > -np.inf
                if not candidates.any():
                    return None
            inside = raw[candidates]
            if inside.min() == inside.max():
                continue
            part = term.normalise(answers.task, raw, candidates)
            total = part if total is None else total + part
        return total

    @staticmethod
    def _until_full(order: Index, copies: object) -> Index:
        """Cut after the first pick that fills its node: then the candidates, and so the constants, change."""
        assert callable(copies)
        at, counts = np.unique(order, return_counts=True)
        full = copies(at, counts) == -np.inf
        if not full.any():
            return order
        last = {int(n): i for i, n in enumerate(order.tolist())}
        return order[: min(last[int(n)] for n in at[full]) + 1]

    # --- questions without placing

    def fits(self, task: Task, kind: MoveKind = MoveKind.ALLOCATE) -> Bools:
        """The nodes that would take the task now (ALLOCATE), or once what is releasing is gone (PIPELINE)."""
        return self.answers(task).key(kind) > -np.inf

    def scores(self, task: Task) -> Floats:
        """Returns the sum of all scores per node for an action that evicts: the candidates are all nodes that evictions
        could make fit.

        Terms that are the same for all candidates are left out: they cannot turn the order of two nodes.
        """
        answers = self.answers(task)
        if not answers.normalises:
            return answers.columns.scores()
        extra = self._extra(answers, np.where(self.might_fit(task), 0.0, -np.inf), None)
        scores = answers.columns.scores()
        return scores if extra is None else scores + extra

    def might_fit(self, task: Task) -> Bools:
        """The nodes that evictions could make fit: no filter refuses them for a reason that no eviction cures."""
        answers = self.answers(task)
        found = answers.curable
        view = self.nodes.everything()
        view.kind = MoveKind.PIPELINE
        for term in answers.moving_filters():
            verdict = term.filter(task, view)
            if verdict.reasons and verdict.code.any():
                found = found & verdict.resolvable
        return found

    def curable(self, task: Task, node: int) -> bool:
        """Returns whether evictions could make the node fit: no filter refuses it for a reason that evictions cannot
        cure.
        """
        answers = self.answers(task)
        if not answers.curable[node]:
            return False
        view = self.nodes.some(np.array([node]))
        view.kind = MoveKind.PIPELINE
        for term in answers.moving_filters():
            verdict = term.filter(task, view)
            refused = int(verdict.code[0])
            if refused and not verdict.reasons[refused - 1].resolvable:
                return False
        return True

    def might_ever_fit(self, task: Task) -> bool:
        """Returns whether some node could take the task if nothing ran there."""
        able = self.answers(task).curable
        for row, amount in self.nodes.axis.needs(task.shape.amounts):
            able = able & (self.nodes.alloc[row] >= amount)
        return bool(able.any())

    def most_copies(self, task: Task) -> int:
        """Returns a bound for the number of such tasks that the nodes can hold, now or once capacity is released."""
        at, most = self._copies.get(task.shape.id, (-1, 0))
        if at != len(self.nodes.log):
            rows, most = self.nodes.axis.rows, sys.maxsize
            for name, amount in task.shape.amounts.items():
                if amount > 0:
                    free = np.maximum(self.nodes.idle[rows[name]], self.nodes.future_idle[rows[name]])
                    most = min(most, int((np.maximum(free, 0) // amount).sum()))
            self._copies[task.shape.id] = len(self.nodes.log), most
        return most

    def fits_future(self, task: Task, node: int, extra: Sequence[Task] = ()) -> bool:
        """request ≤ future idle, plus what these tasks would free."""
        future_idle, rows = self.nodes.future_idle, self.nodes.axis.rows
        for name, amount in task.shape.amounts.items():
            free = int(future_idle[rows[name], node])
            for victim in extra:
                if free >= amount:
                    break
                free += victim.shape.amounts.get(name, 0)
            if free < amount:
                return False
        return True

    def may_hold(self, task: Task, node: int) -> bool:
        """Returns whether the node has the capacity once terminating pods have ended, and the node object allows the
        task.
        """
        return self.fits_future(task, node) and bool(self.answers(task).static[node])

    def accepts(self, task: Task, node: int, kind: MoveKind) -> bool:
        """Returns whether capacity and every filter allow the task on the node, now or once terminating pods have
        ended.
        """
        idle, future_idle, rows = self.nodes.idle, self.nodes.future_idle, self.nodes.axis.rows
        for name, amount in task.shape.amounts.items():
            free = future_idle[rows[name], node]
            if kind == MoveKind.ALLOCATE:
                free = min(free, idle[rows[name], node])
            if amount > 0 and free < amount:
                return False
        return self.passes(task, node, kind)

    def passes(self, task: Task, node: int, kind: MoveKind = MoveKind.PIPELINE) -> bool:
        """Returns whether all filters (without the resource fit) allow the task on this node after the evictions."""
        answers = self.answers(task)
        if not answers.static[node]:
            return False
        view = self.nodes.some(np.array([node]))
        view.kind = kind
        return all(term.filter(task, view).code[0] == 0 for term in answers.moving_filters())
