"""`muster replay -o html`: one self-contained page with the tables and the plots of replays. No script, nothing from
outside, and no time of day: the same replays give the same bytes."""

from __future__ import annotations

from collections.abc import Sequence

from muster.model.markup import escape
from muster.sim.replay.plots import (
    COMPLETION,
    WAITING,
    Configuration,
    bars,
    configurations,
    grouped_cdfs,
    heat_maps,
    names_of,
    overall_cdf,
)
from muster.sim.replay.records import Replay
from muster.sim.replay.tables import SummaryTable, group_tables, reason_tables, summary_table
from muster.sim.replay.timelines import Timeline, overlays, queue_shares, stacks
from muster.sim.report.elements import table
from muster.sim.report.frame import Section, document, section
from muster.sim.report.summary import warning_list


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
