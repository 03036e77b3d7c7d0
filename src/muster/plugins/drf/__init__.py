"""Dominant resource fairness: the job whose largest share of the cluster is smallest goes first.

With `enableHierarchy` the same rule over a tree (`hierarchy`) orders the queues and decides about reclaim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster.config.types import Arguments, PluginOption
from muster.engine.core.hooks import JobOrder, Ledger, Plugin, Preemptable, QueueOrder, Reclaimable
from muster.engine.core.jobs import Job, Queue, Task
from muster.engine.core.nodes import MoveKind
from muster.engine.core.resources import add, total_of
from muster.engine.core.session import Session
from muster.engine.core.statement import Move
from muster.plugins.drf.hierarchy import Hierarchy, dominant_share, path_of

__all__ = ["Drf"]

_DELTA = 1e-6  # Volcano: shares that differ by less are equal


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
            held = left.get(task.job.key)
            if held is None:
                held = left[task.job.key] = dict(self._allocated(task.job))
            add(held, task.shape.amounts, -1)
            other = dominant_share(held, self._total)
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
        job = move.job
        if job is None:
            return
        if move.kind == MoveKind.PIPELINE:
            add(self._promised.setdefault(job.key, {}), move.task.shape.amounts, times)
        if self._tree is not None:
            self._tree.move(job, move.task.shape.amounts, times)
