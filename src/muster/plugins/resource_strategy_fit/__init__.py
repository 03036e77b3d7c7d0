"""resource-strategy-fit: pack or spread per resource, and scarce resource avoidance (design 2).

It has three independent rules: `strategy` scores how full a node would be, resource by resource; `scarce` has retention
(a score) and proportional (a filter). `settings` reads the arguments in every spelling, `findings` has what `validate`
reports.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from muster.engine.core.hooks import Floats, NodeFilter, NodeScorer, Plugin, Verdict
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import NodeView
from muster.model.finding import Finding
from muster.plugins.resource_strategy_fit.findings import findings
from muster.plugins.resource_strategy_fit.scarce import Proportional, Retention
from muster.plugins.resource_strategy_fit.settings import read
from muster.plugins.resource_strategy_fit.strategy import Strategy, annotated_strategy

if TYPE_CHECKING:
    from muster.config.types import Arguments, PluginOption
    from muster.engine.core.session import Session

__all__ = ["ResourceStrategyFit"]


class ResourceStrategyFit(Plugin, NodeFilter, NodeScorer):
    name = "resource-strategy-fit"
    arguments = {
        "resourceStrategyFitWeight": "weight of the strategy score; 0 turns it off (10; 0 where only `sra` is given)",
        "resources": "resource, or prefix ending in * → {type: MostAllocated | LeastAllocated, weight} "
        "(cpu and memory LeastAllocated, weight 1)",
        "resources.*": "type (LeastAllocated) and weight (1) of one resource",
        "sra": "scarce resource avoidance, nested; each key below can be written flat, too",
        "sra.policy": "retention, proportional, or both separated by a comma",
        "sra.resources": "the scarce (primary) resources, separated by commas; no patterns",
        "sra.retention": "nested: weight, and a weight per scarce resource",
        "sra.retention.*": "weight: of the retention score (1); <resource>: how scarce it is (1)",
        "sra.proportional": "nested: <resource>.cpu and <resource>.memory",
        "sra.proportional.*": "<resource>.cpu, <resource>.memory: cores and 10⁹ bytes kept per idle device (1)",
        "sra.enable": "Volcano's spelling of policy retention (false)",
        "sra.weight": "Volcano's spelling of retention.weight (0)",
        "sra.resourceWeight": "Volcano's spelling of the weights per scarce resource",
        "sra.resourceWeight.*": "how scarce a resource is (1)",
        "proportional": "Volcano's block for policy proportional",
        "proportional.enable": "turns it on (false)",
        "proportional.resources": "the primary resources, separated by commas",
        "proportional.resourceProportion": "<resource>.cpu and <resource>.memory",
        "proportional.resourceProportion.*": "cores and 10⁹ bytes kept per idle device (1)",
    }

    def __init__(self, arguments: Arguments, option: PluginOption) -> None:
        super().__init__(arguments, option)
        self.settings = read(arguments)
        self.strategy = Strategy(self.settings)
        self.retention = Retention(self.settings)
        self.proportional = Proportional(self.settings)

    def open(self, session: Session) -> None:
        self.strategy.open(session.warnings)

    def signature(self, task: Task) -> Hashable | None:
        return annotated_strategy(task)

    def filters(self) -> Sequence[NodeFilter]:
        return (self.proportional,) if self.settings.kept else ()

    def scorers(self) -> Sequence[NodeScorer]:
        return (self.strategy, self.retention)

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        return self.proportional.filter(task, nodes)

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        return self.strategy.raw(task, nodes) + self.retention.raw(task, nodes)

    def effective(self) -> dict[str, object]:
        """Returns the effective arguments, for `muster validate --effective`."""
        return self.settings.as_arguments()

    @classmethod
    def examine(cls, session: Session) -> list[Finding]:
        """Returns settings that no node or no pod can meet, for `muster validate`."""
        return [found for plugin in session.plugins if isinstance(plugin, cls) for found in findings(plugin, session)]
