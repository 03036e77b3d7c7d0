"""Taints and tolerations over all nodes at once, and nodes that are cordoned.

Nodes with equal taints share one taint list. What a pod tolerates is decided once per distinct taint, of those with the
keys that it tolerates, and taken by number.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.engine.core.hooks import Bools, Reason
from muster.engine.core.nodes import Nodes
from muster.engine.core.static import PerSpec, read_only
from muster.model.core import Node, PodSpec, Taint, Toleration
from muster.model.selectors import tolerates

HARD = ("NoSchedule", "NoExecute")
SOFT = "PreferNoSchedule"
CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")

_encode = msgspec.msgpack.Encoder().encode


class TolerationResult(Struct, frozen=True):
    """Which taints of every node a pod does not tolerate."""

    refused: NDArray[np.uint16]  # 0: nothing keeps it off; k: `reasons[k-1]` does, the node's first such taint
    reasons: list[Reason]
    disliked: NDArray[np.int64]  # how many PreferNoSchedule taints it does not tolerate
    cordoned: Bools  # the node is unschedulable and the pod does not tolerate that
    any_cordoned: bool
    any_disliked: bool


class TaintColumns:
    """The distinct lists of taints of some effects, as a table of taints: lists × positions."""

    def __init__(self, effects: Sequence[str]) -> None:
        self.taints: list[Taint] = []  # the distinct taints
        self.reasons: list[Reason] = []  # one per key and value: how a pod is refused for such a taint
        self.reason_of = np.zeros(0, np.int64)  # taint → reason
        self._texts: dict[str, int] = {}
        self._effects = effects
        self._known: dict[tuple[str, str, str], int] = {}
        self._by_key: dict[str, list[int]] = {}  # key → taints
        self._lists: list[list[int]] = []
        self._table: NDArray[np.int64] | None = None

    def add(self, taints: Iterable[Taint]) -> None:
        """Adds a list; its number is the number of lists before it."""
        self._lists.append([self._number(taint) for taint in taints if taint.effect in self._effects])
        self._table = None

    def untolerated(self, tolerations: Sequence[Toleration]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Returns the table, and which of its entries are taints that the pod does not tolerate."""
        if self._table is None:
            self._table = np.full((len(self._lists), max(map(len, self._lists), default=0)), len(self.taints), np.int64)
            for row, found in zip(self._table, self._lists, strict=True):
                row[: len(found)] = found
            self.reason_of = np.array([self._reason(taint) for taint in self.taints], np.int64)
        against = np.ones(len(self.taints) + 1, np.bool_)
        against[-1] = False  # no taint at this position
        for toleration in tolerations:
            # A toleration without a key may tolerate every taint.
            taints = self._by_key.get(toleration.key, ()) if toleration.key else range(len(self.taints))
            against[[i for i in taints if _covers(toleration, self.taints[i])]] = False
        return self._table, against[self._table]

    def _number(self, taint: Taint) -> int:
        number = self._known.setdefault((taint.key, taint.value, taint.effect), len(self._known))
        if number == len(self.taints):
            self.taints.append(taint)
            self._by_key.setdefault(taint.key, []).append(number)
        return number

    def _reason(self, taint: Taint) -> int:
        text = f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
        number = self._texts.setdefault(text, len(self._texts))
        if number == len(self.reasons):
            self.reasons.append(Reason("taint", text, resolvable=False))
        return number


class Tolerations(PerSpec[TolerationResult]):
    """Decides which taints pods do not tolerate, for all nodes."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[tuple[tuple[str, str, str], ...], int] = {}  # the distinct taint lists
        self._hard, self._soft = TaintColumns(HARD), TaintColumns((SOFT,))
        self._codes = np.zeros(0, np.int64)  # which of the lists each node has
        self._unschedulable = np.zeros(0, np.bool_)

    def differs(self, old: Node, new: Node) -> bool:
        return old.spec.taints != new.spec.taints or old.spec.unschedulable != new.spec.unschedulable

    def reread(self, nodes: Nodes, changed: Sequence[int]) -> None:
        if len(changed) == len(nodes):
            self._known = {}
            self._hard, self._soft = TaintColumns(HARD), TaintColumns((SOFT,))
            self._codes = np.zeros(len(nodes), np.int64)
            self._unschedulable = np.zeros(len(nodes), np.bool_)
        specs = [nodes.objects[i].spec for i in changed]
        at, none = np.asarray(changed, np.int64), self._code(())
        self._codes[at] = [self._code(spec.taints) if spec.taints else none for spec in specs]
        self._unschedulable[at] = [spec.unschedulable for spec in specs]

    def _code(self, taints: Sequence[Taint]) -> int:
        known = len(self._known)
        code = self._known.setdefault(tuple([(t.key, t.value, t.effect) for t in taints]), known)
        if code == known:
            self._hard.add(taints)
            self._soft.add(taints)
        return code

    def part(self, spec: PodSpec) -> Hashable:
        return _encode(spec.tolerations)

    def answer(self, spec: PodSpec, nodes: Nodes) -> TolerationResult:
        tolerations = spec.tolerations
        first, reasons = self._first_refusals(tolerations)
        disliked = self._soft.untolerated(tolerations)[1].sum(axis=1)[self._codes]
        cordoned = self._unschedulable & (not tolerated(CORDONED, tolerations))
        return TolerationResult(
            read_only(first[self._codes]), reasons, read_only(disliked), read_only(cordoned),
            any_cordoned=bool(cordoned.any()), any_disliked=bool(disliked.any()),
        )  # fmt: skip

    def _first_refusals(self, tolerations: Sequence[Toleration]) -> tuple[NDArray[np.uint16], list[Reason]]:
        """Returns per taint list which reason keeps the pod off (0: none), and these reasons in the order of lists."""
        table, against = self._hard.untolerated(tolerations)
        refused = np.zeros(len(table), np.uint16)
        lists = np.flatnonzero(against.any(axis=1))
        if not len(lists):
            return refused, []
        first = self._hard.reason_of[table[lists, against[lists].argmax(axis=1)]]
        different, at, which = np.unique(first, return_index=True, return_inverse=True)
        order = np.argsort(at)
        number = np.empty(len(order), np.int64)
        number[order] = np.arange(1, len(order) + 1)
        # More different taints than codes: refused all the same.
        refused[lists] = np.minimum(number[which], np.iinfo(np.uint16).max)
        return refused, [self._hard.reasons[i] for i in different[order].tolist()]


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(_covers(toleration, taint) for toleration in tolerations)


def _covers(toleration: Toleration, taint: Taint) -> bool:
    try:
        return tolerates(toleration, taint)
    except ValueError:
        return False  # kube-scheduler: an unknown operator tolerates nothing
