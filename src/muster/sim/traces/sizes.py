"""The size of jobs: their GPUs, and the size classes by which results are divided."""

from __future__ import annotations

import numpy as np

from muster.sim.traces.table import FloatArray, IntArray, Trace

__all__ = ["SIZES", "gpus", "size_classes", "sized_by"]

SIZES = ("0", "<1", "1", "2-4", "5-8", ">8")
_UPPER = (0.0, 0.9995, 1.0, 4.0, 8.0)  # of each size class but the last one


def gpus(trace: Trace) -> FloatArray:
    """Returns the GPUs of each job; a shared one is a fraction."""
    return trace.gpus * (trace.gpu_milli / 1000.0)


def sized_by(trace: Trace) -> str:
    """Returns what the size classes of a trace count."""
    return "gpus" if trace.gpus.any() else "pods"


def size_classes(trace: Trace) -> IntArray:
    """Returns the size class of each job: by its GPUs, or by its pods if no job of the trace has GPUs."""
    amounts = gpus(trace) if sized_by(trace) == "gpus" else np.maximum(trace.pods, 1).astype(np.float64)
    return np.searchsorted(np.array(_UPPER), amounts, side="left").astype(np.int64)
