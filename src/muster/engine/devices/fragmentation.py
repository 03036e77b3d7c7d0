"""GPU fragmentation by the rules of the FGD study (Weng et al., USENIX ATC 2023), for all nodes at once.

The fragment of a node is what a typical pod cannot use of its idle GPUs. For a typical pod that requests no GPU, whose
models do not include the node's, or for which CPU or enough GPUs with enough free are missing, all idle thousandths
count; for another one, only the idle thousandths of GPUs with less free than it requests. The fragment of a node is the
mean over the typical pods by their weights.

A typical pod that fits leaves `above` (the idle thousandths of GPUs with enough free) usable, so the fragment is
idle − Σ weight × above over the typical pods that fit. Which of them fit depends on the node's model, on its free CPU
and on the number of GPUs with enough free. A table has the sum of their weights, so the cost per node grows with the
number of different thousandths that are requested, not with the number of typical pods. All of it is integers: a
fragment is multiplied by the total weight, and two equal states never differ by a rounding error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

__all__ = ["GPU_PARTS", "MOST_GPUS", "Fragmentation", "FragmentTable", "GpuDemand", "TypicalPod", "typical_pods"]

GPU_PARTS = 1000  # the parts of one GPU
MOST_GPUS = 16  # GPUs of one node that are followed
TYPICAL_SHARE = 0.95  # of all pods, the study's popularity threshold

Integers = NDArray[np.int64]
GpuDemand = tuple[int, int, int, tuple[str, ...]]
"""Pods that count as equal: milli-CPU, GPUs, thousandths of each GPU, and models (empty: any)."""


class TypicalPod(Struct, frozen=True):
    """Pods of one demand that are expected, and how often."""

    cpu: int
    gpus: int
    milli: int  # thousandths of each GPU
    models: tuple[str, ...] = ()  # empty: any
    weight: int = 1


class Fragmentation(Struct, frozen=True):
    """The fragmentation of a cluster, in GPUs."""

    amount: float  # idle, and of no use to the typical pod
    idle: float
    total: int

    @property
    def ratio(self) -> float:
        """Returns the part of the idle GPUs that is a fragment."""
        return self.amount / self.idle if self.idle else 0.0

    def __str__(self) -> str:
        part = self.amount / self.total if self.total else 0.0
        return (
            f"GPU fragmentation {self.amount:.2f} of {self.total:,} GPUs ({part:.1%}), "
            f"{self.ratio:.1%} of {self.idle:.2f} idle"
        )

    def to_dict(self) -> dict[str, float]:
        figures = {"amount": self.amount, "ratio": self.ratio, "idle": self.idle, "total": float(self.total)}
        return {name: round(figure, 6) for name, figure in figures.items()}


def typical_pods(
    demands: Iterable[GpuDemand] | Mapping[GpuDemand, int], share: float = TYPICAL_SHARE
) -> tuple[TypicalPod, ...]:
    """Returns the demands with their numbers of pods, the most frequent first, until they are this share of all pods.

    Of equally frequent demands the smaller comes first, so that the order of the pods does not matter.
    """
    counts = Counter(demands)
    order = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    enough = share * sum(counts.values())
    found: list[TypicalPod] = []
    covered = 0
    for (cpu, gpus, milli, models), count in order:
        if covered >= enough:
            break
        found.append(TypicalPod(cpu, gpus, milli, models, count))
        covered += count
    return tuple(found)


class FragmentTable:
    """Typical pods in the form that fragments are computed with. `models` are those of the nodes, by their code."""

    def __init__(self, pods: Sequence[TypicalPod], models: Sequence[str]) -> None:
        self.pods = tuple(pods)
        self.models = tuple(models)
        self.weight = sum(pod.weight for pod in pods)
        asking = [pod for pod in pods if pod.gpus > 0]
        self.steps: Integers = np.array(sorted({pod.milli for pod in asking}), np.int64)
        self.cpus: Integers = np.array(sorted({pod.cpu for pod in asking}), np.int64)
        # weights of the typical pods that request this step, at this rank of CPU, for this number of GPUs
        table = np.zeros((len(models), len(self.cpus) + 1, len(self.steps), MOST_GPUS + 1), np.int64)
        for pod in asking:
            step, rank = int(np.searchsorted(self.steps, pod.milli)), int(np.searchsorted(self.cpus, pod.cpu))
            for code, model in enumerate(models):
                if pod.gpus <= MOST_GPUS and (not pod.models or model in pod.models):
                    table[code, rank + 1, step, pod.gpus] += pod.weight
        # summed up: typical pods with at most so much CPU and at most so many GPUs
        self._table = table.cumsum(axis=1).cumsum(axis=3).ravel()
        self._counts = MOST_GPUS + 1
        self._row = len(self.steps) * self._counts
        self._offsets = np.arange(len(self.steps)) * self._counts

    def fragments(self, free: Integers, cpu: Integers, model: Integers) -> Integers:
        """Returns the fragment of each node times the total weight. `free`: nodes × GPUs, `model`: codes."""
        fits = free[:, :, None] >= self.steps
        above = (free[:, :, None] * fits).sum(axis=1)
        weights = self._table.take(self._at(cpu, model) + fits.sum(axis=1))
        fragments: Integers = self.weight * free.sum(axis=1) - (weights * above).sum(axis=1)
        return fragments

    def with_one_more(self, free: Integers, cpu: Integers, model: Integers, parts: Integers) -> Integers:
        """Returns the fragments, nodes × GPUs, if the parts (one number per node) of that GPU were taken."""
        fits = free[:, :, None] >= self.steps
        usable = free[:, :, None] * fits
        left = free - parts[:, None]
        fit_left = left[:, :, None] >= self.steps
        counts = fit_left.astype(np.int64)
        counts -= fits
        counts += fits.sum(axis=1)[:, None, :]
        above = left[:, :, None] * fit_left
        above -= usable
        above += usable.sum(axis=1)[:, None, :]
        counts += self._at(cpu, model)[:, None, :]
        weights = self._table.take(counts)
        weights *= above
        idle = free.sum(axis=1) - parts
        fragments: Integers = (self.weight * idle)[:, None] - weights.sum(axis=2)
        return fragments

    def _at(self, cpu: Integers, model: Integers) -> Integers:
        """Returns, nodes × steps, where the weights by the number of GPUs begin."""
        rank = np.searchsorted(self.cpus, cpu, side="right")
        return ((model * (len(self.cpus) + 1) + rank) * self._row)[:, None] + self._offsets

    def of_cluster(self, free: Integers, cpu: Integers, model: Integers, total: int) -> Fragmentation:
        """Returns the fragmentation of these nodes, which have so many GPUs."""
        free = np.maximum(free, 0)
        idle = int(free.sum()) / GPU_PARTS
        if not self.weight:
            return Fragmentation(0.0, idle, total)
        amount = int(self.fragments(free, cpu, model).sum()) / (self.weight * GPU_PARTS)
        return Fragmentation(amount, idle, total)
