"""Evaluates single columns in plain Python: for few columns, calling NumPy takes many times as long as the arithmetic.

Terms offer functions for this (`NodeFilter.one_node_filter`, `NodeScorer.one_node_score`) that compute, bit by bit,
what `filter` and `raw` compute for many columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from muster.engine.core.axis import SHARED, Rows
from muster.engine.core.hooks import Bools, Floats, NodeFilter, NodeScorer
from muster.engine.core.jobs import Task
from muster.engine.core.node_hooks import OneNodeFilter, OneNodeScore
from muster.engine.core.nodes import MoveKind, Nodes

MOST = 16  # columns that are evaluated one by one
_ALLOCATE = MoveKind.ALLOCATE
_NOTHING = float("-inf")


class ColumnLists:
    """The columns of single nodes as lists, kept until the node changes: tasks of many signatures read them."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._cursor = 0
        self._rows: Rows | None = None  # the matrix that the lists are of
        self._lists: dict[int, tuple[list[int], list[int]]] = {}

    def current(self) -> dict[int, tuple[list[int], list[int]]]:
        """Returns the known lists, by node."""
        nodes, lists = self._nodes, self._lists
        if nodes.rows is not self._rows:
            self._rows = nodes.rows
            lists.clear()
        for node in nodes.log[self._cursor :]:
            lists.pop(node, None)
        self._cursor = len(nodes.log)
        return lists

    def read(self, node: int) -> tuple[list[int], list[int]]:
        found = self._lists[node] = self._nodes.rows[:, node].tolist(), self._nodes.offered[:, node].tolist()
        return found


class SingleColumns:
    """The key and the score of single nodes for tasks of one signature."""

    __slots__ = ("_capacity_filters", "_filters", "_lists", "_needs", "_nodes", "_scores", "version")

    def __init__(
        self, nodes: Nodes, lists: ColumnLists, needs: Sequence[tuple[int, int]], filters: Sequence[OneNodeFilter],
        capacity_filters: Sequence[OneNodeFilter], scores: Sequence[OneNodeScore],
    ) -> None:  # fmt: skip
        """`needs`: rows and amounts; `capacity_filters`: see `ColumnAnswers.evaluate`."""
        self._nodes = nodes
        self._lists = lists
        self._needs = needs
        self._filters = filters
        self._capacity_filters = capacity_filters
        self._scores = scores
        self.version = nodes.axis.version  # of the rows for which the functions were made

    def keys(self, nodes: Iterable[int], kind: MoveKind) -> list[float]:
        """Returns what `ColumnAnswers.evaluate` returns for these columns, static filters apart."""
        lists = self._lists.current()
        found: list[float] = []
        for node in nodes:
            rows, alloc = lists.get(node) or self._lists.read(node)
            passes = self._passes(node, rows, alloc, kind)
            found.append(self._sum(node, rows, alloc, kind) if passes else _NOTHING)
        return found

    def write_keys(self, changed: Iterable[int], kind: MoveKind, key: Floats, static: Bools | None) -> None:
        """Writes what `ColumnAnswers.evaluate` returns for these columns. `static`: None if all nodes pass."""
        lists = self._lists.current()
        for node in changed:
            if static is not None and not static[node]:
                key[node] = _NOTHING
            else:
                rows, alloc = lists.get(node) or self._lists.read(node)
                passes = self._passes(node, rows, alloc, kind)
                key[node] = self._sum(node, rows, alloc, kind) if passes else _NOTHING

    def write_scores(self, changed: Iterable[int], scores: Floats) -> None:
        """Writes what `ColumnAnswers.score` returns for these columns."""
        lists = self._lists.current()
        for node in changed:
            rows, alloc = lists.get(node) or self._lists.read(node)
            scores[node] = self._sum(node, rows, alloc, _ALLOCATE)

    def _passes(self, node: int, rows: list[int], alloc: list[int], kind: MoveKind) -> bool:
        size, now, pipelined = self._nodes.axis.size, kind is _ALLOCATE, self._nodes.pipelined
        for row, amount in self._needs:
            if (now and rows[row] < amount) or ((pipelined or not now) and rows[size + row] < amount):
                return False
        for passes in self._filters:
            if not passes(node, rows, alloc, kind):
                return False
        return not (now and pipelined) or all(passes(node, rows, alloc, kind) for passes in self._capacity_filters)

    def _sum(self, node: int, rows: list[int], alloc: list[int], kind: MoveKind) -> float:
        total = -0.0  # added to the first part, it changes nothing
        for score in self._scores:
            total += score(node, rows, alloc, kind)
        return total


def single_columns(
    task: Task, nodes: Nodes, lists: ColumnLists, needs: Sequence[tuple[int, int]],
    node_filters: Sequence[NodeFilter], scorers: Sequence[tuple[NodeScorer, Floats | None]],
) -> SingleColumns | None:  # fmt: skip
    """Returns None if a term has no function for single nodes.

    Only nodes that offer the needed resources may be asked about: other nodes have other resources in shared rows.
    """
    rows = needs
    if needs and needs[-1][0] >= SHARED:
        rows = [(row, amount) for key, amount in needs if (row := nodes.axis.place(key)) is not None]
        if len(rows) < len(needs):
            return None  # no node has the resource
    filters: list[OneNodeFilter] = []
    capacity_filters: list[OneNodeFilter] = []
    for term in node_filters:
        passes = term.one_node_filter(task, nodes)
        if passes is None:
            return None
        (capacity_filters if needs and term.capacity else filters).append(passes)
    scores: list[OneNodeScore] = []
    for scorer, raw in scorers:
        score = scorer.one_node_score(task, nodes) if raw is None else _kept(raw)
        if score is None:
            return None
        scores.append(score)
    return SingleColumns(nodes, lists, rows, filters, capacity_filters, scores)


def _kept(raw: Floats) -> OneNodeScore:
    """Returns the score of answers that never change."""
    return lambda node, rows, alloc, kind: raw.item(node)
