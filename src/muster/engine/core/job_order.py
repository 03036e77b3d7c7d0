"""The order of jobs (the keys of plugins, each made once while its job does not change), and of the pods of a job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cmp_to_key
from operator import attrgetter
from typing import TYPE_CHECKING

from muster.engine.core.jobs import Job, Task

if TYPE_CHECKING:
    from muster.engine.core.hooks import JobOrder, TaskOrder

_KEY, _CREATED = attrgetter("key"), attrgetter("created")


class JobKeys:
    """`timeless`: whether jobs of one class (`single_jobs`) get the same answers."""

    def __init__(self, plugins: Sequence[JobOrder], *, timeless: bool) -> None:
        self._plugins = plugins
        self._timeless = timeless
        self._of_job: dict[str, tuple[int, tuple[float, ...]]] = {}  # job → its generation, its key

    def of(self, job: Job) -> tuple[float, ...]:
        """Returns the answers of the plugins, in their order."""
        job_class = job.single_class
        if job_class is not None and self._timeless and job.count[job_class.status]:
            found = job_class.job_key
            if found is None:
                found = job_class.job_key = self._ask(job)
            return found
        known = self._of_job.get(job.key)
        if known is None or known[0] != job.generation:
            known = self._of_job[job.key] = job.generation, self._ask(job)
        return known[1]

    def in_order(self, jobs: Iterable[Job]) -> list[Job]:
        """Returns the jobs by their keys, then by creation time and name."""
        found = sorted(jobs, key=_KEY)  # by one part at a time: this makes no tuples
        found.sort(key=_CREATED)
        found.sort(key=self.of)
        return found

    def _ask(self, job: Job) -> tuple[float, ...]:
        return tuple([plugin.job_key(job) for plugin in self._plugins])


def in_order(plugins: Sequence[TaskOrder], tasks: Iterable[Task]) -> list[Task]:
    """Task order: plugins first, then the number at the end of the name, creation time and uid."""
    todo = list(tasks)
    if len(todo) < 2:
        return todo
    asked: list[Sequence[object]] = [plugin.task_keys(todo) for plugin in plugins]
    serials = [task.serial for task in todo]
    numbers = set(serials)
    if None in numbers and len(numbers) > 1:
        return _with_unnumbered(asked, todo)
    # Columns instead of a tuple per pod: those of plugins are mostly constant or the numbers, which mostly differ.
    columns = [*(column for column in asked if column != serials), serials]
    keys = [column for column in columns if column.count(column[0]) != len(column)]
    if len(numbers) != len(serials):
        keys.append([(task.created, task.uid) for task in todo])
    rank: Sequence[object] = keys[0] if len(keys) == 1 else list(zip(*keys, strict=True))
    return [todo[i] for i in sorted(range(len(todo)), key=rank.__getitem__)]  # type: ignore[arg-type]


def _with_unnumbered(asked: Sequence[Sequence[object]], tasks: list[Task]) -> list[Task]:
    """Names with and without a number can go round in circles: let the outcome not depend on the order of input."""
    by_name = cmp_to_key(_by_name)
    key = {task.key: tuple(column[i] for column in asked) for i, task in enumerate(tasks)}
    tasks.sort(key=lambda t: (t.created, t.uid))
    return sorted(tasks, key=lambda t: (key[t.key], by_name(t)))


def _by_name(a: Task, b: Task) -> int:
    """Volcano: compare the last numbers of names of three or more parts, where both have one and they differ."""
    if a.serial is not None and b.serial is not None and a.serial != b.serial:
        return -1 if a.serial < b.serial else 1
    left, right = (a.created, a.uid), (b.created, b.uid)
    return (left > right) - (left < right)
