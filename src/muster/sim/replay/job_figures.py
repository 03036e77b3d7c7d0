"""The figures of each job: waiting time, completion time, bounded slowdown, finish-time ratio and size class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from muster.sim.replay.records import Replay
from muster.sim.traces.sizes import SIZES, size_classes
from muster.sim.traces.table import BoolArray, FloatArray, IntArray, Trace

SLOWDOWN_BOUND_S = 10.0  # a shorter job counts as so long: the bounded slowdown of HPC studies


@dataclass(frozen=True, slots=True)
class JobFigures:
    """One value for each job; nan if it did not start or complete."""

    waiting: FloatArray  # seconds from its submission to its first start
    completion: FloatArray  # seconds from its submission to its end
    slowdown: FloatArray
    finish_ratio: FloatArray
    size: IntArray  # an index into `SIZES`


def job_figures(replay: Replay) -> JobFigures:
    """Computes the figures of all jobs."""
    trace = replay.trace
    completion = replay.end - trace.submit
    slowdown = np.maximum(completion / np.maximum(replay.run - replay.lost, SLOWDOWN_BOUND_S), 1.0)
    shared = trace.duration * replay.contention  # the time on a cluster that all active jobs share equally
    with np.errstate(all="ignore"):
        ratio = np.where((shared > 0) & np.isfinite(shared), completion / shared, np.nan)
    return JobFigures(replay.start - trace.submit, completion, slowdown, ratio, size_classes(trace))


Groups = dict[str, BoolArray]


def by_queue(trace: Trace) -> Groups:
    """Returns the jobs of each queue that has jobs, as masks, sorted by name."""
    return dict(sorted(_masks(trace.queue, trace.queues), key=itemgetter(0)))


def by_size(trace: Trace) -> Groups:
    return dict(_masks(size_classes(trace), SIZES))


def by_priority(trace: Trace) -> Groups:
    return {str(value): trace.priority == value for value in np.unique(trace.priority).tolist()}


def _masks(indices: IntArray, names: tuple[str, ...]) -> Iterator[tuple[str, BoolArray]]:
    for index in np.unique(indices).tolist():
        yield names[index], indices == index
