"""The static pages of `simulate`: one run, and two runs with their differences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from muster.model.quantity import display
from muster.sim.difference import Difference, GroupDifference
from muster.sim.report.elements import empty, shown, table
from muster.sim.report.frame import Section, document
from muster.sim.report.summary import summary
from muster.sim.report.views import VIEWS
from muster.sim.result import Comparison, Result

MAX_ROWS = 300

Rows = Iterable[Sequence[str]]


def page(result: Result, title: str, origin: Sequence[tuple[str, str]] = (), only: str = "") -> str:
    """Returns the report of one run. `origin`: rows that say how it was made; `only`: what a filter leaves of it."""
    sections = [view.section(result) for view in VIEWS]
    return document(title, sections, lead=summary(result) + _only(only), origin=origin)


def _only(only: str) -> str:
    if not only:
        return ""
    return f"<p>Waiting pods, evictions and placements: only {shown(only)}. The rest is that of the whole cluster.</p>"


def comparison_page(comparison: Comparison, origin: Sequence[tuple[str, str]] = (), only: str = "") -> str:
    """Returns the differences of two runs, then the views of each."""
    one, two = comparison.names
    parts = differences(comparison)
    for prefix, name, result in (("first-", one, comparison.first), ("second-", two, comparison.second)):
        parts += [view.section(result, prefix, f" of {name}") for view in VIEWS]
    lead = f"<p>Two runs: {shown(one)} and {shown(two)}.</p>{_only(only)}"
    return document(f"{one} and {two}", parts, origin=origin, lead=lead)


def differences(comparison: Comparison) -> list[Section]:
    """Returns what differs between two runs."""
    one, two = comparison.names
    rows = [(pod, a or "–", b or "–") for pod, (a, b) in comparison.placements.items()]
    waits = [(pod, a or "–", b or "–") for pod, (a, b) in comparison.pending.items()]
    head = ("pod", one, two)
    groups = Difference(comparison.first, comparison.second).groups
    return [
        Section("figures", "Figures", table(("", one, two), _figures(comparison), "Figures of both runs")),
        Section("groups-that-differ", "Groups that differ", _groups(groups, one, two), f"{len(groups):,}"),
        Section("placements-that-differ", "Placements that differ", _differing(head, rows), f"{len(rows):,}"),
        Section("waiting-pods-that-differ", "Waiting pods that differ", _differing(head, waits), f"{len(waits):,}"),
    ]


def _figures(comparison: Comparison) -> Rows:
    one, two = comparison.first.summary, comparison.second.summary
    for figure in ("bound", "pending", "evicted", "nodes"):
        yield figure, f"{getattr(one, figure):,}", f"{getattr(two, figure):,}"
    for name, pair in comparison.fragmentation.items():
        yield f"fragmentation of {name}", *("–" if x is None else f"{x:.1%}" for x in pair)
    for queue, (a_used, b_used) in comparison.allocated.items():
        for name in sorted({*a_used, *b_used} - {"pods"}):
            yield f"queue {queue}, {name}", display(name, a_used.get(name, 0)), display(name, b_used.get(name, 0))


def _groups(groups: Sequence[GroupDifference], one: str, two: str) -> str:
    """Returns a table of the groups: how many pods are bound, moved, evicted or waiting only in the second run."""
    kinds = ("bound", "moved", "evicted", "spared", "waiting", "removed")
    rows = [(g.group, g.queue, *(f"{len(getattr(g, kind)):,}" for kind in kinds)) for g in groups]
    caption = f"Pods by group: how {two} differs from {one}"
    return _differing(("group", "queue", *kinds), rows, caption)


def _differing(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    if not rows:
        return empty("There is no difference.")
    more = empty(f"and {len(rows) - MAX_ROWS:,} more; -o json has all") if len(rows) > MAX_ROWS else ""
    return table(head, rows[:MAX_ROWS], caption) + more
