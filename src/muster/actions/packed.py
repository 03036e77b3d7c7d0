"""Other ways to fill a node set with pods of different sizes than one after the other in task order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product

import numpy as np

from muster.engine.core.hooks import NodeSet
from muster.engine.core.jobs import Job, Task
from muster.engine.core.nodes import Kind
from muster.engine.core.packing import by_size, pack
from muster.engine.core.session import Session
from muster.engine.core.subgroups import grouped

_MOST = 64  # pods and nodes; a search among more would only use up its budget
_SELECTIONS = 64


def mixed(session: Session, tasks: Sequence[Task]) -> bool:
    """Do the tasks differ? Equal ones fill a set in any order alike."""
    return len({session.signature(task) for task in tasks}) > 1


def largest_first(session: Session, tasks: Sequence[Task], within: NodeSet | None) -> list[Task]:
    nodes = session.state.nodes
    kinds = [session.signature(task) for task in tasks]
    requests = [task.shape.request(nodes.axis) for task in tasks]
    return [tasks[i] for i in by_size(requests, kinds, _free(session, within).sum(axis=1))]


def selections(session: Session, job: Job, tasks: Sequence[Task], count: int) -> Iterator[list[Task]]:
    """Which pods make the number: as many of each kind as there are, the largest first."""
    root = grouped(job)
    leaf = {t.key: group.name for group in root.groups() for t in group.own} if root is not None else {}
    members: dict[object, list[Task]] = {}
    for task in largest_first(session, tasks, None):
        members.setdefault((session.signature(task), task.role, leaf.get(task.key, "")), []).append(task)
    amounts = [range(min(len(some), count), -1, -1) for some in members.values()]
    if len(amounts) > 8:
        return  # so many kinds have too many combinations
    for counts in islice((c for c in product(*amounts) if sum(c) == count), _SELECTIONS):
        yield [task for some, n in zip(members.values(), counts, strict=True) for task in some[:n]]


def node_for_each(session: Session, tasks: Sequence[Task], within: NodeSet | None) -> list[NodeSet] | None:
    """A node per task, as a set of one, such that all fit once what is releasing is gone; None: none was found."""
    if len(tasks) > _MOST:
        return None
    nodes = session.state.nodes
    if within is None:
        within = _roomiest(session, tasks)
    kinds = [session.signature(task) for task in tasks]
    requests = [task.shape.request(nodes.axis) for task in tasks]
    usable = [session.placement.answers(task).static[within.index] for task in tasks]
    columns = pack(requests, kinds, _free(session, within), usable)
    return None if columns is None else [NodeSet(within.index[[column]]) for column in columns]


def _roomiest(session: Session, tasks: Sequence[Task]) -> NodeSet:
    """The nodes that could take any of the tasks; of many, those that have most free."""
    nodes = session.state.nodes
    able = np.zeros(len(nodes), np.bool_)
    for task in {session.signature(task): task for task in tasks}.values():
        able |= session.placement.fits(task, Kind.PIPELINE)
    index = np.flatnonzero(able)
    if len(index) > _MOST:
        free = _free(session, NodeSet(index))
        share = (free / np.maximum(nodes.alloc.sum(axis=1), 1)[:, None]).min(axis=0)
        index = np.sort(index[np.argsort(-share, kind="stable")[:_MOST]])
    return NodeSet(index)


def _free(session: Session, within: NodeSet | None) -> np.ndarray:
    future_idle = session.state.nodes.future_idle
    return np.maximum(future_idle if within is None else future_idle[:, within.index], 0)
