"""The reasons of waiting jobs in classes. They are kept from cycle to cycle while the cause of the wait is the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from muster.engine.core.backlog import LOWEST
from muster.engine.core.plan import Condition, PodReason

if TYPE_CHECKING:
    from muster.engine.core.backlog import JobClass, Rank


class Cause(NamedTuple):
    """Why a pod waits: the pod's reason, the line about its group (empty: the group is ready), and its origin."""

    reason: PodReason
    gang: str
    why: str


class ClassReport:
    """The reasons and conditions of all jobs of a class of plain pods."""

    def __init__(self) -> None:
        self.reasons: dict[str, PodReason] = {}  # pod → why it has no node
        self.conditions: dict[str, Condition] = {}  # job → its condition
        self._pods: dict[str, str] = {}  # job → its pod
        self._cause: Cause | None = None  # of all jobs; None: their causes differ

    def update(self, cls: JobClass, causes: Sequence[tuple[Rank, Cause]]) -> None:
        """Follows the class. `causes`: the first job that has a cause, and the cause, in the order of jobs."""
        first = causes[0][1]
        cause = first if all(other == first for _, other in causes) else None
        if cause is None or cause != self._cause:
            self.reasons, self.conditions, self._pods = {}, {}, {}
            self._cause = cause
        else:
            for key in cls.changed:
                self.reasons.pop(self._pods.pop(key, ""), None)
                self.conditions.pop(key, None)
        if cause is None:
            self._add_different(cls, causes)
        else:
            there, some = cls.jobs, cls.changed if self._pods else cls.jobs
            self._add({key: pod for key in some if key in there for pod in there[key].tasks}, cause)
        cls.changed = {}

    def _add_different(self, cls: JobClass, causes: Sequence[tuple[Rank, Cause]]) -> None:
        left = list(reversed(causes))
        cause = left.pop()[1]
        for rank, job in cls.behind(LOWEST):
            while left and left[-1][0] <= rank:
                cause = left.pop()[1]
            (pod,) = job.tasks
            self._add({job.key: pod}, cause)

    def _add(self, pods: Mapping[str, str], cause: Cause) -> None:
        """Adds jobs, each with its pod."""
        self._pods.update(pods)
        self.reasons.update(dict.fromkeys(pods.values(), cause.reason))
        if cause.gang:
            gang, why = cause.gang, cause.why
            self.conditions.update({key: Condition.unschedulable(gang, pod, why) for key, pod in pods.items()})
