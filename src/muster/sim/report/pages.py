"""The views of a run in the order of a page, what needs attention first; and the static pages of `simulate`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from muster.model.quantity import display
from muster.sim.difference import Difference, GroupDifference
from muster.sim.report import nodes, queues, topology
from muster.sim.report.decisions import evictions, gang_tables, gangs, placements, timeline, waiting
from muster.sim.report.elements import empty, shown, table
from muster.sim.report.frame import Section, document
from muster.sim.report.node_groups import node_groups, policies
from muster.sim.report.nodes import devices
from muster.sim.report.summary import summary, warning_count, warnings
from muster.sim.result import Comparison, Result


@dataclass(frozen=True, slots=True)
class View:
    """A view: its name in addresses, its title, its fragment ("": nothing to show) and the number beside it."""

    name: str
    title: str
    render: Callable[[Result], str]
    nothing: str  # the sentence in place of an empty fragment
    count: Callable[[Result], int] | None = None
    always: bool = False  # a static page shows it even if there is nothing to show

    def section(self, result: Result, prefix: str = "", title: str = "") -> Section:
        """Returns the view as a section of a page."""
        body = self.render(result) or (f'<p class="soft">{self.nothing}</p>' if self.always else "")
        count = f"{self.count(result):,}" if self.count is not None else ""
        return Section(f"{prefix}{self.name}", f"{self.title}{title}", body, count)


VIEWS: tuple[View, ...] = (
    View("warnings", "Warnings", warnings, "There are no warnings.", warning_count),
    View("waiting", "Waiting pods", waiting, "No pod waits.", lambda r: len(r.pending), always=True),
    View("evictions", "Evictions", evictions, "No pod is evicted.", lambda r: len(r.evictions), always=True),
    View("queues", "Queues", queues.render, "No queue is in use.", lambda r: len(r.summary.queues), always=True),
    View("gangs", "Gangs", gang_tables, "There are no gangs.", lambda r: len(gangs(r))),
    View("nodes", "Nodes", nodes.render, "There are no nodes.", lambda r: len(r.state.nodes), always=True),
    View("groups", "Node groups", node_groups, "There are no NodeGroups."),
    View("topology", "Topology", topology.render, "There is no Topology and no HyperNode."),
    View("devices", "Devices", devices, "No node has Ascend chips or shared GPUs."),
    View("policies", "Policies", policies, "There are no policies of node groups."),
    View("timeline", "Timeline", timeline, "No cycle has run."),
    View("placements", "Placements", placements, "This run placed no pod.", lambda r: len(r.binds)),
)


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
