"""Caches the answers of all filters and scores for tasks of one signature, and repairs them from the log of changes."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from muster.engine.core.axis import SHARED
from muster.engine.core.hooks import Batch, Bools, Floats, Index, NodeFilter, NodeScorer
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import MoveKind, Nodes, NodeView
from muster.engine.core.shares import Share, ShareStack
from muster.engine.core.static import columns
from muster.engine.placement.class_answers import ClassAnswers
from muster.engine.placement.single_columns import MOST, SingleColumns, single_columns
from muster.engine.placement.task_terms import TaskTerms

if TYPE_CHECKING:
    from muster.engine.placement.placement import Placement

FilterTerm = tuple[str, NodeFilter]  # plugin's name, term
ScoreTerm = tuple[str, NodeScorer]
_NOTHING = float("-inf")
_MOST_AHEAD = 1024  # nodes that are chosen in advance


class LookAhead:
    """Nodes chosen in advance for the next tasks of the signature, valid while nothing else changes the columns.

    They are of all nodes, or of those of one `index`. The number chosen in advance grows while tasks of one signature
    follow each other, and falls to zero while tasks of other signatures come in between.
    """

    __slots__ = ("_index", "_log", "_next", "_picks", "size")

    def __init__(self) -> None:
        self._picks: list[int] = []
        self._next = 0
        self._index: Index | None = None
        self._log = -1  # how long the log of changes was after the last placement of this signature
        self.size = 0

    def hold(self, picks: list[int], index: Index | None) -> None:
        """Keeps picks, of which `take` returns the first."""
        self._picks, self._next, self._index = picks, 0, index

    def take(self, count: int) -> list[int]:
        taken = self._picks[self._next : self._next + count]
        self._next += count
        return taken

    def valid(self, count: int, log: int, index: Index | None) -> bool:
        """Returns whether the next nodes are still valid; if not, `size` is how many to choose."""
        alone, same = log == self._log, index is self._index
        left = len(self._picks) - self._next
        if alone and same and left >= count:
            return True
        if alone and same:
            self.size = min(max(self.size * 4, 16), _MOST_AHEAD)
        elif not alone or left > self._next:  # more were chosen in vain than not
            self.size //= 4
        return False

    def placed(self, log: int) -> None:
        self._log = log


class ColumnAnswers:
    """What all filters and scores that read one node only answer; shared by tasks that differ in their pod class."""

    def __init__(self, placement: Placement, task: Task, terms: TaskTerms, *, fit: bool = True) -> None:
        """Without `fit` only the filters decide: requests are not compared with what is free (backfill)."""
        self.task = task
        self.shape = task.shape
        self.nodes: Nodes = placement.nodes
        self.terms = terms
        self.needs = self.nodes.axis.needs(task.shape.amounts) if fit else []
        self._least: Index | None = None
        self._static: Bools | None = terms.static_answers.allowed
        self.curable = terms.static_answers.curable
        self.masked, self.few = terms.static_answers.masked, terms.static_answers.few
        if self.needs and self.needs[-1][0] >= SHARED:
            self._exclude_without_offer()
        self._further_filters = terms.filters_beyond_capacity if fit else terms.filters
        # Per score, the shares that it is computed from.
        self._shares = [() if each is None else each.shares(task, self.nodes) for each in terms.share_scorers]
        self._stacks = placement.stacks
        self._stack: ShareStack | None = None

        self.asked = False  # has the best node been asked for?
        self._keys: dict[MoveKind, Floats] = {}
        self._cursor: dict[MoveKind, int] = {}
        self._all_scores: Floats | None = None
        self._scores_cursor = 0
        self._column_lists = placement.column_lists
        self._asked_single = not placement.caching
        self._single_columns: SingleColumns | None = None
        self._node_classes = placement.node_classes if placement.caching and terms.columns_only else None

    @property
    def static(self) -> Bools:
        """The nodes that no static filter refuses and that offer each resource that few nodes have."""
        if self._static is None:
            self._static = np.zeros(len(self.nodes), np.bool_)
            self._static[self.few] = True
        return self._static

    @property
    def scored_by_columns(self) -> bool:
        """Whether a node whose columns are as before has the score that it had, normalised terms apart."""
        return all(raw is not None or term.columns_only for term, raw in self.terms.scores)

    @property
    def by_node_class(self) -> bool:
        """Whether nodes with equal columns have equal keys, static filters apart."""
        return self._node_classes is not None

    def _exclude_without_offer(self) -> None:
        """Excludes the nodes that do not offer a resource that few nodes have: their rows have other resources."""
        nodes, axis = self.nodes, self.nodes.axis
        for key, amount in self.needs:
            if key >= SHARED:
                offering = nodes.holders(axis.name(key))
                if (row := axis.place(key)) is not None:
                    offering = offering[(nodes.offered[row, offering] >= amount) & self.static[offering]]
                self.masked, self.few, self._static = True, offering, None

    # --- current answers

    def key(self, kind: MoveKind) -> Floats:
        """Returns per node the sum of the scores that are not normalised, or −inf where the task does not fit.

        Terms of scope CLUSTER are left out. The array is shared and must not be modified.
        """
        log = self.nodes.log
        key = self._keys.get(kind)
        if key is None:
            key = self._keys[kind] = self._of_all(kind)
        else:
            since = set(log[self._cursor[kind] :])
            if len(since) <= MOST and (single := self.single()) is not None:
                single.write_keys(since, kind, key, self.static if self.masked else None)
            elif 3 * len(since) > len(key):
                key = self._keys[kind] = self._of_all(kind)
            elif since:
                changed = np.array(list(since), np.int64)
                key[changed] = self.evaluate(self.nodes.some(changed), kind)
        self._cursor[kind] = len(log)
        return key

    def scores(self) -> Floats:
        """Returns per node the sum of the scores that are not normalised, whether the task fits there or not."""
        log = self.nodes.log
        if self._all_scores is None:
            self._all_scores = self.score(self.nodes.everything())
        else:
            changed = set(log[self._scores_cursor :])
            if len(changed) <= MOST and (single := self.single()) is not None:
                single.write_scores(changed, self._all_scores)
            elif changed:
                index = np.array(list(changed), np.int64)
                self._all_scores[index] = self.score(self.nodes.some(index))
        self._scores_cursor = len(log)
        return self._all_scores

    def single(self) -> SingleColumns | None:
        """Returns how to evaluate few columns; None: as many columns."""
        found = self._single_columns
        if not self._asked_single or (found is not None and found.version != self.nodes.axis.version):
            self._asked_single = True
            found = self._single_columns = single_columns(
                self.task, self.nodes, self._column_lists, self.needs, self.terms.filters, self.terms.scores
            )
        return found

    def most_copies(self, index: Index, kind: MoveKind) -> int:
        """Returns a bound of the number of such tasks that any of these nodes can take by what is free there."""
        most, size = sys.maxsize, self.nodes.axis.size
        for key, amount in self.needs:
            if most > 1 and key < SHARED:
                free = self.nodes.free[key if kind == MoveKind.ALLOCATE else size + key]
                most = min(most, int(np.maximum.reduce(free.take(index))) // amount)
        return most

    def _of_all(self, kind: MoveKind) -> Floats:
        """Evaluates all nodes; where all terms read columns only, once per node class.

        Where static filters leave few nodes, the others are not read at all.
        """
        if self.few is not None:
            key = np.full(len(self.nodes), _NOTHING)
            key[self.few] = self.evaluate(self.nodes.some(self.few), kind, anywhere=True)
            return key
        classes = None if self._node_classes is None else self._node_classes.classes()
        if classes is None:
            return self.evaluate(self.nodes.everything(), kind)
        representative, class_of = classes
        key = self.evaluate(self.nodes.some(representative), kind, anywhere=True)[class_of]
        if self.masked:
            key[~self.static] = _NOTHING
        return key

    def evaluate(self, view: NodeView, kind: MoveKind, *, anywhere: bool = False) -> Floats:
        """Evaluates fit, filters and scores of these columns, without terms of scope CLUSTER.

        `anywhere`: leave out the static filters.
        """
        view.kind = kind
        fits: Bools | None = None if anywhere or not self.masked else columns(self.static, view)
        now, pipelined = kind == MoveKind.ALLOCATE, self.nodes.pipelined
        # Volcano: a node must fit by its future idle first, which pods pipelined to it lower.
        for account in ([view.idle] if now else []) + ([view.future_idle] if pipelined or not now else []):
            if len(least := self._needs_of_first_rows()):
                enough = np.logical_and.reduce(account[: len(least)] >= least)
                fits = enough if fits is None else fits & enough
                continue
            for row, amount in self.needs:
                enough = account[row] >= amount
                fits = enough if fits is None else fits & enough
        filters = self.terms.filters if now and pipelined else self._further_filters
        at = view.index if fits is None else fits.nonzero()[0]
        if fits is None or 2 * len(at) > len(view):
            key = self._filtered(view, filters)
            if fits is not None and len(at) < len(view):
                key[~fits] = _NOTHING
            return key
        key = np.full(len(view), _NOTHING)
        if len(at):  # the other columns need no further answers
            key[at] = self._filtered(view.part(at), filters)
        return key

    def _needs_of_first_rows(self) -> Index:
        """Returns the amounts if it needs just the first resources (cpu, memory and pods), else nothing."""
        if self._least is None:
            firsts = all(row == at for at, (row, _) in enumerate(self.needs))
            self._least = np.array([amount for _, amount in self.needs] if firsts else [], np.int64).reshape(-1, 1)
        return self._least

    def _filtered(self, view: NodeView, filters: Sequence[NodeFilter]) -> Floats:
        """Evaluates filters and scores of columns with enough capacity."""
        fits: Bools | None = None
        for term in filters:
            passed = term.filter(self.task, view).code == 0
            fits = passed if fits is None else fits & passed
        if fits is not None and not fits.any():
            return np.full(len(view), _NOTHING)
        score = self.score(view, fitting=bool(self.needs) and view.kind == MoveKind.ALLOCATE)
        return score if fits is None else np.where(fits, score, _NOTHING)

    def score(self, view: NodeView, *, fitting: bool = False, stack: ShareStack | None = None) -> Floats:
        """Returns the sum, in configuration order, of the scores that are not normalised, in a new array.

        `fitting`: see `ShareScorer.of_shares`; `stack`: of several tasks, if all scores are computed from shares.
        """
        total: Floats | None = None
        if stack is None:
            stack = self._stack = self._stack or self._stacks.stack(self.shares())
        shares = stack.of(view)
        terms, at = self.terms, 0
        for (scorer, raw), of_shares, own in zip(terms.scores, terms.share_scorers, self._shares, strict=True):
            if of_shares is not None:
                score = of_shares.of_shares(self.task, shares[at : at + len(own)], view, fitting=fitting)
                at += len(own)
            else:
                score = columns(raw, view) if raw is not None else scorer.raw(self.task, view)
                score = score.copy() if total is None else score  # it may be kept by the scorer
            total = score if total is None else total + score
        return np.zeros(len(view)) if total is None else total

    def shares(self) -> list[Share]:
        """Returns the shares that scores are computed from."""
        return [share for own in self._shares for share in own]

    def form(self) -> Hashable | None:
        """If the key depends only on fit and shares, returns what it depends on besides the amounts that are requested.
        """
        if self.masked or not self.needs or self._further_filters or None in self.terms.share_scorers:
            return None
        ratios = tuple([ratio for own in self._shares for ratio, _ in own])
        return (self.terms, ratios, *[row for row, _ in self.needs]) if ratios else None


class Answers:
    """What all filters and scores answer for the tasks of one signature."""

    def __init__(self, placement: Placement, task: Task, *, fit: bool = True) -> None:
        """`fit`: see `ColumnAnswers`."""
        self.task = task
        self.shape = task.shape
        self.nodes: Nodes = placement.nodes
        self.look_ahead = LookAhead()
        if fit:
            self.columns = placement.column_answers(task)
        else:
            terms = placement.task_terms(task, placement.session.node_signature(task))
            self.columns = ColumnAnswers(placement, task, terms, fit=False)
        self.curable = self.columns.curable
        self.placement = placement
        self._cluster_terms = placement.cluster_terms
        self._concerned: list[int] = []  # the positions of the terms of scope CLUSTER that concern the task
        self._classified: tuple[int, ...] | None = None
        self._by_class: ClassAnswers | None = None

    @property
    def static(self) -> Bools:
        return self.columns.static

    def batch(self) -> Batch:
        """Returns how a run of such tasks may be placed now; terms of scope CLUSTER are asked each time."""
        how = self.columns.terms.batch
        task = self.task
        concerned: list[int] = []
        for i, term in enumerate(self._cluster_terms):
            if own := term.batch(task):
                concerned.append(i)
                if own > how:
                    how = own
        self._concerned = concerned
        return how

    @property
    def read_columns_only(self) -> bool:
        """Returns whether the key decides alone: no term of scope CLUSTER concerns the task, as `batch` found, and no
        score is normalised.
        """
        cluster_scorers = len(self._cluster_terms) - len(self.placement.cluster_filters)
        return not self._concerned and len(self.columns.terms.normalised) == cluster_scorers

    @property
    def scored_by_other_nodes(self) -> bool:
        """Returns whether a score of scope CLUSTER concerns the task, as `batch` found."""
        return bool(self._concerned) and self._concerned[-1] >= len(self.placement.cluster_filters)

    def by_class(self) -> ClassAnswers | None:
        """Returns the answers per node class with the terms that concern the task, as `batch` found, if possible."""
        concerned = tuple(self._concerned)
        if self._classified != concerned:
            self._classified = concerned
            self._by_class = self._classify(concerned)
        return self._by_class

    def _classify(self, concerned: Sequence[int]) -> ClassAnswers | None:
        terms = [self._cluster_terms[i] for i in concerned]
        if not self.placement.caching or any(raw is not None for _, raw in self.columns.terms.normalised):
            return None
        class_keys = [found for term in terms if (found := term.class_key(self.task)) is not None]
        if not terms or len(class_keys) < len(terms):
            return None
        filters = [term for term in terms if isinstance(term, NodeFilter)]
        scorers = [term for term in terms if isinstance(term, NodeScorer)]
        made = ClassAnswers(self, self.placement.fixed_classes, filters, scorers, class_keys)
        return made if made.usable else None

    def moving_filters(self) -> Iterator[NodeFilter]:
        """Yields the filters that concern the task now and whose answers may change within a cycle."""
        yield from self.columns.terms.filters
        for term in self.placement.cluster_filters:
            if term.batch(self.task) != Batch.SKIP:
                yield term

    def placed(self) -> None:
        self.look_ahead.placed(len(self.nodes.log))

    def key(self, kind: MoveKind) -> Floats:
        """Returns per node the sum of the scores that are not normalised, or −inf where the task does not fit."""
        key = self.columns.key(kind)
        for term in self.placement.cluster_filters:
            if term.batch(self.task) != Batch.SKIP:
                view = self.nodes.everything()
                view.kind = kind
                fits = term.filter(self.task, view).fits
                key = np.where(fits, key, _NOTHING)
        return key

    @property
    def normalises(self) -> bool:
        """Returns whether a score term is not part of the key."""
        normalised = self.columns.terms.normalised
        return any(raw is not None or scorer.batch(self.task) != Batch.SKIP for scorer, raw in normalised)

    def normalised(self) -> Iterator[tuple[NodeScorer, Floats]]:
        """Yields the terms that are not part of the key: normalised terms and terms of scope CLUSTER."""
        for scorer, raw in self.columns.terms.normalised:
            if raw is None:
                if scorer.batch(self.task) == Batch.SKIP:
                    continue
                raw = scorer.raw(self.task, self.nodes.everything())
            yield scorer, raw
