"""The typical pods of a trace, for FGD and the fragmentation figures of the plugin gpu-share."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

import numpy as np

from muster.engine.devices.fragmentation import GPU_PARTS, Kind, TypicalPod, typical_pods
from muster.sim.traces.table import Trace

__all__ = ["argument", "as_yaml", "typical_pods_of"]

ARGUMENT = "gpu-share.typicalPods"
Entry = dict[str, int | str | list[str]]


def typical_pods_of(trace: Trace) -> tuple[TypicalPod, ...]:
    """Returns the kinds of pods that are 95 % of the trace's pods. A job whose pods are not given counts as one pod."""
    pods = np.maximum(trace.pods, 1)
    models = [tuple(name.split("|")) if name else () for name in trace.models]
    counts: Counter[Kind] = Counter()
    columns = (trace.cpu // pods, trace.gpus // pods, trace.gpu_milli, trace.model, pods)
    for cpu, gpus, milli, model, count in zip(*(column.tolist() for column in columns), strict=True):
        counts[cpu, gpus, milli if gpus else 0, models[model]] += count
    return typical_pods(counts)


def argument(pods: Sequence[TypicalPod]) -> dict[str, list[Entry]]:
    """Returns the argument of gpu-share."""
    return {ARGUMENT: [_entry(pod) for pod in pods]}


def _entry(pod: TypicalPod) -> Entry:
    entry: Entry = {"cpu": pod.cpu // 1000 if pod.cpu % 1000 == 0 else f"{pod.cpu}m"}
    if pod.gpus:
        entry["gpus"] = pod.gpus
    if pod.gpus and pod.milli < GPU_PARTS:
        entry["milli"] = pod.milli
    if pod.models:
        entry["models"] = list(pod.models)
    return {**entry, "weight": pod.weight}


def as_yaml(pods: Sequence[TypicalPod]) -> str:
    """Returns the argument as YAML, one pod in each line. JSON is YAML, too, and needs no rules for quotes."""
    return "\n".join([f"{ARGUMENT}:", *(f"- {json.dumps(_entry(pod))}" for pod in pods)])
