"""The study's input: nodes and pods in openb's format, and the published figures, from a folder of the user."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import click

from muster.engine.core.allocatable import allocatable_of
from muster.model.core import Node
from muster.plugins.gpu_share.requests import GPU
from muster.sim.traces import Trace, read_nodes, read_trace

NODES = "openb_node_list_gpu_node.csv"
PODS = "openb_pod_list_{}.csv"
PUBLISHED = "published.csv"
WHOLE_GPU = 1000


@dataclass(frozen=True, slots=True)
class NodeRow:
    name: str
    cpu: int  # milli
    gpus: int
    object: Node


@dataclass(frozen=True, slots=True)
class PodRow:
    """What a pod of the list requests; equal pods are equal rows."""

    cpu: int  # milli
    memory: int  # bytes
    gpus: int
    milli: int  # thousandths of each GPU
    models: str  # joined by "|"; "" is any

    @property
    def demand(self) -> int:
        """Returns the thousandths of GPUs that it requests."""
        return self.gpus * self.milli

    @property
    def shared(self) -> bool:
        return self.gpus == 1 and self.milli < WHOLE_GPU


@dataclass(frozen=True)
class Workload:
    """The nodes, and the pods of one list in the order of their names."""

    name: str
    nodes: tuple[NodeRow, ...]
    pods: tuple[PodRow, ...]

    @cached_property
    def capacity(self) -> int:
        """Returns the thousandths of all GPUs."""
        return WHOLE_GPU * sum(node.gpus for node in self.nodes)


Figures = dict[str, tuple[float, float]]
"""Mean and standard deviation over the seeds, by the name of the figure: `alloc_130`, `frag_90`, `fragratio_100` …"""


def workload_names(folder: Path) -> list[str]:
    head, tail = PODS.split("{}")
    return sorted(path.name[len(head) : -len(tail)] for path in folder.glob(PODS.format("*")))


def read_workload(folder: Path, name: str) -> Workload:
    """Reads the nodes and one list of pods. Raises InputError."""
    nodes = sorted(map(_node, read_nodes([str(folder / NODES)])), key=lambda node: node.name)
    trace = read_trace([str(folder / PODS.format(name))], format="openb")
    for finding in trace.findings:
        click.echo(finding, err=True)
    rows = sorted(range(len(trace)), key=trace.names.__getitem__)
    return Workload(name, tuple(nodes), tuple([_pod(trace, row) for row in rows]))


def _node(node: Node) -> NodeRow:
    offered = allocatable_of(node)
    return NodeRow(node.metadata.name, offered["cpu"], offered.get(GPU, 0) // 1000, node)


def _pod(trace: Trace, row: int) -> PodRow:
    cpu, memory, gpus = int(trace.cpu[row]), int(trace.memory[row]), int(trace.gpus[row])
    if not gpus:
        return PodRow(cpu, memory, 0, 0, "")
    return PodRow(cpu, memory, gpus, int(trace.gpu_milli[row]), trace.models[trace.model[row]])


def read_published(folder: Path) -> dict[tuple[str, str], Figures]:
    """Returns the published figures by workload and policy; none if the folder has none."""
    path = folder / PUBLISHED
    found: dict[tuple[str, str], Figures] = {}
    if not path.exists():
        return found
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            names = [key.removesuffix("_mean") for key in row if key.endswith("_mean")]
            figures = {name: (float(row[f"{name}_mean"]), float(row[f"{name}_sd"])) for name in names}
            found[row["workload"], row["policy"].partition("-")[2] or row["policy"]] = figures
    return found
