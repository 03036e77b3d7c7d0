"""The jobs in the order of their names."""

from __future__ import annotations

from muster.engine.core.job_changes import JobsByName
from muster.engine.core.jobs import Job
from muster.model.scheduling import PodGroup


def job(number: int) -> Job:
    return Job(f"d/job-{number:05d}", PodGroup(), 0.0)


def test_changes_that_nobody_reads_are_not_collected() -> None:
    jobs = JobsByName()
    for number in range(20_000):
        jobs.put(job(number))
        if number >= 10:
            jobs.discard(f"d/job-{number - 10:05d}")
    assert len(jobs._new) + len(jobs._gone) < 5000
    assert list(jobs) == sorted(jobs._jobs) == [f"d/job-{number:05d}" for number in range(19_990, 20_000)]
