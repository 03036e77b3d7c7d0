"""All or nothing: a job starts when its minimum can start, and nobody takes a job below its minimum.

A job's minimum is a number of tasks (minMember), numbers per role (minTaskMember) and numbers of sub-groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from muster.config.types import Arguments, PluginOption
from muster.engine.core.hooks import (
    JobOrder,
    JobPipelined,
    JobReady,
    JobStarving,
    JobValid,
    Ledger,
    Opinion,
    Plugin,
    Preemptable,
    Reason,
    Reclaimable,
    Vote,
)
from muster.engine.core.jobs import Job, Task
from muster.engine.core.requirements import Requirement, about
from muster.engine.core.session import Session
from muster.engine.core.state import State
from muster.engine.core.statement import Move
from muster.engine.queues.accounts import valid_tasks
from muster.plugins.gang.parts import Parts, divided

__all__ = ["Gang"]


class Gang(Plugin, JobValid, JobOrder, JobReady, JobPipelined, JobStarving, Preemptable, Reclaimable, Ledger):
    name = "gang"
    opinion = Opinion.NONE  # minimums define which pods go together (`engine.claim`), whoever names them

    def __init__(self, arguments: Arguments, option: PluginOption) -> None:
        super().__init__(arguments, option)
        self._parts: dict[str, Parts] = {}  # job → its roles and sub-groups; made when first asked for

    def open(self, session: Session) -> None:
        self._parts = {}

    def _of(self, job: Job) -> Parts | None:
        """None: the job is one whole."""
        if not divided(job):
            return None
        parts = self._parts.get(job.key)
        if parts is None:
            parts = self._parts[job.key] = Parts(job)
        return parts

    def valid(self, job: Job) -> Reason | None:
        parts = self._of(job)
        if parts is not None and not parts.roles_valid():
            text = "Not enough valid pods of each task for gang-scheduling"
            return Reason("not-enough-pods-of-task", text, resolvable=False)
        if parts is not None and not parts.groups_valid():
            text = "Not enough valid subGroups for gang-scheduling"
            return Reason("not-enough-pods-of-task", text, resolvable=False)
        able = valid_tasks(job)
        if able < job.min_available:
            text = f"Not enough valid tasks for gang-scheduling, valid: {able}, min: {job.min_available}"
            return Reason("not-enough-tasks", text, resolvable=False)
        return None

    # --- ready, pipelined, starving

    def missing(self, job: Job) -> int:
        short = max(job.min_available - job.ready - job.best_effort_pending, 0)
        parts = self._of(job)
        return short if parts is None else max(short, parts.missing(pipelined=False))

    def pipelined(self, job: Job) -> Vote:
        parts = self._of(job)
        if job.waiting + job.ready + job.best_effort_pending < job.min_available:
            return Vote.REJECT
        return Vote.REJECT if parts is not None and parts.missing(pipelined=True) else Vote.PERMIT

    def starving(self, job: Job) -> bool:
        return job.is_starving

    def job_key(self, job: Job) -> float:
        """Jobs below their minimum first. Volcano: roles and sub-groups do not count here."""
        return float(job.ready + job.best_effort_pending >= job.min_available)

    @classmethod
    def required_by(cls, state: State) -> Iterator[Requirement]:
        for job in state.jobs.values():
            spec = job.group.spec
            asked = (
                # Soft: whoever leaves gang out, as design 2's samples do, places the pods of a group one by one.
                ("has a minMember above 1", job.min_available > 1, False),
                ("has minimums per role (minTaskMember)", bool(job.roles), False),
                ("has sub-groups", bool(spec.sub_groups or spec.sub_group_policy), True),
            )
            for text, so, hard in asked:
                if so:
                    yield Requirement(about(job, state), text, hard, switch="enableJobReady")

    # --- victims

    def preemptable(self, claimer: Task, candidates: Sequence[Task]) -> list[bool]:
        """What jobs have above their minimum, in the given order."""
        ready: dict[str, int] = {}
        answers = []
        for task in candidates:
            job = task.job
            assert job is not None
            left = ready.get(job.key)
            if left is None:
                left = job.ready
            spare = left > job.min_available
            ready[job.key] = left - 1 if spare else left
            answers.append(spare)
        return answers

    def never_victim(self, job: Job) -> bool:
        return job.ready <= job.min_available

    def reclaimable(self, claimer: Task, candidates: Sequence[Task]) -> list[bool]:
        return self.preemptable(claimer, candidates)

    # --- accounts

    def allocated(self, move: Move) -> None:
        self._shift(move, 1)

    def released(self, move: Move) -> None:
        self._shift(move, -1)

    def _shift(self, move: Move, sign: int) -> None:
        if self._parts and move.job is not None and move.job.key in self._parts:
            self._parts[move.job.key].shift(move, sign)
