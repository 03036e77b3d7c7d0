"""All or nothing: a job starts when its minimum can start, and evictions never take a job below its minimum.

A job's minimum is a number of tasks (minMember), numbers per role (minTaskMember) and numbers of sub-groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, field

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
from muster.engine.core.jobs import ALLOCATED_LIKE, READY_LIKE, Job, Status, Task
from muster.engine.core.nodes import MoveKind
from muster.engine.core.requirements import Requirement, about
from muster.engine.core.session import Session
from muster.engine.core.state import State
from muster.engine.core.statement import Move
from muster.engine.core.subgroups import SubGroup, named_sub_groups, sub_group_name
from muster.engine.queues.accounts import valid_tasks
from muster.model.selectors import matches

__all__ = ["Gang"]


_BEST_EFFORT = len(Status)  # index, after the statuses, of the count of pending tasks that request nothing
_VALID = (*READY_LIKE, Status.PIPELINED, Status.PENDING)


def divided(job: Job) -> bool:
    """Returns whether the job has minimums of roles or sub-groups besides its own."""
    spec = job.group.spec
    # Volcano ignores the minimums of roles if their sum exceeds the job's minimum.
    roles = bool(job.roles) and job.min_available >= job.roles_total
    return roles or bool(spec.sub_group_policy or spec.sub_groups)


class _Kind(Struct):
    """The sub-groups of one policy: at least `least` of them must have `size` tasks each."""

    size: int
    least: int
    members: dict[str, list[int]] = field(default_factory=dict)


class JobMinimums:
    """Counts the tasks of a job by role and sub-group, and compares them with the minimums of these."""

    def __init__(self, job: Job) -> None:
        spec = job.group.spec
        self._job = job
        self._roles: dict[str, list[int]] = {}
        self._minimums = {r: n for r, n in job.roles.items() if n > 0} if job.min_available >= job.roles_total else {}
        self._policies = spec.sub_group_policy
        self._kinds = [_Kind(policy.sub_group_size, policy.min_sub_groups) for policy in spec.sub_group_policy]
        self._tree = SubGroup(job.key, least=spec.min_sub_group)
        leaves = named_sub_groups(job, self._tree).values() if spec.sub_groups else ()
        self._leaves: dict[str, list[int]] = {leaf.name: _counts() for leaf in leaves if not leaf.children}
        for task in job.tasks.values():
            self._count(task, task.status, 1)

    # --- counting

    def _buckets(self, task: Task) -> Iterable[list[int]]:
        if self._minimums:
            yield _row(self._roles, task.role)
        labels = task.labels
        for policy, kind in zip(self._policies, self._kinds, strict=True):
            selected = policy.label_selector is None or matches(policy.label_selector, labels)
            if selected and all(key in labels for key in policy.match_label_keys):
                yield _row(kind.members, "/".join(labels[key] for key in policy.match_label_keys))
                return
        if self._leaves and (row := self._leaves.get(sub_group_name(task))) is not None:
            yield row

    def _count(self, task: Task, status: Status, sign: int) -> None:
        for row in self._buckets(task):
            row[status] += sign
            if status == Status.PENDING and task.best_effort:
                row[_BEST_EFFORT] += sign

    def shift(self, move: Move, sign: int) -> None:
        """Counts a move: its tasks get capacity (+1), or give it back (−1)."""
        without = move.previous_status
        placed = Status.ALLOCATED if move.kind == MoveKind.ALLOCATE else Status.PIPELINED
        if move.kind == MoveKind.EVICT:
            without, placed = Status.RELEASING, move.previous_status
        for task in move.tasks:
            self._count(task, without, -sign)
            self._count(task, placed, sign)

    # --- questions

    def roles_valid(self) -> bool:
        return all(_sum(self._roles.get(role), _VALID) >= least for role, least in self._minimums.items())

    def groups_valid(self) -> bool:
        return not self._short(self._tree, _VALID) and all(
            sum(_sum(row, _VALID) >= kind.size for row in kind.members.values()) >= kind.least for kind in self._kinds
        )

    def missing(self, *, pipelined: bool) -> int:
        """Returns how many more tasks must at least get capacity; 0 if the minimums of roles and sub-groups are met."""
        met = (*ALLOCATED_LIKE, Status.SUCCEEDED, _BEST_EFFORT, *((Status.PIPELINED,) if pipelined else ()))
        roles = sum(max(least - _sum(self._roles.get(role), met), 0) for role, least in self._minimums.items())
        groups = self._short(self._tree, met)
        for kind in self._kinds:
            short = sorted(max(kind.size - _sum(row, met), 0) for row in kind.members.values())
            short += [max(kind.size, 1)] * (kind.least - len(short))
            groups += sum(short[: kind.least])  # the sub-groups that need the fewest tasks
        return max(roles, groups)

    def _short(self, group: SubGroup, met: Iterable[int]) -> int:
        """Returns how many tasks a sub-group lacks, with those of the children that it needs and that lack fewest."""
        row = self._leaves.get(group.name)
        if row is not None:
            # A sub-group without pods cannot be complete, whatever its minimum.
            return max(group.minimum - _sum(row, met), 0) if any(row) else max(group.minimum, 1)
        short = sorted(self._short(part, met) for part in group.children)
        return sum(short if group.least is None else short[: group.least])


def _counts() -> list[int]:
    return [0] * (_BEST_EFFORT + 1)


def _row(rows: dict[str, list[int]], name: str) -> list[int]:
    row = rows.get(name)
    if row is None:
        row = rows[name] = _counts()
    return row


def _sum(row: list[int] | None, at: Iterable[int]) -> int:
    return 0 if row is None else sum(row[i] for i in at)


class Gang(Plugin, JobValid, JobOrder, JobReady, JobPipelined, JobStarving, Preemptable, Reclaimable, Ledger):
    name = "gang"
    opinion = Opinion.NONE  # minimums define which pods are evicted together (`engine.evictions.claim`)

    def __init__(self, arguments: Arguments, option: PluginOption) -> None:
        super().__init__(arguments, option)
        # Job → its minimums of roles and sub-groups, made on first use; None if it has none.
        self._minimums: dict[str, JobMinimums | None] = {}

    def open(self, session: Session) -> None:
        self._minimums = {}

    def _of(self, job: Job) -> JobMinimums | None:
        """Returns the minimums of roles and sub-groups; None if the job has none."""
        try:
            return self._minimums[job.key]
        except KeyError:
            minimums = self._minimums[job.key] = JobMinimums(job) if divided(job) else None
            return minimums

    def valid(self, job: Job) -> Reason | None:
        minimums = self._of(job)
        if minimums is not None and not minimums.roles_valid():
            text = "Not enough valid pods of each task for gang-scheduling"
            return Reason("not-enough-pods-of-task", text, resolvable=False)
        if minimums is not None and not minimums.groups_valid():
            text = "Not enough valid subGroups for gang-scheduling"
            return Reason("not-enough-pods-of-task", text, resolvable=False)
        able = valid_tasks(job)
        if able < job.min_available:
            text = f"Not enough valid tasks for gang-scheduling, valid: {able}, min: {job.min_available}"
            return Reason("not-enough-tasks", text, resolvable=False)
        return None

    # --- ready, pipelined, starving

    def missing(self, job: Job) -> int:
        short = job.min_available - job.ready - job.best_effort_pending
        minimums = self._of(job)
        return max(short, 0 if minimums is None else minimums.missing(pipelined=False))

    def pipelined(self, job: Job) -> Vote:
        minimums = self._of(job)
        if job.waiting + job.ready + job.best_effort_pending < job.min_available:
            return Vote.REJECT
        return Vote.REJECT if minimums is not None and minimums.missing(pipelined=True) else Vote.PERMIT

    def starving(self, job: Job) -> bool:
        return job.is_starving

    def job_key(self, job: Job) -> float:
        """Orders jobs below their minimum first. Volcano: roles and sub-groups do not count here."""
        return float(job.ready + job.best_effort_pending >= job.min_available)

    @classmethod
    def required_by(cls, state: State) -> Iterator[Requirement]:
        for job in state.jobs.values():
            spec = job.group.spec
            asked = (
                # Soft: without gang, as in design 2's samples, the pods of a group are placed one by one.
                ("has a minMember above 1", job.min_available > 1, False),
                ("has minimums per role (minTaskMember)", bool(job.roles), False),
                ("has sub-groups", bool(spec.sub_groups or spec.sub_group_policy), True),
            )
            for text, so, hard in asked:
                if so:
                    yield Requirement(about(job, state), text, hard, switch="enableJobReady")

    # --- victims

    def preemptable(self, claimer: Task, candidates: Sequence[Task]) -> list[bool]:
        """Names the pods that jobs have above their minimum, in the given order."""
        ready: dict[str, int] = {}
        answers = []
        for task in candidates:
            job = task.job
            assert job is not None
            left = ready.get(job.key)
            if left is None:
                left = job.ready
            spare = left > job.min_available and not job.disrupted_whole
            ready[job.key] = left - 1 if spare else left
            answers.append(spare)
        return answers

    def never_victim(self, job: Job) -> bool:
        return job.disrupted_whole or job.ready <= job.min_available

    def reclaimable(self, claimer: Task, candidates: Sequence[Task]) -> list[bool]:
        return self.preemptable(claimer, candidates)

    # --- accounts

    def allocated(self, move: Move) -> None:
        self._shift(move, 1)

    def released(self, move: Move) -> None:
        self._shift(move, -1)

    def _shift(self, move: Move, sign: int) -> None:
        # Jobs of which one task each is moved together have no roles and no sub-groups.
        minimums = self._minimums.get(move.job.key) if move.job is not None else None
        if minimums is not None:
            minimums.shift(move, sign)
