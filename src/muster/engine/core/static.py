"""Answers that depend on the node objects and a pod's spec alone, kept until a node object changes.

What is read of a spec (its `part`) is usually the same for many shapes: no selector, the usual tolerations. Answers are
therefore kept per part, and by shape, until the last shape with this part is gone. They are arrays over all nodes,
marked read-only, since one array is shared by all readers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from muster.engine.core.jobs import Shape
from muster.engine.core.nodes import Nodes, NodeView
from muster.model.core import Node, PodSpec

A = TypeVar("A")
Scalar = TypeVar("Scalar", bound=np.generic)


class _Kept(Generic[A]):
    """An answer that lives as long as a shape has it."""

    __slots__ = ("__weakref__", "answer")

    def __init__(self, answer: A) -> None:
        self.answer = answer


class PerSpec(ABC, Generic[A]):
    """One answer per part of a spec, over the nodes of today."""

    def __init__(self) -> None:
        self._nodes: Nodes | None = None
        self._version = -1
        self._seen: list[Node] = []
        self._by_part: WeakValueDictionary[Hashable, _Kept[A]] = WeakValueDictionary()
        self._by_shape: WeakKeyDictionary[Shape, _Kept[A]] = WeakKeyDictionary()

    @abstractmethod
    def part(self, spec: PodSpec) -> Hashable:
        """What of the spec the answer depends on."""

    @abstractmethod
    def answer(self, spec: PodSpec, nodes: Nodes) -> A: ...

    @abstractmethod
    def differs(self, old: Node, new: Node) -> bool:
        """Returns whether the fields that are read of a node differ. Most changes of node objects are only heartbeats.
        """

    def reread(self, nodes: Nodes, changed: Sequence[int]) -> None:
        """Read these nodes (again), for subclasses that keep something of them."""
        return

    def refresh(self, nodes: Nodes) -> None:
        """Read what changed in the node objects since the last question."""
        if nodes is not self._nodes or nodes.version != self._version:
            self._follow(nodes)

    def of(self, shape: Shape, nodes: Nodes) -> A:
        self.refresh(nodes)
        found = self._by_shape.get(shape)
        if found is None:
            part = self.part(shape.spec)
            found = self._by_part.get(part)
            if found is None:
                found = self._by_part[part] = _Kept(self.answer(shape.spec, nodes))
            self._by_shape[shape] = found
        return found.answer

    def _follow(self, nodes: Nodes) -> None:
        changed: Sequence[int] = range(len(nodes))
        if nodes is self._nodes:
            pairs = enumerate(zip(self._seen, nodes.objects, strict=True))
            changed = [i for i, (old, new) in pairs if old is not new and self.differs(old, new)]
        if changed or nodes is not self._nodes:
            self._by_part.clear()
            self._by_shape.clear()
            self.reread(nodes, changed)
        self._nodes, self._version, self._seen = nodes, nodes.version, list(nodes.objects)


def read_only(array: NDArray[Scalar]) -> NDArray[Scalar]:
    array.setflags(write=False)
    return array


def columns(per_node: NDArray[Scalar], view: NodeView, *, own: bool = False) -> NDArray[Scalar]:
    """The entries of the view's columns; for a view of all nodes the array itself, or with `own` a copy to modify."""
    if view.rows is view.nodes.rows:
        return per_node.copy() if own else per_node
    return per_node[view.index]


class Capacity:
    """What nodes offer, as floats to divide by: where there is nothing of a resource, 1.

    Turning integers into floats costs more than any other step of a score, so it is done once. `real`: cpu and memory
    as the node objects offer them, without the oversubscription annotations.
    """

    def __init__(self, *, real: bool = False) -> None:
        self._real = real
        self._nodes: Nodes | None = None
        self._version = -1
        self._rows: dict[int, tuple[NDArray[np.float64], bool]] = {}
        self._stacks: dict[tuple[int, ...], NDArray[np.float64]] = {}

    def of(self, view: NodeView, row: int) -> NDArray[np.float64]:
        return columns(self._row(view.nodes, row)[0], view)

    def together(self, view: NodeView, rows: tuple[int, ...]) -> NDArray[np.float64]:
        """The same for several resources: resources × columns."""
        self._row(view.nodes, rows[0])  # forget what is out of date
        found = self._stacks.get(rows)
        if found is None:
            found = self._stacks[rows] = read_only(np.stack([self._row(view.nodes, row)[0] for row in rows]))
        return found if view.rows is view.nodes.rows else found.take(view.index, axis=1)

    def everywhere(self, view: NodeView, row: int) -> bool:
        """Returns whether all nodes (not only those of the view) have some of the resource."""
        return self._row(view.nodes, row)[1]

    def _row(self, nodes: Nodes, row: int) -> tuple[NDArray[np.float64], bool]:
        if nodes is not self._nodes or nodes.version != self._version:
            self._nodes, self._version = nodes, nodes.version
            self._rows.clear()
            self._stacks.clear()
        found = self._rows.get(row)
        if found is None:
            alloc = nodes.alloc[row]
            if self._real and nodes.oversubscribed is not None and row < len(nodes.oversubscribed):
                alloc = alloc - nodes.oversubscribed[row]
            offered = alloc.astype(np.float64)
            everywhere = bool((offered > 0).all())
            found = self._rows[row] = (read_only(np.maximum(offered, 1.0)), everywhere)
        return found


class Workspace:
    """Scratch arrays for reuse: allocating a large array costs more than filling it.

    The next question overwrites them, so an answer must never be one of them.
    """

    def __init__(self) -> None:
        self._arrays: dict[tuple[int, ...], NDArray[np.float64]] = {}

    def array(self, *shape: int) -> NDArray[np.float64]:
        found = self._arrays.get(shape)
        if found is None:
            if len(self._arrays) > 8:
                self._arrays.clear()  # slices come in all sizes; whole views come again
            found = self._arrays[shape] = np.empty(shape)
        return found
