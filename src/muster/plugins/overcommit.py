"""Admits groups as long as what is admitted fits the cluster's size times a factor, less what is in use."""

from __future__ import annotations

from collections.abc import Mapping

from muster.config.types import Arguments, PluginOption
from muster.engine.core import resources
from muster.engine.core.hooks import JobEnqueue, Plugin, Reason, Vote
from muster.engine.core.jobs import Job
from muster.engine.core.session import Session
from muster.engine.queues.accounts import minimum, reserves, still_reserved, without_gated
from muster.engine.queues.job_sums import JobSums
from muster.model.quantity import display

_FACTOR = 1.2


class Overcommit(Plugin, JobEnqueue):
    name = "overcommit"
    arguments = {"overcommit-factor": "how many times the cluster's size may be admitted; below 1 is 1.2 (1.2)"}

    def __init__(self, arguments: Arguments, option: PluginOption) -> None:
        super().__init__(arguments, option)
        self._factor = arguments.float("overcommit-factor", _FACTOR, minimum=1)
        self._idle: dict[str, float] = {}
        self._inqueue: dict[str, int] = {}
        self._sums = JobSums(_reserved)

    def open(self, session: Session) -> None:
        self._inqueue = {}
        if "enqueue" not in session.config.actions:
            return
        used = resources.used_of(session.state.nodes)
        total = resources.total_of(session.state.nodes)
        self._idle = {name: amount * self._factor - used.get(name, 0) for name, amount in total.items()}
        self._sums.follow(session.state)
        (self._inqueue,) = self._sums.total() or ({},)

    def _over(self, job: Job) -> list[str]:
        least = minimum(job)
        use = {name: amount + self._inqueue.get(name, 0) for name, amount in least.items()}
        return resources.over(use, self._idle, least)

    def enqueueable(self, job: Job) -> Vote:
        return Vote.REJECT if self._over(job) else Vote.PERMIT

    def refusal(self, job: Job) -> Reason:
        parts = {"requested": minimum(job), "inqueue": self._inqueue}
        text = resources.inequality(self._over(job), self._limit, **parts)
        return Reason("cluster-overcommitted", f"the cluster is overcommitted: {text}")

    def yields(self, job: Job) -> bool:
        return True

    def _limit(self, name: str) -> str:
        return f"size times {self._factor:g} less what is in use {display(name, self._idle.get(name, 0))}"

    def equal_votes(self, job: Job, count: int) -> int:
        # Gated pods are added with less: then it is a lower bound.
        return max(resources.count_within(self._inqueue, self._idle, minimum(job), count), 1)

    def enqueued(self, job: Job) -> None:
        self.all_enqueued(job, 1)

    def all_enqueued(self, job: Job, count: int) -> None:
        resources.add(self._inqueue, without_gated(job, minimum(job)), count)


def _reserved(job: Job) -> tuple[Mapping[str, int]]:
    # Volcano: an admitted group counts in full here, even if some of its pods already run.
    if job.phase == "Inqueue":
        return (without_gated(job, minimum(job)),)
    return (still_reserved(job) if reserves(job) else {},)
