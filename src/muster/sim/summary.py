"""Computes the figures of a run: pods, shares of queues, fragmentation, and warnings for the administrator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import asdict

from muster.engine.core.hooks import QueueShares
from muster.engine.core.jobs import ALLOCATED_LIKE, Job, Shape, Status, Task
from muster.engine.core.nodes import NodeView
from muster.engine.core.resources import exact_sum
from muster.engine.core.session import Session
from muster.engine.core.state import State
from muster.engine.devices.fragmentation import Fragmentation
from muster.engine.evictions.budgets import ledger_of
from muster.model.quantity import display, exact, rounded

Amounts = Mapping[str, float]
GPU = "nvidia.com/gpu"
_GPU_REQUESTS = {GPU, "volcano.sh/gpu-number", "volcano.sh/gpu-memory"}


class QueueShare(Struct, frozen=True):
    """A queue's part of the cluster, in internal units by resource."""

    allocated: Amounts
    deserved: Amounts
    capability: Amounts

    def to_dict(self) -> dict[str, Any]:
        """Returns the amounts for people, rounded, and under `exact` as quantities."""
        parts = {"allocated": self.allocated, "deserved": self.deserved, "capability": self.capability}
        return {**{part: _texts(of, rounded) for part, of in parts.items()},
                "exact": {part: _texts(of, exact) for part, of in parts.items()}}  # fmt: skip


def _texts(amounts: Amounts, form: Callable[[str, float], str]) -> dict[str, str]:
    return {name: form(name, amount) for name, amount in sorted(amounts.items())}


class Utilisation(Struct, frozen=True):
    """How much of a resource the pods on nodes request, and how much the nodes have, in internal units."""

    resource: str
    used: int
    allocatable: int

    def to_dict(self) -> dict[str, str]:
        return {"used": exact(self.resource, self.used), "allocatable": exact(self.resource, self.allocatable)}

    def __str__(self) -> str:
        """`88 of 96 nvidia.com/gpu`"""
        return f"{display(self.resource, self.used)} of {display(self.resource, self.allocatable)} {self.resource}"


class Summary(Struct):
    pods: int = 0  # in the cluster, whoever schedules them
    bound: int = 0
    pending: int = 0
    evicted: int = 0
    nodes: int = 0
    queues: dict[str, QueueShare] = field(default_factory=dict)
    utilisation: dict[str, Utilisation] = field(default_factory=dict)  # of each resource that pods request
    fragmentation: dict[str, float] = field(default_factory=dict)
    gpu_fragmentation: Fragmentation | None = None  # None: no pod shares a GPU
    settled: bool = False
    warnings: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, object]:
        """Returns the value of `summary` in -o json."""
        figures = {k: v for k, v in asdict(self).items() if k not in ("queues", "gpu_fragmentation", "utilisation")}
        if self.gpu_fragmentation is not None:
            figures["gpu_fragmentation"] = self.gpu_fragmentation.to_dict()
        queues = {name: share.to_dict() for name, share in sorted(self.queues.items())}
        used = {name: one.to_dict() for name, one in self.utilisation.items()}
        ratios = {name: round(ratio, 6) for name, ratio in self.fragmentation.items()}
        return {**figures, "utilisation": used, "fragmentation": ratios, "queues": queues}


def queue_shares(
    state: State, deserved: Mapping[str, Amounts], shared: Mapping[str, int] = MappingProxyType({})
) -> dict[str, QueueShare]:
    """Returns what each queue has allocated, its deserved share (from the plugin, else from the object) and its limit.

    `shared`: per queue the thousandths of shared GPUs, which no request counts.
    """
    shares = {}
    for name, queue in sorted(state.queues.items()):
        if queue.unused and len(state.queues) > 1:
            continue
        allocated: dict[str, int] = {}
        for job in queue.jobs.values():
            for resource, amount in job.allocated.items():
                allocated[resource] = allocated.get(resource, 0) + amount
        if name in shared:
            allocated[GPU] = allocated.get(GPU, 0) + shared[name]
        allocated = {resource: amount for resource, amount in allocated.items() if amount}
        shares[name] = QueueShare(allocated, deserved.get(name, queue.deserved), queue.capability)
    return shares


def utilisation(state: State, shared: int = 0) -> dict[str, Utilisation]:
    """Returns the use of each resource that pods request, sorted by name. `shared`: thousandths of shared GPUs, which
    no request counts."""
    view = state.nodes.everything()
    axis = view.nodes.axis
    shapes = {task.shape for task in state.tasks.values()}
    asked = {name for shape in shapes for name in shape.amounts} - {"pods"}
    asked |= {GPU} if shared else set()
    found = {}
    for name in sorted(asked & set(axis.rows)):
        row = axis.rows[name]
        used = exact_sum(view.used[row]) + (shared if name == GPU else 0)
        found[name] = Utilisation(name, used, exact_sum(view.alloc[row]))
    return found


