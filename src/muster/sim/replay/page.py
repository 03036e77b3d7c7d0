"""`muster replay -o html`: one self-contained page with the tables and the plots of replays. No script, nothing from
outside, and no time of day: the same replays give the same bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from muster.model.markup import escape
from muster.sim.replay.charts import SMALL, Axis, Series, figure, key, line_chart, line_rows, stacked_chart, thin
from muster.sim.replay.cluster_use import (
    gpu_resource,
    has_demand,
    idle_over_time,
    jain_over_time,
    main_resource,
    share_over_time,
)
from muster.sim.replay.plots import (
    COMPLETION,
    MAX_QUEUES,
    WAITING,
    Configuration,
    bars,
    configurations,
    grouped_cdfs,
    heat_maps,
    names_of,
    overall_cdf,
)
from muster.sim.replay.records import Replay, Samples
from muster.sim.replay.tables import SummaryTable, group_tables, reason_tables, summary_table
from muster.sim.report.elements import table
from muster.sim.report.frame import Section, document, section
from muster.sim.report.summary import warning_list
from muster.sim.traces.table import FloatArray


def page(replays: Sequence[Replay], title: str, origin: Sequence[tuple[str, str]] = ()) -> str:
    """Returns the page of replays. Replays with the same name are seeds of one configuration.

    `origin`: rows of the last table, such as the command and the hashes of the files. The traces are added
    here.
    """
    found = configurations(replays)
    parts: list[str | Section] = [section("Warnings", _warnings(replays))]
    if found:
        runs = {one.name: one.metrics for one in found}
        parts += [
            section("Summary", _table(summary_table(runs))),
            *(section(made.title, _table(made)) for made in reason_tables(runs)),
            section("Waiting and completion time", _charts([overall_cdf(found, m) for m in (WAITING, COMPLETION)])),
            *_by(found, "queue"),
            *_by(found, "size"),
            *_over_time(found),
            section("Tables", "".join(_folded(made) for made in group_tables(runs))),
        ]
    lead = f'<p class="lead">{escape(_lead(found))}</p>'
    return document(title, parts, verb="replay", lead=lead, origin=[*origin, *_origin(replays)])


def _lead(found: Sequence[Configuration]) -> str:
    if not found:
        return "There are no replays."
    jobs = " and ".join(dict.fromkeys(f"{len(one.trace):,} jobs" for one in found))
    names = ", ".join(one.name for one in found)
    seeds = max(len(one.replays) for one in found)
    times = f", {seeds} seeds each; the plots over time show the first seed" if seeds > 1 else ""
    return f"{jobs}, replayed in virtual time with {names}{times}."


def _warnings(replays: Sequence[Replay]) -> str:
    return warning_list(f"{replay.name}: {warning}" for replay in replays for warning in replay.warnings)


def _by(found: Sequence[Configuration], word: str) -> list[Section]:
    """Returns the plots by queue or by size class, if there are several."""
    if len(names_of(found, word)) < 2:
        return []
    charts = [bars(found, measure, word) for measure in (WAITING, COMPLETION)]
    heat = heat_maps(found) if word == "queue" else []
    cdfs = "".join(grouped_cdfs(found, measure, word) for measure in (WAITING, COMPLETION))
    return [section(f"By {word}", _charts([*charts, *heat]) + cdfs)]


def _over_time(found: Sequence[Configuration]) -> list[Section]:
    time = Timeline(found)
    main, others = stacks(found, time)
    folded = f"<details><summary>Other resources</summary>{_charts([others])}</details>" if others else ""
    return [
        section("Over time", _charts([main, *overlays(found, time)]) + folded),
        section("Share against deserved share", queue_shares(found, time)),
    ]


def _charts(charts: Sequence[str]) -> str:
    return f'<div class="charts">{"".join(charts)}</div>'


def _table(made: SummaryTable) -> str:
    notes = "".join(f'<p class="soft">{escape(note)}</p>' for note in made.notes)
    return table(made.head, made.rows, made.title) + notes


def _folded(made: SummaryTable) -> str:
    return f"<details><summary>{escape(made.title)}</summary>{_table(made)}</details>"


def _origin(replays: Sequence[Replay]) -> list[tuple[str, str]]:
    traces = dict.fromkeys(f"{r.trace.source}: {len(r.trace):,} jobs, {r.trace.bad_rows:,} bad rows" for r in replays)
    return [("trace", text) for text in traces]


MAX_BANDS = 8  # queues in a stack; the others are one band
_UNITS = ((3 * 86400.0, 86400.0, "days"), (3 * 3600.0, 3600.0, "hours"), (0.0, 60.0, "minutes"))
_GIB = 2.0**30


class Timeline:
    """The time axis that all plots of a page share: from the first submission to the last event of any replay."""

    def __init__(self, found: Sequence[Configuration]) -> None:
        self.first = min(one.replays[0].first for one in found)
        span = max(0.0, *(one.replays[0].last - self.first for one in found))
        _, self.unit, name = next(unit for unit in _UNITS if span >= unit[0])
        self.axis = Axis(f"{name} since the first submission", high=span / self.unit if span > 0 else None)

    def series(self, name: str, samples: Samples, values: FloatArray, style: int = -1) -> Series:
        """Returns a line with few points; each is a mean over an interval and is drawn at its middle."""
        if not len(values):
            return Series(name, [], [], style=style)
        times = (samples.times + samples.interval / 2 - self.first) / self.unit
        return Series(name, *thin(times.tolist(), values.tolist()), style=style)


def stacks(found: Sequence[Configuration], time: Timeline) -> tuple[str, str]:
    """Draws the allocation by queue for each configuration: of the main resource, and of the other resources."""
    main: list[str] = []
    others: list[str] = []
    for one in found:
        replay = one.replays[0]
        first = main_resource(replay)
        for r, name in enumerate(replay.samples.resources):
            if replay.samples.allocated[:, :, r].any() or name == first:
                (main if name == first else others).append(_stack(one, name, _largest(found, name), time))
    return "".join(main), "".join(others)


def _largest(found: Sequence[Configuration], resource: str) -> list[str]:
    """Returns the queues that use a resource, the largest first: all configurations have one order and one colour."""
    totals: dict[str, float] = {}
    for samples in (one.replays[0].samples for one in found if resource in one.replays[0].samples.resources):
        r = samples.resources.index(resource)
        for queue, amount in zip(samples.queues, samples.allocated[:, :, r].sum(axis=0).tolist(), strict=True):
            totals[queue] = totals.get(queue, 0.0) + amount
    return sorted((q for q, amount in totals.items() if amount > 0), key=lambda q: (-totals[q], q))


def _stack(one: Configuration, resource: str, largest: Sequence[str], time: Timeline) -> str:
    samples = one.replays[0].samples
    r = samples.resources.index(resource)
    largest = [queue for queue in largest if queue in samples.queues]
    unit = _GIB if resource == "memory" else 1.0
    names = sorted(samples.queues)
    bands = []
    for queue in largest[:MAX_BANDS]:
        values = samples.allocated[:, samples.queues.index(queue), r] / unit
        bands.append(time.series(queue, samples, values, names.index(queue)))
    if rest := largest[MAX_BANDS:]:
        columns = [samples.queues.index(queue) for queue in rest]
        values = samples.allocated[:, columns, r].sum(axis=1) / unit
        bands.append(time.series(f"{len(rest)} other queues", samples, values, len(names)))
    over = [
        time.series("capacity", samples, samples.capacity[:, r] / unit, 0),
        time.series("used", samples, samples.used[:, :, r].sum(axis=1) / unit, 2),
    ]
    y = Axis({"cpu": "CPU cores", "memory": "memory (GiB)"}.get(resource, resource))
    title = f"Allocated {resource} by queue: {one.name}"
    svg = stacked_chart(title, bands, time.axis, y, over=over)
    return figure(title, svg, *line_rows([*bands, *over], time.axis, y))


def overlays(found: Sequence[Configuration], time: Timeline) -> list[str]:
    """Draws one line for each configuration: allocation, use, waiting jobs, fragmentation and fairness over time."""
    share = Axis("share of the capacity", "%", low=0.0)
    name = next((name for one in found if (name := main_resource(one.replays[0]))), "")
    what = f"{name} " if name else ""
    rows: list[tuple[str, Axis, Callable[[Replay], FloatArray | None], str]] = [
        (f"Allocation of {what}over time", share, lambda r: _of_capacity(r, r.samples.allocated), ""),
        (f"Utilisation of {what}over time", share, lambda r: _of_capacity(r, r.samples.used), ""),
        ("Waiting jobs", Axis("jobs"), lambda r: r.samples.waiting.sum(axis=1), ""),
        ("Running jobs", Axis("jobs"), lambda r: r.samples.running.sum(axis=1), ""),
        ("Fragmentation amount", Axis("share of all GPUs", "%", low=0.0), _fragment_amount, ""),
        ("Fragmentation ratio", Axis("share of the idle GPUs", "%", low=0.0), _fragment_ratio, ""),
        ("Fairness over time: Jain's index", Axis("Jain's index", low=0.0, high=1.0), _jain,
         "Of allocated / deserved over the queues that have waiting or running jobs; 1 is equal."),
        ("Fairness over time: distance from the deserved shares", Axis("mean distance", "%", low=0.0), _gap,
         "The mean of |share − deserved share| over the queues that have waiting or running jobs."),
    ]  # fmt: skip
    plots = []
    for title, y, values, note in rows:
        lines = []
        for i, one in enumerate(found):
            replay = one.replays[0]
            known = values(replay)
            if known is not None and np.isfinite(known).any():
                lines.append(time.series(one.name, replay.samples, known, i))
        if lines:
            plots.append(
                figure(title, line_chart(title, lines, time.axis, y), *line_rows(lines, time.axis, y), note=note)
            )
    return plots


def queue_shares(found: Sequence[Configuration], time: Timeline) -> str:
    """Draws each queue's share and deserved share over time; with several configurations, the difference of the two."""
    several = len(found) > 1
    panels: dict[str, list[Series]] = {}
    for queue in names_of(found, "queue")[:MAX_QUEUES]:
        lines = panels.setdefault(queue, [])
        for i, one in enumerate(found):
            replay = one.replays[0]
            samples, name = replay.samples, main_resource(replay)
            if name is None or queue not in samples.queues:
                continue
            q = samples.queues.index(queue)
            share, deserved = (part[:, q] for part in share_over_time(samples, name))
            if several and np.isfinite(deserved).any():
                lines.append(time.series(one.name, samples, share - deserved, i))
            elif not several and np.isfinite(deserved).any():
                lines += [time.series("share", samples, share), time.series("deserved", samples, deserved)]
    known = [v for lines in panels.values() for line in lines for v in line.y if math.isfinite(v)]
    if not known:
        return ""
    label = "share − deserved" if several else "share of the capacity"
    y = Axis(label, "%", low=min(0.0, *known) if several else 0.0, high=max(known))
    plots = []
    for queue, lines in panels.items():
        if lines:
            svg = line_chart(f"Share of {queue}", lines, time.axis, y, size=SMALL, key=False)
            plots.append(figure(queue, svg, *line_rows(lines, time.axis, y)))
    title = "Share minus deserved share by queue" if several else "Share and deserved share by queue"
    names = [one.name for one in found] if several else ["share", "deserved"]
    return f'<h3>{title}</h3>{key(names)}<div class="charts small">{"".join(plots)}</div>'


