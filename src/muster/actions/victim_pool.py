"""The possible victims of claims that may share them, as columns: what they would free on each node, by priority."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from muster.engine.core.hooks import Bools
from muster.engine.core.jobs import Job, Queue, Shape, Status, Task
from muster.engine.core.nodes import MoveKind
from muster.engine.core.resources import asked
from muster.engine.evictions.claim import PLACED_STATUSES, PREEMPT, Claim, Unit, Units
from muster.engine.evictions.victims import Opinions

if TYPE_CHECKING:
    from muster.engine.core.session import Session

Amounts = NDArray[np.int64]
_RELEASING = Status.RELEASING  # looked up for every candidate
_ON_NODE = (*PLACED_STATUSES, _RELEASING)
Cost = tuple[float, ...]  # of victims: highest priority, victims per pod placed, whole jobs, age of the oldest


class VictimPool:
    """The candidates of one claim, after the protections of single pods and the opinions of the tiers."""

    def __init__(
        self, session: Session, units: Units, opinions: Opinions, claim: Claim, queues: Sequence[Queue]
    ) -> None:
        self.session = session
        self.queues = queues
        self.known: dict[tuple[int, int, bool], tuple[dict[int, Cost | None], int]] = {}  # for `cheapest_victims`
        self._made_at = len(session.state.nodes.log)
        self._since = len(session.committed)
        self._within = claim.within
        self._names_all = opinions.names_all
        self.tasks: list[Task] = []
        self._complete: dict[str, list[Task]] = {}  # jobs of which every pod that has a node may be evicted
        self._in_order: dict[str, list[Task]] = {}  # those of `_complete` that were asked for, by name
        self._some: set[str] = set()  # the candidates of other jobs
        # Pods only leave while the pool is in use.
        self._nodes_of: dict[tuple[Shape, int], list[int]] = {}  # shape and priority → the nodes of such candidates
        self._shapes: dict[str, dict[Shape, int]] = {}  # queue → how many of each shape may be evicted
        able = ((job, units.candidates(claim, job)) for job in _jobs(units, claim, queues))
        for job, tasks in able if opinions.names_all else _named(opinions, claim.tasks[0], list(able)):
            if tasks:  # all that is read of a job's pods is read while they are in the processor's cache
                self._add(units, job, tasks)
        self.promises = takeable_promises(session, units, claim)  # by node
        promised = {unit.priority for some in self.promises.values() for unit in some}
        self.levels: list[int] = sorted({priority for _, priority in self._nodes_of} | promised)
        self._freed: dict[int, Amounts] = {}
        self._with_candidates: dict[int, Bools] = {}
        self._ratios: dict[tuple[str, str, str], float] = {}
        self._here: dict[tuple[int, int], list[Task]] = {}
        self._eviction_order: dict[tuple[int, int, int], list[Task]] = {}

    def _add(self, units: Units, job: Job, tasks: list[Task]) -> None:
        """Adds the candidates of a job."""
        self.tasks += tasks
        complete = _all_that_hold(units, job, tasks)
        if complete:
            self._complete[job.key] = tasks
        else:
            self._some.update([task.key for task in tasks])
        shape, priority = tasks[0].shape, tasks[0].priority
        nodes = [task.node for task in tasks if task.shape is shape and task.priority == priority]
        if len(nodes) < len(tasks):
            for task in tasks:
                self._nodes_of.setdefault((task.shape, task.priority), []).append(task.node)
            counts: Mapping[Shape, int] = Counter([task.shape for task in tasks])
        else:
            self._nodes_of.setdefault((shape, priority), []).extend(nodes)
            counts = {shape: len(tasks)}
        # How many of them may be evicted: all of them together, or those above the job's minimum one by one.
        most = len(tasks) if complete and not self._within else units.surplus(job)
        if most:
            of_queue = self._shapes.setdefault(job.queue_name, {})
            for one, count in counts.items():
                of_queue[one] = of_queue.get(one, 0) + min(count, most)

    @property
    def unmoved(self) -> bool:
        """Whether no pod has been moved since the pool was made."""
        return self._made_at == len(self.session.state.nodes.log)

    def twin(self) -> VictimPool:
        """Returns the same candidates for claims whose costs are others."""
        made = copy(self)
        made.known, made._freed, made._with_candidates = {}, {}, {}
        return made

    def current(self) -> bool:
        """Applies the evictions that were committed meanwhile; returns False if the pool must be rebuilt."""
        committed = self.session.committed
        if len(committed) < self._since or (len(committed) > self._since and not self._names_all):
            return False  # a promise was withdrawn, or the tiers may name others now
        gone: dict[tuple[Shape, int], list[int]] = {}
        for move in committed[self._since :]:
            if move.kind == MoveKind.EVICT and self._is_candidate(move.task):
                gone.setdefault((move.task.shape, move.task.priority), []).append(move.nodes[0])
        for level, freed in self._freed.items():
            self._add_freed(freed, gone, level, -1)
        if gone:
            self._with_candidates.clear()
        self._since = len(committed)
        return True

    def gives_at_most(self, units: Units, claim: Claim) -> dict[str, float]:
        """Returns an upper bound of what further victims together hold of each resource of the claim."""
        if self.promises:
            return {}  # what withdrawn promises free is not counted here
        total = dict.fromkeys(claim.request, 0.0)
        for queue in self.queues:
            shapes = self._shapes.get(queue.name)
            if not shapes:
                continue
            limits = units.gives_at_most(claim, queue)
            if any(x < min([shape.amounts.get(by, 0) for shape in shapes]) for by, x in limits.items()):
                continue  # less than each of its pods has
            for name in total:
                most = float(sum([shape.amounts.get(name, 0) * n for shape, n in shapes.items()]))
                total[name] += min([most, *(x * self._ratio(queue.name, name, by) for by, x in limits.items())])
        return total

    def _ratio(self, queue: str, name: str, by: str) -> float:
        """Returns how much of one resource a pod of the queue has at most for each unit of the other."""
        found = self._ratios.get((queue, name, by))
        if found is None:
            amounts = [(shape.amounts.get(name, 0), shape.amounts.get(by, 0)) for shape in self._shapes[queue]]
            found = max([a / b if b else float("inf") for a, b in amounts if a], default=0.0)
            self._ratios[queue, name, by] = found
        return found

    def here(self, node: int, level: int) -> list[Task]:
        """Returns the candidates on the node up to this priority that are not evicted yet."""
        return [t for t in self._on(node, level) if t.status is not _RELEASING]

    def has(self, task: Task) -> bool:
        """Returns whether the pod is a candidate that is not evicted yet."""
        return task.status is not _RELEASING and self._is_candidate(task)

    def _is_candidate(self, task: Task) -> bool:
        if task.job is not None and task.job.key in self._complete:
            return task.status in _ON_NODE
        return task.key in self._some

    def _on(self, node: int, level: int) -> list[Task]:
        found = self._here.get((node, level))
        if found is None:
            on, complete, some = self.session.state.nodes.on[node].values(), self._complete, self._some
            found = self._here[node, level] = [
                t for t in on if t.priority <= level and t.job is not None
                and (t.status in _ON_NODE if t.job.key in complete else t.key in some)
            ]  # fmt: skip
        return found

    def eviction_order(self, node: int, level: int, wanted: Shape) -> list[Task]:
        """Returns them in eviction order: by priority, then by how much they have of what is wanted, newest first."""
        key = node, level, wanted.id
        found = self._eviction_order.get(key)
        if found is None:
            relief = relief_by_shape(self._on(node, level), asked(wanted.amounts))
            found = sorted(self._on(node, level), key=lambda t: t.key, reverse=True)
            found.sort(key=lambda t: (t.priority, -relief[t.shape], -t.created))
            self._eviction_order[key] = found
        return [t for t in found if t.status is not _RELEASING]

    def promises_on(self, node: int, level: int) -> list[Unit]:
        return [unit for unit in self.promises.get(node, ()) if unit.priority <= level]

    def whole(self, job: Job) -> Unit | None:
        """Returns all pods of the job that have a node, if each of them may be evicted.

        A job that gets pods in this same cycle is not evicted: the pods that are bound now would stay behind.
        """
        if job.count[Status.ALLOCATED] or job.count[Status.PIPELINED] or self._within:
            return None
        in_order = self._in_order.get(job.key)
        if in_order is None:
            in_order = self._in_order[job.key] = sorted(self._complete.get(job.key, ()), key=attrgetter("key"))
        tasks = tuple(task for task in in_order if task.status != Status.RELEASING)
        if not tasks:
            return None
        return Unit(tasks, True, max([task.priority for task in tasks]), min([task.created for task in tasks]))

    def freed(self, level: int) -> Amounts:
        """Returns resources × nodes: what evicting all candidates up to this priority would free."""
        found = self._freed.get(level)
        if found is None:
            nodes = self.session.state.nodes
            axis = nodes.axis
            found = np.zeros((axis.size, len(nodes)), np.int64)
            self._add_freed(found, self._nodes_of, level, 1)
            for node, some in self.promises.items():
                for task in (t for unit in some if unit.priority <= level for t in unit.tasks if t.node == node):
                    found[:, node] += task.shape.request(axis)
            self._freed[level] = found
        return found

    def _add_freed(
        self, freed: Amounts, nodes_of: Mapping[tuple[Shape, int], list[int]], level: int, sign: int
    ) -> None:
        """Adds what candidates up to this priority have; `nodes_of`: shape and priority → their nodes."""
        for (shape, priority), nodes in nodes_of.items():
            if priority <= level:
                count = np.bincount(np.fromiter(nodes, np.int64, len(nodes)))
                touched = np.flatnonzero(count)
                request = shape.request(self.session.state.axis)
                freed[:, touched] += sign * request[:, None] * count[touched][None, :]

    def with_candidates(self, level: int) -> Bools:
        """Returns the nodes with a candidate up to this priority."""
        found = self._with_candidates.get(level)
        if found is None:
            found = self._with_candidates[level] = np.any(self.freed(level), axis=0)
        return found

    def everything(self) -> Amounts:
        return self.freed(self.levels[-1])


def _named(
    opinions: Opinions, claimer: Task, able: Sequence[tuple[Job, list[Task]]]
) -> list[tuple[Job, list[Task]]]:
    """Returns of each job the pods that the tiers name."""
    keys = {task.key for task in opinions.named(claimer, [task for _, tasks in able for task in tasks])}
    return [(job, [task for task in tasks if task.key in keys]) for job, tasks in able]


def _all_that_hold(units: Units, job: Job, tasks: Sequence[Task]) -> bool:
    """Returns whether these are all pods of the job that have a node."""
    if not tasks or len(tasks) == units.placed_pods(job):
        return bool(tasks)
    return len(tasks) == sum([task.node >= 0 and task.status in PLACED_STATUSES for task in job.tasks.values()])


def takeable_promises(session: Session, units: Units, claim: Claim) -> dict[int, list[Unit]]:
    """Returns promises to jobs of lower priority in the claimer's queue: each is withdrawn as a whole, like a job."""
    found: dict[int, list[Unit]] = {}
    if claim.rule != PREEMPT or claim.within or not claim.last_resort:
        return found
    for key, pods in sorted(session.promises.kept.items()):
        if key in session.promises.made:
            continue  # a cycle does not withdraw what it has promised itself
        job = session.jobs[key]
        tasks = tuple(job.tasks[pod] for pod in sorted(pods) if job.tasks[pod].status == Status.PIPELINED)
        if job.queue is not claim.queue or job is claim.job or not tasks or units.priority(job) >= claim.priority:
            continue
        priority = max(task.priority for task in tasks)
        if priority < claim.pod_priority:
            unit = Unit(tasks, True, priority, min(task.created for task in tasks), promise=True)
            for node in {task.node for task in tasks}:
                found.setdefault(node, []).append(unit)
    return found


def giving(session: Session, units: Units, claim: Claim) -> list[Queue]:
    """Returns the queues whose pods may be evicted: the claimer's own, or the others that give anything."""
    if claim.rule == PREEMPT:
        return [claim.queue]
    return [
        queue for queue in session.queues.values()
        if queue is not claim.queue and queue.reclaimable and not units.protects_queue(claim, queue)
    ]  # fmt: skip


def _jobs(units: Units, claim: Claim, queues: Sequence[Queue]) -> list[Job]:
    if claim.within:
        return [claim.job]
    return [
        job for queue in queues for job in queue.jobs.values()
        if (job.count[Status.RUNNING] or job.count[Status.BOUND]) and job.key not in claim.never_victims
        and (claim.rule != PREEMPT or units.priority(job) < claim.priority)
    ]  # fmt: skip


def relief_by_shape(tasks: Sequence[Task], wanted: Sequence[tuple[str, int]]) -> dict[Shape, float]:
    """Returns per shape the largest fraction of what is wanted, in any resource, that a pod of the shape has."""
    shapes = {task.shape for task in tasks}
    return {shape: max([shape.amounts.get(n, 0) / a for n, a in wanted], default=0.0) for shape in shapes}
