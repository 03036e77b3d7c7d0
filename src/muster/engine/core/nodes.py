"""Nodes as columns: one int64 matrix whose rows are the resources of five accounts, whose columns are the nodes.

The accounts are idle, future idle (idle + releasing − pipelined), used, load and nonzero. `used` is Volcano's: a pod
that is being evicted still counts, a pipelined one does not yet. `load` is kube-scheduler's NodeInfo as Volcano's
event handlers keep it: pipelined pods count, pods evicted in this cycle do not. `nonzero` is load's cpu and memory
with kube-scheduler's defaults for containers that request nothing. A move of a pod is one delta over all rows, so
doing and undoing are one addition and one subtraction of integers.

The rows of the accounts are those of `Axis`: resources that few nodes have share rows. `Nodes` and `NodeView` give each
account as an `Account`, which is read by a resource's key.

A node's index is the rank of its name: the first maximum is the tie-break by name. Every change is appended to a log,
from which cached answers learn which columns to compute again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from operator import attrgetter
from typing import cast

import numpy as np
from numpy.typing import NDArray

from muster.engine.core.allocatable import allocatable_of, equal_offers, oversubscribed
from muster.engine.core.axis import Account, Axis, Rows, Vector
from muster.engine.core.jobs import Shape, Status, Task
from muster.engine.core.label_columns import LabelColumns
from muster.engine.core.resources import exact_sum, exact_sums
from muster.model.core import Node

_FEW = 8  # columns that are changed one by one: for more, one call over all of them is faster


class MoveKind(IntEnum):
    """How a task comes to (or leaves) a node, inside a cycle."""

    __hash__ = int.__hash__  # Enum's is a function in Python

    ALLOCATE = 0
    PIPELINE = 1
    EVICT = 2
    WITHDRAW = 3  # an earlier promise is withdrawn


_PIPELINE, _EVICT = MoveKind.PIPELINE, MoveKind.EVICT
# What a move adds to idle, future idle, used and load: so many times the request.
_SIGNS = {MoveKind.ALLOCATE: (-1, -1, 1, 1), MoveKind.PIPELINE: (0, -1, 0, 1), MoveKind.EVICT: (0, 1, 0, -1)}


class NodeView:
    """Columns of some nodes, or of hypothetical nodes. `index[c]` is the node of column c.

    `kind`: may the task be placed at once (ALLOCATE), or when the terminating pods are gone (PIPELINE)?
    """

    __slots__ = ("_size", "index", "kind", "nodes", "offered", "rows")

    def __init__(self, nodes: Nodes, index: NDArray[np.int64], rows: Rows, offered: Rows) -> None:
        self.nodes = nodes
        self.index = index
        self.rows = rows
        self.offered = offered  # what `alloc` reads, row by row
        self.kind = MoveKind.ALLOCATE
        self._size = nodes.axis.size

    def __len__(self) -> int:
        return len(self.index)

    def part(self, columns: NDArray[np.int64]) -> NodeView:
        """Returns the view of these columns."""
        index, rows, offered = self.index[columns], self.rows.take(columns, axis=1), self.offered.take(columns, axis=1)
        part = NodeView(self.nodes, index, rows, offered)
        part.kind = self.kind
        return part

    @property
    def alloc(self) -> Account:
        return self.account(self.offered)

    @property
    def idle(self) -> Account:
        return self.account(self.rows[: self._size])

    @property
    def future_idle(self) -> Account:
        return self.account(self.rows[self._size : 2 * self._size])

    @property
    def used(self) -> Account:
        return self.account(self.rows[2 * self._size : 3 * self._size])

    @property
    def load(self) -> Account:
        return self.account(self.rows[3 * self._size : 4 * self._size])

    @property
    def nonzero(self) -> Rows:
        """Returns two rows: cpu and memory."""
        return self.rows[4 * self._size :]

    def account(self, matrix: Rows) -> Account:
        """Amounts of the axis' rows × the view's columns, to be read by a resource's key."""
        axis = self.nodes.axis
        return Account(matrix, axis, self._holding) if axis.sharing else cast(Account, matrix)

    def _holding(self, name: str) -> Vector:
        """Returns the columns of nodes that have a resource that shares a row."""
        holders = self.nodes.holders(name)
        if self.index is self.nodes.all_nodes or not len(holders):
            return holders
        at = np.searchsorted(holders, self.index)
        at[at == len(holders)] = 0
        return np.flatnonzero(holders[at] == self.index)


