"""The signatures of tasks in one cycle: tasks of one signature get the same answers from every filter and score."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from muster.engine.core.hooks import Plugin
from muster.engine.core.jobs import Shape, Task
from muster.engine.core.tiers import Tiers


class Signatures:
    """Numbers the signatures, and keeps each task's number on the task until the cycle ends.

    Plugins are asked once about the tasks of a shape that they do not distinguish, and once about those of a class of
    single jobs.
    """

    def __init__(self, tiers: Tiers) -> None:
        self._signers = tiers.signers
        self._all_signers = list(dict.fromkeys((*tiers.signers, *tiers.cluster_signers)))
        self._signing: dict[int, list[Plugin]] = {}  # by shape
        self._numbers: dict[object, int] = {}
        self._of_shape: dict[int, int] = {}  # of shapes that decide the signature alone
        self._signed: list[Task] = []

    def of(self, task: Task) -> int:
        found = task.signature
        if found < 0:
            found = self._of_shape.get(task.shape.id, -1)
            job_class = task.job.single_class if found < 0 and task.job is not None else None
            if job_class is not None:
                found = job_class.signature
            if found < 0:
                signers = self._signing.get(task.shape.id) or self._signers_of(task.shape)
                key = (task.shape.id, *[(p.signature(task), p.cluster_signature(task)) for p in signers])
                found = self._numbers.setdefault(key, len(self._numbers))
                if not signers:
                    self._of_shape[task.shape.id] = found
                elif job_class is not None:
                    job_class.signature = found
            task.signature = found
            self._signed.append(task)
        return found

    def of_columns(self, task: Task) -> Hashable:
        """Returns a key: tasks of equal keys get the same answers from the terms that read one node only."""
        return (task.shape.id, *[p.signature(task) for p in self._signers]) if self._signers else task.shape.id

    def equal_shape(self, task: Task) -> Shape | None:
        """Returns the task's shape if all tasks of that shape have its signature."""
        self.of(task)
        return task.shape if task.shape.id in self._of_shape else None

    def _signers_of(self, shape: Shape) -> Sequence[Plugin]:
        """Returns the plugins that may give tasks of this shape different signatures."""
        return self._signing.setdefault(shape.id, [p for p in self._all_signers if p.signs(shape)])

    def forget(self) -> None:
        for task in self._signed:
            task.signature = -1
