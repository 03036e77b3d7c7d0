"""The use of the cluster over time.

The sampler has levels that change at events, their exact integrals, and means over intervals. From its samples come the
allocation, the fragments, and each queue's share against its deserved share.
"""

from __future__ import annotations

import math

import numpy as np

from muster.sim.replay.records import Replay, Samples
from muster.sim.traces.table import BoolArray, FloatArray, Trace

DEFAULT_INTERVALS = 500  # about
_NICE = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)


class Sampler:
    """Levels between two events are constant. `advance` goes to the next event before a level changes.

    Levels are in internal units (thousandths of cores and GPUs, bytes), so that their sums are exact.
    """

    def __init__(self, start: float, interval: float, resources: tuple[str, ...], queues: tuple[str, ...]) -> None:
        self._start = self._now = start
        self._interval = interval
        self.resources, self.queues = resources, queues
        q, r = len(queues), len(resources)
        self._levels = np.zeros(2 * q * r + 2 * q + r)
        self.allocated, self.used, self.waiting, self.running, self.capacity = _parts(self._levels, q, r)
        self.demand = np.zeros(r)  # of the jobs that wait or run
        self.deserved = np.full((q, r), np.nan)
        self.fragment = math.nan
        self._contention = np.zeros(r)  # ∫ max(1, demand / capacity)
        self._sums = np.zeros_like(self._levels)
        self._rows: list[tuple[FloatArray, FloatArray, float]] = []
        self.due = True  # deserved shares and fragments are read once in each interval

    def advance(self, to: float) -> None:
        if to <= self._now:
            return
        with np.errstate(divide="ignore", invalid="ignore"):
            pressed = np.where(self.demand > 0, self.demand / self.capacity, 1.0)
        pressed = np.where(np.isfinite(pressed), np.maximum(pressed, 1.0), 1.0)
        self._contention += pressed * (to - self._now)
        while to >= (edge := self._start + (len(self._rows) + 1) * self._interval):
            self._sums += self._levels * (edge - self._now)
            self._close(self._interval)
            self._now = edge
        self._sums += self._levels * (to - self._now)
        self._now = to

    def _close(self, length: float) -> None:
        self._rows.append((self._sums / length, self.deserved.copy(), self.fragment))
        self._sums = np.zeros_like(self._levels)
        self.due = True

    def contention(self) -> FloatArray:
        """Returns the integral of the contention up to now, per resource."""
        return self._contention.copy()

    def samples(self) -> Samples:
        """Returns the means, also of the last interval, which may be shorter."""
        edge = self._start + len(self._rows) * self._interval
        if self._now > edge:
            self._close(self._now - edge)
        q, r = len(self.queues), len(self.resources)
        k = len(self._rows)
        means = np.array([row for row, _, _ in self._rows]).reshape(k, len(self._levels))
        split = [_parts(row, q, r) for row in means]
        allocated, used, waiting, running, capacity = (
            np.array([parts[i] for parts in split]).reshape(k, *shape)
            for i, shape in enumerate(((q, r), (q, r), (q,), (q,), (r,)))
        )
        deserved = np.array([row for _, row, _ in self._rows]).reshape(k, q, r)
        fragment = np.array([row for _, _, row in self._rows], dtype=np.float64)
        times = self._start + np.arange(k, dtype=np.float64) * self._interval
        unit = np.array([1.0 if name == "memory" else 1000.0 for name in self.resources])
        return Samples(
            self._interval, times, self.resources, self.queues, capacity / unit, allocated / unit, used / unit,
            deserved / unit, waiting, running, fragment,
        )  # fmt: skip


def _parts(row: FloatArray, q: int, r: int) -> tuple[FloatArray, ...]:
    a, b, c, d = np.cumsum([q * r, q * r, q, q])
    return row[:a].reshape(q, r), row[a:b].reshape(q, r), row[b:c], row[c:d], row[d:]


def default_interval(trace: Trace) -> float:
    """Returns an interval of a usual length that divides the time of the trace into about 500 parts."""
    if not len(trace):
        return 1.0
    lengths = trace.duration[np.isfinite(trace.duration)]
    span = float(trace.submit[-1] - trace.submit[0]) + (float(np.percentile(lengths, 99)) if len(lengths) else 0.0)
    wanted = span / DEFAULT_INTERVALS
    return float(next((length for length in _NICE if length >= wanted), math.ceil(wanted / 86400) * 86400))


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
