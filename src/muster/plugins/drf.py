"""Dominant resource fairness: the job whose largest share of the cluster is smallest goes first.

With `enableHierarchy` the same rule over a tree (`Hierarchy`) orders the queues and decides about reclaim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import fsum

from muster.config.types import Arguments, PluginOption
from muster.engine.core.hooks import JobOrder, Ledger, Plugin, Preemptable, QueueOrder, Reclaimable
from muster.engine.core.jobs import Job, Queue, Task
from muster.engine.core.nodes import MoveKind
from muster.engine.core.resources import add, total_of
from muster.engine.core.session import Session
from muster.engine.core.statement import Move

__all__ = ["Drf"]

_PIPELINE = MoveKind.PIPELINE  # looked up for every move
_DELTA = 1e-6  # Volcano: shares that differ by less are equal

PATH = "volcano.sh/hierarchy"
WEIGHTS = "volcano.sh/hierarchy-weights"


class Drf(Plugin, JobOrder, Preemptable, QueueOrder, Reclaimable, Ledger):
    name = "drf"

    def __init__(self, arguments: Arguments, option: PluginOption) -> None:
        super().__init__(arguments, option)
        self._hierarchical = option.enabled("enableHierarchy")
        self._total: dict[str, int] = {}
        self._promised: dict[str, dict[str, int]] = {}  # job → the requests of its pipelined tasks
        self._tree: Hierarchy | None = None

    def open(self, session: Session) -> None:
        self._total = {name: amount for name, amount in total_of(session.state.nodes).items() if amount}
        self._promised = {}
        self._tree = Hierarchy(session.jobs.values(), self._total) if self._hierarchical else None

    def _allocated(self, job: Job) -> Mapping[str, int]:
        """Returns what the job has. Volcano: pipelined tasks count as allocated; the job itself counts the others."""
        promised = self._promised.get(job.key)
        if not promised:
            return job.allocated
        both = dict(job.allocated)
        add(both, promised)
        return both

    def job_key(self, job: Job) -> float:
        return dominant_share(self._allocated(job), self._total)

    def preemptable(self, claimer: Task, candidates: Sequence[Task]) -> list[bool]:
        """Names pods whose job, without them, still has at least the share of the claimer's job with its task."""
        assert claimer.job is not None
        mine = dict(self._allocated(claimer.job))
        add(mine, claimer.shape.amounts)
        share = dominant_share(mine, self._total)
        left: dict[str, dict[str, int]] = {}
        answers = []
        for task in candidates:
            assert task.job is not None
            used = left.get(task.job.key)
            if used is None:
                used = left[task.job.key] = dict(self._allocated(task.job))
            add(used, task.shape.amounts, -1)
            other = dominant_share(used, self._total)
            answers.append(share < other or abs(share - other) <= _DELTA)
        return answers

    # --- with enableHierarchy

    def queue_cmp(self, a: Queue, b: Queue) -> int:
        return 0 if self._tree is None else self._tree.compare(a, b)

    def ancestors(self, queue: Queue) -> Sequence[str]:
        return () if self._tree is None else path_of(queue)[1:]

    def reorder_epoch(self) -> int:
        return 0 if self._tree is None else self._tree.reorder_epoch()

    def inactive(self, rule: str) -> bool:
        return rule == "reclaim" and self._tree is None

    def reclaimable(self, claimer: Task, candidates: Sequence[Task]) -> list[bool] | None:
        return None if self._tree is None else self._tree.reclaimable(claimer, candidates)

    # --- accounts

    def allocated(self, move: Move) -> None:
        self._move(move, len(move.tasks))

    def released(self, move: Move) -> None:
        self._move(move, -len(move.tasks))

    def _move(self, move: Move, times: int) -> None:
        if move.job is None or (self._tree is None and move.kind is not _PIPELINE):
            return
        jobs = [task.job for task in move.tasks if task.job is not None] if move.several_jobs else [move.job]
        for job in jobs:
            if move.kind is _PIPELINE:
                add(self._promised.setdefault(job.key, {}), move.task.shape.amounts, times // len(jobs))
            if self._tree is not None:
                self._tree.move(job, move.task.shape.amounts, times // len(jobs))


class _Node:
    __slots__ = ("allocated", "children", "parent", "request", "saturated", "share", "weight")

    def __init__(self, parent: _Node | None, weight: float) -> None:
        self.parent = parent
        self.weight = weight
        self.children: dict[str, _Node] = {}
        self.allocated: Mapping[str, float] = {}
        self.share = 0.0
        self.saturated = False
        self.request: Mapping[str, int] | None = None  # of a leaf: the requests of all tasks of the job


class Hierarchy:
    """A tree of queues (annotations `volcano.sh/hierarchy` and `-weights`) with jobs as its leaves.

    A leaf's share is its dominant share. It is saturated when its usage of a resource has reached the job's request, or
    when the cluster has no more of a requested resource. An inner node adds up its children, those that are not
    saturated scaled down to the smallest of their shares, so that a child that uses little does not hide behind its
    siblings.

    Volcano computes the whole tree after each change; here only the path above a changed leaf, and all leaves when the
    set of resources that the cluster has left changes. Sums are exact before rounding, so they do not depend on the
    order of children.
    """

    def __init__(self, jobs: Iterable[Job], total: Mapping[str, int]) -> None:
        self._total = total
        self._root = _Node(None, 1.0)
        self._leaves: dict[str, _Node] = {}
        self._usage: dict[str, dict[str, int]] = {}  # job → allocated, pipelined included
        self._used: dict[str, int] = {}
        for job in jobs:
            if job.queue is not None:
                self._insert_job(job, job.queue)
        self._left = self._resources_left()
        for key in self._leaves:
            self._weigh_leaf(key)
        self._weigh_below(self._root)
        self._changed: dict[str, None] = {}
        self._reorder_epoch = 0

    def _insert_job(self, job: Job, queue: Queue) -> None:
        node = self._root
        weights = queue.annotations.get(WEIGHTS, "").split("/")
        for depth, name in enumerate(path_of(queue)[1:], start=1):
            child = node.children.get(name)
            if child is None:
                child = node.children[name] = _Node(node, weight_of(weights[depth] if depth < len(weights) else ""))
            node = child
        leaf = _Node(node, 1.0)
        request: dict[str, int] = {}
        for task in job.tasks.values():
            add(request, task.shape.amounts)
        leaf.request = request
        node.children[f"job {job.key}"] = self._leaves[job.key] = leaf
        self._usage[job.key] = dict(job.allocated)
        add(self._used, job.allocated)

    # --- shares

    def _resources_left(self) -> frozenset[str]:
        return frozenset(name for name, amount in self._total.items() if self._used.get(name, 0) < amount)

    def _weigh_leaf(self, key: str) -> None:
        leaf, used = self._leaves[key], self._usage[key]
        assert leaf.request is not None
        leaf.allocated = used
        leaf.share = dominant_share(used, self._total)
        leaf.saturated = any(
            amount > 0 and requested > 0 and (amount >= requested or name not in self._left)
            for name, amount in used.items()
            if (requested := leaf.request.get(name, 0))
        )

    def _weigh(self, node: _Node) -> None:
        children = node.children.values()
        least = min((c.share for c in children if c.share and not c.saturated), default=1.0)
        least = min(least, 1.0)
        parts: dict[str, list[float]] = {}
        for child in children:
            if child.share:
                scale = 1.0 if child.saturated else least / child.share
                for name, amount in child.allocated.items():
                    parts.setdefault(name, []).append(amount * scale)
        node.allocated = {name: fsum(amounts) for name, amounts in parts.items()}
        node.share = dominant_share(node.allocated, self._total)
        node.saturated = all(child.saturated for child in children)

    def _weigh_below(self, node: _Node) -> None:
        """Computes every inner node after its children, at any depth of the tree."""
        order = [node]
        for each in order:
            order += [child for child in each.children.values() if child.request is None]
        for each in reversed(order):
            self._weigh(each)

    def _settle(self) -> None:
        """Updates the tree after changes of leaves."""
        if not self._changed:
            return
        left = self._resources_left()
        if left != self._left:
            self._left = left
            self._reorder_epoch += 1
            for key in self._leaves:
                self._weigh_leaf(key)
            self._weigh_below(self._root)
        else:
            for key in self._changed:
                self._weigh_leaf(key)
            for key in self._changed:
                node = self._leaves[key].parent
                while node is not None:
                    self._weigh(node)
                    node = node.parent
        self._changed = {}

    def reorder_epoch(self) -> int:
        """Counts how often a resource ran out or became available again, which changes leaves in the whole tree."""
        self._settle()
        return self._reorder_epoch

    # --- changes and questions

    def move(self, job: Job, request: Mapping[str, int], times: int) -> None:
        if job.key in self._leaves:
            add(self._usage[job.key], request, times)
            add(self._used, request, times)
            self._changed[job.key] = None

    def compare(self, a: Queue, b: Queue) -> int:
        """Compares from the root down: unsaturated first, then the smaller share by weight; if equal, a level below."""
        self._settle()
        left: _Node | None = self._root
        right: _Node | None = self._root
        for one, other in zip(path_of(a)[1:], path_of(b)[1:], strict=False):
            assert left is not None and right is not None
            left, right = left.children.get(one), right.children.get(other)
            if left is None or right is None:
                return 0
            if left.saturated != right.saturated:
                return 1 if left.saturated else -1
            mine, its = left.share / left.weight, right.share / right.weight
            if mine != its:
                return -1 if mine < its else 1
        return 0

    def reclaimable(self, claimer: Task, candidates: Sequence[Task]) -> list[bool]:
        """Names pods whose queue, without them, would still come after the claimer's queue with its task.

        Each pod is evaluated by itself, so equal pods of a job have equal answers.
        """
        job = claimer.job
        assert job is not None and job.queue is not None
        known: dict[tuple[str, int], bool] = {}
        self.move(job, claimer.shape.amounts, 1)
        for task in candidates:
            other = task.job
            at = (other.key if other is not None else "", task.shape.id)
            if at in known or other is None or other.queue is None:
                known.setdefault(at, False)
                continue
            self.move(other, task.shape.amounts, -1)
            known[at] = self.compare(job.queue, other.queue) < 0
            self.move(other, task.shape.amounts, 1)
        self.move(job, claimer.shape.amounts, -1)
        return [known[t.job.key if t.job is not None else "", t.shape.id] for t in candidates]


def dominant_share(allocated: Mapping[str, float], total: Mapping[str, int]) -> float:
    """Returns the largest share over the resources of the cluster."""
    return max((amount / total[name] for name, amount in allocated.items() if name in total), default=0.0)


def path_of(queue: Queue) -> tuple[str, ...]:
    """Returns the parts of a path `root/a/b`; a queue without the annotation is at the root."""
    return _parts(queue.annotations.get(PATH, ""))


@lru_cache(maxsize=4096)
def _parts(path: str) -> tuple[str, ...]:
    return tuple(path.split("/"))


def weight_of(text: str) -> float:
    """Reads a weight. Volcano: anything that is not a number, or less than 1, is 1."""
    try:
        weight = float(text)
    except ValueError:
        return 1.0
    return weight if weight >= 1 else 1.0
