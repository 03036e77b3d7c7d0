"""The values that plugins and the engine exchange: hooks, scopes, votes, reasons, verdicts, node sets, effects."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Hashable, Sequence
from enum import IntEnum
from typing import ClassVar, Protocol, overload

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Index = NDArray[np.int64]


class Hook(ABC):  # noqa: B024 - what it abstracts is the kind of question
    """An extension point; `switch` is its key in the configuration file (None: it cannot be switched off)."""

    switch: ClassVar[str | None] = None


class Scope(IntEnum):
    """What an answer for a node may depend on besides the task."""

    STATIC = 0  # the node object: labels, taints, allocatable, images
    NODE = 1  # that node's load, too (the view's columns, or a ledger kept per node)
    CLUSTER = 2  # other nodes' load, too


class Batch(IntEnum):
    """How a term's answers for a run of equal tasks are had."""

    SKIP = 0  # the term does not concern this task
    COLUMNS = 1  # j copies on a node: ask with the view's hypothetical columns
    ONCE = 2  # at most one of these tasks per node (a host port, hostname anti-affinity)
    SINGLE = 3  # ask again after each placement


class Opinion(IntEnum):
    """What a plugin's tier learns from it about possible victims, after all protections."""

    NONE = 0  # nothing: the plugin only protects
    REST = 1  # every pod that no protection keeps may be evicted
    ANSWER = 2  # ask its hook


class Vote(IntEnum):
    REJECT = -1
    ABSTAIN = 0
    PERMIT = 1


class Reason(Struct, frozen=True):
    """Why not. `code` is stable, `text` is for people and may depend on the node (then a function of its index)."""

    code: str
    text: str | Callable[[int], str]
    resolvable: bool = True  # could an eviction cure it?

    def message(self, node: int = -1) -> str:
        return self.text if isinstance(self.text, str) else self.text(node)


class Verdict(Struct):
    """A filter's answer: per column 0 = fits, k = refused for `reasons[k-1]`."""

    code: NDArray[np.uint16]
    reasons: list[Reason] = field(default_factory=list)

    @classmethod
    def of(cls, refused: Bools, reason: Reason) -> Verdict:
        """Returns a verdict with one reason for all the columns where `refused` is true."""
        return cls(refused.astype(np.uint16), [reason])

    def then(self, other: Verdict) -> Verdict:
        """Returns this verdict with the answers of another one for the columns that fit."""
        code = np.where((self.code > 0) | (other.code == 0), self.code, other.code + len(self.reasons))
        return Verdict(code.astype(np.uint16), [*self.reasons, *other.reasons])

    @property
    def fits(self) -> Bools:
        fits: Bools = self.code == 0
        return fits

    @property
    def resolvable(self) -> Bools:
        """Returns the columns that fit, or that an eviction could make fit."""
        return np.array([True, *(reason.resolvable for reason in self.reasons)], np.bool_)[self.code]


class NodeCounts(Protocol):
    """Counts per node. Only moves on a node change its count."""

    @property
    def empty(self) -> bool:
        """Returns whether all counts are 0."""
        ...

    def on(self, node: int) -> int: ...

    def per_node(self) -> Index: ...


class ClassKey(Struct, frozen=True):
    """What distinguishes nodes for a term of scope CLUSTER: nodes for which all of it is equal get equal answers."""

    codes: tuple[Index, ...] = ()  # per node a number that does not change within the cycle, such as its zone's
    counts: tuple[NodeCounts, ...] = ()
    generation: Callable[[], Hashable] | None = None  # while this is the same, the answer for such nodes is


class NodeSet(Struct, frozen=True):
    """Nodes to try a job on: sorted node indices, a label for administrators, the scores that hold inside it."""

    index: Index
    label: str = ""
    score: Floats | None = None  # aligned with `index`
    near: Index | None = None  # levels × all nodes: numbers of narrower domains; pods next to each other share them
    freed: Index | None = None  # resources × all nodes: in a simulation, what evictions could free at most


class LazyNodeSets(Sequence[NodeSet]):
    """Node sets that are built on access. A subclass counts them and yields one after the other."""

    @overload
    def __getitem__(self, at: int) -> NodeSet: ...

    @overload
    def __getitem__(self, at: slice) -> list[NodeSet]: ...

    def __getitem__(self, at: int | slice) -> NodeSet | list[NodeSet]:
        return list(self)[at]


class Effect(Struct, frozen=True):
    """Something to write together with a binding, as data; the live and the embedded cluster execute it."""

    kind: str  # "annotations" (on the Binding) | "claim" (bind a PersistentVolumeClaim to a volume, or to a node)
    key: str  # the object, "ns/name"
    values: dict[str, str]


class NodeSetError(Exception):
    """A plugin could not divide the nodes; the job is refused with this message, the cycle goes on."""
