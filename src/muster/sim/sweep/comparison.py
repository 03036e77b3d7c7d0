"""Compares the configurations of a sweep, for each trace and cluster: means and spreads over the seeds, and the best.

Every configuration of a comparison ran the same jobs with the same seeds, so differences are taken seed by seed. A
difference counts as clear if its mean is larger than its standard deviation over the seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from muster.sim.sweep.cell import Cell
from muster.sim.sweep.figures import COMPARED, Figure, main_figures, number

__all__ = ["Best", "Comparison", "Contender", "compare"]

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
