"""Other ways to fill a node set with pods of different sizes than one after the other in task order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from muster.engine.hooks import NodeSet
from muster.engine.jobs import Task
from muster.engine.packing import by_size, pack
from muster.engine.session import Session

_MOST = 64  # pods; a search among more would only use up its budget


def mixed(session: Session, tasks: Sequence[Task]) -> bool:
    """Do the tasks differ? Equal ones fill a set in any order alike."""
    return len({session.signature(task) for task in tasks}) > 1


def largest_first(session: Session, tasks: Sequence[Task], within: NodeSet) -> list[Task]:
    nodes = session.state.nodes
    kinds = [session.signature(task) for task in tasks]
    requests = [task.shape.request(nodes.axis) for task in tasks]
    return [tasks[i] for i in by_size(requests, kinds, _free(session, within).sum(axis=1))]


def node_for_each(session: Session, tasks: Sequence[Task], within: NodeSet) -> list[NodeSet] | None:
    """A node per task, as a set of one, such that all fit once what is releasing is gone; None: none was found."""
    if len(tasks) > _MOST:
        return None
    nodes = session.state.nodes
    kinds = [session.signature(task) for task in tasks]
    requests = [task.shape.request(nodes.axis) for task in tasks]
    usable = [session.placement.answers(task).static[within.index] for task in tasks]
    columns = pack(requests, kinds, _free(session, within), usable)
    return None if columns is None else [NodeSet(within.index[[column]]) for column in columns]


def _free(session: Session, within: NodeSet) -> np.ndarray:
    nodes = session.state.nodes
    size = nodes.axis.size
    return np.maximum(nodes.rows[size : 2 * size, within.index], 0)
