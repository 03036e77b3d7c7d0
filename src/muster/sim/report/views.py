"""The views of a run in the order of a page: what needs attention first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from muster.sim.report import gangs, nodes, queues, topology, waiting
from muster.sim.report.decisions import evictions, placements, timeline
from muster.sim.report.frame import Section
from muster.sim.report.node_groups import node_groups, policies
from muster.sim.report.nodes import devices
from muster.sim.report.summary import warning_count, warnings
from muster.sim.result import Result


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
    View("waiting", "Waiting pods", waiting.render, "No pod waits.", lambda r: len(r.pending), always=True),
    View("evictions", "Evictions", evictions, "No pod is evicted.", lambda r: len(r.evictions), always=True),
    View("queues", "Queues", queues.render, "No queue is in use.", lambda r: len(r.summary.queues), always=True),
    View("gangs", "Gangs", gangs.render, "There are no gangs.", lambda r: len(gangs.gangs(r))),
    View("nodes", "Nodes", nodes.render, "There are no nodes.", lambda r: len(r.state.nodes), always=True),
    View("groups", "Node groups", node_groups, "There are no NodeGroups."),
    View("topology", "Topology", topology.render, "There is no Topology and no HyperNode."),
    View("devices", "Devices", devices, "No node has Ascend chips or shared GPUs."),
    View("policies", "Policies", policies, "There are no policies of node groups."),
    View("timeline", "Timeline", timeline, "No cycle has run."),
    View("placements", "Placements", placements, "This run placed no pod.", lambda r: len(r.binds)),
)
