"""The figures of a replay as plain values for JSON: the same bytes for the same replay, `None` where there is no value.

docs/reference/replay-results.md defines each key. Percentiles interpolate linearly between the two nearest ranks.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from muster.sim.replay.cluster_use import (
    gpu_resource,
    has_demand,
    idle_over_time,
    jain,
    jain_over_time,
    lengths,
    main_resource,
    mean,
    share_over_time,
)
from muster.sim.replay.records import Replay
from muster.sim.traces.table import SIZES, BoolArray, FloatArray, IntArray, Trace, gpus, size_classes, sized_by

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


DIGITS = 6
PERCENTILES = (50, 90, 99)
CDF_SHARES = (*(round(i / 20, 2) for i in range(20)), 0.99, 1.0)
NO_REASON = "not recorded"

Figures = dict[str, object]


def metrics(replay: Replay) -> Figures:
    """Returns the figures of one replay."""
    jobs = job_figures(replay)
    return {
        "seed": replay.seed,
        "cycles": replay.cycles,
        "warnings": list(replay.warnings),
        "jobs": _jobs(replay),
        "time": _time(replay),
        "size_by": sized_by(replay.trace),
        "cdf_shares": list(CDF_SHARES),
        "waiting": _grouped(replay, jobs.waiting, cdf=True),
        "completion": _grouped(replay, jobs.completion, cdf=True),
        "slowdown": _grouped(replay, jobs.slowdown),
        "finish_time_ratio": _grouped(replay, jobs.finish_ratio, above_1=True),
        "resources": _resources(replay),
        "fragmentation": _fragmentation(replay),
        "fairness": _fairness(replay, jobs.finish_ratio),
        "evictions": _evictions(replay),
    }


def timing_summary(replay: Replay) -> Figures:
    """Returns the seconds that the scheduler's cycles took. They are measured, so they are never part of the result."""
    found = distribution(replay.timings)
    return {
        "cycles": len(replay.timings),
        **{key: found[key] for key in ("mean", "p50", "p99", "max")},
        "total": rounded(float(replay.timings.sum())),
    }


def rounded(value: float) -> float | None:
    """Returns a figure for JSON: None instead of nan and infinity."""
    return round(float(value), DIGITS) + 0.0 if math.isfinite(value) else None


def distribution(values: FloatArray, cdf: bool = False, above_1: bool = False) -> Figures:
    """Returns how many of the values are not nan, their mean, percentiles and maximum, and points of their CDF."""
    good = values[np.isfinite(values)]
    known = len(good) > 0
    marks = np.percentile(good, PERCENTILES).tolist() if known else [math.nan] * len(PERCENTILES)
    found: Figures = {"count": len(good), "mean": rounded(float(good.mean())) if known else None}
    found |= {f"p{p}": rounded(mark) for p, mark in zip(PERCENTILES, marks, strict=True)}
    found["max"] = rounded(float(good.max())) if known else None
    if above_1:
        found["above_1"] = rounded(float((good > 1.0).mean())) if known else None
    if cdf:
        points = np.percentile(good, [100 * share for share in CDF_SHARES]).tolist() if known else []
        found["cdf"] = [rounded(point) for point in points]
    return found


def _grouped(replay: Replay, values: FloatArray, cdf: bool = False, above_1: bool = False) -> Figures:
    trace = replay.trace
    groups = {"queues": by_queue(trace), "sizes": by_size(trace), "priorities": by_priority(trace)}
    return {
        "all": distribution(values, cdf, above_1),
        **{
            kind: {name: distribution(values[mask], cdf, above_1) for name, mask in found.items()}
            for kind, found in groups.items()
        },
    }


def _jobs(replay: Replay) -> Figures:
    started, completed = np.isfinite(replay.start), np.isfinite(replay.end)
    open_jobs = np.flatnonzero(~completed).tolist()
    reasons = Counter(replay.reasons.get(job, NO_REASON) for job in open_jobs)
    return {
        "submitted": len(replay.trace),
        "bad_rows": replay.trace.bad_rows,
        "started": int(started.sum()),
        "completed": int(completed.sum()),
        "never_started": int((~started).sum()),
        "not_completed": len(open_jobs),
        "reasons": [
            {"reason": reason, "jobs": count} for reason, count in sorted(reasons.items(), key=lambda r: (-r[1], r[0]))
        ],
    }


