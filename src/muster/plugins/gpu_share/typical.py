"""The typical pods of FGD and of the fragmentation figures: a list in the configuration, or the pods of the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from muster.engine.core.jobs import Status, Task
from muster.engine.core.nodes import Nodes
from muster.engine.core.state import State
from muster.engine.devices.fragmentation import GPU_PARTS, MOST_GPUS, FragmentTable, GpuDemand, TypicalPod, typical_pods
from muster.model.quantity import QuantityError, milli
from muster.plugins.gpu_share.devices import Devices, Integers, RequestOf
from muster.plugins.gpu_share.requests import MODEL, models_of

if TYPE_CHECKING:
    from muster.config.types import Arguments

ARGUMENT = "gpu-share.typicalPods"
RUNNING = "running"
_KEYS = ("cpu", "gpus", "milli", "models", "weight")
_WEIGHT_PARTS = 1_000_000  # weights that are not whole numbers are rounded to this part of 1


class Typical:
    """Finds the typical pods, and keeps the table that is made of them while they and the models are the same."""

    def __init__(self, arguments: Arguments, request_of: RequestOf) -> None:
        self._request_of = request_of
        self._given = _listed(arguments)
        self._by_node: dict[int, Counter[GpuDemand]] = {}
        self._total: Counter[GpuDemand] = Counter()
        self._generation = -1
        self._table = FragmentTable((), ("",))

    def table(self, state: State, devices: Devices, changed: Iterable[int]) -> tuple[FragmentTable, Integers]:
        """Returns the table and the model of each node. `changed`: the nodes whose pods changed since the last call."""
        codes, values = state.nodes.labels.column(MODEL)
        models = tuple([value or "" for value in values])
        pods = self._given
        if pods is None:
            pods = typical_pods(self._demands(state, devices, changed))
        if pods != self._table.pods or models != self._table.models:
            self._table = FragmentTable(pods, models)
        return self._table, codes.astype(np.int64)

    def _demands(self, state: State, devices: Devices, changed: Iterable[int]) -> Mapping[GpuDemand, int]:
        """Returns how many pods of each demand are on nodes; if none of them requests GPUs, also those that wait."""
        if self._generation != devices.generation:
            self._generation = devices.generation
            self._by_node.clear()
            self._total.clear()
            changed = range(len(state.nodes))
        for node in changed:
            self._total -= self._by_node.pop(node, Counter())
            here = self._on(state.nodes, node, int(devices.card[node]))
            if here:
                self._by_node[node] = here
                self._total += here
        if any(gpus for _, gpus, _, _ in self._total):
            return self._total
        card = int(devices.card.max(initial=0))
        waiting = (task for task in state.tasks.values() if task.status == Status.PENDING)
        return self._total + Counter(self._demand(task, card) for task in waiting)

    def _on(self, nodes: Nodes, node: int, card: int) -> Counter[GpuDemand]:
        return Counter(self._demand(task, card) for task in nodes.on[node].values())

    def _demand(self, task: Task, card: int) -> GpuDemand:
        request = self._request_of(task)
        parts = min(request.parts(card), GPU_PARTS) if request.gpus else 0
        return task.shape.amounts.get("cpu", 0), request.gpus, parts, models_of(task.shape)


def _listed(arguments: Arguments) -> tuple[TypicalPod, ...] | None:
    """Returns the typical pods of the configuration; None: those of the cluster. Bad entries are left out."""
    given = arguments.get(ARGUMENT, RUNNING)
    if given == RUNNING:
        return None
    if not isinstance(given, list) or not given:
        arguments.warn(ARGUMENT, f"is neither {RUNNING} nor a list of pods: {RUNNING} is used", "give one of them")
        return None
    found: list[tuple[TypicalPod, float]] = []
    for at, entry in enumerate(given):
        try:
            found.append(_entry(entry))
        except (QuantityError, ValueError) as fault:
            message = f"entry {at + 1} is not used: {fault}"
            arguments.warn(ARGUMENT, message, f"write {{{', '.join(_KEYS)}}}, such as {{cpu: 4, gpus: 1, milli: 500}}")
    parts = 1 if all(weight == int(weight) for _, weight in found) else _WEIGHT_PARTS
    counted = [(pod, max(round(weight * parts), 1)) for pod, weight in found]
    pods = (TypicalPod(pod.cpu, pod.gpus, pod.milli, pod.models, weight) for pod, weight in counted)
    return tuple(pods) or None


def _entry(entry: Any) -> tuple[TypicalPod, float]:
    if not isinstance(entry, dict):
        raise ValueError("it is not a mapping")
    if unknown := sorted(str(key) for key in entry if key not in _KEYS):
        raise ValueError(f"unknown key {unknown[0]}")
    gpus, weight = _number(entry, "gpus", 0, MOST_GPUS), entry.get("weight", 1)
    part = _number(entry, "milli", 0, GPU_PARTS, GPU_PARTS if gpus else 0)
    if gpus and not part:
        raise ValueError("milli is 0")
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= 1e9:
        raise ValueError("weight is not a number above 0")
    models = entry.get("models", [])
    models = models.split("|") if isinstance(models, str) else models
    if not isinstance(models, list) or not all(isinstance(model, str) for model in models):
        raise ValueError("models is not a list of names")
    cpu = milli(entry.get("cpu", 0))
    return TypicalPod(cpu, gpus, part, tuple([model for model in models if model])), weight


def _number(entry: Mapping[str, Any], key: str, least: int, most: int, default: int = 0) -> int:
    value = entry.get(key, default)
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{key} is not a whole number from {least} to {most}")
    return value
