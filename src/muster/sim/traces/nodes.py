"""Reads the nodes of a replay: the lists that are published with traces, or manifests."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from itertools import repeat

from muster.cluster.manifests import read as read_manifests
from muster.model.core import Node, NodeStatus
from muster.model.finding import InputError
from muster.model.meta import ObjectMeta, ResourceList
from muster.sim.inputs import usable_cluster
from muster.sim.traces.chunks import BadRows, Chunk, delimited, delimiter_of, text_lines
from muster.sim.traces.jobs import KEYS, read_jobs, resolve
from muster.sim.traces.names import job_names
from muster.sim.traces.source import READ_ERRORS, file_name, open_source, unusable

__all__ = ["MODEL_LABEL", "read_nodes"]

MODEL_LABEL = "nvidia.com/gpu.product"
PODS_PER_NODE = 110  # the kubelet's default
MOST_NODES = 1_000_000

NODE_LISTS: tuple[dict[str, str], ...] = (
    {"name": "sn", "cpu_milli": "cpu_milli", "memory_mib": "memory_mib", "gpus": "gpu", "model": "model"},  # openb
    {"name": "machine", "model": "gpu_type", "cpu": "cap_cpu", "memory_gib": "cap_mem", "gpus": "cap_gpu"},  # PAI 2020
    {"name": "node_name", "model": "gpu_model", "gpus": "gpu_capacity_num", "cpu": "cpu_num"},  # spot-2026
)
SWITCHES, NODES_OF_A_SWITCH = "num_switch", "num_node_p_switch"
CLUSTER_SPEC = {"cpu": "num_cpu_p_node", "memory_gib": "mem_p_node", "gpus": "num_gpu_p_node"}
"""Tiresias: each row is the size of equal nodes, and how many there are."""

_Row = tuple[str, int, int, int, str, int]


def read_nodes(paths: Sequence[str], gpu_resource: str = "nvidia.com/gpu") -> list[Node]:
    """Reads nodes from lists and manifests; "-" is stdin.

    Raises InputError also for a single bad row: a cluster of another size would answer another question.
    """
    nodes: list[Node] = []
    for path in paths:
        if path != "-" and os.path.isdir(path):
            nodes += usable_cluster(path).of(Node).values()
            continue
        with open_source(path) as stream:
            try:
                data = stream.read()
            except READ_ERRORS as error:
                raise unusable(file_name(path), f"cannot be read: {error}") from None
        nodes += _read_file(data, file_name(path), gpu_resource)
    names = [node.metadata.name for node in nodes]
    if not nodes:
        raise InputError(f"there is no node in {', '.join(map(file_name, paths)) or 'the input'}")
    if len(set(names)) < len(names):
        twice = sorted(name for name in set(names) if names.count(name) > 1)
        raise InputError(f"two files have a node with the name {twice[0]} (give each node once)")
    return nodes


def _read_file(data: bytes, file: str, gpu_resource: str) -> list[Node]:
    first = data[: data.find(b"\n") % (len(data) + 1)].decode("utf-8-sig", errors="replace").strip()
    delimiter = delimiter_of(first)
    header = [cell.strip() for cell in first.split(delimiter)]
    columns = _columns_of(header)
    if columns is None:
        if len(header) > 2 and ":" not in first and "{" not in first:
            fix = "give a list with the columns of openb, PAI, spot or Tiresias, or name, cpu, memory_gib, gpus, model"
            raise unusable(file, f"the columns are those of no list of nodes: {', '.join(header)[:200]}", fix, 1)
        return list(usable_cluster(read_manifests([(file, data)])).of(Node).values())
    rows = list(_rows(data, header, delimiter, columns, file))
    names = job_names([_raw_name(row[0], i) for i, row in enumerate(rows)])
    return [_node(name, *row[1:], gpu_resource) for name, row in zip(names, rows, strict=True)]


def _columns_of(header: list[str]) -> dict[str, str] | None:
    """Returns the column map of a list of nodes; None if the header is not that of one."""
    if {SWITCHES, NODES_OF_A_SWITCH} <= set(header):
        return CLUSTER_SPEC
    if "name" in header and len(header) > 1 and all(column in KEYS for column in header):
        return {column: column for column in header}
    return next((one for one in NODE_LISTS if set(one.values()) <= set(header)), None)


def _rows(data: bytes, header: list[str], delimiter: str, columns: dict[str, str], file: str) -> Iterator[_Row]:
    """Yields the name, cpu, memory, GPUs, model and pods of each node."""
    bad = BadRows(file, strict=True)
    lines = text_lines(io.BytesIO(data), bad)
    next(lines, None)  # the header
    resolved = resolve(columns, header, required=(), file=file)
    total = 0
    for chunk in delimited(lines, header, delimiter, bad):
        found = read_jobs(chunk, resolved, 0, bad)
        for line, milli in zip(chunk.lines.tolist(), found["gpu_milli"], strict=False):
            if milli != 1000:
                bad.add(line, "a node has a whole number of GPUs")
        bad.settle()
        counts = _counts(chunk, file)
        total += sum(counts)
        if total > MOST_NODES:
            raise unusable(file, f"has more than {MOST_NODES:,} nodes")
        parts = (found[name] for name in ("name", "cpu", "memory", "gpus", "model", "pods"))
        for count, (name, cpu, memory, gpus, model, pods) in zip(counts, zip(*parts, strict=True), strict=True):
            row = (str(name), int(cpu), int(memory), int(gpus), str(model), int(pods))
            yield from repeat(row, count)
    bad.settle()


def _counts(chunk: Chunk, file: str) -> list[int]:
    """Returns how many nodes each row is: one, unless it is a cluster specification of Tiresias."""
    if SWITCHES not in chunk.columns:
        return [1] * len(chunk.lines)
    counts: list[int] = []
    for line, switches, nodes in zip(
        chunk.lines.tolist(), chunk.columns[SWITCHES], chunk.columns[NODES_OF_A_SWITCH], strict=True
    ):
        try:
            count = int(switches) * int(nodes)
        except ValueError:
            count = 0
        if not 0 < count <= MOST_NODES:
            raise unusable(file, f"{switches} switches with {nodes} nodes each is no size of a cluster", "", line)
        counts.append(count)
    return counts


def _raw_name(name: str, i: int) -> str:
    return f"node-{name or f'{i:04d}'}" if not name or name.isdecimal() else name


def _node(name: str, cpu: int, memory: int, gpus: int, model: str, pods: int, gpu_resource: str) -> Node:
    labels = {"kubernetes.io/hostname": name, **({MODEL_LABEL: model} if model and gpus else {})}
    offered: ResourceList = {"cpu": f"{cpu}m", "pods": pods or PODS_PER_NODE}
    offered |= {resource: amount for resource, amount in {"memory": memory, gpu_resource: gpus}.items() if amount}
    status = NodeStatus(allocatable=offered, capacity=dict(offered))
    return Node(metadata=ObjectMeta(name=name, labels=labels), status=status)
