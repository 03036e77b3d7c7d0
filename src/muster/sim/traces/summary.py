"""Summarises a trace: how many jobs, when, for how long, and how much they request."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np

from muster.sim.traces.sizes import SIZES, gpus, size_classes, sized_by
from muster.sim.traces.table import BoolArray, FloatArray, Trace

__all__ = ["summary"]

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
