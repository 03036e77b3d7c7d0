"""The use of the cluster over time: allocation, fragments, and each queue's share against its deserved share."""

from __future__ import annotations

import numpy as np

from muster.sim.replay.records import Replay, Samples
from muster.sim.traces.table import BoolArray, FloatArray

_OTHERS = ("cpu", "memory")


def lengths(replay: Replay) -> FloatArray:
    """Returns the seconds of each interval of the samples; the last one may be shorter."""
    times = replay.samples.times
    return np.clip(np.minimum(times + replay.samples.interval, replay.last) - times, 0.0, None)


def gpu_resource(samples: Samples) -> str | None:
    """Returns the name of the GPUs among the resources, if the cluster or a job has any."""
    for i, name in enumerate(samples.resources):
        if name not in _OTHERS and (samples.capacity[:, i].any() or samples.allocated[:, :, i].any()):
            return name
    return None


def main_resource(replay: Replay) -> str | None:
    """Returns the resource by which queues are compared: GPUs if a job requests one, else CPU."""
    gpu = gpu_resource(replay.samples)
    if gpu is not None and replay.trace.gpus.any():
        return gpu
    return "cpu" if "cpu" in replay.samples.resources else None


def share_over_time(samples: Samples, resource: str) -> tuple[FloatArray, FloatArray]:
    """Returns each queue's share and deserved share of a resource, [k, Q]; nan without capacity or deserved share."""
    r = samples.resources.index(resource)
    capacity = samples.capacity[:, r, None]
    return _ratio(samples.allocated[:, :, r], capacity), _ratio(samples.deserved[:, :, r], capacity)


def has_demand(samples: Samples) -> BoolArray:
    """Returns in which intervals a queue had jobs that waited or ran, [k, Q]."""
    return (samples.waiting + samples.running) > 0


def jain(values: FloatArray) -> float:
    """Jain's index (Σx)² / (n Σx²) of the values that are not nan: 1 if all are equal, 1/n if one has everything.

    nan for fewer than two values, or if all are zero.
    """
    x = values[np.isfinite(values)]
    if len(x) < 2 or not x.any():
        return float("nan")
    x = x / x.max()  # squares of very large or small values have no float
    return float(np.sum(x)) ** 2 / (len(x) * float(np.sum(x * x)))


def jain_over_time(samples: Samples, resource: str) -> FloatArray:
    """Returns per interval Jain's index of allocated / deserved over the queues with demand and a deserved share."""
    share, deserved = share_over_time(samples, resource)
    ratio = np.where(has_demand(samples), _ratio(share, deserved), np.nan)
    return np.array([jain(row) for row in ratio], dtype=np.float64)


def idle_over_time(samples: Samples, resource: str) -> FloatArray:
    r = samples.resources.index(resource)
    idle: FloatArray = np.maximum(samples.capacity[:, r] - samples.allocated[:, :, r].sum(axis=1), 0.0)
    return idle


def mean(values: FloatArray, weights: FloatArray) -> float:
    """Returns the weighted mean of the values that are not nan; nan if there is none."""
    good = np.isfinite(values) & (weights > 0)
    total = float(weights[good].sum())
    return float((values[good] * weights[good]).sum()) / total if total > 0 else float("nan")


def _ratio(over: FloatArray, under: FloatArray) -> FloatArray:
    with np.errstate(all="ignore"):
        return np.where(under > 0, over / under, np.nan)
