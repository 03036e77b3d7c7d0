"""Places the sub-groups of a job in nested domains: each inside the node set that was chosen for its parent.

This is a depth-first search: a sub-group is tried on its node sets inside its parent's; if it finds none, the parent's
set fails and the parent's next set is tried. Sub-groups are taken by what they lack, the largest first. A sub-group
that succeeded is not tried elsewhere alone, only together with its parent's next set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from muster.engine.core.hooks import NodeSet
from muster.engine.core.jobs import Job, Queue, Status, Task
from muster.engine.core.resources import add, total_of
from muster.engine.core.session import Session
from muster.engine.core.statement import Statement
from muster.engine.core.subgroups import SubGroup
from muster.engine.placement.node_sets import divide_nodes

Placer = Callable[[Statement, Sequence[Task], NodeSet | None], int]


class SubGroupPlacement:
    """One attempt of a job with sub-groups on one node set."""

    def __init__(
        self,
        session: Session,
        statement: Statement,
        queue: Queue,
        job: Job,
        root: SubGroup,
        claim: Placer | None = None,
    ) -> None:
        """With `claim` all pods are promised a node, and the queue must admit the claim as a whole."""
        self.session = session
        self.statement = statement
        self.queue = queue
        self.job = job
        self.root = root
        self.leaf = {task.key: group for group in root.groups() for task in group.own}
        self.claim = claim

    def place(self, tasks: list[Task], within: NodeSet | None) -> None:
        """Places the tasks that the job needs; removes the tasks that were tried."""
        offered = {task.key: task for task in tasks}
        if self.session.missing(self.job):
            if not self._minimum(self.root, offered, within):
                return
            while self._lacking() and self._more(offered, within):
                pass
        else:
            self._more(offered, within)
        tasks[:] = [task for task in tasks if task.key in offered]

    def _lacking(self) -> bool:
        session, job = self.session, self.job
        return not session.pipelined(job) if self.claim is not None else session.missing(job) > 0

    # --- minimums

    def _minimum(self, group: SubGroup, offered: dict[str, Task], within: NodeSet | None) -> bool:
        """Places the minimum of the group: that of its sub-groups, then its own pods."""
        parts = sorted(group.children, key=lambda part: (-self._size(part), part.name))
        least = len(parts) if group.least is None else group.least
        complete = sum(1 for part in parts if part.shortfall() == 0)
        for part in parts:
            if complete >= least:
                break
            if part.shortfall() and self._part(part, offered, within):
                complete += 1
        if complete < least:
            return False
        return self._own(group, offered, group.missing(), within)

    def _part(self, part: SubGroup, offered: dict[str, Task], within: NodeSet | None) -> bool:
        waiting = [task for task in part.all_tasks() if task.key in offered]
        if len(waiting) < part.shortfall():
            return False
        for node_set in self._sets(part, waiting, within):
            start, before = self.statement.checkpoint(), dict(offered)
            placed = self._minimum(part, offered, node_set)
            if self.job.attempt.sub_group_results is not None and node_set is not None:
                result = f"{node_set.label} {'holds' if placed else 'fails'} sub-group {part.name}"
                self.job.attempt.sub_group_results.append(result)
            if placed:
                return True
            self.statement.rollback(start)
            offered.clear()
            offered.update(before)
        if self.job.attempt.sub_group_results is not None:
            self.job.attempt.sub_group_results.append(f"no set holds sub-group {part.name}")
        return False

    def _size(self, group: SubGroup) -> float:
        """Returns what the group still needs, as a share of the cluster."""
        total = total_of(self.session.state.nodes)
        amounts: dict[str, int] = {}
        waiting = [task for task in group.all_tasks() if task.status == Status.PENDING]
        for task in waiting:
            add(amounts, task.shape.amounts)
        share = max([amount / max(total.get(name, 0), 1) for name, amount in amounts.items()], default=0.0)
        return share * group.shortfall() / max(len(waiting), 1)

    # --- beyond the minimums

    def _more(self, offered: dict[str, Task], within: NodeSet | None) -> bool:
        """Places one more unit: a sub-group that lacks pods, else a pod; returns False if nothing could be placed."""
        for task in self.session.in_order(offered.values()):
            if task.key not in offered:
                continue
            leaf = self.leaf[task.key]
            chain = leaf.chain()
            at = next((i for i, part in enumerate(chain[:-1]) if self._starts_whole(part)), None)
            unit = leaf if at is None else chain[at]
            if self._down(chain[:at], unit, offered, within):
                return True
            for other in unit.all_tasks():
                offered.pop(other.key, None)
        return False

    def _starts_whole(self, part: SubGroup) -> bool:
        """Returns whether an inner sub-group is below its own minimum of sub-groups (Volcano's policies have none)."""
        return part.least is not None and not self.job.group.spec.sub_group_policy and part.shortfall() > 0

    def _down(
        self, chain: list[SubGroup], unit: SubGroup, offered: dict[str, Task], within: NodeSet | None
    ) -> bool:
        """Places a unit inside the node sets of the sub-groups of the chain."""
        if not chain and unit.children and unit.shortfall():
            return self._part(unit, offered, within)
        if not chain:
            return self._own(unit, offered, max(unit.missing(), 1), within)
        waiting = [task for task in unit.all_tasks() if task.key in offered]
        return any(self._down(chain[1:], unit, offered, node_set) for node_set in self._sets(chain[0], waiting, within))

    # --- sets and pods

    def _sets(self, group: SubGroup, tasks: Sequence[Task], within: NodeSet | None) -> Sequence[NodeSet | None]:
        ordered = self.session.in_order(tasks)
        sets = divide_nodes(self.session, self.job, ordered, within, group)
        if sets is None:
            return [within]
        self.job.attempt.divided = True
        return sets

    def _own(self, group: SubGroup, offered: dict[str, Task], count: int, within: NodeSet | None) -> bool:
        """Places so many of the group's own pods, in runs of equal pods; all or none."""
        session, statement = self.session, self.statement
        if not count:
            return True
        waiting = session.in_order(task for task in group.own if task.key in offered and not task.best_effort)[:count]
        if len(waiting) < count:
            return False
        start, at = statement.checkpoint(), 0
        while at < len(waiting):
            run = [t for t in waiting[at:] if session.signature(t) == session.signature(waiting[at])]
            if self.claim is None:
                run = run[: session.admits(self.queue, waiting[at], len(run))]
            placer = self.claim or session.placement.place
            placed = placer(statement, run, within) if run else 0
            if not placed or placed < len(run):
                statement.rollback(start)
                return False
            done = {task.key for task in run}
            waiting = [*waiting[:at], *run, *(t for t in waiting[at:] if t.key not in done)]
            at += placed
        for task in waiting:
            del offered[task.key]
        return True


def needed(group: SubGroup, order: Sequence[Task], at_least: int = 0) -> list[Task]:
    """Returns the pods that a job with sub-groups claims: those of required sub-groups, largest first, then its own."""
    chosen: list[Task] = []
    parts = sorted(group.children, key=lambda part: (-part.shortfall(), part.name))
    count = len(parts) if group.least is None else group.least - sum(1 for part in parts if not part.shortfall())
    for part in [part for part in parts if part.shortfall()][: max(count, 0)]:
        chosen += needed(part, order)
    own = {task.key for task in group.own}
    chosen += [task for task in order if task.key in own][: group.missing()]
    known = {task.key for task in chosen}
    rest = [task for task in order if task.key not in known]
    return chosen + rest[: max(at_least - len(chosen), 0)]
