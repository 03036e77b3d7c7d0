"""The jobs that may need a decision of the next cycle: what changed, and what the last cycle left unsettled."""

from __future__ import annotations

from collections.abc import Mapping

from muster.engine.core.backlog import Backlog
from muster.engine.core.job_changes import JobChanges, JobReader
from muster.engine.core.jobs import Attempt, Job
from muster.model.meta import Object


class UnsettledJobs:
    """Follows the changes of a state's jobs for one reader (a configuration) at a time."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}  # also those whose queue does not exist
        self.backlog: Backlog | None = None  # waiting jobs in classes
        self._reads = JobReader()
        self._reader: object = None

    def update(
        self,
        jobs: Mapping[str, Job],
        changes: JobChanges,
        groups: Mapping[str, Object],
        reader: object,
        classes_in: tuple[str, ...],
        plain: bool,
    ) -> Mapping[str, Job]:
        """Reads the changes since the last call; returns the jobs that are not settled and not in the backlog.

        Jobs that wait in one of the phases `classes_in` are in the backlog; if `plain`, only those of plain pods.
        """
        for job in self.jobs.values():
            job.attempt = Attempt()
        changed = self._reads.take(changes)
        if self._reader is not reader or changed is None:
            self._reader, self.backlog = reader, None
            for job in jobs.values():
                job.settled = 0
            changed = jobs.values()
        if self.backlog is not None and (self.backlog.phases, self.backlog.plain) != (classes_in, plain):
            self.jobs |= self.backlog.jobs()
            self.backlog = None
        if classes_in and self.backlog is None:
            self.backlog, changed = Backlog(classes_in, plain), jobs.values()
        found = self.jobs | {job.key: job for job in changed}
        if self.backlog is not None:
            self.backlog.follow(changed, jobs, groups, found)
        self.jobs = {
            key: job for key in sorted(found)
            if (job := found[key]).settled != job.generation and jobs.get(key) is job
        }  # fmt: skip
        changes.forget(len(jobs))
        return self.jobs

    def since_update(self, changes: JobChanges) -> dict[str, Job]:
        """Returns the jobs that are not settled and not in the backlog, with those that changed since `update`."""
        found, backlog = dict(self.jobs), self.backlog
        for job in self._reads.unread(changes):
            if job.key not in found and (backlog is None or job.key not in backlog):
                found[job.key] = job
        return found
