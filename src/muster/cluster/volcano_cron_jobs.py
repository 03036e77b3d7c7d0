"""The controller of Volcano's CronJobs: creates one Job, at the first scheduled time after the start of the simulation.

Later runs are not simulated: they would follow each other for ever.
"""

from __future__ import annotations

from muster.cluster.memory import MemoryStore
from muster.cluster.owners import reference
from muster.model import volcano_job
from muster.model.cron import next_time
from muster.model.meta import ObjectMeta
from muster.store import Clock

__all__ = ["VolcanoCronJobs"]


class VolcanoCronJobs:
    """Follows no changes: CronJobs come with the input. With `at_once` their Jobs exist from the start."""

    def __init__(self, store: MemoryStore, clock: Clock, *, at_once: bool = False) -> None:
        self._store = store
        self._clock = clock
        self._at_once = at_once
        self._due: dict[str, float] = {}
        for key, cron in sorted(store.of(volcano_job.CronJob).items()):
            due = None if cron.spec.suspend else next_time(cron.spec.schedule, cron.spec.time_zone, clock.now())
            if due is not None:
                self._due[key] = due

    def run(self) -> bool:
        """Creates the Jobs that are due; returns whether there were any."""
        now = self._clock.now()
        ready = [key for key, due in self._due.items() if due <= now or self._at_once]
        for key in ready:
            due, cron = self._due.pop(key), self._store.of(volcano_job.CronJob).get(key)
            if cron is not None:
                job = job_of(cron, due)
                if not self._store.known(volcano_job.Job, f"{job.metadata.namespace}/{job.metadata.name}"):
                    self._store.create(job)
        return bool(ready)

    def next_time(self) -> float | None:
        """Returns when the next Job is due; None if none is."""
        return min(self._due.values(), default=None)


def job_of(cron: volcano_job.CronJob, due: float) -> volcano_job.Job:
    """The Job that the CronJob creates for a scheduled time; its name ends with the minutes since the epoch."""
    template = cron.spec.job_template
    meta = ObjectMeta(
        name=f"{cron.metadata.name}-{int(due) // 60}",
        namespace=cron.metadata.namespace,
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
        owner_references=[reference(cron)],
    )
    return volcano_job.Job(metadata=meta, spec=template.spec)
