"""The GPUs of a cluster as columns: the free thousandths of each GPU of each node, and which pod has which of them.

There are two accounts, like those of a node's resources: `idle` is free now, `future` is free once terminating pods
have ended, less what is promised to pipelined pods. A move changes one pod's entries, and undoing it is the exact
inverse. The columns are kept from cycle to cycle; only nodes that changed are read again.

A pod on a node has the GPUs that its annotation names. Pods that name none (another scheduler bound them) are assigned
GPUs in a fixed order: whole GPUs first, then shares from the largest to the smallest, then by name. Whole GPUs are the
first that are entirely free, a share is on the fullest GPU that has enough free. If none has, the GPUs with the most
free are overcommitted: nothing else is placed on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from muster.engine.core.axis import Axis
from muster.engine.core.jobs import Status, Task
from muster.engine.core.nodes import MoveKind, Nodes
from muster.engine.core.state import State
from muster.engine.devices.fragmentation import GPU_PARTS, MOST_GPUS
from muster.model.quantity import whole
from muster.plugins.gpu_share.requests import (
    CARD_MEMORY,
    GPU,
    VOLCANO_MEMORY,
    VOLCANO_NUMBER,
    GpuRequest,
    read_index,
)

Integers = NDArray[np.int64]
RequestOf = Callable[[Task], GpuRequest]


class PodGpus(Struct, frozen=True):
    """The GPUs of one pod, and the thousandths of each."""

    ids: tuple[int, ...]
    parts: int


class NodeGpus(Struct):
    """What was read of a node that has GPUs."""

    of_pods: dict[str, PodGpus] = field(default_factory=dict)  # pod → its GPUs
    faults: list[tuple[str, str]] = field(default_factory=list)  # pod, why its annotations are not used


class Devices:
    def __init__(self, request_of: RequestOf) -> None:
        self._request_of = request_of
        self.nodes = Nodes(Axis(), ())
        self.generation = 0  # grows when all nodes are read anew
        self._seen: Integers = np.zeros(0, np.int64)
        self._read: dict[int, NodeGpus] = {}
        self.of_pods: dict[str, PodGpus] = {}  # pods placed in this cycle, at once or later
        self.width = 1
        self.any = False  # whether a node has GPUs
        self._size(0)

    def _size(self, nodes: int) -> None:
        self.count: Integers = np.zeros(nodes, np.int64)  # GPUs of each node that are followed
        self.card: Integers = np.zeros(nodes, np.int64)  # MiB of one GPU, 0: not known
        self.offered: Integers = np.zeros(nodes, np.int64)  # also of nodes with more GPUs than are followed
        self.changes: Integers = np.zeros(nodes, np.int64)  # grows with every change of the node's entries
        self.idle: Integers = np.zeros((nodes, self.width), np.int64)
        self.future: Integers = np.zeros((nodes, self.width), np.int64)
        # by kind of move: the most that one GPU has free, and how many are entirely free
        self._most = [np.zeros(nodes, np.int64) for _ in range(2)]
        self._unused = [np.zeros(nodes, np.int64) for _ in range(2)]

    # --- reading

    def open(self, state: State) -> list[int]:
        """Reads the nodes that changed since the last cycle; returns them."""
        nodes = state.nodes
        offered, volcano, memory = (_offered(nodes, name) for name in (GPU, VOLCANO_NUMBER, VOLCANO_MEMORY))
        offered = np.where(offered > 0, offered, volcano)
        count = np.where(offered <= MOST_GPUS, offered, 0)
        width = int(count.max(initial=1))
        if nodes is not self.nodes or width != self.width or self.of_pods:
            self.nodes, self.width = nodes, width
            self._read.clear()
            self.of_pods.clear()
            self._size(len(nodes))
            self.generation += 1
            changed = list(range(len(nodes)))
        else:
            changed = np.flatnonzero(nodes.changes != self._seen).tolist()
        self._seen = nodes.changes.copy()
        self.offered, self.count = offered, count
        self.any = bool(offered.any())
        for node in changed:
            self._read.pop(node, None)
            if count[node]:
                label = whole(nodes.labels.of(node).get(CARD_MEMORY, ""))
                shared = int(memory[node] // volcano[node]) if volcano[node] else 0
                self.card[node] = label if label is not None and label > 0 else shared
                self._read_pods(node, nodes.on[node].values())
            elif self.idle[node].any():
                self.idle[node] = self.future[node] = 0
                self._sum_up(node)
        return changed

    def _read_pods(self, node: int, tasks: Iterable[Task]) -> None:
        here = NodeGpus()
        self.idle[node] = np.where(np.arange(self.width) < self.count[node], GPU_PARTS, 0)
        self.future[node] = self.idle[node]
        unnamed: list[tuple[bool, int, str, Task, GpuRequest]] = []
        for task in tasks:
            request = self._request_of(task)
            if request.fault:
                here.faults.append((task.key, f"has no GPUs: {request.fault}"))
            if not request.gpus:
                continue
            parts = min(request.parts(int(self.card[node])), GPU_PARTS)
            ids = read_index(task.annotations, request)
            fault = None if ids is None else self._fault(ids, request.gpus, node)
            if fault:
                here.faults.append((task.key, f"{fault}; others count as its GPUs"))
            if ids is None or fault:
                unnamed.append((not request.whole, -parts, task.key, task, request))
            else:
                self._observe(here, task, node, ids, parts)
        for _, less, _, task, request in sorted(unnamed, key=lambda entry: entry[:3]):
            row = self.idle[node, : self.count[node]].tolist()
            ids = fullest(row, request.gpus, -less) or _roomiest(row, request.gpus)
            self._observe(here, task, node, ids, -less)
        here.faults.sort()
        self._read[node] = here
        self._sum_up(node)

    def _observe(self, here: NodeGpus, task: Task, node: int, ids: Sequence[int], parts: int) -> None:
        here.of_pods[task.key] = PodGpus(tuple(ids), parts)
        self.idle[node, ids] -= parts
        if task.status != Status.RELEASING:
            self.future[node, ids] -= parts

    def _fault(self, ids: Sequence[int], gpus: int, node: int) -> str:
        last = int(self.count[node]) - 1
        if len(ids) != gpus or len(set(ids)) != gpus:
            return f"names {len(set(ids))} GPUs and requests {gpus}"
        if min(ids) < 0 or max(ids) > last:
            return f"names a GPU that is not one of 0 to {last}"
        return ""

    # --- answers

    def row(self, node: int, kind: MoveKind) -> list[int]:
        """Returns the free thousandths of the node's GPUs for a pod that is placed now, or later (PIPELINE)."""
        future: list[int] = self.future[node, : self.count[node]].tolist()
        if kind == MoveKind.PIPELINE:
            return future
        return list(map(min, self.idle[node, : self.count[node]].tolist(), future))

    def free(self, index: Integers, kind: MoveKind) -> Integers:
        """Returns the same for several nodes, nodes × GPUs; overcommitted GPUs have nothing free."""
        future = self.future[index]
        if kind != MoveKind.PIPELINE:
            np.minimum(future, self.idle[index], out=future)
        return np.maximum(future, 0, out=future)

    def parts(self, request: GpuRequest, index: Integers) -> Integers:
        """Returns the thousandths that the request needs of each GPU, by node."""
        if request.milli:
            return np.full(len(index), request.milli)
        card = self.card[index]
        return np.where(card > 0, -(-request.memory * GPU_PARTS // np.maximum(card, 1)), GPU_PARTS + 1)

    def fits(self, request: GpuRequest, index: Integers, kind: MoveKind) -> NDArray[np.bool_]:
        """Returns the nodes with enough GPUs that have enough free."""
        if request.whole:
            return self._unused[kind == MoveKind.PIPELINE][index] >= request.gpus
        parts = request.milli or self.parts(request, index)
        if request.gpus == 1:
            return self._most[kind == MoveKind.PIPELINE][index] >= parts
        enough = self.free(index, kind) >= (parts if request.milli else np.asarray(parts)[:, None])
        fits: NDArray[np.bool_] = enough.sum(axis=1) >= request.gpus
        return fits

    def at(self, node: int) -> NodeGpus | None:
        return self._read.get(node)

    def of(self, task: Task) -> PodGpus | None:
        """Returns the GPUs of a pod that is on a node, or was placed in this cycle."""
        here = self._read.get(task.node)
        return self.of_pods.get(task.key) or (here.of_pods.get(task.key) if here is not None else None)

    def shared(self) -> bool:
        """Returns whether a pod on a node has a part of a GPU."""
        return any(gpus.parts < GPU_PARTS for here in self._read.values() for gpus in here.of_pods.values())

    # --- moves

    def take(self, task: Task, node: int, kind: MoveKind, ids: Sequence[int], parts: int) -> None:
        """The pod is placed on these GPUs, now or later."""
        self.of_pods[task.key] = PodGpus(tuple(ids), parts)
        self._add(node, kind, ids, -parts)

    def give_back(self, task: Task, node: int, kind: MoveKind) -> None:
        """The placement is undone."""
        gpus = self.of_pods.pop(task.key, None)
        if gpus is not None:
            self._add(node, kind, gpus.ids, gpus.parts)

    def evict(self, task: Task, node: int, sign: int) -> None:
        """A pod on the node is evicted (+1), or its eviction is undone (−1)."""
        here = self._read.get(node)
        gpus = here.of_pods.get(task.key) if here is not None else None
        if gpus is not None:
            self._add(node, MoveKind.PIPELINE, gpus.ids, sign * gpus.parts)

    def _add(self, node: int, kind: MoveKind, ids: Sequence[int], parts: int) -> None:
        for i in ids:
            self.future[node, i] += parts
            if kind == MoveKind.ALLOCATE:
                self.idle[node, i] += parts
        self._sum_up(node)

    def _sum_up(self, node: int) -> None:
        idle, future = self.idle[node].tolist(), self.future[node].tolist()
        now = idle if idle == future else list(map(min, idle, future))
        for row, most, unused in zip((now, future), self._most, self._unused, strict=True):
            most[node] = max(row)
            unused[node] = row.count(GPU_PARTS)
        self.changes[node] += 1


def fullest(row: Sequence[int], gpus: int, parts: int) -> list[int]:
    """Returns the fullest GPUs that have enough free, of equal ones the first; of whole GPUs these are the first.

    Empty if there are not enough.
    """
    able = sorted((free, i) for i, free in enumerate(row) if free >= parts)
    return sorted(i for _, i in able[:gpus]) if len(able) >= gpus else []


def emptiest(row: Sequence[int], gpus: int, parts: int) -> list[int]:
    """Returns the GPUs with the most free, of equal ones the first. Empty if there are not enough."""
    able = sorted((-free, i) for i, free in enumerate(row) if free >= parts)
    return sorted(i for _, i in able[:gpus]) if len(able) >= gpus else []


def _roomiest(row: Sequence[int], gpus: int) -> list[int]:
    """Returns the GPUs that are overcommitted by a pod for which there is not enough."""
    return emptiest(row, min(gpus, len(row)), min(row))


def _offered(nodes: Nodes, name: str) -> Integers:
    row = nodes.axis.rows.get(name)
    if row is None:
        return np.zeros(len(nodes), np.int64)
    offered: Integers = nodes.alloc[row] // 1000
    return offered
