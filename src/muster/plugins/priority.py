"""Higher priority first: jobs by their group's class, tasks by their pod's; and who may evict whom inside a queue."""

from __future__ import annotations

from collections.abc import Sequence

from muster.engine.core.hooks import JobOrder, JobStarving, Opinion, Plugin, Preemptable, TaskOrder
from muster.engine.core.jobs import Job, Task


class Priority(Plugin, TaskOrder, JobOrder, Preemptable, JobStarving):
    name = "priority"
    opinion = Opinion.REST  # pods of equal or higher priority are never evicted, with or without this plugin

    def task_key(self, task: Task) -> float:
        return -task.priority

    def task_keys(self, tasks: Sequence[Task]) -> list[float]:
        return [-task.priority for task in tasks]

    def job_key(self, job: Job) -> float:
        return -job.priority

    def preemptable(self, claimer: Task, candidates: Sequence[Task]) -> list[bool]:
        """Names pods of jobs of strictly lower priority; inside one job, pods of strictly lower priority."""
        job = claimer.job
        assert job is not None
        return [
            victim.job.priority < job.priority
            if victim.job is not None and victim.job is not job
            else victim.priority < claimer.priority
            for victim in candidates
        ]

    def starving(self, job: Job) -> bool:
        """Returns, as in Volcano, True while any task of the job has no node, even above its minimum."""
        return job.ready + job.waiting < len(job.tasks)
