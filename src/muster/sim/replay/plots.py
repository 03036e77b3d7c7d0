"""The plots of a page about jobs: CDFs, bars with their spread over seeds, and heat maps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from muster.sim.replay.charts import (
    SMALL,
    Axis,
    Series,
    bar_chart,
    bar_rows,
    cdf,
    cdf_rows,
    figure,
    heat_map,
    key,
    line_chart,
    spread,
)
from muster.sim.replay.metrics import Figures, Groups, JobFigures, by_queue, by_size, job_figures, metrics
from muster.sim.replay.records import Replay
from muster.sim.replay.tables import lookup
from muster.sim.traces.table import BoolArray, FloatArray, Trace, sized_by

MAX_QUEUES = 16  # of the plots by queue: those with the most jobs
MAX_OVERLAID = 8  # CDFs of one configuration in one plot
HOURS = 24
SHARE_OF_JOBS = Axis("share of jobs", "%", low=0.0, high=1.0)


@dataclass(slots=True)
class Configuration:
    """The replays with one configuration, one for each seed; `figures` and `metrics` have one value for each."""

    name: str
    replays: list[Replay]
    figures: list[JobFigures]
    metrics: list[Figures]

    @property
    def trace(self) -> Trace:
        return self.replays[0].trace


def configurations(replays: Sequence[Replay]) -> list[Configuration]:
    """Returns the configurations in the order of their first replays."""
    found: dict[str, Configuration] = {}
    for replay in replays:
        one = found.setdefault(replay.name, Configuration(replay.name, [], [], []))
        one.replays.append(replay)
        one.figures.append(job_figures(replay))
        one.metrics.append(metrics(replay))
    return list(found.values())


@dataclass(frozen=True, slots=True)
class Measure:
    """A time of jobs: its name in texts and in the metrics, and its values."""

    name: str
    key: str
    values: Callable[[JobFigures], FloatArray]


WAITING = Measure("waiting time", "waiting", lambda figures: figures.waiting)
COMPLETION = Measure("completion time", "completion", lambda figures: figures.completion)


def overall_cdf(found: Sequence[Configuration], measure: Measure) -> str:
    """Draws the CDF of all jobs, one line for each configuration."""
    x = _time_axis(measure)
    lines = [_line(one, measure, one.name, None) for one in found]
    title = f"{measure.name.capitalize()} of all jobs"
    svg = line_chart(title, lines, x, SHARE_OF_JOBS, steps=True)
    return figure(title, svg, *cdf_rows(lines, x), note=_missing(found, measure))


def grouped_cdfs(found: Sequence[Configuration], measure: Measure, word: str) -> str:
    """Draws the CDFs by queue or by size class: a plot for each group with the configurations overlaid, or one plot
    with all groups if there is only one configuration."""
    groups = names_of(found, word)
    if len(groups) < 2:
        return ""
    title = f"{measure.name.capitalize()} by {word}"
    if len(found) == 1:
        x = _time_axis(measure)
        lines = [_line(found[0], measure, label(found[0].trace, word, g), (word, g)) for g in groups[:MAX_OVERLAID]]
        svg = line_chart(title, lines, x, SHARE_OF_JOBS, steps=True)
        chart = figure(title, svg, *cdf_rows(lines, x), note=_left_out(len(groups), MAX_OVERLAID, word))
        return f'<div class="charts">{chart}</div>'
    panels = {g: [_line(one, measure, one.name, (word, g)) for one in found] for g in groups[:MAX_QUEUES]}
    x = _time_axis(measure, max((v for lines in panels.values() for one in lines for v in one.x), default=None))
    plots = [
        figure(
            label(found[0].trace, word, name),
            line_chart(f"{title}: {name}", lines, x, SHARE_OF_JOBS, steps=True, size=SMALL, key=False),
            *cdf_rows(lines, x),
        )
        for name, lines in panels.items()
    ]
    note = _left_out(len(groups), MAX_QUEUES, word)
    text = f'<p class="soft">{note}</p>' if note else ""
    return f'<h3>{title}</h3>{key([one.name for one in found])}{text}<div class="charts small">{"".join(plots)}</div>'


def bars(found: Sequence[Configuration], measure: Measure, word: str) -> str:
    """Draws the mean of each queue or size class, a bar for each configuration, with the range over its seeds."""
    groups = names_of(found, word)[:MAX_QUEUES]
    y = Axis(f"mean {measure.name}", "s")
    path = (measure.key, f"{word}s")
    series = [
        spread(one.name, [[lookup(m, (*path, group, "mean")) for m in one.metrics] for group in groups])
        for one in found
    ]
    seeds = max(len(one.replays) for one in found)
    title = f"Mean {measure.name} by {word}"
    names = [label(found[0].trace, word, group) for group in groups]
    svg = bar_chart(title, names, series, y)
    notes = [f"The lines show the lowest and the highest of {seeds} seeds."] if seeds > 1 else []
    if missing := _missing(found, measure):
        notes.append(f"Without jobs that have no {measure.name}: {missing}.")
    return figure(title, svg, *bar_rows(names, series, y), note=" ".join(notes))


def heat_maps(found: Sequence[Configuration]) -> list[str]:
    """Draws the mean waiting time by queue and hour of the day of the submission, for each configuration."""
    queues = names_of(found, "queue")[:MAX_QUEUES]
    values = [_by_hour(one, queues) for one in found]
    known = [v for one in values for row in one for v in row if math.isfinite(v)]
    low = max(min(known, default=1.0), 1.0)
    axis = Axis("mean waiting time", "s", log=True, low=low, high=max([10 * low, *known]))
    hours = [f"{hour:02}" for hour in range(HOURS)]
    x_label = "hour of the submission" + (" (UTC)" if found[0].trace.epoch else ", counted from time zero of the trace")
    plots = []
    for one, cells in zip(found, values, strict=True):
        title = f"Waiting time by queue and hour: {one.name}"
        svg = heat_map(title, queues, hours, cells, axis, x_label=x_label)
        rows = [[queue, *map(axis.text, row)] for queue, row in zip(queues, cells, strict=True)]
        plots.append(figure(title, svg, ["queue", *hours], rows))
    return plots


def names_of(found: Sequence[Configuration], word: str) -> list[str]:
    """Returns the queues, those with the most jobs first, or the size classes in their order."""
    trace = found[0].trace
    if word == "size":
        return list(by_size(trace))
    counts = {name: int(mask.sum()) for name, mask in by_queue(trace).items()}
    return sorted(counts, key=lambda name: (-counts[name], name))


def label(trace: Trace, word: str, group: str) -> str:
    if word != "size":
        return group
    unit = "GPU" if sized_by(trace) == "gpus" else "pod"
    return f"{group} {unit}{'' if group in ('1', '<1') else 's'}"


def _groups(trace: Trace, word: str) -> Groups:
    return by_size(trace) if word == "size" else by_queue(trace)


def _line(one: Configuration, measure: Measure, name: str, group: tuple[str, str] | None) -> Series:
    """Returns the CDF of the jobs of all seeds; jobs without a value count, so the line ends below 100 %."""
    values: list[FloatArray] = []
    jobs = 0
    for replay, figures in zip(one.replays, one.figures, strict=True):
        mask: BoolArray = np.ones(len(replay.trace), dtype=np.bool_)
        if group is not None:
            mask = _groups(replay.trace, group[0]).get(group[1], ~mask)
        values.append(measure.values(figures)[mask])
        jobs += int(mask.sum())
    return cdf(name, np.concatenate(values).tolist(), jobs)


def _time_axis(measure: Measure, high: float | None = None) -> Axis:
    return Axis(f"{measure.name} (logarithmic)", "s", log=True, high=high)


def _missing(found: Sequence[Configuration], measure: Measure) -> str:
    what = "start" if measure is WAITING else "complete"
    counts = {one.name: sum(int(np.isnan(measure.values(f)).sum()) for f in one.figures) for one in found}
    return "; ".join(f"{name}: {n:,} job{'s' * (n != 1)} did not {what}" for name, n in counts.items() if n)


def _left_out(groups: int, most: int, word: str) -> str:
    return f"The {most} {word}s with the most jobs of {groups:,}." if groups > most else ""


def _by_hour(one: Configuration, queues: Sequence[str]) -> list[list[float]]:
    cells = np.full((len(queues), HOURS), math.nan)
    waiting = np.concatenate([figures.waiting for figures in one.figures])
    hour = np.concatenate([((r.trace.epoch + r.trace.submit) // 3600 % HOURS).astype(np.int64) for r in one.replays])
    masks = [by_queue(r.trace) for r in one.replays]
    none = [np.zeros(len(r.trace), dtype=np.bool_) for r in one.replays]
    for q, queue in enumerate(queues):
        mine = np.concatenate([mask.get(queue, zero) for mask, zero in zip(masks, none, strict=True)])
        mine &= np.isfinite(waiting)
        counts = np.bincount(hour[mine], minlength=HOURS)
        sums = np.bincount(hour[mine], weights=waiting[mine], minlength=HOURS)
        cells[q] = np.divide(sums, counts, out=cells[q], where=counts > 0)
    return [[float(value) for value in row] for row in cells]