def _time(replay: Replay) -> Figures:
    ends = replay.end[np.isfinite(replay.end)]
    return {
        "first_submission": rounded(replay.first) if len(replay.trace) else None,
        "last_event": rounded(replay.last) if len(replay.trace) else None,
        "makespan": rounded(float(ends.max()) - replay.first) if len(ends) else None,
    }


def _resources(replay: Replay) -> Figures:
    samples, weights = replay.samples, lengths(replay)
    found: Figures = {}
    for r, name in enumerate(samples.resources):
        capacity = mean(samples.capacity[:, r], weights)
        queues = {
            queue: {
                "allocated": rounded(mean(samples.allocated[:, q, r], weights)),
                "used": rounded(mean(samples.used[:, q, r], weights)),
                "share": rounded(_share(mean(samples.allocated[:, q, r], weights), capacity)),
            }
            for q, queue in sorted(enumerate(samples.queues), key=lambda entry: entry[1])
        }
        allocated = mean(samples.allocated[:, :, r].sum(axis=1), weights)
        used = mean(samples.used[:, :, r].sum(axis=1), weights)
        found[name] = {
            "capacity": rounded(capacity),
            "allocated": rounded(allocated),
            "used": rounded(used),
            "allocation": rounded(_share(allocated, capacity)),
            "utilisation": rounded(_share(used, capacity)),
            "queues": queues,
        }
    return found


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else math.nan


def _fragmentation(replay: Replay) -> Figures | None:
    samples, weights = replay.samples, lengths(replay)
    name = gpu_resource(samples)
    known = np.flatnonzero(np.isfinite(samples.fragment) & (weights > 0))
    if name is None or not len(known):
        return None
    weights = weights[known]
    amounts = samples.fragment[known]
    figures: Figures = {"gpus": {"mean": rounded(mean(amounts, weights)), "end": rounded(float(amounts[-1]))}}
    capacity = samples.capacity[known, samples.resources.index(name)]
    for key, whole in (("amount", capacity), ("ratio", idle_over_time(samples, name)[known])):
        figures[key] = {
            "mean": rounded(_share(mean(amounts, weights), mean(whole, weights))),
            "end": rounded(_share(float(amounts[-1]), float(whole[-1]))),
        }
    return figures


def _fairness(replay: Replay, finish_ratio: FloatArray) -> Figures:
    samples, weights = replay.samples, lengths(replay)
    queues = by_queue(replay.trace)
    means = np.array([_mean_of(finish_ratio[mask]) for mask in queues.values()], dtype=np.float64)
    found: Figures = {"resource": None, "jain": {"deserved": None, "finish_time": rounded(jain(means))}, "queues": {}}
    name = main_resource(replay)
    if name is None:
        return found
    share, deserved = share_over_time(samples, name)
    demand, backlog = has_demand(samples), samples.waiting > 0
    over_time = jain_over_time(samples, name)
    found["resource"] = name
    found["jain"] = {"deserved": rounded(mean(over_time, weights)), "finish_time": rounded(jain(means))}
    found["queues"] = {
        queue: {
            "share": rounded(mean(share[:, q], weights * demand[:, q])),
            "deserved": rounded(mean(deserved[:, q], weights * demand[:, q])),
            "gap": rounded(mean(np.abs(share[:, q] - deserved[:, q]), weights * demand[:, q])),
            "shortfall": rounded(mean(np.maximum(deserved[:, q] - share[:, q], 0.0), weights * backlog[:, q])),
        }
        for q, queue in sorted(enumerate(samples.queues), key=lambda entry: entry[1])
    }
    return found


def _mean_of(values: FloatArray) -> float:
    good = values[np.isfinite(values)]
    return float(good.mean()) if len(good) else math.nan


def _evictions(replay: Replay) -> Figures:
    hours = gpus(replay.trace) / 3600.0
    evictions, losses = int(replay.evictions.sum()), int(replay.node_losses.sum())
    return {
        "evictions": evictions,
        "node_losses": losses,
        "restarts": evictions + losses,
        "jobs": int(((replay.evictions + replay.node_losses) > 0).sum()),
        "pods": replay.pods_evicted,
        "lost_hours": rounded(float(replay.lost.sum()) / 3600.0),
        "lost_gpu_hours": rounded(float((replay.lost * hours).sum())),
        "gpu_hours": rounded(float((replay.run * hours).sum())),
    }
