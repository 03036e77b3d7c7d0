"""The scores of nodes and the choice of GPUs: pack, spread, or fragmentation gradient descent (FGD).

| score | a share goes to | whole GPUs go to |
|---|---|---|
| pack | the fullest GPU that has enough free | the node with the largest part of its GPUs in use |
| spread | the GPU with the most free | the node with the largest part of its GPUs free |
| fgd | the GPU whose use makes the fragment grow least | the node whose fragment grows least |

Scores are whole numbers from 0 to 100. FGD (Weng et al., USENIX ATC 2023): floor(100 × sigmoid((before − after) /
1000)) with the node's fragment in thousandths, for every pod, also for one that asks only for CPU. Ties of GPUs are
broken by their number. Answers are kept per request and computed again only for nodes that changed.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from muster.engine.core.nodes import MoveKind, Nodes
from muster.engine.devices.fragmentation import GPU_PARTS, FragmentTable
from muster.plugins.gpu_share.devices import Devices, Integers, emptiest, fullest
from muster.plugins.gpu_share.requests import GpuRequest

PACK, SPREAD, FGD = "pack", "spread", "fgd"
SCORES = (PACK, SPREAD, FGD)
_MAX_SCORE = 100
_NONE = -1


class _Known(Struct):
    """The answers for one request, by node, and what they were computed from."""

    changes: Integers
    cpu: Integers
    score: Integers
    gpu: Integers  # the best GPU for a share

    @classmethod
    def of(cls, nodes: int) -> _Known:
        return cls(*(np.full(nodes, _NONE) for _ in range(4)))


class Scores:
    """Computes the scores by one rule. `table` is for FGD."""

    def __init__(self, rule: str, devices: Devices) -> None:
        self.rule = rule
        self._devices = devices
        self._known: dict[tuple[GpuRequest, int, bool], _Known] = {}
        self._fragments: list[_Known] = []  # of the nodes as they are, now and later; `score` is the fragment
        self._generation = -1
        self.table = FragmentTable((), ("",))
        self.model: Integers = np.zeros(0, np.int64)

    def open(self, nodes: Nodes, table: FragmentTable | None, model: Integers) -> None:
        """Called in each cycle, with the typical pods and the models of the nodes, if FGD is used."""
        self._nodes = nodes
        self.model = model
        if self._generation != self._devices.generation or (table is not None and table is not self.table):
            self._known.clear()
            self._fragments = [_Known.of(len(nodes)) for _ in range(2)]
            self._generation = self._devices.generation
        if table is not None:
            self.table = table

    def score(self, request: GpuRequest, cpu: int, index: Integers, free_cpu: Integers, kind: MoveKind) -> Integers:
        """Returns the scores of these nodes for a pod. `free_cpu`: per node, before the pod is placed."""
        return self._answers(request, cpu, index, free_cpu, kind).score[index]

    def choose(self, request: GpuRequest, cpu: int, node: int, free_cpu: int, kind: MoveKind) -> list[int]:
        """Returns the GPUs for a pod on the node; empty if it does not fit."""
        row = self._devices.row(node, kind)
        parts = request.parts(int(self._devices.card[node]))
        if self.rule == FGD and request.gpus == 1 and request.share:
            at = np.array([node])
            best = int(self._answers(request, cpu, at, np.array([free_cpu]), kind).gpu[node])
            return [best] if best != _NONE else []
        return emptiest(row, request.gpus, parts) if self.rule == SPREAD else fullest(row, request.gpus, parts)

    def _answers(self, request: GpuRequest, cpu: int, index: Integers, free_cpu: Integers, kind: MoveKind) -> _Known:
        """Returns the answers for the request, current for the nodes of `index`."""
        key = (request, cpu, kind == MoveKind.PIPELINE)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _Known.of(len(self._nodes))
        changes = self._devices.changes[index]
        stale = known.changes[index] != changes
        if self.rule == FGD:
            stale |= known.cpu[index] != free_cpu
        at = stale.nonzero()[0]
        if len(at):
            where = index[at]
            known.changes[where], known.cpu[where] = changes[at], free_cpu[at]
            compute = self._fgd if self.rule == FGD else self._packed
            known.score[where], known.gpu[where] = compute(request, cpu, where, free_cpu[at], kind)
        return known

    # --- pack and spread

    def _packed(
        self, request: GpuRequest, cpu: int, index: Integers, free_cpu: Integers, kind: MoveKind
    ) -> tuple[Integers, Integers]:
        devices = self._devices
        free, parts = devices.free(index, kind), devices.parts(request, index)
        if request.whole:
            left = free.sum(axis=1) - request.gpus * GPU_PARTS
            score = _MAX_SCORE * left // np.maximum(devices.count[index] * GPU_PARTS, 1)
        elif self.rule == SPREAD:
            score = _MAX_SCORE * (free.max(axis=1) - parts) // GPU_PARTS
        else:
            fitting = np.where(free >= parts[:, None], free, 2 * GPU_PARTS).min(axis=1)
            score = _MAX_SCORE * (fitting - parts) // GPU_PARTS
        if self.rule == PACK:
            score = _MAX_SCORE - score
        return np.clip(score, 0, _MAX_SCORE), np.full(len(index), _NONE)

    # --- FGD

    def _fgd(
        self, request: GpuRequest, cpu: int, index: Integers, free_cpu: Integers, kind: MoveKind
    ) -> tuple[Integers, Integers]:
        devices, table = self._devices, self.table
        score, gpu = np.zeros(len(index), np.int64), np.full(len(index), _NONE)
        able = free_cpu >= cpu
        if request.gpus:
            able &= devices.fits(request, index, kind)
        at = able.nonzero()[0]
        if not len(at):
            return score, gpu
        index, free_cpu = index[at], free_cpu[at]
        free, model, after_cpu = devices.free(index, kind), self.model[index], free_cpu - cpu
        before = self._before(index, free, free_cpu, kind)
        if request.gpus == 1 and request.share:
            parts = devices.parts(request, index)
            after = table.with_one_more(free, after_cpu, model, parts)
            scores = np.where(free >= parts[:, None], self._sigmoid(before[:, None] - after), _NONE)
            gpu[at] = best = scores.argmax(axis=1)
            score[at] = scores[np.arange(len(at)), best]
            return score, gpu
        taken = self._without(request, free, index)
        score[at] = self._sigmoid(before - table.fragments(taken, after_cpu, model))
        return score, gpu

    def _before(self, index: Integers, free: Integers, free_cpu: Integers, kind: MoveKind) -> Integers:
        """Returns the fragments of the nodes as they are."""
        known = self._fragments[kind == MoveKind.PIPELINE]
        changes = self._devices.changes[index]
        at = ((known.changes[index] != changes) | (known.cpu[index] != free_cpu)).nonzero()[0]
        if len(at):
            where = index[at]
            known.changes[where], known.cpu[where] = changes[at], free_cpu[at]
            known.score[where] = self.table.fragments(free[at], free_cpu[at], self.model[where])
        return known.score[index]

    def _without(self, request: GpuRequest, free: Integers, index: Integers) -> Integers:
        """Returns what the GPUs have free without those of the request: the first unused, or the fullest that fit."""
        if not request.gpus:
            return free
        if request.whole:
            unused = free == GPU_PARTS
            return np.where(unused & (unused.cumsum(axis=1) <= request.gpus), 0, free)
        parts = self._devices.parts(request, index)[:, None]
        order = np.argsort(np.where(free >= parts, free, 2 * GPU_PARTS), axis=1, kind="stable")[:, : request.gpus]
        taken = free.copy()
        np.put_along_axis(taken, order, np.take_along_axis(free, order, axis=1) - parts, axis=1)
        return taken

    def _sigmoid(self, relief: Integers) -> Integers:
        """Returns the score of a change of the fragment, which is given times the total weight of typical pods."""
        exponent = -relief / (GPU_PARTS * max(self.table.weight, 1))
        return np.floor(_MAX_SCORE / (1.0 + np.exp(exponent))).astype(np.int64)
