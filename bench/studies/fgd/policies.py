"""The policies that only the study has, as plugins: Random, DotProd, GpuClustering, GpuPacking and BestFit.

Each scores nodes. The plugin gpu-share keeps the GPUs, filters nodes and chooses the GPUs of a pod: the fullest that
fits, but a random one for Random. FGD is gpu-share's own score. Scores are whole numbers from 0 to 100, as in the
study; ties go to the node whose name comes first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from openb import WHOLE_GPU

from muster.config.arguments import Arguments
from muster.config.types import PluginOption
from muster.engine.core.hooks import Batch, Floats, Ledger, NodeScorer, Plugin, Scope
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import MoveKind, NodeView
from muster.engine.core.session import Session
from muster.engine.core.statement import Move
from muster.plugins.gpu_share import GpuShare
from muster.plugins.gpu_share.requests import GpuRequest
from muster.plugins.gpu_share.scores import Scores

MOST_CPU = 128_000  # of a node in the study, milli
MOST_GPU = 8_000  # of a node in the study, thousandths
TOP = 100
SEED = "seed"
Integers = NDArray[np.int64]


class Policy(Plugin, NodeScorer):
    """A score that reads the GPUs of nodes."""

    scope = Scope.NODE

    def open(self, session: Session) -> None:
        self.gpu_share = next(plugin for plugin in session.plugins if isinstance(plugin, GpuShare))

    def batch(self, task: Task) -> Batch:
        return Batch.SINGLE

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        free = self.gpu_share.gpus.free(nodes.index, nodes.kind)
        return self.score(task, self.gpu_share.request(task), nodes, free).astype(np.float64)

    def score(self, task: Task, request: GpuRequest, nodes: NodeView, free: Integers) -> Integers:
        """Returns the score of each node. `free`: the free thousandths, nodes × GPUs."""
        raise NotImplementedError


def cpu_of(task: Task) -> int:
    return task.shape.amounts.get("cpu", 0)


def idle_cpu(nodes: NodeView) -> Integers:
    return nodes.idle[nodes.nodes.axis.rows["cpu"]]


class BestFit(Policy):
    """Prefers the node with the least CPU and GPU left, each as a part of the largest node's.

    The study then stretches the scores of the candidates to 0…100. That keeps their order and their ties, since the
    scores differ by at most 100, so it is left out.
    """

    name = "best-fit"

    def score(self, task: Task, request: GpuRequest, nodes: NodeView, free: Integers) -> Integers:
        cpu_left = idle_cpu(nodes) - cpu_of(task)
        gpu_left = free.sum(axis=1) - request.gpus * request.milli
        left = cpu_left / MOST_CPU * 0.5 + gpu_left / MOST_GPU * 0.5
        return ((1.0 - left) * TOP).astype(np.int64)


class DotProd(Policy):
    """Prefers the node whose free resources are least aligned with the request (Tetris' alignment, turned round)."""

    name = "dot-prod"

    def score(self, task: Task, request: GpuRequest, nodes: NodeView, free: Integers) -> Integers:
        cpu = idle_cpu(nodes) / MOST_CPU * (cpu_of(task) / MOST_CPU)
        gpu = free.sum(axis=1) / MOST_GPU * (request.gpus * request.milli / MOST_GPU)
        return (TOP * (1.0 - (cpu + gpu) / 2)).astype(np.int64)


class GpuPacking(Policy):
    """Prefers GPUs in use, then free GPUs of nodes in use, then free nodes."""

    name = "gpu-packing"

    def score(self, task: Task, request: GpuRequest, nodes: NodeView, free: Integers) -> Integers:
        if not request.gpus:
            return np.zeros(len(nodes), np.int64)
        unused = (free == WHOLE_GPU).sum(axis=1)
        # The GPUs it would get. Where there are too few, the score is not used.
        taken = np.sort(np.where(free >= request.milli, free, 2 * WHOLE_GPU), axis=1)[:, : request.gpus]
        unused_taken = (taken == WHOLE_GPU).sum(axis=1)
        on_used_gpus = np.maximum(TOP - (taken * 100 // WHOLE_GPU).sum(axis=1) // 10, TOP // 2)
        on_used_node = np.maximum(TOP // 2 - unused_taken, TOP // 3)
        on_free_node = np.maximum(TOP // 3 - unused, unused)
        in_use = unused < self.gpu_share.gpus.count[nodes.index]
        return np.where(in_use, np.where(unused_taken > 0, on_used_node, on_used_gpus), on_free_node)


class GpuClustering(Policy, Ledger):
    """Prefers nodes with only pods of the same kind (a share, or so many GPUs), then nodes that have that kind, then
    free nodes; in each of these, fuller nodes."""

    name = "gpu-clustering"

    def open(self, session: Session) -> None:
        super().open(session)
        nodes = session.state.nodes
        self._count = np.zeros((len(nodes), 1 + MOST_GPU // WHOLE_GPU), np.int64)  # nodes × kinds
        for node, tasks in enumerate(nodes.on):
            for task in tasks.values():
                self._add(task, node, 1)

    def score(self, task: Task, request: GpuRequest, nodes: NodeView, free: Integers) -> Integers:
        if not request.gpus:
            return np.zeros(len(nodes), np.int64)
        present = self._count[nodes.index] > 0
        same, kinds = present[:, kind_of(request)], present.sum(axis=1)
        quarter = np.where(same, np.where(kinds == 1, 3, 2), np.where(kinds == 0, 1, 0))
        return TOP // 4 * (MOST_GPU - free.sum(axis=1)) // MOST_GPU + TOP // 4 * quarter

    def allocated(self, move: Move) -> None:
        for task, node in zip(move.tasks, move.nodes, strict=True):
            self._add(task, node, 1)

    def released(self, move: Move) -> None:
        for task, node in zip(move.tasks, move.nodes, strict=True):
            self._add(task, node, -1)

    def _add(self, task: Task, node: int, sign: int) -> None:
        request = self.gpu_share.request(task)
        if request.gpus:
            self._count[node, kind_of(request)] += sign


def kind_of(request: GpuRequest) -> int:
    return request.gpus if request.whole else 0


class Random(Policy):
    """Takes any node that fits, each with the same probability: a random number per pod and node, the largest wins."""

    name = "random"
    arguments = {SEED: "the seed of the random numbers (0)"}
    scope = Scope.CLUSTER  # another pod of the same kind gets other numbers

    def __init__(self, arguments: Arguments, option: PluginOption) -> None:
        super().__init__(arguments, option)
        self._numbers = np.random.default_rng(arguments.int(SEED, 0))

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        return self._numbers.random(len(nodes))


class RandomGpus(GpuShare):
    """gpu-share that places a share on any GPU with enough free, each with the same probability."""

    arguments = GpuShare.arguments | Random.arguments

    def __init__(self, arguments: Arguments, option: PluginOption) -> None:
        super().__init__(arguments, option)
        self.scores = RandomChoice(self, arguments.int(SEED, 0))


class RandomChoice(Scores):
    def __init__(self, gpu_share: GpuShare, seed: int) -> None:
        super().__init__(gpu_share.scores.rule, gpu_share.gpus)
        self._gpus = gpu_share.gpus
        self._numbers = np.random.default_rng((seed, 1))

    def choose(self, request: GpuRequest, cpu: int, node: int, free_cpu: int, kind: MoveKind) -> list[int]:
        if request.gpus != 1 or request.whole:
            return super().choose(request, cpu, node, free_cpu, kind)
        able = [gpu for gpu, free in enumerate(self._gpus.row(node, kind)) if free >= request.milli]
        return [able[self._numbers.integers(len(able))]] if able else []


CLASSES: dict[str, type[Plugin]] = {cls.name: cls for cls in (BestFit, DotProd, GpuPacking, GpuClustering, Random)}
