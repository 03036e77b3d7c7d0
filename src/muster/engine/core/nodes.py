"""Nodes as columns: one int64 matrix whose rows are the resources of five accounts, whose columns are the nodes.

The accounts are idle, future idle (idle + releasing − pipelined), used, load and nonzero. `used` is Volcano's: a pod
that is being evicted still counts, a pipelined one does not yet. `load` is kube-scheduler's NodeInfo as Volcano's
event handlers keep it: pipelined pods count, pods evicted in this cycle do not. `nonzero` is load's cpu and memory
with kube-scheduler's defaults for containers that ask for nothing. A move of a pod is one delta over all rows, so
doing and undoing are one addition and one subtraction of integers.

A node's index is the rank of its name: the first maximum is the tie-break by name. Every change is appended to a log,
from which cached answers learn which columns to compute again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from muster.engine.core.jobs import Shape, Status, Task
from muster.engine.core.resources import Axis, Vector
from muster.model.core import Node
from muster.model.quantity import whole
from muster.model.requests import amounts

Rows = NDArray[np.int64]
Codes = NDArray[np.int32]


class MoveKind(IntEnum):
    """How a task comes to (or leaves) a node, inside a cycle."""

    ALLOCATE = 0
    PIPELINE = 1
    EVICT = 2
    WITHDRAW = 3  # an earlier promise is withdrawn


class NodeView:
    """Columns of some nodes, or of hypothetical nodes. `index[c]` is the node of column c.

    `kind`: may the task be placed at once (ALLOCATE), or when the terminating pods are gone (PIPELINE)?
    """

    __slots__ = ("_size", "alloc", "index", "kind", "nodes", "rows")

    def __init__(self, nodes: Nodes, index: NDArray[np.int64], rows: Rows, alloc: Rows) -> None:
        self.nodes = nodes
        self.index = index
        self.rows = rows
        self.alloc = alloc
        self.kind = MoveKind.ALLOCATE
        self._size = nodes.axis.size

    def __len__(self) -> int:
        return len(self.index)

    def part(self, columns: NDArray[np.int64]) -> NodeView:
        """Returns the view of these columns."""
        index, rows, alloc = self.index[columns], self.rows.take(columns, axis=1), self.alloc.take(columns, axis=1)
        part = NodeView(self.nodes, index, rows, alloc)
        part.kind = self.kind
        return part

    @property
    def idle(self) -> Rows:
        return self.rows[: self._size]

    @property
    def future_idle(self) -> Rows:
        return self.rows[self._size : 2 * self._size]

    @property
    def used(self) -> Rows:
        return self.rows[2 * self._size : 3 * self._size]

    @property
    def load(self) -> Rows:
        return self.rows[3 * self._size : 4 * self._size]

    @property
    def nonzero(self) -> Rows:
        """Two rows: cpu, memory."""
        return self.rows[4 * self._size :]


class Nodes:
    def __init__(self, axis: Axis, objects: Iterable[Node]) -> None:
        self.axis = axis
        self.objects: list[Node] = sorted(objects, key=lambda n: n.metadata.name)
        self.names: list[str] = [n.metadata.name for n in self.objects]
        self.rank: dict[str, int] = {name: i for i, name in enumerate(self.names)}
        self.on: list[dict[str, Task]] = [{} for _ in self.objects]
        self.log: list[int] = []
        self.pipelined = 0  # tasks pipelined in this cycle
        self.totals: tuple[tuple[int, int], list[int]] | None = None  # kept by `resources.total_of`
        self.version = 0  # grows when a node object changes; static answers are void then
        # per node: grows when the node or its pods change outside a cycle
        self.changes = np.zeros(len(self.objects), np.int64)
        allocatable = [allocatable_of(n) for n in self.objects]
        for amounts_ in allocatable:
            axis.learn(amounts_)
        self.alloc: Rows = np.zeros((axis.size, len(self.objects)), np.int64)
        for i, amounts_ in enumerate(allocatable):
            for name, amount in amounts_.items():
                self.alloc[axis.rows[name], i] = amount
        self.oversubscribed: Rows | None = None  # the oversubscribed part of alloc: cpu and memory × nodes
        for i, node in enumerate(self.objects):
            self._set_oversubscribed(i, node)
        self._use(np.zeros((4 * axis.size + 2, len(self.objects)), np.int64))
        self.idle[:] = self.future_idle[:] = self.alloc
        self.labels = LabelColumns([n.metadata.labels or {} for n in self.objects])
        self._everything = np.arange(len(self.objects))
        # forgotten when the axis grows
        self._deltas: WeakKeyDictionary[Shape, dict[MoveKind, Vector]] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self.names)

    def _use(self, rows: Rows) -> None:
        """Takes a matrix and names its accounts; each is a view of resources × nodes."""
        size = len(self.alloc)
        self.rows = rows
        self.free = rows[: 2 * size]  # idle, then future idle
        self.idle = rows[:size]
        self.future_idle = rows[size : 2 * size]
        self.used = rows[2 * size : 3 * size]

    # --- views

    def everything(self) -> NodeView:
        return NodeView(self, self._everything, self.rows, self.alloc)

    def some(self, index: NDArray[np.int64]) -> NodeView:
        return NodeView(self, index, self.rows.take(index, axis=1), self.alloc.take(index, axis=1))

    def hypothetical(
        self, index: NDArray[np.int64], shape: Shape, kind: MoveKind, copies: NDArray[np.int64]
    ) -> NodeView:
        """The nodes of `index` as they would be with so many more copies of the shape."""
        rows = self.rows.take(index, axis=1)
        rows += self.delta(shape, kind)[:, None] * copies[None, :]
        return NodeView(self, index, rows, self.alloc.take(index, axis=1))

    def empty(self) -> NodeView:
        """Every node as it would be without pods."""
        rows = np.zeros_like(self.rows)
        rows[: self.axis.size] = rows[self.axis.size : 2 * self.axis.size] = self.alloc
        return NodeView(self, self._everything, rows, self.alloc)

    # --- accounts

    def delta(self, shape: Shape, kind: MoveKind) -> Vector:
        """What one task of this shape changes in a node's column."""
        deltas = self._deltas.get(shape)
        if deltas is None:
            deltas = self._deltas[shape] = {}
        delta = deltas.get(kind)
        if delta is None:
            r = shape.request(self.axis)
            none = np.zeros_like(r)
            nonzero = np.array(shape.nonzero, np.int64)
            parts = {
                MoveKind.ALLOCATE: (-r, -r, r, r, nonzero),
                MoveKind.PIPELINE: (none, -r, none, r, nonzero),
                MoveKind.EVICT: (none, r, none, -r, -nonzero),
            }[kind]
            delta = deltas[kind] = np.concatenate(parts)
        return delta

    def apply(self, shape: Shape, kind: MoveKind, nodes: Sequence[int], sign: int) -> None:
        """Equal tasks move to (or, with sign −1, back from) these nodes; a node may be named several times."""
        delta = self.delta(shape, kind)
        if kind == MoveKind.PIPELINE:
            self.pipelined += sign * len(nodes)
        if len(nodes) == 1:
            node = nodes[0]
            self.rows[:, node] += delta if sign > 0 else -delta
            self.log.append(node)
            return
        index, counts = np.unique(np.asarray(nodes, np.int64), return_counts=True)
        self.rows[:, index] += delta[:, None] * (sign * counts)[None, :]
        self.log.extend(index.tolist())

    def observe(self, task: Task, sign: int) -> None:
        """Adds (+1) or removes (−1) a task that the cluster reports on a node, outside any cycle."""
        delta = self.delta(task.shape, MoveKind.ALLOCATE).copy()
        if task.status == Status.RELEASING:
            size = self.axis.size
            delta[size : 2 * size] = 0  # its resources are already being released
        self.rows[:, task.node] += sign * delta
        self.log.append(task.node)
        self.changes[task.node] += 1
        if sign > 0:
            self.on[task.node][task.key] = task
        else:
            self.on[task.node].pop(task.key, None)

    def observe_all(self, tasks: list[Task]) -> None:
        """Adds many tasks at once, for a cluster that is read as a whole: one addition per shape and status."""
        groups: dict[tuple[int, bool], list[Task]] = {}
        for task in tasks:
            groups.setdefault((task.shape.id, task.status == Status.RELEASING), []).append(task)
            self.on[task.node][task.key] = task
        for (_, releasing), group in groups.items():
            delta = self.delta(group[0].shape, MoveKind.ALLOCATE).copy()
            if releasing:
                delta[self.axis.size : 2 * self.axis.size] = 0
            counts = np.bincount([t.node for t in group], minlength=len(self))
            changed = np.flatnonzero(counts)
            self.rows[:, changed] += delta[:, None] * counts[changed][None, :]
            self.changes[changed] += 1

    def grow(self) -> None:
        """Adds rows of zeros for resources that the axis has learned."""
        old = len(self.alloc)
        extra = self.axis.size - old
        if not extra:
            return
        nothing = np.zeros((extra, len(self)), np.int64)
        blocks = [self.rows[i * old : (i + 1) * old] for i in range(4)]
        self.alloc = np.concatenate([self.alloc, nothing])
        self._use(np.concatenate([part for block in blocks for part in (block, nothing)] + [self.rows[4 * old :]]))
        self._deltas.clear()

    def replace(self, node: Node) -> None:
        """Replaces a node object that changed; its name stays."""
        i = self.rank[node.metadata.name]
        new = allocatable_of(node)
        self.axis.learn(new)
        self.grow()
        change = self.axis.vector(new) - self.alloc[:, i]
        self.alloc[:, i] += change
        self.idle[:, i] += change
        self.future_idle[:, i] += change
        self._set_oversubscribed(i, node)
        self.objects[i] = node
        self.labels.replace(i, node.metadata.labels or {})
        self.version += 1
        self.changes[i] += 1
        self.log.append(i)

    def _set_oversubscribed(self, i: int, node: Node) -> None:
        extra = oversubscribed(node)
        if self.oversubscribed is None and any(extra):
            self.oversubscribed = np.zeros((len(extra), len(self.objects)), np.int64)
        if self.oversubscribed is not None:
            self.oversubscribed[:, i] = extra


