"""Makes a trace from distributions, for tests, studies and what-if questions. All randomness comes from one seed.

Each column has its own stream of random numbers: another mix of queues does not change the arrivals. Only uniform
numbers are drawn, and times are rounded to milliseconds, so that a trace does not depend on the version of NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from muster.model.finding import InputError
from muster.sim.traces.names import label_value, valid_names
from muster.sim.traces.table import FloatArray, IntArray, Trace

__all__ = ["Recipe", "make_trace"]

DAY_S = 86_400.0
HOUR_S = 3_600.0
DIURNAL_PEAK_S = 15 * HOUR_S  # most jobs arrive at three in the afternoon
DIURNAL_SWING = 0.8  # the rate at the peak is 1.8 times the mean, at night 0.2 times
MAX_JOBS = 10_000_000
GIB = 2**30

_STREAMS = ("submit", "duration", "duration angle", "pods", "gpus", "queue", "priority", "model", "estimate")


@dataclass(frozen=True, slots=True)
class Recipe:
    """The distributions of a trace. Two of `jobs`, `hours` and `load` say how long it is and how dense.

    A mapping from values to weights is a mix. `load` is the offered load, that is the mean number of GPUs that the
    jobs would occupy if none waited, relative to `cluster_gpus`.
    """

    jobs: int | None = None
    hours: float | None = None
    load: float | None = None
    cluster_gpus: float = 64
    arrivals: Literal["poisson", "diurnal"] = "poisson"
    durations: Literal["lognormal", "exponential"] = "lognormal"
    mean_duration: float = 1_800.0
    median_duration: float | None = None
    sigma: float = 1.5
    pods: Mapping[int, float] = field(default_factory=lambda: {1: 1.0})
    gpus: Mapping[float, float] = field(default_factory=lambda: {1.0: 1.0})
    queues: Mapping[str, float] = field(default_factory=lambda: {"default": 1.0})
    priorities: Mapping[int, float] = field(default_factory=lambda: {0: 1.0})
    models: Mapping[str, float] = field(default_factory=lambda: {"": 1.0})
    estimate_error: float | None = None
    cpu_per_gpu: float = 8.0
    memory_gib_per_gpu: float = 64.0

    @property
    def mean(self) -> float:
        """The mean duration in seconds, which the median implies if it is given."""
        if self.median_duration is None:
            return self.mean_duration
        factor = math.exp(self.sigma**2 / 2) if self.durations == "lognormal" else 1 / math.log(2)
        return self.median_duration * factor

    @property
    def mean_gpus(self) -> float:
        """The mean number of GPUs of a job."""
        return _mean(self.pods) * _mean(self.gpus)


def make_trace(recipe: Recipe, seed: int = 0) -> Trace:
    """Makes the trace of a recipe. The same recipe and seed give the same trace. Raises InputError."""
    _check(recipe, seed)
    uniform = {name: np.random.Generator(np.random.PCG64([seed, i])) for i, name in enumerate(_STREAMS)}
    submit = _arrivals(recipe, uniform["submit"])
    n = len(submit)
    drawn = {name: stream.random(n) for name, stream in uniform.items() if name != "submit"}
    duration = _durations(recipe, drawn["duration"], drawn["duration angle"])
    pods = np.array(list(recipe.pods), dtype=np.int64)[_choice(recipe.pods, drawn["pods"])]
    per_pod = np.array(list(recipe.gpus), dtype=np.float64)[_choice(recipe.gpus, drawn["gpus"])]
    shared = (per_pod > 0) & (per_pod < 1)
    # A pod without a GPU gets the CPU and memory of one GPU, a pod with a part of a GPU gets that part.
    parts = np.where(per_pod > 0, per_pod, 1.0) * pods
    estimate = np.full(n, np.nan)
    if recipe.estimate_error is not None:
        estimate = np.round(duration * recipe.estimate_error ** (2 * drawn["estimate"] - 1), 3)
    queues, queue = _named(recipe.queues, drawn["queue"])
    models, model = _named(recipe.models, drawn["model"])
    return Trace(
        source=f"made with seed {seed}", epoch=0.0, names=[f"job-{i:06d}" for i in range(n)], submit=submit,
        duration=duration, estimate=estimate, pods=pods, minimum=np.zeros(n, dtype=np.int64),
        cpu=np.round(parts * recipe.cpu_per_gpu * 1000).astype(np.int64),
        memory=np.round(parts * recipe.memory_gib_per_gpu * GIB).astype(np.int64),
        gpus=(pods * np.ceil(per_pod)).astype(np.int64),
        gpu_milli=np.where(shared, np.round(per_pod * 1000), 1000).astype(np.int64),
        priority=np.array(list(recipe.priorities), dtype=np.int64)[_choice(recipe.priorities, drawn["priority"])],
        queue=queue, model=model, user=np.zeros(n, dtype=np.int64), usage=np.ones(n),
        queues=queues, models=models, users=("",),
    )  # fmt: skip


def _arrivals(recipe: Recipe, stream: np.random.Generator) -> FloatArray:
    """Draws the times of the arrivals, sorted.

    They are drawn for a Poisson process of rate one and then moved to the times at which as many arrivals are expected.
    """
    if recipe.load is None:
        assert recipe.jobs is not None and recipe.hours is not None
        rate = recipe.jobs / (recipe.hours * HOUR_S)
        # Given their number, the arrivals of a Poisson process are independent and uniform.
        whole = rate * _cumulative(recipe, np.array([recipe.hours * HOUR_S]))[0]
        expected = np.sort(stream.random(recipe.jobs)) * whole
    else:
        rate = recipe.load * recipe.cluster_gpus / (recipe.mean * recipe.mean_gpus)
        if recipe.jobs is not None:
            expected = np.cumsum(-np.log1p(-stream.random(recipe.jobs)))
        else:
            assert recipe.hours is not None
            whole = rate * _cumulative(recipe, np.array([recipe.hours * HOUR_S]))[0]
            if whole > MAX_JOBS:
                raise InputError(f"the trace would have about {whole:.3g} jobs, at most {MAX_JOBS:,} are possible")
            gaps = -np.log1p(-stream.random(int(whole + 10 * math.sqrt(whole) + 20)))
            expected = np.cumsum(gaps)
            expected = expected[expected < whole]
    return np.round(_when(recipe, expected / rate), 3)


def _cumulative(recipe: Recipe, times: FloatArray) -> FloatArray:
    """Returns the expected arrivals until each time, for a mean rate of one per second."""
    if recipe.arrivals == "poisson":
        return times
    turn = 2 * math.pi / DAY_S
    swing = np.sin(turn * (times - DIURNAL_PEAK_S)) + math.sin(turn * DIURNAL_PEAK_S)
    return times + DIURNAL_SWING / turn * swing


def _when(recipe: Recipe, expected: FloatArray) -> FloatArray:
    """Inverts `_cumulative` by bisection: it never decreases, and differs from the time by less than a day."""
    if recipe.arrivals == "poisson":
        return expected
    low, high = np.maximum(expected - DAY_S, 0.0), expected + DAY_S
    for _ in range(60):
        middle = (low + high) / 2
        late = _cumulative(recipe, middle) > expected
        low, high = np.where(late, low, middle), np.where(late, middle, high)
    return high


def _durations(recipe: Recipe, first: FloatArray, second: FloatArray) -> FloatArray:
    if recipe.durations == "exponential":
        drawn = -np.log1p(-first) * recipe.mean
    else:
        normal = np.sqrt(-2 * np.log1p(-first)) * np.cos(2 * math.pi * second)
        drawn = recipe.mean * np.exp(recipe.sigma * normal - recipe.sigma**2 / 2)
    return np.maximum(np.round(drawn, 3), 0.001)


def _choice(mix: Mapping[str, float] | Mapping[int, float] | Mapping[float, float], drawn: FloatArray) -> IntArray:
    weights = np.cumsum(np.array(list(mix.values()), dtype=np.float64))
    return np.searchsorted(weights / weights[-1], drawn, side="right").clip(0, len(mix) - 1)


def _named(mix: Mapping[str, float], drawn: FloatArray) -> tuple[tuple[str, ...], IntArray]:
    """Returns the names that occur, sorted, and for each job the index of its name."""
    names = list(mix)
    chosen = _choice(mix, drawn)
    there = sorted(names[i] for i in np.unique(chosen).tolist())
    index = np.array([there.index(name) if name in there else 0 for name in names], dtype=np.int64)
    return tuple(there), index[chosen]


def _mean(mix: Mapping[int, float] | Mapping[float, float]) -> float:
    return sum(value * weight for value, weight in mix.items()) / sum(mix.values())


def _check(recipe: Recipe, seed: int) -> None:
    """Raises InputError with the first thing that is wrong with the recipe."""
    given = [name for name in ("jobs", "hours", "load") if getattr(recipe, name) is not None]
    if len(given) != 2:
        raise InputError(f"two of jobs, hours and load define the length and the rate of a trace, not {len(given)}")
    above_zero = {
        "jobs": recipe.jobs, "hours": recipe.hours, "load": recipe.load, "cluster_gpus": recipe.cluster_gpus,
        "mean_duration": recipe.mean_duration, "median_duration": recipe.median_duration,
        "estimate_error": recipe.estimate_error,
    }  # fmt: skip
    for name, value in above_zero.items():
        if value is not None and not (0 < value < math.inf):
            raise InputError(f"{name} must be a number above 0, not {value}")
    for name, value in {"sigma": recipe.sigma, "cpu_per_gpu": recipe.cpu_per_gpu, "seed": seed,
                        "memory_gib_per_gpu": recipe.memory_gib_per_gpu}.items():  # fmt: skip
        if not 0 <= value < math.inf:
            raise InputError(f"{name} must be a number of at least 0, not {value}")
    if recipe.sigma > 10:
        raise InputError(f"sigma is at most 10, not {recipe.sigma}: durations would not be numbers")
    if recipe.jobs is not None and recipe.jobs > MAX_JOBS:
        raise InputError(f"jobs is at most {MAX_JOBS:,}, not {recipe.jobs:,}")
    for name in ("pods", "gpus", "queues", "priorities", "models"):
        weights = list(getattr(recipe, name).values())
        if not weights or not all(0 <= weight < math.inf for weight in weights) or not 0 < sum(weights) < math.inf:
            raise InputError(f"the weights of {name} must not be negative, and one must be above 0")
    changed = [name for name, valid in valid_names(recipe.queues, "queue").items() if name != valid]
    changed += [one for name in recipe.models for one in name.split("|") if one != label_value(one)]
    if changed:
        raise InputError(f"{changed[0]!r} is not a name that Kubernetes accepts (a queue: a-z, 0-9 and -)")
    if any(not 1 <= pods <= 100_000 for pods in recipe.pods):
        raise InputError("a job has 1 to 100,000 pods")
    if any(not 0 <= gpus <= 1000 or (gpus > 1 and gpus != int(gpus)) or 0 < gpus < 0.001 for gpus in recipe.gpus):
        raise InputError("a pod has no GPU, a part of one (0.001 to 0.999), or a whole number of GPUs")
    if recipe.load is not None and recipe.mean_gpus == 0:
        raise InputError("jobs without GPUs offer no load to GPUs: give jobs and hours instead of load")
