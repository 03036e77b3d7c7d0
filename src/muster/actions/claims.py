"""Room for a whole job in one node set: the set with the fewest victims is chosen, and only victims of that set go.

KAI's issues 1591 and 1760: a domain full of pods that may be evicted is a domain, too, and of all of them the one that
costs least is wanted. Sets are offered by what could be free once everybody who may go is gone; each is then solved
by `Search`: node by node for a good answer, and where that may not be the best by looking at small victim sets. Both
count simulated placements against a budget; where it runs out before the answer is known to be the smallest, the
scheduler says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from muster.actions.eviction import evictable
from muster.actions.search import BUDGET, Search
from muster.engine.hooks import NodeSet
from muster.engine.jobs import Job, Status, Task
from muster.engine.session import Session, candidates
from muster.engine.sets import fold
from muster.engine.subgroups import grouped
from muster.engine.victims import Victims

Question = Callable[[Task], bool]


def claim_in_sets(
    session: Session,
    victims: Victims,
    job: Job,
    statuses: tuple[Status, ...],
    eligible: Question,
    may_claim: Question,
    *,
    quota: bool,
) -> bool | None:
    """None: nothing divides the nodes for this job. True: room is made, committed. False: no set can be had."""
    if not session.dividers:
        return None
    tasks = session.in_order(task for task in candidates(job) if not task.best_effort)
    if not tasks or not _divided(session, job, tasks):
        return None
    pool = [
        task
        for node in np.flatnonzero(victims.promising).tolist()
        for task in evictable(session, node, statuses)
        if eligible(task)
    ]
    if not pool or not all(may_claim(task) for task in tasks):
        return False
    everywhere = NodeSet(np.arange(len(session.state.nodes)), freed=_freed(session, pool))
    sets = fold(session, job, tasks, everywhere)
    job.attempt.divided = True
    search = Search(session, victims, job, tasks, quota=quota)
    chosen = search.smallest([everywhere] if sets is None else sets, pool)
    if search.cut_off:
        session.warnings.append(
            f"{victims.rule} for {job.key}: the search for the smallest set of victims ended after {BUDGET} attempts; "
            f"{'no room was found' if chosen is None else f'{len(chosen[1])} are evicted, fewer may do'}"
        )
    if chosen is None:
        return False
    search.carry_out(*chosen)
    return True


def _divided(session: Session, job: Job, tasks: Sequence[Task]) -> bool:
    root = grouped(job)
    if root is not None and any(group.constrained for group in root.groups()):
        return True
    return fold(session, job, tasks) is not None


def _freed(session: Session, pool: Sequence[Task]) -> np.ndarray:
    """Resources × nodes: what would be free besides if all of the pool were gone."""
    axis = session.state.axis
    freed = np.zeros((axis.size, len(session.state.nodes)), np.int64)
    for task in pool:
        freed[:, task.node] += task.shape.request(axis)
    return freed
