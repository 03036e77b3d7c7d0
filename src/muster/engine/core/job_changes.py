"""The log of changed jobs, the counts of their tasks that came or left, and the jobs in the order of their names: a
cycle costs what changed, not all jobs.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping

from muster.engine.core.jobs import Job, Shape, Status

_LEAST_KEPT = 4096
_FEW = 64  # changes that are inserted one by one; more are sorted with the rest


Tally = dict[tuple[Job, Shape, Status], list[int]]
"""How many tasks came to jobs or, below zero, left them, in a list of one: equal tasks are counted together."""


def tally_all(tally: Tally) -> None:
    for (job, shape, status), (n,) in tally.items():
        job.tally(shape, status, n)


class JobChanges:
    """The jobs of one state that came, changed or went, in that order; a job may be in it several times.

    A reader keeps the position up to which it has read. Old entries are forgotten.
    """

    def __init__(self) -> None:
        self.log: list[Job] = []  # jobs append themselves
        self._forgotten = 0  # entries before the log

    @property
    def end(self) -> int:
        return self._forgotten + len(self.log)

    def since(self, position: int) -> list[Job] | None:
        """Returns the entries after a position; None if some of them are forgotten: all jobs must be read then."""
        at = position - self._forgotten
        return None if at < 0 else self.log[at:]

    def forget(self, jobs: int) -> None:
        """Forgets the older half if the log is long for so many jobs."""
        if len(self.log) > max(_LEAST_KEPT, 4 * jobs):
            half = len(self.log) // 2
            del self.log[:half]
            self._forgotten += half


class JobReader:
    """Reads the changes of jobs. It starts again with all jobs when it is given another state's log."""

    def __init__(self) -> None:
        self._changes: JobChanges | None = None
        self._position = 0

    def take(self, changes: JobChanges) -> Iterable[Job] | None:
        """Returns the jobs that changed since the last call, each once; None: all jobs must be read."""
        since = None if changes is not self._changes else changes.since(self._position)
        self._changes, self._position = changes, changes.end
        return None if since is None else dict.fromkeys(since)

    def unread(self, changes: JobChanges) -> Iterable[Job]:
        """Returns the jobs that changed since the last call of `take`, which has read this log."""
        return dict.fromkeys(changes.since(self._position) or ())


class JobsByName(Mapping[str, Job]):
    """Jobs by key, in the order of their keys."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._keys: list[str] = []
        self._new: list[str] = []  # keys that are to be inserted
        self._gone: list[str] = []  # keys that are to be removed

    def put(self, job: Job) -> None:
        known = job.key in self._jobs
        self._jobs[job.key] = job
        if not known:
            self._new.append(job.key)
            self._limit_changes()

    def discard(self, key: str) -> None:
        if self._jobs.pop(key, None) is not None:
            self._gone.append(key)
            self._limit_changes()

    def __iter__(self) -> Iterator[str]:
        if self._new or self._gone:
            self._update()
        return iter(self._keys)

    def __getitem__(self, key: str) -> Job:
        return self._jobs[key]

    def __contains__(self, key: object) -> bool:
        return key in self._jobs

    def __len__(self) -> int:
        return len(self._jobs)

    def _limit_changes(self) -> None:
        """Keeps the lists of changes short while nobody reads the order."""
        if len(self._new) + len(self._gone) > max(_LEAST_KEPT, len(self._jobs)):
            self._update()

    def _update(self) -> None:
        if len(self._new) + len(self._gone) > _FEW:
            self._keys = sorted(self._jobs)
        else:
            for key in self._gone:
                at = bisect_left(self._keys, key)
                if self._keys[at : at + 1] == [key]:
                    del self._keys[at]
            for key in dict.fromkeys(self._new):
                if key in self._jobs:
                    insort(self._keys, key)
        self._new, self._gone = [], []
