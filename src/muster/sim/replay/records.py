"""The result of a replay: what happened to each job, and the use of the cluster over time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from muster.sim.traces.table import FloatArray as Floats
from muster.sim.traces.table import IntArray as Ints
from muster.sim.traces.table import Trace


@dataclass(slots=True)
class Samples:
    """Means over equal intervals of time: exact integrals, divided by the interval.

    k intervals, Q queues, R resources: cpu in cores, memory in bytes, GPUs (shared ones as fractions).
    """

    interval: float
    times: Floats  # [k] the start of each interval, in seconds of the trace
    resources: tuple[str, ...]
    queues: tuple[str, ...]
    capacity: Floats  # [k, R]
    allocated: Floats  # [k, Q, R] of pods that have a node
    used: Floats  # [k, Q, R] of jobs that run with their minimum; GPUs times the usage that the trace states
    deserved: Floats  # [k, Q, R] nan where no plugin computes one
    waiting: Floats  # [k, Q] jobs
    running: Floats  # [k, Q] jobs
    fragment: Floats  # [k] GPUs that are fragments; nan where no GPU is shared


@dataclass(slots=True)
class Replay:
    """One replay of a trace with one configuration. Arrays have one value for each job of the trace.

    Times are in seconds of the trace. `timings` is measured: it differs from run to run and is not part of the result.
    """

    trace: Trace
    name: str  # of the configuration
    seed: int | None
    samples: Samples
    start: Floats  # when the job first ran with its minimum; nan: never
    end: Floats  # when it completed; nan: it did not
    run: Floats  # seconds that it ran in all, also those lost
    lost: Floats  # seconds of running that evictions and lost nodes destroyed
    evictions: Ints  # how often an eviction stopped it; a gang counts once
    node_losses: Ints  # how often a node that left stopped it
    contention: Floats  # mean of the active jobs' demand over the capacity, at least 1, while it was in the system
    cycles: int = 0
    pods_evicted: int = 0
    first: float = 0.0  # the first submission
    last: float = 0.0  # the last event
    reasons: dict[int, str] = field(default_factory=dict)  # a job that did not complete → the scheduler's last reason
    warnings: tuple[str, ...] = ()
    timings: Floats = field(default_factory=lambda: np.zeros(0), repr=False)  # seconds of each cycle
