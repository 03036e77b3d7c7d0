"""A score term with a weight. A weight of 0 switches the term off; explain still shows it, as 0."""

from __future__ import annotations

from muster.engine.core.hooks import Batch, NodeScorer
from muster.engine.core.jobs import Task


class Weighted(NodeScorer):
    def __init__(self, weight: int) -> None:
        self.weight = weight

    def concerns(self, task: Task) -> bool:
        """Returns whether the term scores this task."""
        return True

    def span(self) -> float:
        return abs(100.0 * self.weight)  # each term is 0 to 100

    def batch(self, task: Task) -> Batch:
        return NodeScorer.batch(self, task) if self.weight and self.concerns(task) else Batch.SKIP
