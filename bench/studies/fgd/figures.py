"""The study's figures over the arrived demand: allocated GPUs, fragmentation amount, fragmentation ratio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from arrivals import Arrivals
from numpy.typing import NDArray
from openb import WHOLE_GPU

from muster.engine.devices.fragmentation import FragmentTable

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
FIGURES = ("alloc", "frag", "fragratio")
LAST_PERCENT = 130


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod that got a node: the pod's number, the node's number, and the GPUs."""

    pod: int
    node: int
    gpus: Sequence[int]


def curves(order: Arrivals, placed: Sequence[Placed], table: FragmentTable, model: Integers) -> dict[str, Floats]:
    """Returns the figures in percent, by the arrived demand in percent of all GPUs, 0 to 130.

    As in the study, a figure is the mean over the arrivals whose demand rounds to the percentage, pods without GPUs
    among them. Where there are none, as on a small cluster, it is that of the percentage before.
    """
    demand = np.array([pod.demand for pod in order.pods])
    capacity = WHOLE_GPU * sum(node.gpus for node in order.nodes)
    allocated = np.zeros(len(demand), np.int64)
    allocated[[one.pod for one in placed]] = demand[[one.pod for one in placed]]
    start, changes = _fragments(order, placed, table, model)
    fragment = np.zeros(len(demand), np.int64)
    fragment[[one.pod for one in placed]] = changes
    alloc = np.cumsum(allocated)
    frag = (start + np.cumsum(fragment)) / table.weight
    percent = np.minimum(np.round(100 * np.cumsum(demand) / capacity).astype(np.int64), LAST_PERCENT)
    number = np.bincount(percent, minlength=LAST_PERCENT + 1)
    latest = np.maximum.accumulate(np.where(number > 0, np.arange(LAST_PERCENT + 1), np.flatnonzero(number)[0]))
    values = (100 * alloc / capacity, 100 * frag / capacity, 100 * frag / np.maximum(capacity - alloc, 1))
    means = [np.bincount(percent, value, LAST_PERCENT + 1) / np.maximum(number, 1) for value in values]
    return {name: mean[latest] for name, mean in zip(FIGURES, means, strict=True)}


def _fragments(
    order: Arrivals, placed: Sequence[Placed], table: FragmentTable, model: Integers
) -> tuple[int, Integers]:
    """Returns the fragment of the empty nodes, and what each placement adds to it; both times the total weight."""
    width = max(node.gpus for node in order.nodes)
    free = [[WHOLE_GPU] * node.gpus + [0] * (width - node.gpus) for node in order.nodes]
    cpu = [node.cpu for node in order.nodes]
    # The states of nodes: first all nodes when they are empty, then the node of each placement after it.
    states, cpus = [list(row) for row in free], list(cpu)
    latest = list(range(len(order.nodes)))
    before: list[int] = []
    for one in placed:
        pod = order.pods[one.pod]
        cpu[one.node] -= pod.cpu
        for gpu in one.gpus:
            free[one.node][gpu] -= pod.milli
        before.append(latest[one.node])
        latest[one.node] = len(states)
        states.append(list(free[one.node]))
        cpus.append(cpu[one.node])
    nodes = np.array([*range(len(order.nodes)), *(one.node for one in placed)], np.int64)
    fragments = table.fragments(np.array(states), np.array(cpus), model[nodes])
    empty = len(order.nodes)
    return int(fragments[:empty].sum()), fragments[empty:] - fragments[np.array(before, np.int64)]
