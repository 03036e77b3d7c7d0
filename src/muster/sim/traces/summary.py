"""Summarises a trace: how many jobs, when, for how long, how much they request, and its typical pods.

The typical pods are for FGD and the fragmentation figures of the plugin gpu-share.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from muster.engine.devices.fragmentation import GPU_PARTS, GpuDemand, TypicalPod, typical_pods
from muster.sim.traces.table import SIZES, BoolArray, FloatArray, Trace, gpus, size_classes, sized_by

__all__ = ["summary", "argument", "as_yaml", "typical_pods_of"]

HOUR_S = 3600.0
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def summary(trace: Trace) -> dict[str, Any]:
    """Returns the value of `muster trace show -o json`.

    Hours of GPUs and cores are those of jobs that end. The mean of offered GPUs is their GPU time divided by the time
    between the first and the last submission.
    """
    first, last = float(trace.submit[0]), float(trace.submit[-1])
    ends = np.isfinite(trace.duration)
    hours = np.where(ends, trace.duration, 0.0) / HOUR_S
    gpu_hours = gpus(trace) * hours
    span = (last - first) / HOUR_S
    sizes = size_classes(trace)
    divided: dict[str, list[tuple[str | int, BoolArray]]] = {
        "queues": [(name, trace.queue == i) for i, name in enumerate(trace.queues)],
        "sizes": [(name, sizes == i) for i, name in enumerate(SIZES)],
        "priorities": [(int(value), trace.priority == value) for value in np.unique(trace.priority)],
        "models": [(name or "any", trace.model == i) for i, name in enumerate(trace.models)],
    }
    return {
        "source": trace.source,
        "jobs": len(trace),
        "badRows": trace.bad_rows,
        "firstSubmission": _time(trace, first),
        "lastSubmission": _time(trace, last),
        "hours": _rounded(span),
        "jobsPerHour": _rounded(len(trace) / span) if span else None,
        "meanOfferedGPUs": _rounded(gpu_hours.sum() / span) if span else None,
        "gpuHours": _rounded(gpu_hours.sum()),
        "cpuHours": _rounded((trace.cpu / 1000.0 * hours).sum()),
        "gangs": int((trace.pods > 1).sum()),
        "sharedGPUs": int((trace.gpu_milli < 1000).sum()),
        "endless": int((~ends).sum()),
        "estimated": int(np.isfinite(trace.estimate).sum()),
        "durations": _spread(trace.duration[ends]),
        "sizedBy": sized_by(trace),
        **{
            what: [_part(name, mask, gpu_hours, trace.duration[mask & ends]) for name, mask in parts if mask.any()]
            for what, parts in divided.items()
        },
    }


def _part(name: str | int, mask: BoolArray, gpu_hours: FloatArray, durations: FloatArray) -> dict[str, Any]:
    return {
        "name": name, "jobs": int(mask.sum()), "gpuHours": _rounded(gpu_hours[mask].sum()),
        "durations": _spread(durations),
    }  # fmt: skip


def _spread(seconds: FloatArray) -> dict[str, float] | None:
    """Returns the mean and quantiles; a quantile is the duration of a job (nearest rank)."""
    if not len(seconds):
        return None
    quantiles = np.quantile(seconds, list(QUANTILES.values()), method="inverted_cdf")
    return {"mean": _rounded(seconds.mean()), **dict(zip(QUANTILES, map(_rounded, quantiles.tolist()), strict=True))}


def _time(trace: Trace, seconds: float) -> str | float:
    """Returns a point in time: RFC 3339 if the trace has a time zero, else seconds."""
    if not trace.epoch:
        return _rounded(seconds)
    try:
        return datetime.fromtimestamp(trace.epoch + seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return _rounded(trace.epoch + seconds)


def _rounded(value: float) -> float:
    return round(float(value), 3)


ARGUMENT = "gpu-share.typicalPods"
Entry = dict[str, int | str | list[str]]


def typical_pods_of(trace: Trace) -> tuple[TypicalPod, ...]:
    """Returns the demands of 95 % of the trace's pods. A job whose pods are not given counts as one pod."""
    pods = np.maximum(trace.pods, 1)
    models = [tuple(name.split("|")) if name else () for name in trace.models]
    counts: Counter[GpuDemand] = Counter()
    columns = (trace.cpu // pods, trace.gpus // pods, trace.gpu_milli, trace.model, pods)
    for cpu, devices, milli, model, count in zip(*(column.tolist() for column in columns), strict=True):
        counts[cpu, devices, milli if devices else 0, models[model]] += count
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
