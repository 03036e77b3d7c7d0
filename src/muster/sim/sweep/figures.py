"""The main figures of a replay: the columns of a sweep's table, and those by which configurations are compared."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.sim.replay.charts import Axis

__all__ = ["COLUMNS", "COMPARED", "Figure", "below", "main_figures"]


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