def allocatable_of(node: Node) -> dict[str, int]:
    """What the node offers, with Volcano's oversubscription annotations added to cpu and memory."""
    offered = amounts(node.status.allocatable or node.status.capacity or {}, "status.allocatable")
    for name, extra in zip(("cpu", "memory"), oversubscribed(node), strict=True):
        if extra:
            offered[name] = offered.get(name, 0) + extra
    return offered


def oversubscribed(node: Node) -> tuple[int, int]:
    """What Volcano's oversubscription annotations add to the node's cpu and memory."""
    notes = node.metadata.annotations
    if not notes:
        return 0, 0
    cpu, memory = (whole(notes.get(f"volcano.sh/oversubscription-{name}", "")) for name in ("cpu", "memory"))
    return max(cpu or 0, 0), max(memory or 0, 0)


class LabelColumns:
    """Node labels as interned columns, so that a selector over all nodes is a table look-up.

    Each label key that is asked for has one int32 column: the code of the node's value; the last code is that of
    "absent". A requirement is evaluated once per distinct value and then taken by code.
    """

    def __init__(self, labels: list[Mapping[str, str]]) -> None:
        self._labels = labels
        self._columns: dict[str, tuple[Codes, list[str | None]]] = {}

    def replace(self, node: int, labels: Mapping[str, str]) -> None:
        if self._labels[node] != labels:
            self._labels[node] = labels
            self._columns.clear()

    def of(self, node: int) -> Mapping[str, str]:
        return self._labels[node]

    def column(self, key: str) -> tuple[Codes, list[str | None]]:
        """(code per node, values by code); the last value is None, for nodes without the label."""
        column = self._columns.get(key)
        if column is None:
            found = [labels.get(key) for labels in self._labels]
            values: list[str | None] = [*sorted({v for v in found if v is not None}), None]
            code = {value: i for i, value in enumerate(values)}
            column = self._columns[key] = (np.array([code[v] for v in found], np.int32), values)
        return column

    def where(self, key: str, accepts: Callable[[str | None], bool]) -> NDArray[np.bool_]:
        """True for the nodes whose value of the label (None: absent) is accepted."""
        codes, values = self.column(key)
        return np.array([accepts(v) for v in values], np.bool_)[codes]

    def has(self, key: str) -> NDArray[np.bool_]:
        codes, values = self.column(key)
        present: NDArray[np.bool_] = codes != len(values) - 1
        return present
