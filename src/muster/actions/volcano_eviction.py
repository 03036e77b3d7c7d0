"""What reclaim and preempt share by Volcano's rules: freeing capacity for one task on one node."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from muster.engine.core.hooks import Bools
from muster.engine.core.jobs import Job, Status, Task
from muster.engine.core.session import Session, candidates
from muster.engine.core.statement import Statement, revert
from muster.engine.core.subgroups import sub_group_tree
from muster.engine.evictions.victims import Victims
from muster.engine.placement.node_sets import divide_nodes

Enough = Callable[[], bool]


def evict_for(statement: Statement, claimer: Task, victims: Sequence[Task], rule: str, enough: Enough) -> bool:
    """Evicts in victim order until it is enough, then gives back victims that are not needed."""
    start = statement.checkpoint()
    for victim in victims:
        if enough():
            break
        statement.evict(victim, claimer, rule)
    if not enough():
        statement.rollback(start)
        return False
    reprieve(statement, start, enough)
    return True


def reprieve(statement: Statement, start: int, enough: Enough) -> None:
    """Gives back victims, highest priority first, as long as the others are enough."""
    session = statement.session
    made = statement.moves[start:]
    if len(made) < 2:
        return
    reprieved = set()
    for move in sorted(made, key=lambda m: (-m.task.priority, m.task.key)):
        revert(session, move)
        if enough():
            reprieved.add(id(move))
        else:
            # Repeating an eviction restores the same integers.
            again = statement.session.statement()
            again.evict(move.task, move.by, move.rule)
    statement.moves[start:] = [m for m in made if id(m) not in reprieved]


def evictable(session: Session, node: int, statuses: tuple[Status, ...]) -> list[Task]:
    """Returns the pods on the node that belong to a job of the session and may be evicted at all."""
    return [
        t for t in session.state.nodes.on[node].values()
        if t.status in statuses and t.preemptable and t.job is not None and t.job.queue is not None
        and not t.job.disrupted_whole  # Volcano's rules evict single pods
    ]  # fmt: skip


def within_reach(session: Session, task: Task, victims: Victims) -> Bools:
    """Returns the nodes worth trying: no final refusal, a possible victim, and enough capacity if all were evicted."""
    assert task.job is not None
    return within_capacity(session, task) & victims.promising & ~victims.exhausted(task.job.queue_name)


def within_capacity(session: Session, task: Task) -> Bools:
    """Returns the nodes without a final refusal that have enough capacity if all their pods were evicted."""
    nodes = session.state.nodes
    mask = session.placement.answers(task).curable.copy()
    for row, amount in nodes.axis.needs(task.shape.amounts):
        mask &= nodes.future_idle[row] + nodes.used[row] >= amount
    return mask


def divided(session: Session, job: Job) -> bool:
    """Returns whether plugins divide the nodes for the job. Volcano never evicts for such jobs; muster's rules do."""
    if not session.dividers:
        return False
    root = sub_group_tree(job)
    if root is not None and any(group.constrained for group in root.groups()):
        return True
    tasks = session.in_order(task for task in candidates(job) if not task.best_effort)
    return bool(tasks) and divide_nodes(session, job, tasks) is not None


class Memo:
    """Failed claims: an equal task of the same job is not tried again while nothing has changed."""

    def __init__(self) -> None:
        self._failed: dict[tuple[str, int], int] = {}

    def known(self, session: Session, task: Task) -> bool:
        assert task.job is not None
        return self._failed.get((task.job.key, session.signature(task))) == len(session.state.nodes.log)

    def note(self, session: Session, task: Task) -> None:
        assert task.job is not None
        self._failed[task.job.key, session.signature(task)] = len(session.state.nodes.log)
