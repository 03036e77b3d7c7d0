"""The keys by which plugins order jobs, each made once while its job does not change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from muster.engine.core.jobs import Job
from muster.engine.core.single_jobs import SingleKind

if TYPE_CHECKING:
    from muster.engine.core.hooks import JobOrder


class JobKeys:
    """`kinds`: jobs of one pod that get the same answers (`single_jobs`)."""

    def __init__(self, plugins: Sequence[JobOrder], kinds: Mapping[str, SingleKind]) -> None:
        self._plugins = plugins
        self._kinds = kinds
        self._of_kind: dict[SingleKind, tuple[float, ...]] = {}
        self._of_job: dict[str, tuple[int, tuple[float, ...]]] = {}  # job → its generation, its key

    def of(self, job: Job) -> tuple[float, ...]:
        """Returns the answers of the plugins, in their order."""
        kind = self._kinds.get(job.key)
        if kind is not None and job.count[kind.status]:
            found = self._of_kind.get(kind)
            if found is None:
                found = self._of_kind[kind] = self._ask(job)
            return found
        known = self._of_job.get(job.key)
        if known is None or known[0] != job.generation:
            known = self._of_job[job.key] = job.generation, self._ask(job)
        return known[1]

    def clear(self) -> None:
        """Asks for every key again."""
        self._of_kind.clear()
        self._of_job.clear()

    def _ask(self, job: Job) -> tuple[float, ...]:
        return tuple([plugin.job_key(job) for plugin in self._plugins])
