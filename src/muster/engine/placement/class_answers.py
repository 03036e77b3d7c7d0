"""Scores nodes per node class, for terms whose answers depend on pods on other nodes.

After each placement such a term may answer differently for every node: the zone has one more pod, the largest count has
grown. But most nodes are of a few classes, such as "zone a, one pod of the Deployment on it", and the term treats all
nodes of a class alike (`ClassKey`). The terms are therefore asked about one node of each class, with their own code,
and only if something that they depend on has changed. A placement changes the class of one node.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from muster.engine.core.hooks import Bools, Floats, Index, NodeFilter, NodeScorer
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import Nodes
from muster.engine.core.values import ClassKey, NodeCounts

if TYPE_CHECKING:
    from muster.engine.placement.answers import Answers

_MAX_FIXED = 1024  # with more combinations of domains, evaluating every node is as fast
_MAX_CLASSES = 4096
_MAX_REPAIRS = 64  # changed nodes that are looked up one by one
_NOTHING = float("-inf")


class FixedClasses:
    """The part of the classes that does not change within a cycle: combinations of domains, as numbers from 0."""

    def __init__(self, node_count: int) -> None:
        self._count = node_count
        self._known: dict[tuple[int, ...], tuple[tuple[Index, ...], Index, list[int], int] | None] = {}

    def of(self, codes: Sequence[Index]) -> tuple[Index, list[int], int] | None:
        """Returns the numbers as an array and as a list, and how many there are; None: too many."""
        distinct = {id(each): each for each in codes}
        found = self._known.get(tuple(distinct), self)
        if found is self:
            joint, size = np.zeros(self._count, np.int64), 1
            for each in distinct.values():
                least = int(each.min()) if len(each) else 0
                width = (int(each.max()) if len(each) else 0) - least + 1
                joint, size = _compress(joint * width + (each - least), size * width)
            # The arrays are kept, or another one might get the id of one of them.
            kept = (tuple(distinct.values()), joint, joint.tolist(), size)
            found = self._known[tuple(distinct)] = None if size > _MAX_FIXED else kept
        assert not isinstance(found, FixedClasses)
        return None if found is None else found[1:]


def _compress(numbers: Index, size: int) -> tuple[Index, int]:
    """Returns numbers from 0 without gaps that are equal where these are, and how many there are."""
    if size > 4 * len(numbers) + 64:
        known, at = np.unique(numbers, return_inverse=True)
        return at.reshape(-1), len(known)
    used = np.bincount(numbers, minlength=1) > 0
    return (np.cumsum(used) - 1)[numbers], int(np.count_nonzero(used))


class ClassAnswers:
    """The answers of all terms for the tasks of one signature that are allocated, on all nodes."""

    def __init__(
        self, answers: Answers, fixed_classes: FixedClasses, filters: Sequence[NodeFilter],
        scorers: Sequence[NodeScorer], class_keys: Sequence[ClassKey],
    ) -> None:  # fmt: skip
        self._task = answers.task
        self._nodes: Nodes = answers.nodes
        self._filters = filters
        self._scorers = scorers
        self._generations = [each.generation for each in class_keys if each.generation is not None]
        self._counts: list[NodeCounts] = list({id(c): c for each in class_keys for c in each.counts}.values())
        fixed = fixed_classes.of([codes for each in class_keys for codes in each.codes])
        self.usable = fixed is not None
        if fixed is not None:
            self._fixed, self._fixed_list, self._fixed_count = fixed
        self._cursor = -1  # how much of the log of changes is known; −1: nothing
        self._classes: dict[tuple[int, ...], int] = {}
        self._generation: Hashable = None
        self._table: Floats = np.empty(0)  # the score of each class; −inf: refused
        self._scores: list[float] = []  # the same as a list
        self._changes = 0  # grows when a class gains its first candidate or loses its last, or a node becomes one

    def best(self, key: Floats) -> int:
        """Returns the first node with the highest score; −1: none fits. `key`: the answers without these terms."""
        if not len(key):
            return -1
        log = self._nodes.log
        changed = set(log[self._cursor :]) if self._cursor >= 0 else set()
        if self._cursor < 0 or len(changed) > _MAX_REPAIRS or len(self._classes) > _MAX_CLASSES:
            self._divide(key)
            stale = True
        else:
            for node in changed:
                self._move(node, bool(key[node] > _NOTHING))
            stale = False
        self._cursor = len(log)
        if self._refresh() or stale:
            self._total: Floats = key + self._table.take(self._class_of)
        else:
            table, node_class, total = self._scores, self._class_of, self._total
            for node in changed:
                total[node] = key[node] + table[node_class[node]]
        best = int(self._total.argmax())
        return best if self._total[best] > _NOTHING else -1

    # --- the class of each node

    def _divide(self, key: Floats) -> None:
        """Finds the class of every node."""
        numbers, size = self._fixed, self._fixed_count
        parts = [self._fixed]
        for count in self._counts:
            if count.empty:
                parts.append(np.zeros(len(numbers), np.int64))
                continue
            own = count.per_node()
            least, most = int(own.min()), int(own.max())
            numbers, size = _compress(numbers * (most - least + 1) + (own - least), size * (most - least + 1))
            parts.append(own)
        self._class_of: Index = numbers if numbers is not self._fixed else numbers.copy()
        self._is_candidate: Bools = key > _NOTHING
        self._sizes: list[int] = np.bincount(self._class_of[self._is_candidate], minlength=size).tolist()
        representative = np.zeros(size, np.int64)
        representative[self._class_of] = np.arange(len(self._class_of))
        self._representative: list[int] = representative.tolist()
        identities = zip(*(part[representative].tolist() for part in parts), strict=True)
        self._classes = {identity: node_class for node_class, identity in enumerate(identities)}
        self._scores = []
        self._generation = None

    def _move(self, node: int, candidate: bool) -> None:
        """Finds the class of a changed node, and counts it there if it is a candidate."""
        identity = (self._fixed_list[node], *[count.on(node) for count in self._counts])
        new = self._classes.get(identity)
        if new is None:
            new = self._classes[identity] = len(self._classes)
            self._sizes.append(0)
            self._representative.append(node)
            self._changes += 1
        old, sizes = int(self._class_of[node]), self._sizes
        was = bool(self._is_candidate[node])
        if was != candidate:
            self._changes += 1
            self._is_candidate[node] = candidate
        if was:
            sizes[old] -= 1
            self._changes += sizes[old] == 0
        if candidate:
            self._changes += sizes[new] == 0
            sizes[new] += 1
        self._class_of[node] = new

    # --- the score of each class

    def _refresh(self) -> bool:
        """Computes the scores of the classes again if something has changed; returns whether a score has."""
        sizes = self._sizes
        generation = (
            self._changes,
            tuple([ask() for ask in self._generations]),
            tuple(sizes) if self._filters and self._scorers else None,  # a filter may refuse some of the candidates
        )
        if generation == self._generation:
            return False
        self._generation = generation
        present = [node_class for node_class, count in enumerate(sizes) if count]
        scores = [_NOTHING] * len(sizes)
        if present:
            for node_class, score in zip(present, self._evaluate(present), strict=True):
                scores[node_class] = score
        if scores == self._scores:
            return False
        self._scores, self._table = scores, np.array(scores)
        return True

    def _evaluate(self, present: list[int]) -> list[float]:
        """Asks the terms about one node of each of these classes."""
        task: Task = self._task
        view = self._nodes.some(np.array([self._member(node_class) for node_class in present]))
        candidates: Index = np.array([self._sizes[node_class] for node_class in present])
        for term in self._filters:
            candidates[term.filter(task, view).code > 0] = 0
        at = candidates > 0
        if not at.any():
            return [_NOTHING] * len(present)
        total: Floats = np.zeros(len(present))
        first = True
        for scorer in self._scorers:
            raw = scorer.raw(task, view)
            inside = raw[at]
            if inside.min() == inside.max():
                continue
            part = scorer.normalise_classes(task, raw, candidates)
            total, first = part if first else total + part, False
        total = np.where(at, total, _NOTHING)
        scores: list[float] = total.tolist()
        return scores

    def _member(self, node_class: int) -> int:
        node = self._representative[node_class]
        if self._class_of[node] != node_class:
            # The last one: among equal nodes the first is taken next, and leaves the class.
            node = self._representative[node_class] = int(np.flatnonzero(self._class_of == node_class)[-1])
        return node