class Nodes:
    def __init__(self, axis: Axis, objects: Iterable[Node]) -> None:
        self.axis = axis
        self.objects: list[Node] = sorted(objects, key=attrgetter("metadata.name"))
        self.names: list[str] = [n.metadata.name for n in self.objects]
        self.rank: dict[str, int] = {name: i for i, name in enumerate(self.names)}
        self.on: list[dict[str, Task]] = [{} for _ in self.objects]
        self.log: list[int] = []
        self.pipelined = 0  # tasks pipelined in this cycle
        self.releasing = np.zeros(len(self.objects), np.int64)  # per node: tasks that are terminating or evicted
        self.totals: tuple[tuple[int, int], dict[str, int]] | None = None  # kept by `resources.total_of`
        self.version = 0  # grows when a node object changes; static answers are void then
        # per node: grows when the node or its pods change outside a cycle
        self.changes = np.zeros(len(self.objects), np.int64)
        # Per node: which resources that share rows it has; equal numbers mean the same resources.
        self.marks = np.zeros(len(self.objects), np.int64)
        self._marks: dict[tuple[int, str], int] = {}
        self._holders: dict[str, Vector] = {}
        runs = list(equal_offers(self.objects))
        self._lay(runs)
        self.offered: Rows = np.empty((axis.size, len(self.objects)), np.int64)  # what `alloc` reads, row by row
        at = 0
        for amounts_, count in runs:
            self.offered[:, at : at + count] = axis.vector(amounts_)[:, None]
            at += count
        self.oversubscribed: Rows | None = None  # the oversubscribed part of alloc: cpu and memory × nodes
        for i, node in enumerate(self.objects):
            if node.metadata.annotations:
                self._set_oversubscribed(i, node)
        self._use(np.zeros((4 * axis.size + 2, len(self.objects)), np.int64))
        self.rows[: axis.size] = self.rows[axis.size : 2 * axis.size] = self.offered
        self.labels = LabelColumns([n.metadata.labels or {} for n in self.objects])
        self.all_nodes = np.arange(len(self.objects))

    def __len__(self) -> int:
        return len(self.names)

    def _lay(self, runs: Iterable[tuple[Mapping[str, int], int]]) -> None:
        """Gives resources their rows: those on many nodes before the others, which then know who is common.

        `runs`: what nodes offer, and how many nodes in sequence offer it.
        """
        offering: dict[str, list[str]] = {}
        at = 0
        for amounts_, count in runs:
            for name in amounts_:
                offering.setdefault(name, []).extend(self.names[at : at + count])
            at += count
        for name, some in offering.items():
            if self.axis.common(len(some), len(self.names)):
                self.axis.own(name)
        for name, some in offering.items():
            self.axis.hold(name, some)
        for name, holders in self.axis.holders.items():
            self._mark(name, holders)

    def _mark(self, name: str, nodes: Iterable[str]) -> None:
        self._holders.pop(name, None)
        for node in nodes:
            i = self.rank.get(node, -1)
            if i >= 0:
                self.marks[i] = self._marks.setdefault((int(self.marks[i]), name), len(self._marks) + 1)

    def _use(self, rows: Rows) -> None:
        self.rows = rows
        self.free = rows[: 2 * len(self.offered)]  # idle, then future idle

    # --- resources that share rows

    def holders(self, name: str) -> Vector:
        """Returns the nodes that have a resource that shares a row, in order."""
        found = self._holders.get(name)
        if found is None:
            rank = self.rank
            known = sorted([rank[node] for node in self.axis.holders.get(name, ()) if node in rank])
            found = self._holders[name] = np.array(known, np.int64)
        return found

    def _hold(self, names: Iterable[str], nodes: Iterable[int]) -> None:
        """Reserves rows for resources on these nodes, before amounts of them are written there."""
        axis = self.axis
        for name in names:
            before, was = axis.place(axis.row(name)), self.holders(name)
            if not (new := axis.hold(name, [self.names[node] for node in nodes])):
                continue
            self._mark(name, new)
            self.grow()
            now = axis.place(axis.rows[name])
            if before is not None and now is not None and now != before:
                self._move(before, now, was)

    def _move(self, before: int, now: int, nodes: Vector) -> None:
        """Moves the amounts of a resource on these nodes to another row."""
        size = len(self.offered)
        for rows in (self.offered, *(self.rows[i * size : (i + 1) * size] for i in range(4))):
            rows[now, nodes] = rows[before, nodes]
            rows[before, nodes] = 0

    def amounts(self, rows: Rows, node: int) -> dict[str, int]:
        """Returns the amounts that an account's rows have of a node, by resource."""
        column = rows[:, node].tolist()
        return {name: column[row] for row, name in self.axis.resources(self.names[node])}

    def sums(self, rows: Rows) -> dict[str, int]:
        """Returns the sums of an account's rows over all nodes, by resource."""
        by_row, axis, found = exact_sums(rows), self.axis, {}
        for name, key in axis.rows.items():
            row = axis.place(key)
            if row == key:
                found[name] = by_row[row]
            else:
                found[name] = 0 if row is None else exact_sum(rows[row, self.holders(name)])
        return found

    # --- views

    def everything(self) -> NodeView:
        return NodeView(self, self.all_nodes, self.rows, self.offered)

    def some(self, index: NDArray[np.int64]) -> NodeView:
        return NodeView(self, index, self.rows.take(index, axis=1), self.offered.take(index, axis=1))

    def hypothetical(
        self, index: NDArray[np.int64], shape: Shape, kind: MoveKind, copies: NDArray[np.int64]
    ) -> NodeView:
        """Returns the nodes of `index` as they would be with so many more copies of the shape."""
        rows = self.rows.take(index, axis=1)
        rows += self.delta(shape, kind)[:, None] * copies[None, :]
        return NodeView(self, index, rows, self.offered.take(index, axis=1))

    def empty(self) -> NodeView:
        """Returns every node as it would be without pods."""
        rows = np.zeros_like(self.rows)
        rows[: self.axis.size] = rows[self.axis.size : 2 * self.axis.size] = self.offered
        return NodeView(self, self.all_nodes, rows, self.offered)

    @property
    def alloc(self) -> Account:
        return self.everything().alloc

    @property
    def idle(self) -> Account:
        return self.everything().idle

    @property
    def future_idle(self) -> Account:
        return self.everything().future_idle if self.axis.sharing else cast(Account, self.free[len(self.offered) :])

    @property
    def used(self) -> Account:
        return self.everything().used

    # --- accounts

    def delta(self, shape: Shape, kind: MoveKind) -> Vector:
        """Returns what one task of this shape changes in a node's column."""
        deltas = shape.deltas(self.axis)
        delta = deltas.get(kind)
        if delta is None:
            signs, (cpu, memory), request = _SIGNS[kind], shape.nonzero, shape.by_row(self.axis)
            times = {0: [0] * len(request), 1: request, -1: [-amount for amount in request]}
            changes = [amount for sign in signs for amount in times[sign]]
            delta = deltas[kind] = np.array([*changes, signs[-1] * cpu, signs[-1] * memory], np.int64)
        return delta

    def apply(self, shape: Shape, kind: MoveKind, nodes: Sequence[int], sign: int) -> None:
        """Equal tasks move to (or, with sign −1, back from) these nodes; a node may be named several times."""
        if self.axis.sharing:
            self._hold(shape.shared(self.axis), nodes)
        delta = self.delta(shape, kind)
        if kind is _PIPELINE:
            self.pipelined += sign * len(nodes)
        elif kind is _EVICT:
            np.add.at(self.releasing, nodes, sign)
        self._add(delta, nodes, sign)

    def observe(self, tasks: Iterable[Task], sign: int) -> None:
        """Adds (+1) or removes (−1) tasks that the cluster reports on nodes, outside any cycle."""
        groups: dict[tuple[Shape, bool], list[int]] = {}
        shape, status, nodes, on = None, None, [], self.on
        for task in tasks:
            if task.shape is not shape or task.status is not status:
                shape, status = task.shape, task.status
                nodes = groups.setdefault((shape, status == Status.RELEASING), [])
            node = task.node
            nodes.append(node)
            if sign > 0:
                on[node][task.key] = task
            else:
                on[node].pop(task.key, None)
        for (shape, releasing), nodes in groups.items():
            self._hold(shape.shared(self.axis), nodes)
            delta = self.delta(shape, MoveKind.ALLOCATE)
            if releasing:
                size = self.axis.size
                delta = delta.copy()
                delta[size : 2 * size] = 0  # its resources are already being released
                np.add.at(self.releasing, nodes, sign)
            self.changes[self._add(delta, nodes, sign)] += 1

    def touch(self, node: int) -> None:
        """A pod on the node changed in nothing that the columns have."""
        self.log.append(node)
        self.changes[node] += 1

    def _add(self, delta: Vector, nodes: Sequence[int], sign: int) -> list[int]:
        """Adds a delta to the columns of nodes, of which one may be named several times; returns the nodes."""
        index = list(dict.fromkeys(nodes) if len(nodes) > 1 else nodes)
        if len(index) <= _FEW:
            for node in index:
                times = sign if len(index) == len(nodes) else sign * nodes.count(node)
                column = self.rows[:, node]
                column += delta if times == 1 else delta * times
        else:
            once = len(index) == len(nodes)
            times_: int | Vector = sign if once else sign * np.array(list(Counter(nodes).values()))
            self.rows[:, np.array(index)] += delta[:, None] * times_
        self.log.extend(index)
        return index

    def grow(self) -> None:
        """Adds rows of zeros for resources that the axis has learned."""
        old = len(self.offered)
        extra = self.axis.size - old
        if not extra:
            return
        nothing = np.zeros((extra, len(self)), np.int64)
        blocks = [self.rows[i * old : (i + 1) * old] for i in range(4)]
        self.offered = np.concatenate([self.offered, nothing])
        self._use(np.concatenate([part for block in blocks for part in (block, nothing)] + [self.rows[4 * old :]]))

    def replace(self, node: Node) -> None:
        """Replaces a node object that changed; its name stays."""
        i = self.rank[node.metadata.name]
        new = allocatable_of(node)
        shared = self.axis.shared(new)
        self._hold(shared, (i,))
        for name in shared:
            if self.axis.common(len(self.axis.holders[name]), len(self)):
                self._own(name)
        self.grow()
        change = self.axis.vector(new) - self.offered[:, i]
        size = self.axis.size
        self.offered[:, i] += change
        self.rows[:size, i] += change
        self.rows[size : 2 * size, i] += change
        self._set_oversubscribed(i, node)
        self.objects[i] = node
        self.labels.replace(i, node.metadata.labels or {})
        self.version += 1
        self.changes[i] += 1
        self.log.append(i)

    def _own(self, name: str) -> None:
        """Gives a resource that many nodes now have its own row."""
        before, nodes = self.axis.place(self.axis.rows[name]), self.holders(name)
        self.axis.own(name)
        self._holders.pop(name)
        self.grow()
        if before is not None:
            self._move(before, self.axis.rows[name], nodes)

    def _set_oversubscribed(self, i: int, node: Node) -> None:
        extra = oversubscribed(node)
        if self.oversubscribed is None and any(extra):
            self.oversubscribed = np.zeros((len(extra), len(self.objects)), np.int64)
        if self.oversubscribed is not None:
            self.oversubscribed[:, i] = extra