def _of_capacity(replay: Replay, amounts: FloatArray) -> FloatArray | None:
    name = main_resource(replay)
    if name is None:
        return None
    r = replay.samples.resources.index(name)
    return _divided(amounts[:, :, r].sum(axis=1), replay.samples.capacity[:, r])


def _fragment_amount(replay: Replay) -> FloatArray | None:
    name = gpu_resource(replay.samples)
    if name is None:
        return None
    return _divided(replay.samples.fragment, replay.samples.capacity[:, replay.samples.resources.index(name)])


def _fragment_ratio(replay: Replay) -> FloatArray | None:
    name = gpu_resource(replay.samples)
    return None if name is None else _divided(replay.samples.fragment, idle_over_time(replay.samples, name))


def _jain(replay: Replay) -> FloatArray | None:
    name = main_resource(replay)
    return None if name is None else jain_over_time(replay.samples, name)


def _gap(replay: Replay) -> FloatArray | None:
    name = main_resource(replay)
    if name is None:
        return None
    share, deserved = share_over_time(replay.samples, name)
    gap = np.where(has_demand(replay.samples), np.abs(share - deserved), np.nan)
    known = np.isfinite(gap)
    return _divided(np.where(known, gap, 0.0).sum(axis=1), known.sum(axis=1).astype(np.float64))


def _divided(over: FloatArray, under: FloatArray) -> FloatArray:
    with np.errstate(all="ignore"):
        return np.where(under > 0, over / under, np.nan)
