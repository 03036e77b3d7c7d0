"""resource-strategy-fit: pack or spread per resource, and scarce resource avoidance (design 2).

It has three independent rules, all in `scores`: the strategy scores how full a node would be, resource by resource;
scarce resource avoidance has retention (a score) and proportional (a filter). `settings` reads the arguments in every
spelling.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from muster.config.names import suggest
from muster.engine.core.hooks import Bools, Floats, NodeFilter, NodeScorer, Plugin, Verdict
from muster.engine.core.jobs import Status, Task
from muster.engine.core.nodes import NodeView
from muster.engine.core.resources import CPU, MEMORY, total_of
from muster.engine.domains.domain_capacity import FREE, EmptyClusterCapacity
from muster.model.finding import Finding
from muster.model.quantity import display
from muster.plugins.resource_strategy_fit.scores import (
    TYPE,
    WEIGHT,
    Proportional,
    Retention,
    Strategy,
    annotated_strategy,
    preferences_of,
)
from muster.plugins.resource_strategy_fit.settings import STRATEGY_WEIGHT, read

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


def findings(plugin: ResourceStrategyFit, session: Session) -> Iterator[Finding]:
    """Yields settings that no node or no pod can meet, for `muster validate`."""
    yield from _annotations(plugin, session)
    if len(session.state.nodes):
        yield from _resources(plugin, session)
        yield from _ratios(plugin, session)
        yield from _refused(plugin, session)


def _annotations(plugin: ResourceStrategyFit, session: Session) -> Iterator[Finding]:
    """Yields pods with an annotated strategy that cannot be used."""
    for key, task in sorted(session.state.tasks.items()):
        fault, fix = "", f"correct {TYPE} and {WEIGHT}; until then the pod's strategy score is 0"
        annotated = annotated_strategy(task)
        if annotated is not None:
            try:
                preferences_of(annotated)
            except ValueError as why:
                fault = str(why)
            if not fault and not plugin.settings.strategy_weight:
                fault, fix = f"annotation {TYPE} has no effect: the strategy scores are off", f"give {STRATEGY_WEIGHT}"
        elif WEIGHT in task.annotations:
            fault, fix = f"annotation {WEIGHT} has no effect without {TYPE}", f"give {TYPE} as well"
        if fault:
            yield Finding("warning", "", None, f"Pod {key}", "strategy-annotation", fault, fix)


def _at(plugin: ResourceStrategyFit, code: str, message: str, fix: str) -> Finding:
    """Returns a warning at the argument that lists the scarce resources."""
    arguments, line = plugin.option.arguments, plugin.option.line
    for block in ("sra", "proportional"):
        if f"{block}.resources" in arguments:
            line = arguments.line_of(f"{block}.resources")
            break
        if "resources" in (below := arguments.mapping(block)):
            line = below.line_of("resources")
            break
    return Finding("warning", arguments.file, line, f"plugin {plugin.name}", code, message, fix)


def _resources(plugin: ResourceStrategyFit, session: Session) -> Iterator[Finding]:
    nodes = session.state.nodes
    there = {name for name, total in total_of(nodes).items() if total}
    for name in dict.fromkeys((*plugin.settings.scarce, *plugin.settings.kept)):
        if name not in there and "*" not in name:
            message = f"the scarce resource {name} is on no node: it has no effect"
            yield _at(plugin, "scarce-resource", message, suggest(name, there - {"pods"}))


def _ratios(plugin: ResourceStrategyFit, session: Session) -> Iterator[Finding]:
    """Yields proportions above what any empty node with the resource has: no other pod may use such a node."""
    nodes = session.state.nodes
    for name, per in plugin.settings.kept.items():
        row = nodes.axis.rows.get(name)
        has = nodes.alloc[row] > 0 if row is not None else np.zeros(0, np.bool_)
        if row is None or not has.any():
            continue
        devices = nodes.alloc[row][has]
        for what, at, unit in (("cpu", CPU, 1.0), ("memory", MEMORY, 1e6)):
            if bool((nodes.alloc[at][has] < devices * (per[what] * unit)).all()):
                most = int(np.argmax(nodes.alloc[at][has] / devices))
                example = nodes.names[int(np.flatnonzero(has)[most])]
                message = (
                    f"keeps {per[what]:g}{' cpu' if what == 'cpu' else 'G memory'} for each idle {name}, more than any "
                    f"empty node has: {example} has {display(what, int(nodes.alloc[at][has][most]))} for "
                    f"{display(name, int(devices[most]))}; pods without {name} cannot use these nodes while they are "
                    f"idle"
                )
                yield _at(plugin, "proportion", message, f"lower {name}.{what}")


def _refused(plugin: ResourceStrategyFit, session: Session) -> Iterator[Finding]:
    """Yields pods that would fit on some node if the proportion did not refuse every node, both now and empty."""
    if not plugin.settings.kept:
        return
    nodes, capacity = session.state.nodes, EmptyClusterCapacity(session)
    by_signature: dict[int, list[Task]] = {}
    for _, task in sorted(session.state.tasks.items()):
        if task.status == Status.PENDING and task.job is not None:
            by_signature.setdefault(session.signature(task), []).append(task)
    for tasks in by_signature.values():
        fits: Bools = capacity.copies(tasks[0]).values()[FREE] > 0
        if not fits.any():
            continue  # reported separately
        views = (nodes.empty(), nodes.everything())
        if any((plugin.proportional.filter(tasks[0], view).fits & fits).any() for view in views):
            continue
        more = f" (and {len(tasks) - 1} more like it)" if len(tasks) > 1 else ""
        message = f"no node takes it while its {' and '.join(plugin.settings.kept)} are idle, not even an empty one"
        fix = "lower the proportion of plugin resource-strategy-fit, or request less"
        yield Finding("error", "", None, f"Pod {tasks[0].key}", "proportion", message + more, fix)
