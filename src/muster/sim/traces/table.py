"""The jobs of a trace as columns; their GPUs, and the size classes by which results are divided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from muster.model.finding import Finding
from muster.sim.traces.names import job_names

__all__ = ["BoolArray", "FloatArray", "IntArray", "Trace", "SIZES", "gpus", "size_classes", "sized_by"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """The jobs of a trace as columns, sorted by their submission; jobs of one time keep their order."""

    source: str
    """The names of the files, for messages."""
    epoch: float
    """The Unix time of time zero; 0.0 if the trace has only relative times."""
    names: Sequence[str]
    """Unique names that Kubernetes accepts."""
    submit: FloatArray
    """Seconds since `epoch`."""
    duration: FloatArray
    """Seconds for which the job runs; inf if it never ends."""
    estimate: FloatArray
    """Seconds that the user estimated; nan if unknown."""
    pods: IntArray
    """Pods of the job; 0 if the trace does not say: the replay divides the job by the size of the nodes."""
    minimum: IntArray
    """Pods that must run at once (gang); 0 is all of them."""
    cpu: IntArray
    """Thousandths of a core, of the whole job."""
    memory: IntArray
    """Bytes, of the whole job."""
    gpus: IntArray
    """GPUs of the whole job."""
    gpu_milli: IntArray
    """Thousandths of each GPU: 1000 is a whole one, also where `gpus` is 0. Less only with one GPU per pod."""
    priority: IntArray
    """The priority of the pods."""
    queue: IntArray
    """An index into `queues`."""
    model: IntArray
    """An index into `models`."""
    user: IntArray
    """An index into `users`."""
    usage: FloatArray
    """The mean share of the requested GPUs that is used; 1.0 if the trace does not say."""
    queues: tuple[str, ...]
    """Names that Kubernetes accepts; "default" if the trace has no queues."""
    models: tuple[str, ...]
    """GPU models: "" is any, "V100M16|V100M32" is one of these."""
    users: tuple[str, ...]
    """Names of users; "" is unknown."""
    findings: tuple[Finding, ...] = ()
    """The first bad rows, each with its line."""
    bad_rows: int = 0
    """How many rows were left out."""

    def __len__(self) -> int:
        return len(self.submit)

    def select(self, chosen: IntArray | BoolArray) -> Trace:
        """Returns the chosen jobs (a mask, or indices) as a trace. They are sorted by submission again.

        A job that is chosen again is another job: a number is added to its name.
        """
        rows = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else np.asarray(chosen, dtype=np.int64)
        rows = rows[np.argsort(self.submit[rows], kind="stable")]
        columns = {name: getattr(self, name)[rows] for name in COLUMNS}
        names = [self.names[i] for i in rows.tolist()]
        if len(np.unique(rows)) < len(rows):
            names = job_names(names)
        return replace(self, names=names, **columns)


COLUMNS = tuple(field.name for field in fields(Trace) if str(field.type).endswith("Array"))
"""The names of the columns that are arrays."""


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
