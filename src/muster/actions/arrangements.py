"""Orders and arrangements, other than task order, in which pods of different sizes can fill a node set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product

import numpy as np
from numpy.typing import NDArray

from muster.engine.core.hooks import Bools, NodeSet
from muster.engine.core.jobs import Job, Task
from muster.engine.core.nodes import MoveKind, Nodes
from muster.engine.core.session import Session
from muster.engine.core.subgroups import sub_group_tree

_MOST = 64  # pods and nodes; a search among more would only use up its budget
_SELECTIONS = 64
BUDGET = 20_000  # placements tried before the search gives up

Vector = NDArray[np.int64]


def mixed(session: Session, tasks: Sequence[Task]) -> bool:
    """Returns whether the tasks differ. The order of equal tasks makes no difference."""
    if len({task.shape.id for task in tasks}) == 1 and session.equal_shape(tasks[0]) is not None:
        return False
    return len({session.signature(task) for task in tasks}) > 1


def largest_first(session: Session, tasks: Sequence[Task], within: NodeSet | None) -> list[Task]:
    signatures = _signatures(session, tasks)
    requests, free = _columns(session, tasks, within)
    return [tasks[i] for i in by_size(requests, signatures, free.sum(axis=1))]


def _signatures(session: Session, tasks: Sequence[Task]) -> list[int]:
    """Numbers the signatures as they follow each other in the tasks.

    A signature's own number depends on which task was asked about first in the cycle, and must not decide anything.
    """
    numbers: dict[int, int] = {}
    return [numbers.setdefault(session.signature(task), len(numbers)) for task in tasks]


def selections(session: Session, job: Job, tasks: Sequence[Task], count: int) -> Iterator[list[Task]]:
    """Yields the selections of pods that add up to the number, with the largest pods first."""
    root = sub_group_tree(job)
    leaf = {t.key: group.name for group in root.groups() for t in group.own} if root is not None else {}
    members: dict[object, list[Task]] = {}
    for task in largest_first(session, tasks, None):
        members.setdefault((session.signature(task), task.role, leaf.get(task.key, "")), []).append(task)
    amounts = [range(min(len(some), count), -1, -1) for some in members.values()]
    if len(amounts) > 8:
        return  # too many signatures have too many combinations
    for counts in islice((c for c in product(*amounts) if sum(c) == count), _SELECTIONS):
        yield [task for some, n in zip(members.values(), counts, strict=True) for task in some[:n]]


def node_for_each(session: Session, tasks: Sequence[Task], within: NodeSet | None) -> list[NodeSet] | None:
    """Returns a node set of one node per task so that all fit once releasing pods are gone; None if none was found."""
    if len(tasks) > _MOST:
        return None
    if within is None:
        within = _emptiest(session, tasks)
    signatures = _signatures(session, tasks)
    requests, free = _columns(session, tasks, within)
    usable = [session.placement.answers(task).static[within.index] for task in tasks]
    columns = pack(requests, signatures, free, usable)
    return None if columns is None else [NodeSet(within.index[[column]]) for column in columns]


def _emptiest(session: Session, tasks: Sequence[Task]) -> NodeSet:
    """Returns the nodes that could take any of the tasks; if there are many, those with the most free capacity."""
    nodes = session.state.nodes
    able = np.zeros(len(nodes), np.bool_)
    for task in {session.signature(task): task for task in tasks}.values():
        able |= session.placement.fits(task, MoveKind.PIPELINE)
    index = np.flatnonzero(able)
    if len(index) > _MOST:
        free, offered = _future(nodes, nodes.axis.own_rows())[:, index], nodes.offered[nodes.axis.own_rows()]
        share = (free / np.maximum(offered.sum(axis=1), 1)[:, None]).min(axis=0)
        index = np.sort(index[np.argsort(-share, kind="stable")[:_MOST]])
    return NodeSet(index)


def _columns(session: Session, tasks: Sequence[Task], within: NodeSet | None) -> tuple[list[Vector], Vector]:
    """Returns the requests of the tasks, and what is free on each node, by resource: those that few nodes have only if
    a task requests them.
    """
    nodes = session.state.nodes
    axis = nodes.axis
    keys = [*axis.own_rows(), *sorted({axis.rows[name] for task in tasks for name in task.shape.shared(axis)})]
    at = {key: i for i, key in enumerate(keys)}
    requests = []
    for task in tasks:
        request = np.zeros(len(keys), np.int64)
        for key, amount in axis.needs(task.shape.amounts):
            request[at[key]] = amount
        requests.append(request)
    free = _future(nodes, keys)
    return requests, free if within is None else free[:, within.index]


def _future(nodes: Nodes, keys: Sequence[int]) -> Vector:
    future_idle = nodes.future_idle
    return np.maximum(np.stack([future_idle[key] for key in keys]), 0)


def by_size(requests: Sequence[Vector], signatures: Sequence[int], total: Vector) -> list[int]:
    """Returns positions by share of the total, largest first; those of one signature stay together in their order."""
    share = [float((request / np.maximum(total, 1)).max()) for request in requests]
    return sorted(range(len(requests)), key=lambda i: (-share[i], signatures[i]))


def pack(
    requests: Sequence[Vector], signatures: Sequence[int], free: Vector, usable: Sequence[Bools], budget: int = BUDGET
) -> list[int] | None:
    """Returns a column of `free` (resources × nodes) for each request; None if there is none or the budget ran out.

    Placing pods one after the other by score can fail where another arrangement would do. The search takes the largest
    pods first and tries the fullest nodes that suffice first; nodes in the same state are tried once. It is exact for
    requests and for nodes that always or never take a pod; it does not evaluate other filters.

    Requests of one signature are interchangeable; `usable[i]` are the nodes that may take request i at all.
    """
    order = by_size(requests, signatures, free.sum(axis=1))
    amounts = [tuple(int(v) for v in requests[i]) for i in order]
    free_on = [list(map(int, column)) for column in free.T]
    masks = [usable[i] for i in order]
    same = [n > 0 and signatures[order[n]] == signatures[order[n - 1]] for n in range(len(order))]
    # Nodes that are equal for every pod are interchangeable while the same amounts are free on them.
    usable_by = [tuple(bool(mask[node]) for mask in masks) for node in range(len(free_on))]
    chosen = [-1] * len(order)
    left = budget

    def search(n: int) -> bool:
        nonlocal left
        if n == len(order):
            return True
        want = amounts[n]
        tried: set[tuple[object, ...]] = set()
        able = [
            node for node in range(chosen[n - 1] if same[n] else 0, len(free_on))
            if masks[n][node] and all(have >= need for have, need in zip(free_on[node], want, strict=True))
        ]  # fmt: skip
        if not same[n]:
            able.sort(key=lambda node: free_on[node])
        for node in able:
            free_here = free_on[node]
            state = (tuple(free_here), usable_by[node], node if same[n] and node == chosen[n - 1] else None)
            if state in tried:
                continue
            tried.add(state)
            left -= 1
            if left < 0:
                return False
            free_on[node] = [have - need for have, need in zip(free_here, want, strict=True)]
            chosen[n] = node
            if search(n + 1):
                return True
            free_on[node] = free_here
        return False

    if not search(0):
        return None
    found = [-1] * len(order)
    for n, i in enumerate(order):
        found[i] = chosen[n]
    return found
