"""The cached answers of all filters and scores for tasks of one signature, kept current from the log of changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from muster.engine.core.hooks import Batch, Bools, Floats, NodeFilter, NodeScorer, Scope
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import Kind, NodeView
from muster.engine.core.static import columns

if TYPE_CHECKING:
    from muster.engine.core.placement import Placement

FilterTerm = tuple[str, NodeFilter]  # plugin's name, term
ScoreTerm = tuple[str, NodeScorer]
_NOTHING = float("-inf")
_FEW = 4  # changed nodes whose scores are looked up one by one
_MOST_COLUMNS = 4096


class Ahead:
    """Picks computed beyond what was asked, handed out as long as nothing else changes the columns.

    Whether that pays shows by itself: the number grows while the same signature comes again and again, and falls to
    nothing where others come in between.
    """

    __slots__ = ("_log", "_next", "_picks", "size")

    def __init__(self) -> None:
        self._picks: list[int] = []
        self._next = 0
        self._log = -1  # how long the log of changes was after the last placement of this signature
        self.size = 0

    def hold(self, picks: list[int]) -> None:
        self._picks, self._next = picks, 0

    def take(self, count: int, log: int) -> list[int]:
        """The next picks, if they are still right; otherwise none, and `size` says how many to compute."""
        alone = log == self._log
        if not alone:
            self._picks = []
        left = len(self._picks) - self._next
        if left >= count and left:
            taken = self._picks[self._next : self._next + count]
            self._next += count
            return taken
        if self._log >= 0:
            self.size = min(max(self.size * 4, 16), 256) if alone else self.size // 4
        return []

    def placed(self, log: int) -> None:
        self._log = log


class Answers:
    def __init__(self, placement: Placement, task: Task, *, fit: bool = True) -> None:
        """Without `fit` the filters alone decide: requests are not held against what is free (backfill)."""
        self.task = task
        self.shape = task.shape
        self.nodes = placement.nodes
        self.ahead = Ahead()
        rows = self.nodes.axis.rows
        self._needs = sorted((rows[name], amount) for name, amount in task.shape.amounts.items() if fit and amount > 0)
        view = self.nodes.everything()
        self.static: Bools = np.ones(len(self.nodes), np.bool_)
        self.curable: Bools = self.static
        self._masked = False  # does a static filter refuse any node?
        self._node_filters: list[NodeFilter] = []
        self._cluster_filters: list[NodeFilter] = []
        self._fixed_batch = Batch.COLUMNS
        for _, term in placement.filters:
            if term.scope == Scope.CLUSTER:
                self._cluster_filters.append(term)
                continue
            how = term.batch(task)
            if how == Batch.SKIP:
                continue
            self._fixed_batch = max(self._fixed_batch, how)
            if term.scope == Scope.STATIC:
                verdict = term.filter(task, view)
                if verdict.reasons and verdict.code.any():
                    self._masked = True
                    self.static = self.static & verdict.fits
                    cured = np.array([True, *(r.resolvable for r in verdict.reasons)], np.bool_)
                    self.curable = self.curable & cured[verdict.code]
            else:
                self._node_filters.append(term)
        self._scores: list[tuple[NodeScorer, Floats | None]] = []  # (term, its answers where they never change)
        self._normalised: list[tuple[NodeScorer, Floats | None]] = []
        self._cluster_scores = False
        for _, scorer in placement.scorers:
            if scorer.scope == Scope.CLUSTER:
                self._normalised.append((scorer, None))  # never cached; its normalise may be the identity
                self._cluster_scores = True
                continue
            into = self._normalised if scorer.normalised else self._scores
            how = scorer.batch(task)
            if how == Batch.SKIP:
                continue
            self._fixed_batch = max(self._fixed_batch, how)
            raw: Floats | None = None
            if scorer.scope == Scope.STATIC:
                if scorer.flat(task, view):
                    continue
                raw = scorer.raw(task, view)
                if _says_nothing(raw, scorer.normalised):
                    continue
            into.append((scorer, raw))
        self._keys: dict[Kind, Floats] = {}
        self._cursor: dict[Kind, int] = {}
        self._all_scores: Floats | None = None
        self._scores_cursor = 0
        self._by_column: dict[bytes, float] = {}  # scores of nodes by their columns
        terms: list[NodeFilter | NodeScorer] = [*self._node_filters, *(scorer for scorer, _ in self._scores)]
        of_columns = all(term.columns_only for term in terms) and all(raw is None for _, raw in self._scores)
        self._node_classes = placement.node_classes if of_columns and placement.caching else None

    # --- current answers

    def batch(self) -> Batch:
        """How a run of such tasks may be placed now; terms that look at the whole cluster are asked each time."""
        how = self._fixed_batch
        for term in self._cluster_filters:
            how = max(how, term.batch(self.task))
        if self._cluster_scores:
            for scorer, _ in self._normalised:
                if scorer.scope == Scope.CLUSTER:
                    how = max(how, scorer.batch(self.task))
        return how

    def moving_filters(self) -> Iterator[NodeFilter]:
        """The filters that bear on the task now and whose answers may change within a cycle."""
        yield from self._node_filters
        for term in self._cluster_filters:
            if term.batch(self.task) != Batch.SKIP:
                yield term

    def placed(self) -> None:
        self.ahead.placed(len(self.nodes.log))

    def key(self, kind: Kind) -> Floats:
        """Per node: the sum of the scores that are not normalised, or −inf where the task does not fit."""
        log = self.nodes.log
        key = self._keys.get(kind)
        if key is None:
            key = self._keys[kind] = self._of_all(kind)
        else:
            since = log[self._cursor[kind] :]
            if since:
                changed = np.array(list(set(since)), np.int64)
                if 3 * len(changed) > len(key):
                    key = self._keys[kind] = self._of_all(kind)
                else:
                    key[changed] = self.evaluate(self.nodes.some(changed), kind)
        self._cursor[kind] = len(log)
        for term in self._cluster_filters:
            if term.batch(self.task) != Batch.SKIP:
                view = self.nodes.everything()
                view.kind = kind
                fits = term.filter(self.task, view).fits
                key = np.where(fits, key, _NOTHING)
        return key

    def scores(self) -> Floats:
        """Per node the sum of the scores that are not normalised, whether the task fits there or not."""
        log = self.nodes.log
        if self._all_scores is None:
            self._all_scores = self.score(self.nodes.everything())
        else:
            changed = set(log[self._scores_cursor :])
            if self._node_classes is not None and len(changed) <= _FEW:
                for node in changed:
                    self._all_scores[node] = self._score_of(node)
            elif changed:
                index = np.array(list(changed), np.int64)
                self._all_scores[index] = self.score(self.nodes.some(index))
        self._scores_cursor = len(log)
        return self._all_scores

    def _score_of(self, node: int) -> float:
        """The score of one node. Evictions followed by placements often lead to columns that were there before."""
        nodes = self.nodes
        column = nodes.rows[:, node].tobytes() + nodes.alloc[:, node].tobytes()
        found = self._by_column.get(column)
        if found is None:
            if len(self._by_column) >= _MOST_COLUMNS:
                self._by_column.clear()
            found = self._by_column[column] = float(self.score(nodes.some(np.array([node])))[0])
        return found

    def _of_all(self, kind: Kind) -> Floats:
        """Evaluates all nodes; where all terms read columns only, once per node class."""
        classes = None if self._node_classes is None else self._node_classes.classes()
        if classes is None:
            return self.evaluate(self.nodes.everything(), kind)
        representative, class_of = classes
        key: Floats = self.evaluate(self.nodes.some(representative), kind, anywhere=True)[class_of]
        if self._masked:
            key[~self.static] = _NOTHING
        return key

    def evaluate(self, view: NodeView, kind: Kind, *, anywhere: bool = False) -> Floats:
        """Fit, filters and scores of these columns (terms that look at the whole cluster are not in it).

        `anywhere`: leave out the static filters.
        """
        view.kind = kind
        fits: Bools = np.ones(len(view), np.bool_) if anywhere else columns(self.static, view, own=True)
        account = view.idle if kind == Kind.ALLOCATE else view.future_idle
        for row, amount in self._needs:
            fits &= account[row] >= amount
        if kind == Kind.ALLOCATE and self.nodes.promised:
            # Volcano: a node must fit by its future idle first, which pods pipelined to it lower.
            future = view.future_idle
            for row, amount in self._needs:
                fits &= future[row] >= amount
        for term in self._node_filters:
            fits &= term.filter(self.task, view).code == 0
        return np.where(fits, self.score(view), _NOTHING)

    def score(self, view: NodeView) -> Floats:
        """The sum, in configuration order, of the scores that are not normalised."""
        total: Floats | None = None
        for scorer, raw in self._scores:
            part = columns(raw, view) if raw is not None else scorer.raw(self.task, view)
            total = part if total is None else total + part
        return np.zeros(len(view)) if total is None else total

    @property
    def normalises(self) -> bool:
        """Is any term of the scores not in the key?"""
        return any(raw is not None or scorer.batch(self.task) != Batch.SKIP for scorer, raw in self._normalised)

    def normalised(self) -> Iterator[tuple[NodeScorer, Floats]]:
        """The terms that are not in the key (constants taken over the candidates, or a look at the whole cluster)."""
        for scorer, raw in self._normalised:
            if raw is None:
                if scorer.batch(self.task) == Batch.SKIP:
                    continue
                raw = scorer.raw(self.task, self.nodes.everything())
            yield scorer, raw


def _says_nothing(raw: Floats, normalised: bool) -> bool:
    """Zeros, or (where constants are taken over the candidates anyway) the same everywhere: no order turns on it."""
    return bool(len(raw)) and bool(raw.min() == raw.max() and (normalised or raw[0] == 0.0))
