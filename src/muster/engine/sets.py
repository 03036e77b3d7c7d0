"""Folds the plugins that divide nodes: the first divides all nodes, the next divides each of its sets, order kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from muster.engine.hooks import NodeSet, NodeSetError, Plugin, Reason
from muster.engine.jobs import Job, Task

if TYPE_CHECKING:
    from muster.engine.session import Session


def fold(session: Session, job: Job, tasks: Sequence[Task], within: NodeSet | None = None) -> list[NodeSet] | None:
    """The sets to try the job on, in order; None when no plugin divides the nodes for it.

    An empty list means that no set is left (or that a plugin failed: the job's refusal says so).
    """
    if not session.dividers:
        return None
    sets = [within or NodeSet(np.arange(len(session.state.nodes)))]
    divided = within is not None
    for plugin in session.dividers:
        name = plugin.name if isinstance(plugin, Plugin) else type(plugin).__name__
        session.log(4, f"Performing {name} logic")
        result: list[NodeSet] = []
        for node_set in sets:
            try:
                relevant, parts = plugin.node_sets(job, tasks, node_set)
            except NodeSetError as fault:
                session.log(0, f"{name} failed to divide the nodes for {job.key}: {fault}")
                job.attempt.refusal = Reason("node-sets", str(fault), resolvable=False)
                return []
            if relevant:
                divided = True
                result += parts
            else:
                result.append(node_set)
        sets = result
        session.log(4, f"Result of {name} logic is {len(sets)} subsets")
        names = session.state.nodes.names
        shown = ", ".join("[" + ", ".join(names[i] for i in s.index) + "]" for s in sets)
        session.log(7, f"Result of {name} logic is {shown}")
    return sets if divided else None
