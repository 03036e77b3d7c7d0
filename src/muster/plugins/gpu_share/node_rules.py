"""The filters and the score over the columns of GPUs, and their messages."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from muster.engine.core.hooks import Batch, Floats, NodeFilter, NodeScorer, Reason, Scope, Verdict
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import MoveKind, NodeView
from muster.engine.devices.fragmentation import GPU_PARTS, MOST_GPUS
from muster.plugins.gpu_share.devices import Devices
from muster.plugins.gpu_share.requests import CARD_MEMORY, GpuRequest
from muster.plugins.gpu_share.scores import FGD, Scores


class Owner(Protocol):
    """The part of the plugin that its filters and its score use."""

    gpus: Devices
    scores: Scores
    weight: float

    def request(self, task: Task) -> GpuRequest: ...


class Term:
    def __init__(self, owner: Owner) -> None:
        self.owner = owner

    def batch(self, task: Task) -> Batch:
        request = self.owner.request(task)
        return Batch.SINGLE if request.gpus or request.fault else Batch.SKIP


class Serviceable(Term, NodeFilter):
    """Refuses nodes that could not serve the pod if they were empty, by the node object alone."""

    term = "gpus"
    scope = Scope.STATIC

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        request, devices = self.owner.request(task), self.owner.gpus
        index = nodes.index
        if request.fault:
            reason = Reason("gpu-request", f"the pod's request for GPUs is invalid: {request.fault}", resolvable=False)
            return Verdict(np.ones(len(index), np.uint16), [reason])
        # Texts that do not depend on the node: thousands of nodes give one line.
        fewer = "no GPUs" if request.gpus == 1 else f"fewer than {request.gpus} GPUs"
        reasons = [
            Reason("too-few-gpus", f"node(s) had {fewer}", resolvable=False),
            Reason("gpu-size", f"node(s) had GPUs with less than {request.memory} MiB", resolvable=False),
            Reason("gpu-size", f"node(s) had GPUs of unknown memory (label {CARD_MEMORY})", resolvable=False),
            Reason("too-many-gpus", f"node(s) had more than {MOST_GPUS} GPUs", resolvable=False),
        ]
        code = np.zeros(len(index), np.uint16)
        if request.memory:
            code[devices.parts(request, index) > GPU_PARTS] = 2
            code[devices.card[index] == 0] = 3
        code[devices.count[index] < request.gpus] = 1
        code[devices.offered[index] > MOST_GPUS] = 4
        return Verdict(code, reasons)


class Free(Term, NodeFilter):
    """Refuses nodes without enough GPUs that have enough free."""

    term = "free-gpus"
    scope = Scope.NODE

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        request, devices, kind = self.owner.request(task), self.owner.gpus, nodes.kind
        refused = ~devices.fits(request, nodes.index, kind)
        return Verdict.of(refused, Reason("gpu-free", f"node(s) had too few GPUs with {request.amount} free"))


class GpuScore(Term, NodeScorer):
    """Scores nodes by the configured rule. FGD also scores pods that request no GPU: they use CPU of GPU nodes."""

    scope = Scope.NODE

    def batch(self, task: Task) -> Batch:
        request, owner = self.owner.request(task), self.owner
        if not owner.weight or request.fault or not owner.gpus.any:
            return Batch.SKIP
        return Batch.SINGLE if request.gpus or owner.scores.rule == FGD else Batch.SKIP

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        request, scores = self.owner.request(task), self.owner.scores
        if request.fault or not (request.gpus or scores.rule == FGD):
            return np.zeros(len(nodes))
        free = (nodes.future_idle if nodes.kind == MoveKind.PIPELINE else nodes.idle)[nodes.nodes.axis.rows["cpu"]]
        score = scores.score(request, task.shape.amounts.get("cpu", 0), nodes.index, free, nodes.kind)
        return score.astype(np.float64) * self.owner.weight

