"""Finds nodes for tasks that are alone with their requests, without the answers for every node.

Most pods with requests of their own are asked about once. Where only few nodes are allowed, these are evaluated one by
one. Otherwise one node of each node class is evaluated, and so that NumPy is called once for several tasks, the next
tasks are evaluated together with the first. When the turn of a task comes, the nodes that have changed since then are
evaluated again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from muster.engine.core.hooks import Floats, Index
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import MoveKind, Nodes
from muster.engine.placement.answers import ColumnAnswers
from muster.engine.placement.node_classes import NodeClasses
from muster.engine.placement.single_columns import MOST

if TYPE_CHECKING:
    from muster.engine.placement.placement import Placement

Upcoming = Callable[[int], Sequence[Task]]  # so many tasks that are probably asked about next
_MOST_TOGETHER = 8  # with more, evaluating changed nodes again takes longer than is saved
_NOTHING = float("-inf")


class LoneTasks:
    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._nodes: Nodes = placement.nodes
        self._classes: NodeClasses = placement.node_classes
        self._keys: Floats = np.empty((0, 0))  # tasks × node classes, evaluated together
        self._rows: dict[ColumnAnswers, int] = {}  # which of them have not been asked about yet
        self._grouping = 0  # the grouping of the classes
        self._cursor = 0  # how long the log of changes was
        self._size = 1  # how many tasks are evaluated together: more while their turns come

    def best(self, columns: ColumnAnswers, kind: MoveKind, upcoming: Upcoming | None) -> int | None:
        """Returns the first node with the highest key, or −1 if none fits; None: ask `ColumnAnswers.key`."""
        few = columns.few
        if few is not None and len(few) <= MOST:
            return self._best_of(few.tolist(), columns, kind)
        if columns.masked or columns.asked or not columns.by_node_class:
            return None
        columns.asked = True  # a second question shows that the task is not alone
        classes = self._classes.classes()
        if classes is None:
            return None
        first, class_of = classes
        key = self._evaluated(columns, kind, class_of, len(first))
        if key is None:
            key = self._evaluate(columns, kind, first, upcoming)
        best = key.argmax()
        top = key.item(best)
        if top == _NOTHING:
            return -1
        others = (key[best + 1 :] == top).nonzero()[0]  # they have equal keys
        return first.item(best) if not len(others) else min(first.item(best), *first[best + 1 :].take(others).tolist())

    @staticmethod
    def _best_of(few: list[int], columns: ColumnAnswers, kind: MoveKind) -> int | None:
        single = columns.single()
        if single is None:
            return None
        best, top = -1, _NOTHING
        for node, key in zip(few, single.keys(few, kind), strict=True):
            if key > top:
                best, top = node, key
        return best

    def _evaluated(self, columns: ColumnAnswers, kind: MoveKind, class_of: Index, count: int) -> Floats | None:
        """Returns the key per class if the task was evaluated with an earlier one and few nodes have changed."""
        row = self._rows.get(columns)
        if row is None or kind != MoveKind.ALLOCATE or self._nodes.pipelined:
            return None
        if self._grouping != self._classes.grouping:
            return None
        changed = set(self._nodes.log[self._cursor :])
        single = columns.single() if len(changed) <= MOST else None
        if single is None:
            return None
        del self._rows[columns]
        key: Floats = self._keys[row, :count]
        for node, value in zip(changed, single.keys(changed, kind), strict=True):
            key[class_of[node]] = value  # it has a class for itself
        return key

    def _evaluate(self, columns: ColumnAnswers, kind: MoveKind, first: Index, upcoming: Upcoming | None) -> Floats:
        self._size = min(2 * self._size, _MOST_TOGETHER) if not self._rows else max(self._size // 2, 1)
        self._rows = {}
        if upcoming is None or self._size == 1 or kind != MoveKind.ALLOCATE or self._nodes.pipelined:
            return columns.evaluate(self._nodes.some(first), kind, anywhere=True)
        form = columns.form()
        others = dict.fromkeys([self._placement.answers(task).columns for task in upcoming(self._size - 1)])
        together = [columns, *(each for each in others if form is not None and not each.asked and each.form() == form)]
        if len(together) == 1:
            return columns.evaluate(self._nodes.some(first), kind, anywhere=True)
        self._keys = self._evaluate_together(together, first)
        self._rows = {each: row for row, each in enumerate(together) if row}
        self._grouping, self._cursor = self._classes.grouping, len(self._nodes.log)
        return self._keys[0, : len(first)]

    def _evaluate_together(self, tasks: Sequence[ColumnAnswers], nodes: Index) -> Floats:
        """Computes what `ColumnAnswers.evaluate` computes for each of the tasks, which are alike.

        There is more space for each task: each node that changes may get a class for itself.
        """
        one, view = tasks[0], self._nodes.some(nodes)
        needs = np.array([[amount for _, amount in each.needs] for each in tasks]).T[:, :, None]
        idle = view.rows.take([row for row, _ in one.needs], axis=0)  # the first account
        fits = np.logical_and.reduce(idle[:, None] >= needs)
        stack = self._placement.stacks.together([each.shares() for each in tasks])
        found = np.empty((len(tasks), len(nodes) + MOST))
        found[:, : len(nodes)] = np.where(fits, one.score(view, fitting=True, stack=stack), _NOTHING)
        return found
