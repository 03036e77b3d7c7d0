"""Evaluates single columns in plain Python: for few columns, calling NumPy takes many times as long as the arithmetic.

Terms offer functions for this (`NodeFilter.column_filter` or `one_node_filter`, `NodeScorer.column_score` or
`one_node_score`) that compute, bit by bit, what `filter` and `raw` compute for many columns.
"""

from __future__ import annotations

from collections.abc import Sequence

from muster.engine.core.axis import SHARED
from muster.engine.core.hooks import Bools, Floats, NodeFilter, NodeScorer
from muster.engine.core.jobs import Task
from muster.engine.core.node_hooks import ColumnFilter, ColumnScore, OneNodeFilter, OneNodeScore
from muster.engine.core.nodes import MoveKind, Nodes

MOST = 12  # columns that are evaluated one by one
_NOTHING = float("-inf")


class SingleColumns:
    """The key and the score of one node for tasks of one signature."""

    __slots__ = ("_filters", "_needs", "_node_filters", "_nodes", "_scores", "_static")

    def __init__(
        self, nodes: Nodes, needs: Sequence[tuple[int, int]], static: Bools, filters: Sequence[ColumnFilter],
        node_filters: Sequence[OneNodeFilter], scores: Sequence[tuple[ColumnScore | None, OneNodeScore | None]],
    ) -> None:  # fmt: skip
        self._nodes = nodes
        self._needs = needs
        self._static = static
        self._filters = filters
        self._node_filters = node_filters
        self._scores = scores

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
        for accepts in self._node_filters:
            if not accepts(node, kind):
                return _NOTHING
        return self._sum(node, rows, alloc, kind)

    def score(self, node: int) -> float:
        """What `ColumnAnswers.score` returns for the column."""
        nodes = self._nodes
        rows, alloc = nodes.rows[:, node].tolist(), nodes.offered[:, node].tolist()
        return self._sum(node, rows, alloc, MoveKind.ALLOCATE)

    def _sum(self, node: int, rows: list[int], alloc: list[int], kind: MoveKind) -> float:
        total: float | None = None
        for of_column, of_node in self._scores:
            if of_column is not None:
                part = of_column(rows, alloc)
            else:
                assert of_node is not None
                part = of_node(node, kind)
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
    of_node = [accepts for term in node_filters if (accepts := term.one_node_filter(task)) is not None]
    if len(filters) + len(of_node) < len(node_filters):
        return None
    scores: list[tuple[ColumnScore | None, OneNodeScore | None]] = []
    for scorer, raw in scorers:
        function = scorer.column_score(task, nodes) if raw is None else None
        score = _kept(raw) if raw is not None else scorer.one_node_score(task)
        if function is None and score is None:
            return None
        scores.append((function, score))
    return SingleColumns(nodes, needs, static, filters, of_node, scores)


def _kept(raw: Floats) -> OneNodeScore:
    """The score of answers that never change."""
    return lambda node, kind: raw.item(node)
