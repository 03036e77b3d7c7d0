"""What static filters and scores answer for a task: it does not change within a cycle.

Tasks that differ only in their requests share these answers, if all static terms that concern them say that they do not
read requests (`constraints_only`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from muster.engine.core.hooks import Batch, Bools, Floats, Index, NodeFilter, NodeScorer, Scope, Verdict
from muster.engine.core.jobs import Task

if TYPE_CHECKING:
    from muster.engine.placement.placement import Placement

_FEW = 8  # with fewer than one in so many nodes left by static filters, only these are read


class StaticAnswers:
    def __init__(self, placement: Placement, task: Task) -> None:
        nodes = placement.nodes
        self.batch = Batch.COLUMNS  # the strictest of the terms
        self.allowed: Bools = np.ones(len(nodes), np.bool_)  # the nodes that no static filter refuses
        self.curable: Bools = self.allowed  # the nodes that no static filter refuses for an unresolvable reason
        self.masked = False  # does a static filter refuse any node?
        view = nodes.everything()
        for _, term in placement.filters:
            if term.scope == Scope.STATIC and self._concerns(term, task):
                self._exclude(term.filter(task, view))
        self.few = few_of(self.allowed) if self.masked else None  # the allowed nodes, if they are few
        # In the order of the configuration. Only static scores have answers; those that change no order are left out.
        self.scores: list[tuple[NodeScorer, Floats | None]] = []
        self.normalised: list[tuple[NodeScorer, Floats | None]] = []  # these and the scores of scope CLUSTER
        for _, scorer in placement.scorers:
            raw: Floats | None = None
            if scorer.scope == Scope.STATIC:
                if not self._concerns(scorer, task) or scorer.flat(task, view):
                    continue
                raw = scorer.raw(task, view)
                if _changes_no_order(raw, scorer.normalised):
                    continue
            # The normalise of a term of scope CLUSTER may be the identity; its answers are never cached.
            normalised = scorer.normalised or scorer.scope == Scope.CLUSTER
            (self.normalised if normalised else self.scores).append((scorer, raw))

    def _concerns(self, term: NodeFilter | NodeScorer, task: Task) -> bool:
        how = term.batch(task)
        self.batch = max(self.batch, how)
        return how != Batch.SKIP

    def _exclude(self, verdict: Verdict) -> None:
        if verdict.reasons and verdict.code.any():
            self.masked = True
            self.allowed = self.allowed & verdict.fits
            self.curable = self.curable & verdict.resolvable


def few_of(allowed: Bools) -> Index | None:
    """Returns the nodes if they are few."""
    return allowed.nonzero()[0] if _FEW * np.count_nonzero(allowed) <= len(allowed) else None


def _changes_no_order(raw: Floats, normalised: bool) -> bool:
    """Whether the scores are zeros, or (where constants are taken over the candidates) the same everywhere."""
    return bool(len(raw)) and bool(raw.min() == raw.max() and (normalised or raw[0] == 0.0))
