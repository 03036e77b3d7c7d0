"""The terms that concern a task and read one node only, in the form in which its answers need them.

Which terms these are depends on the static answers and on how each term of scope NODE may be batched. Tasks for which
all this is equal share one `TaskTerms`, however much each of them requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.engine.core.hooks import Batch, NodeFilter, NodeScorer, Scope
from muster.engine.core.jobs import Task
from muster.engine.core.shares import ShareScorer

if TYPE_CHECKING:
    from muster.engine.placement.placement import Placement


class TaskTerms:
    def __init__(self, placement: Placement, task: Task) -> None:
        answers = self.static_answers = placement.static_answers(task)  # kept alive by this reference
        self.batch = answers.batch  # the strictest of the terms that are not asked about it each time
        self.filters = [term for term in placement.node_filters if self._concerns(term, task)]
        # Without those that refuse only nodes without enough capacity.
        self.filters_beyond_capacity = [term for term in self.filters if not term.capacity]
        # (term, its answers if they never change)
        self.scores = [each for each in answers.scores if each[1] is not None or self._concerns(each[0], task)]
        self.normalised = answers.normalised
        for scorer, raw in self.normalised:
            if raw is None and scorer.scope == Scope.NODE:
                self._concerns(scorer, task)
        # Per score, the term if its score is computed from shares.
        self.share_scorers: list[ShareScorer | None] = [placement.share_scorers.get(term) for term, _ in self.scores]
        # Do nodes with equal columns have equal keys, static filters apart?
        columns_only = all(term.columns_only and raw is None for term, raw in self.scores)
        self.columns_only = columns_only and all(term.columns_only for term in self.filters)

    def _concerns(self, term: NodeFilter | NodeScorer, task: Task) -> bool:
        """Returns whether the term reads anything of the task; if so, its way of batching counts."""
        how = term.batch(task)
        self.batch = max(self.batch, how)
        return how != Batch.SKIP
