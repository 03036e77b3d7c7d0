"""What limits the search for a claim: the pods, nodes and victims it may use, and upper bounds that end it early."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from muster.actions.victim_pool import Amounts, VictimPool
from muster.engine.core.hooks import NodeSet
from muster.engine.core.jobs import Task
from muster.engine.core.session import Session
from muster.engine.evictions.claim import PREEMPT, Claim, Units


class SearchLimits(Struct, frozen=True):
    """Which part of the possible claims of a job is searched; `pod` and `nodes` are set by explanations only."""

    within: bool = False  # victims are pods of the claiming job itself
    never_victims: frozenset[str] = frozenset()  # jobs that claimed from this one
    pod: Task | None = None  # the only pod that a job above its minimum claims for
    nodes: NodeSet | None = None  # the only nodes that are used


UNLIMITED = SearchLimits()


def given_enough(session: Session, units: Units, claim: Claim, pool: VictimPool) -> bool:
    """Returns whether nodes could hold the claim, by free capacity and what queues may give, per resource."""
    nodes, first = session.state.nodes, claim.tasks[0]
    equal = len({session.signature(task) for task in claim.tasks}) == 1
    usable = session.placement.answers(first).static if equal else np.ones(len(nodes), np.bool_)
    freed = nodes.everything().account(pool.everything())
    gives = pool.gives_at_most(units, claim)
    if equal and claim.rule == PREEMPT and any(
        used.get(name, 0) + claim.request[name] - most > max(limit.get(name, 0), used.get(name, 0))
        for used, limit in session.usage(claim.queue) for name, most in gives.items()
    ):  # fmt: skip
        return False  # the queue would exceed its limit, whoever is evicted
    for name, most in gives.items():
        row = nodes.axis.rows[name]
        free = np.maximum(nodes.future_idle[row], 0)[usable]
        amount = first.shape.amounts.get(name, 0)
        if claim.request[name] > free.sum() + most:
            return False
        if equal and amount and _at_most(free, freed[row][usable], amount, most) < len(claim.tasks):
            return False
    return True


def _at_most(free: Amounts, freed: Amounts, amount: int, most: float) -> int:
    """Returns how many pods of this size nodes can hold if victims give `most` in total, and per node what is `freed`.

    The capacity left on a node beside the pods that fit counts for the next pod: the first pod that needs victims there
    needs the least, and every further pod its whole request.
    """
    fit = free // amount
    needs = amount - (free - fit * amount)
    needs = np.cumsum(np.sort(needs[freed >= needs]))
    count = int(np.searchsorted(needs, most, "right"))
    further = (most - needs[-1]) // amount if count and count == len(needs) else 0
    return int(fit.sum()) + count + int(further)


def enough_at_most(session: Session, tasks: Sequence[Task], pool: VictimPool, node_set: NodeSet | None) -> bool:
    """Returns whether nodes have the capacity for this number of pods, per signature and by sums, if the whole pool
    were evicted.
    """
    nodes = session.state.nodes
    axis = nodes.axis
    index = np.arange(len(nodes)) if node_set is None else node_set.index
    free = np.maximum(nodes.free[axis.size :, index] + pool.everything()[:, index], 0)
    counts: dict[int, list[Task]] = {}
    for task in tasks:
        counts.setdefault(session.signature(task), []).append(task)
    for some in counts.values():
        request = some[0].shape.request(axis)
        usable = session.placement.answers(some[0]).static[index]
        asked = request > 0
        copies = (free[asked] // request[asked][:, None]).min(axis=0) * usable
        if int(np.minimum(copies, len(some)).sum()) < len(some):
            return False
    return True
