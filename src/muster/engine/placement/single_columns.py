"""Evaluates single columns in plain Python: for few columns, calling NumPy takes many times as long as the arithmetic.

Terms offer functions for this (`NodeFilter.column_filter`, `NodeScorer.column_score`) that compute, bit by bit, what
`filter` and `raw` compute for many columns.
"""

from __future__ import annotations

from collections.abc import Sequence

from muster.engine.core.axis import SHARED
from muster.engine.core.hooks import Bools, Floats, NodeFilter, NodeScorer
from muster.engine.core.jobs import Task
from muster.engine.core.node_hooks import ColumnFilter, ColumnScore
from muster.engine.core.nodes import MoveKind, Nodes

MOST = 12  # columns that are evaluated one by one
_NOTHING = float("-inf")


class SingleColumns:
    """The key and the score of one node for tasks of one signature."""

    __slots__ = ("_filters", "_needs", "_nodes", "_scores", "_static")

    def __init__(
        self, nodes: Nodes, needs: Sequence[tuple[int, int]], static: Bools, filters: Sequence[ColumnFilter],
        scores: Sequence[tuple[ColumnScore | None, Floats | None]],
    ) -> None:  # fmt: skip
        self._nodes = nodes
        self._needs = needs
        self._static = static
        self._filters = filters
        self._scores = scores  # a function, or the answers if they never change

    def key(self, node: int, kind: MoveKind) -> float:
        """What `ColumnAnswers.evaluate` returns for the column."""
        nodes = self._nodes
        if not self._static[node]:
            return _NOTHING
        rows, alloc = nodes.rows[:, node].tolist(), nodes.offered[:, node].tolist()
        size = len(alloc)
        idle = kind == MoveKind.ALLOCATE
        future = not idle or nodes.pipelined
        for row, amount in self._needs:
            if (idle and rows[row] < amount) or (future and rows[size + row] < amount):
                return _NOTHING
        for passes in self._filters:
            if not passes(rows, alloc, kind):
                return _NOTHING
        return self._sum(node, rows, alloc)

    def score(self, node: int) -> float:
        """What `ColumnAnswers.score` returns for the column."""
        nodes = self._nodes
        return self._sum(node, nodes.rows[:, node].tolist(), nodes.offered[:, node].tolist())

    def _sum(self, node: int, rows: list[int], alloc: list[int]) -> float:
        total: float | None = None
        for function, fixed in self._scores:
            if function is not None:
                part = function(rows, alloc)
            else:
                assert fixed is not None
                part = fixed.item(node)
            total = part if total is None else total + part
        return 0.0 if total is None else total


def single_columns(
    task: Task, nodes: Nodes, needs: Sequence[tuple[int, int]], static: Bools, node_filters: Sequence[NodeFilter],
    scorers: Sequence[tuple[NodeScorer, Floats | None]],
) -> SingleColumns | None:  # fmt: skip
    """Returns None if a term has no function for single columns, or a resource shares its row with others."""
    if any(key >= SHARED for key, _ in needs):
        return None
    filters = [passes for term in node_filters if (passes := term.column_filter(task, nodes)) is not None]
    if len(filters) < len(node_filters):
        return None
    scores: list[tuple[ColumnScore | None, Floats | None]] = []
    for scorer, raw in scorers:
        function = scorer.column_score(task, nodes) if raw is None else None
        if function is None and raw is None:
            return None
        scores.append((function, raw))
    return SingleColumns(nodes, needs, static, filters, scores)
