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

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from muster.engine.core.jobs import Shape
from muster.engine.core.nodes import Nodes, NodeView
from muster.model.core import Node, PodSpec

_encode = msgspec.json.Encoder().encode
A = TypeVar("A")
Scalar = TypeVar("Scalar", bound=np.generic)
Offer = tuple[int, bool]  # a resource's key; without oversubscription?


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


def constraints(spec: PodSpec) -> Hashable:
    """What a spec says about nodes: all but its requests and what runs in its containers."""
    images = tuple([container.image for container in (*spec.init_containers, *spec.containers)])
    rest = replace(spec, node_name="", containers=[], init_containers=[], overhead={}, resources=None)
    return _encode(rest), len(spec.init_containers), images


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

    Turning integers into floats costs more than any other step of a score, so it is done once. What is asked for is a
    resource's key, and whether cpu and memory are those of the node objects, without the oversubscription annotations.
    """

    def __init__(self) -> None:
        self._nodes: Nodes | None = None
        self._version = -1
        self._everywhere: dict[tuple[Offer, ...], bool] = {}
        self._stacks: dict[tuple[Offer, ...], NDArray[np.float64]] = {}

    def together(self, view: NodeView, offers: tuple[Offer, ...]) -> NDArray[np.float64]:
        """Returns what is asked for × columns."""
        self._refresh(view.nodes)
        found = self._stacks.get(offers)
        if found is None:
            rows = [np.maximum(self._offered(view.nodes, offer), 1.0) for offer in offers]
            found = self._stacks[offers] = read_only(np.stack(rows))
        return found if view.rows is view.nodes.rows else found.take(view.index, axis=1)

    def everywhere(self, nodes: Nodes, offers: tuple[Offer, ...]) -> bool:
        """Returns whether all nodes have some of each resource."""
        self._refresh(nodes)
        found = self._everywhere.get(offers)
        if found is None:
            found = self._everywhere[offers] = all(bool((self._offered(nodes, offer) > 0).all()) for offer in offers)
        return found

    def _refresh(self, nodes: Nodes) -> None:
        if nodes is not self._nodes or nodes.version != self._version:
            self._nodes, self._version = nodes, nodes.version
            self._everywhere.clear()
            self._stacks.clear()

    @staticmethod
    def _offered(nodes: Nodes, offer: Offer) -> NDArray[np.float64]:
        row, real = offer
        alloc = nodes.alloc[row]
        if real and nodes.oversubscribed is not None and row < len(nodes.oversubscribed):
            alloc = alloc - nodes.oversubscribed[row]
        return alloc.astype(np.float64)


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
