"""Taints and tolerations over all nodes at once, and nodes that are cordoned.

Nodes with equal taints share one interned taint set; what a pod tolerates is decided once per set and taken by code.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from muster.engine.core.hooks import Bools
from muster.engine.core.nodes import Nodes
from muster.engine.core.static import PerSpec, read_only
from muster.model.core import Node, PodSpec, Taint, Toleration
from muster.model.selectors import tolerates

HARD = ("NoSchedule", "NoExecute")
SOFT = "PreferNoSchedule"
CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")

_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class TolerationResult:
    """Which taints of every node a pod does not tolerate."""

    refused: NDArray[np.uint16]  # 0: nothing keeps it off; k: the taint `taints[k-1]` does, the node's first one
    taints: list[Taint]
    disliked: NDArray[np.int64]  # how many PreferNoSchedule taints it does not tolerate
    cordoned: Bools  # the node is unschedulable and the pod does not tolerate that
    any_cordoned: bool
    any_disliked: bool


class Tolerations(PerSpec[TolerationResult]):
    """Decides which taints pods do not tolerate, for all nodes."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[tuple[tuple[str, str, str], ...], int] = {}
        self._sets: list[Sequence[Taint]] = []  # the distinct taint lists
        self._codes = np.zeros(0, np.int64)  # which of them each node has
        self._unschedulable = np.zeros(0, np.bool_)

    def differs(self, old: Node, new: Node) -> bool:
        return old.spec.taints != new.spec.taints or old.spec.unschedulable != new.spec.unschedulable

    def reread(self, nodes: Nodes, changed: Sequence[int]) -> None:
        if len(changed) == len(nodes):
            self._known, self._sets = {}, []
            self._codes = np.zeros(len(nodes), np.int64)
            self._unschedulable = np.zeros(len(nodes), np.bool_)
        for i in changed:
            spec = nodes.objects[i].spec
            key = tuple((t.key, t.value, t.effect) for t in spec.taints)
            code = self._known.setdefault(key, len(self._known))
            if code == len(self._sets):
                self._sets.append(spec.taints)
            self._codes[i] = code
            self._unschedulable[i] = spec.unschedulable

    def part(self, spec: PodSpec) -> Hashable:
        return _encode(spec.tolerations)

    def answer(self, spec: PodSpec, nodes: Nodes) -> TolerationResult:
        tolerations = spec.tolerations
        texts: dict[tuple[str, str], int] = {}
        taints: list[Taint] = []
        first = np.zeros(len(self._sets), np.uint16)
        soft = np.zeros(len(self._sets), np.int64)
        for code, taint_set in enumerate(self._sets):
            taint = untolerated(taint_set, tolerations)
            if taint is not None:
                k = texts.setdefault((taint.key, taint.value), len(texts) + 1)
                if k > len(taints):
                    taints.append(taint)
                first[code] = min(k, np.iinfo(np.uint16).max)  # more different taints than codes: refused all the same
            soft[code] = sum(t.effect == SOFT and not tolerated(t, tolerations) for t in taint_set)
        cordoned = self._unschedulable & (not tolerated(CORDONED, tolerations))
        disliked = soft[self._codes]
        return TolerationResult(
            read_only(first[self._codes]), taints, read_only(disliked), read_only(cordoned),
            any_cordoned=bool(cordoned.any()), any_disliked=bool(disliked.any()),
        )  # fmt: skip


def untolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> Taint | None:
    """The first taint that keeps the pod off."""
    return next((t for t in taints if t.effect in HARD and not tolerated(t, tolerations)), None)


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(_covers(toleration, taint) for toleration in tolerations)


def _covers(toleration: Toleration, taint: Taint) -> bool:
    try:
        return tolerates(toleration, taint)
    except ValueError:
        return False  # kube-scheduler: an unknown operator tolerates nothing