def gpu_fragmentation(session: Session) -> Fragmentation | None:
    """Returns how fragmented the GPUs are; None if no pod shares a GPU."""
    return next((found for plugin in session.sharers if (found := plugin.fragmentation()) is not None), None)


def shared_gpus(session: Session) -> dict[str, int]:
    """Returns per queue the thousandths of GPUs that pods have by annotation, and not by a request for GPUs."""
    found: Counter[str] = Counter()
    for job in session.jobs.values():
        for task in job.tasks.values():
            if task.status in ALLOCATED_LIKE and _GPU_REQUESTS.isdisjoint(task.shape.amounts):
                for plugin in session.sharers:
                    found[job.queue_name] += sum((plugin.shares(task) or {}).values())
    return +found


def fragments(state: State, waiting: Iterable[str]) -> dict[str, float]:
    """Returns the share of the idle amount that no pending pod can use, per resource."""
    shapes = [state.tasks[key].shape for key in waiting if key in state.tasks]
    return fragmentation(state.nodes.everything(), shapes)


def deserved(session: Session) -> Mapping[str, Amounts]:
    """Returns the deserved share of each queue from the plugin that computes it (proportion, capacity)."""
    return next((plugin.deserved() for plugin in session.flat(QueueShares)), {})


_BOUND = (Status.BINDING, Status.BOUND, Status.RUNNING)


class Breaches:
    """Follows the evictions of one run."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._complete: set[str] = set()  # jobs that had their minimum when a pod of theirs was evicted
        self._budgets: dict[str, None] = {}

    def note(self, evicted: Collection[str]) -> None:
        """Records that the scheduler evicts these pods together. The state must not show it yet."""
        self.note_gangs(evicted)
        tasks = self._tasks(evicted)
        if tasks:
            self._budgets.update(dict.fromkeys(self._violated(tasks)))

    def note_gangs(self, evicted: Collection[str]) -> None:
        """Records evictions through the Eviction API, which checks the budgets itself."""
        for task in self._tasks(evicted):
            if task.job is not None and _members(task.job) >= task.job.min_available:
                self._complete.add(task.job.key)

    def _tasks(self, evicted: Collection[str]) -> list[Task]:
        return [self.state.tasks[key] for key in evicted if key in self.state.tasks]

    def _violated(self, evicted: list[Task]) -> Iterator[str]:
        ledger = ledger_of(self.state)
        counts = Counter(key for task in evicted for key in ledger.uses(task.pod))
        for key, count in sorted(counts.items()):
            if count > (allowed := ledger.left(key)):
                yield f"PodDisruptionBudget {key} is violated: {count} evicted in one cycle, {allowed} allowed"

    def warnings(self) -> list[str]:
        """Returns what is violated at the end of the run. The state must be that of the end."""
        return [*self._partial(), *self._budgets]

    def _partial(self) -> Iterator[str]:
        for key in sorted(self._complete):
            job = self.state.jobs.get(key)
            if job is None or not any(job.count[status] for status in _BOUND):
                continue
            if (members := _members(job)) < job.min_available:
                yield f"evictions left gang {key} below its minimum: {members} of {job.min_available} pods are bound"


def _members(job: Job) -> int:
    """Counts the pods for the minimum: bound and not terminating, or completed."""
    return sum(job.count[status] for status in (*_BOUND, Status.SUCCEEDED))


def fragmentation(nodes: NodeView, waiting: Iterable[Shape]) -> dict[str, float]:
    """Computes per resource the share of the idle amount that no pending pod can use, sorted by name.

    A node's idle amount is usable as far as copies of one pending shape would take it; the rest is fragmented. 0: all
    of it can be used, 1: none. Only resources that a pending shape requests have a figure: idle GPUs are not fragmented
    while only CPU pods are pending. `waiting`: the shapes of pods without a node, repetitions allowed.
    """
    axis = nodes.nodes.axis
    shapes = {shape.id: shape for shape in waiting}
    requested = {name for shape in shapes.values() for name, amount in shape.amounts.items() if amount > 0}
    idle = {axis.rows[name]: np.maximum(nodes.idle[axis.rows[name]], 0) for name in requested}
    usable = {row: np.zeros_like(free) for row, free in idle.items()}
    for shape in shapes.values():
        needs = axis.needs(shape.amounts)
        copies = np.min([idle[row] // amount for row, amount in needs], axis=0)
        for row, amount in needs:
            np.maximum(usable[row], copies * amount, out=usable[row])
    figures: dict[str, float] = {}
    for name in sorted(requested - {"pods"}):
        row = axis.rows[name]
        total = exact_sum(idle[row])
        figures[name] = (total - exact_sum(usable[row])) / total if total else 0.0
    return figures
