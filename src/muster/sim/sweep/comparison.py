"""Compares the configurations of a sweep, for each trace and cluster: means and spreads over the seeds, and the best.

Every configuration of a comparison ran the same jobs with the same seeds, so differences are taken seed by seed. A
difference counts as clear if its mean is larger than its standard deviation over the seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from muster.sim.replay.charts import Axis
from muster.sim.sweep.cells import Cell

__all__ = ["COLUMNS", "COMPARED", "Figure", "below", "main_figures", "Best", "Comparison", "Contender", "compare"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure by which configurations are compared."""

    column: str
    name: str
    better: str  # the word for a better value
    unit: str = ""
    lower_is_better: bool = True
    missing: str = ""  # the column with the jobs that have no such figure
    groups: str = ""  # where the metrics have this figure by queue and size class

    def text(self, value: float) -> str:
        return Axis(self.name, self.unit).text(value)


COMPARED = (
    Figure("waiting_mean", "mean waiting time", "shorter", "s", missing="never_started", groups="waiting"),
    Figure("completion_mean", "mean completion time", "shorter", "s", missing="not_completed", groups="completion"),
    Figure("allocation", "allocation", "higher", "%", lower_is_better=False),
    Figure("jain_finish_time", "fairness (Jain's index)", "higher", lower_is_better=False),
)
"""The figures whose best configuration is marked."""

_PATHS: dict[str, tuple[str, ...]] = {
    "jobs": ("jobs", "submitted"),
    "never_started": ("jobs", "never_started"),
    "not_completed": ("jobs", "not_completed"),
    **{
        f"{name}_{part}": (name, "all", part)
        for name in ("waiting", "completion")
        for part in ("mean", "p50", "p90", "p99")
    },
    "slowdown_mean": ("slowdown", "all", "mean"),
    "slowdown_p99": ("slowdown", "all", "p99"),
    "makespan": ("time", "makespan"),
    "fragmentation_amount": ("fragmentation", "amount", "mean"),
    "fragmentation_ratio": ("fragmentation", "ratio", "mean"),
    "jain_deserved": ("fairness", "jain", "deserved"),
    "jain_finish_time": ("fairness", "jain", "finish_time"),
    "finish_time_ratio_mean": ("finish_time_ratio", "all", "mean"),
    "evictions": ("evictions", "evictions"),
    "node_losses": ("evictions", "node_losses"),
    "lost_gpu_hours": ("evictions", "lost_gpu_hours"),
    "gpu_hours": ("evictions", "gpu_hours"),
    "cycles": ("cycles",),
}
_MAIN_RESOURCE = ("capacity", "allocation", "utilisation")

COLUMNS = ("resource", *_MAIN_RESOURCE, *_PATHS)
"""The figures of a row. `resource` is the main resource: GPUs, or CPU if no job requests GPUs."""


def main_figures(metrics: Mapping[str, Any]) -> dict[str, float | int | str | None]:
    """Returns the columns of a replay; None where a figure has no value."""
    resource = below(metrics, "fairness", "resource")
    found: dict[str, float | int | str | None] = {"resource": resource}
    found |= {name: below(metrics, "resources", resource, name) for name in _MAIN_RESOURCE}
    return found | {column: below(metrics, *path) for column, path in _PATHS.items()}


def below(value: Any, *path: Any) -> Any:
    """Returns what is at the path; None if there is nothing."""
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def number(value: object) -> float:
    """Returns a figure as a number; nan if it has no value."""
    return float(value) if isinstance(value, int | float) else math.nan


MISSING_TOLERANCE = 0.01  # of the jobs


@dataclass(frozen=True, slots=True)
class Contender:
    """The replays of one configuration in a comparison, one for each seed."""

    configuration: str
    metrics: Sequence[dict[str, Any]]
    rows: Sequence[dict[str, Any]]

    def values(self, column: str) -> list[float]:
        return [number(row.get(column)) for row in self.rows]

    def mean(self, column: str) -> float:
        return fmean(self.values(column))

    def spread(self, column: str) -> float:
        """Returns the standard deviation over the seeds; nan with one seed."""
        values = self.values(column)
        return stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else math.nan


@dataclass(frozen=True, slots=True)
class Best:
    """The best configurations by one figure; several if they are equal."""

    figure: Figure
    best: Sequence[Contender]
    runner_up: Contender | None
    left_out: Sequence[Contender]
    """Configurations that left more jobs without this figure, so that their means cannot be compared."""

    @property
    def differences(self) -> list[float]:
        """How much better the best is than the runner-up, seed by seed."""
        if self.runner_up is None:
            return []
        sign = 1 if self.figure.lower_is_better else -1
        column = self.figure.column
        pairs = zip(self.best[0].values(column), self.runner_up.values(column), strict=True)
        return [sign * (other - mine) for mine, other in pairs]

    @property
    def difference(self) -> float:
        return fmean(self.differences) if self.runner_up is not None else math.nan

    @property
    def difference_spread(self) -> float:
        found = self.differences
        return stdev(found) if len(found) > 1 else math.nan

    @property
    def clear(self) -> bool | None:
        """Whether the difference is larger than its spread; None if there is no spread."""
        spread = self.difference_spread
        return None if math.isnan(spread) else self.difference > spread


@dataclass(frozen=True, slots=True)
class Comparison:
    """The configurations on one trace and one cluster."""

    trace: str
    cluster: str
    seeds: Sequence[int | None]
    contenders: Sequence[Contender]
    incomplete: Sequence[str]
    """Configurations that are left out because a cell failed."""
    best: Sequence[Best]


def compare(cells: Sequence[Cell], results: dict[str, dict[str, Any]]) -> list[Comparison]:
    """Returns a comparison for each trace and cluster, in the order of the grid."""
    places: dict[tuple[str, str], dict[str, list[Cell]]] = {}
    for cell in cells:
        places.setdefault((cell.trace, cell.cluster), {}).setdefault(cell.configuration, []).append(cell)
    found = []
    for (trace, cluster), by_configuration in places.items():
        contenders, incomplete = [], []
        for name, ran in by_configuration.items():
            if all(cell.key in results for cell in ran):
                metrics = [results[cell.key]["metrics"] for cell in ran]
                contenders.append(Contender(name, metrics, [main_figures(one) for one in metrics]))
            else:
                incomplete.append(name)
        seeds = [cell.seed for cell in next(iter(by_configuration.values()))]
        best = [one for figure in COMPARED if (one := _best(figure, contenders)) is not None]
        found.append(Comparison(trace, cluster, seeds, contenders, incomplete, best))
    return found


def _best(figure: Figure, contenders: Sequence[Contender]) -> Best | None:
    """Returns the best by a figure; None if no two configurations have it."""
    known = [one for one in contenders if math.isfinite(one.mean(figure.column))]
    if len(known) < 2:
        return None
    left_out: list[Contender] = []
    if figure.missing:
        least = min(one.mean(figure.missing) for one in known)
        limit = least + MISSING_TOLERANCE * max(one.mean("jobs") for one in known)
        left_out = [one for one in known if one.mean(figure.missing) > limit]
    fit = [one for one in known if one not in left_out]
    sign = 1 if figure.lower_is_better else -1
    ordered = sorted(fit, key=lambda one: sign * one.mean(figure.column))  # stable: ties in the order of the grid
    top = ordered[0].mean(figure.column)
    best = [one for one in ordered if one.mean(figure.column) == top]
    others = ordered[len(best) :]
    return Best(figure, best, others[0] if others else None, left_out)
