"""The parts of a job that have minimums of their own: roles, and sub-groups of pods.

Counts per part and status are made once per cycle and follow every move, so that a question costs what the job has
parts, not pods.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from muster.engine.core.jobs import ALLOCATED_LIKE, READY_LIKE, Job, Status, Task
from muster.engine.core.nodes import MoveKind
from muster.engine.core.statement import Move
from muster.model.selectors import matches

SUBGROUP_LABEL = "kai.scheduler/subgroup-name"  # KAI: how a pod names its sub-group
_BEST_EFFORT = len(Status)  # the count, after those of the statuses, of pending tasks that ask for nothing
_VALID = (*READY_LIKE, Status.PIPELINED, Status.PENDING)


def divided(job: Job) -> bool:
    """Whether the job has minimums besides its own."""
    spec = job.group.spec
    # Volcano: roles are not looked at when their minimums add up to more than the job's.
    roles = bool(job.roles) and job.min_available >= job.roles_total
    return roles or bool(spec.sub_group_policy or spec.sub_groups)


@dataclass(slots=True)
class _Kind:
    """Sub-groups of one policy: at least `least` of them with `size` tasks each."""

    size: int
    least: int
    members: dict[str, list[int]] = field(default_factory=dict)


class Parts:
    def __init__(self, job: Job) -> None:
        spec = job.group.spec
        self._job = job
        self._roles: dict[str, list[int]] = {}
        self._minimums = {r: n for r, n in job.roles.items() if n > 0} if job.min_available >= job.roles_total else {}
        self._policies = spec.sub_group_policy
        self._kinds: dict[str, _Kind] = {
            f"policy {i}": _Kind(policy.sub_group_size, policy.min_sub_groups)
            for i, policy in enumerate(spec.sub_group_policy)
        }
        inner = {group.parent for group in spec.sub_groups}
        for group in spec.sub_groups:
            if group.name not in inner:
                self._kinds[f"group {group.name}"] = _Kind(group.min_member, 1)
        for task in job.tasks.values():
            self._count(task, task.status, 1)

    # --- counting

    def _buckets(self, task: Task) -> Iterable[list[int]]:
        if self._minimums:
            yield _row(self._roles, task.role)
        if self._kinds:
            kind, name = self._group_of(task)
            if kind in self._kinds:
                yield _row(self._kinds[kind].members, name)

    def _group_of(self, task: Task) -> tuple[str, str]:
        labels = task.labels
        for i, policy in enumerate(self._policies):
            selected = policy.label_selector is None or matches(policy.label_selector, labels)
            if selected and all(key in labels for key in policy.match_label_keys):
                return f"policy {i}", "/".join(labels[key] for key in policy.match_label_keys)
        return f"group {labels.get(SUBGROUP_LABEL, '')}", ""

    def _count(self, task: Task, status: Status, sign: int) -> None:
        for row in self._buckets(task):
            row[status] += sign
            if status == Status.PENDING and task.best_effort:
                row[_BEST_EFFORT] += sign

    def shift(self, move: Move, sign: int) -> None:
        """The move's tasks come to hold room (+1), or give it up (−1)."""
        without = move.previous_status
        holding = Status.ALLOCATED if move.kind == MoveKind.ALLOCATE else Status.PIPELINED
        if move.kind == MoveKind.EVICT:
            without, holding = Status.RELEASING, move.previous_status
        for task in move.tasks:
            self._count(task, without, -sign)
            self._count(task, holding, sign)

    # --- questions

    def roles_valid(self) -> bool:
        return all(_sum(self._roles.get(role), _VALID) >= least for role, least in self._minimums.items())

    def groups_valid(self) -> bool:
        return all(
            sum(_sum(row, _VALID) >= kind.size for row in kind.members.values()) >= kind.least
            for kind in self._kinds.values()
        )

    def missing(self, *, pipelined: bool) -> int:
        """0: all minimums of parts are met. n > 0: at least n more tasks have to get room first."""
        met = (*ALLOCATED_LIKE, Status.SUCCEEDED, _BEST_EFFORT, *((Status.PIPELINED,) if pipelined else ()))
        roles = sum(max(least - _sum(self._roles.get(role), met), 0) for role, least in self._minimums.items())
        groups = 0
        for kind in self._kinds.values():
            short = sorted(max(kind.size - _sum(row, met), 0) for row in kind.members.values())
            short += [max(kind.size, 1)] * (kind.least - len(short))
            groups += sum(short[: kind.least])  # the cheapest ones to complete
        return max(roles, groups)


def _row(rows: dict[str, list[int]], name: str) -> list[int]:
    row = rows.get(name)
    if row is None:
        row = rows[name] = [0] * (_BEST_EFFORT + 1)
    return row


def _sum(row: list[int] | None, at: Iterable[int]) -> int:
    return 0 if row is None else sum(row[i] for i in at)
