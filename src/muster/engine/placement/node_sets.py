"""Asks the plugins that divide nodes: the first divides all nodes, the next divides each of its sets, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from muster.engine.core.hooks import NodeSet, NodeSetError, NodeSets, Plugin, Reason
from muster.engine.core.jobs import Job, Task
from muster.engine.core.subgroups import SubGroup
from muster.engine.core.values import LazyNodeSets

if TYPE_CHECKING:
    from muster.engine.core.session import Session

FAILED = "node-sets"  # the code of the reason when a plugin could not divide the nodes


def divide_nodes(
    session: Session, job: Job, tasks: Sequence[Task], within: NodeSet | None = None, group: SubGroup | None = None
) -> Sequence[NodeSet] | None:
    """The sets to try the job on (or one of its sub-groups), in order; None when no plugin divides the nodes for it.

    An empty answer means that no set is left (or that a plugin failed: see the job's refusal). A plugin may make
    its sets one by one as they are asked for; they are taken from it in the same way.
    """
    if not any(plugin.divides(job) for plugin in session.dividers):
        return None
    start = within or NodeSet(session.state.nodes.all_nodes)
    sets: Sequence[NodeSet] = [start]
    divided = False
    for plugin in session.dividers:
        name = name_of(plugin)
        session.log(4, f"Performing {name} logic")
        results: list[Sequence[NodeSet]] = []
        for node_set in sets:
            try:
                relevant, parts = _ask(plugin, job, group, tasks, node_set)
            except Exception as fault:  # whatever goes wrong in a plugin fails this job, not the cycle
                known = isinstance(fault, NodeSetError)
                text = str(fault) if known else f"{type(fault).__name__}: {fault}"
                session.log(0, f"{name} failed to divide the nodes for {job.shown}: {text}")
                # A NodeSetError is written for users. The text of any other exception is for the log alone.
                shown = text if known else "the nodes cannot be divided for the group; see the scheduler's log"
                job.attempt.refusal = Reason(FAILED, f"plugin {name}: {shown}", resolvable=False)
                return []
            divided = divided or relevant
            results.append(parts if relevant else [node_set])
        sets = results[0] if len(results) == 1 else _Chain(results)
        session.log(4, partial(_count, name, sets))
        session.log(7, partial(_names, session, name, sets))
    return sets if divided else None


def _count(plugin: str, sets: Sequence[NodeSet]) -> str:
    return f"Result of {plugin} logic is {len(sets)} subsets"


def _names(session: Session, plugin: str, sets: Sequence[NodeSet]) -> str:
    names = session.state.nodes.names
    shown = ", ".join("[" + ", ".join(names[i] for i in s.index) + "]" for s in sets)
    return f"Result of {plugin} logic is {shown}"


def name_of(plugin: NodeSets) -> str:
    return plugin.name if isinstance(plugin, Plugin) else type(plugin).__name__


def _ask(
    plugin: NodeSets, job: Job, group: SubGroup | None, tasks: Sequence[Task], nodes: NodeSet
) -> tuple[bool, Sequence[NodeSet]]:
    if group is None:
        return plugin.node_sets(job, tasks, nodes)
    return plugin.group_sets(job, group, tasks, nodes)


class _Chain(LazyNodeSets):
    """Several answers as one sequence, computed on access."""

    def __init__(self, parts: list[Sequence[NodeSet]]) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return sum(len(part) for part in self._parts)

    def __iter__(self) -> Iterator[NodeSet]:
        return chain.from_iterable(self._parts)
