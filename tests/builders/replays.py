"""Small traces and replays with chosen outcomes, for tests of the figures and the pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from muster.sim.replay.records import Replay, Samples
from muster.sim.traces.table import Trace

GPU = "nvidia.com/gpu"
NAN = float("nan")
BAD = "<script>alert(1)</script>"


def trace(submit: Sequence[float], duration: Sequence[float], **columns: Any) -> Trace:
    """Makes a trace of jobs with one GPU each, in the queue "default"; `columns` replaces what differs."""
    jobs = len(submit)
    zeros = np.zeros(jobs, dtype=np.int64)
    ones = np.ones(jobs, dtype=np.int64)
    made: dict[str, Any] = {
        "source": "trace.csv",
        "epoch": 0.0,
        "names": [f"job-{i}" for i in range(jobs)],
        "submit": np.array(submit, dtype=np.float64),
        "duration": np.array(duration, dtype=np.float64),
        "estimate": np.full(jobs, NAN),
        "pods": ones,
        "minimum": zeros,
        "cpu": 1000 * ones,
        "memory": 2**30 * ones,
        "gpus": ones,
        "gpu_milli": 1000 * ones,
        "priority": zeros,
        "queue": zeros,
        "model": zeros,
        "user": zeros,
        "usage": np.ones(jobs),
        "queues": ("default",),
        "models": ("",),
        "users": ("",),
    }
    arrays = {k: np.array(v) if isinstance(v, list) and k != "names" else v for k, v in columns.items()}
    return Trace(**(made | arrays))


def replayed(
    jobs: Trace, start: Sequence[float], end: Sequence[float], samples: Samples | None = None, **more: Any
) -> Replay:
    """Makes a replay in which jobs start and end at these times; `nan` is never."""
    count = len(jobs)
    ends = np.array(end, dtype=np.float64)
    fields: dict[str, Any] = {
        "name": "a.yaml",
        "seed": None,
        "run": np.where(np.isfinite(ends), jobs.duration, 0.0),
        "lost": np.zeros(count),
        "evictions": np.zeros(count, dtype=np.int64),
        "node_losses": np.zeros(count, dtype=np.int64),
        "contention": np.ones(count),
        "first": float(jobs.submit[0]) if count else 0.0,
        "last": float(np.nanmax(ends)) if np.isfinite(ends).any() else 0.0,
    }
    arrays = {k: np.array(v) if isinstance(v, list) else v for k, v in more.items()}
    fields |= {"samples": samples or sampled(10.0, 0, jobs.queues), **arrays}
    return Replay(jobs, start=np.array(start, dtype=np.float64), end=ends, **fields)


def sampled(interval: float, intervals: int, queues: Sequence[str], **parts: Any) -> Samples:
    """Makes samples of GPUs: a capacity of 4, and nothing allocated but what `parts` says ([k, Q] each)."""
    k, q = intervals, len(queues)
    values: dict[str, Any] = {
        "capacity": np.full((k, 1), 4.0),
        "allocated": np.zeros((k, q)),
        "used": np.zeros((k, q)),
        "deserved": np.full((k, q), NAN),
        "waiting": np.zeros((k, q)),
        "running": np.zeros((k, q)),
        "fragment": np.full(k, NAN),
    }
    values |= {name: np.array(part, dtype=np.float64) for name, part in parts.items()}
    cubes = {name: values[name].reshape(k, q, 1) for name in ("allocated", "used", "deserved")}
    return Samples(interval, interval * np.arange(k), (GPU,), tuple(queues), **(values | cubes))


def example(
    name: str = "a.yaml", slow: float = 1.0, jobs: int = 40, queues: tuple[str, ...] = ("blue", "red"), **more: Any
) -> Replay:
    """Jobs of several queues and sizes, one every 600 s; one never starts."""
    number = np.arange(jobs)
    made = trace(
        (600.0 * number).tolist(), [900.0] * jobs,
        queue=number % len(queues), queues=queues, gpus=1 + number % 12, epoch=1_500_000_000.0,
    )  # fmt: skip
    start = made.submit + slow * number
    start[jobs // 2] = NAN
    parts = np.ones((20, len(queues)))
    samples = sampled(
        (600.0 * jobs + 900) / 20, 20, queues,
        allocated=parts, used=0.5 * parts, deserved=2 * parts, waiting=parts, running=parts, fragment=np.ones(20),
    )  # fmt: skip
    reasons = {jobs // 2: f"{BAD} Insufficient cpu"}
    return replayed(made, start.tolist(), (start + 900).tolist(), samples, name=name, reasons=reasons, **more)
