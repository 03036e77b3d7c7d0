"""How long a group may wait: earlier deadlines first, and past its deadline a group is admitted and kept reserved."""

from __future__ import annotations

import math
import re

from muster.config.types import Arguments, PluginOption
from muster.engine.core.hooks import Deadlines, JobEnqueue, JobOrder, JobPipelined, Plugin, Vote
from muster.engine.core.jobs import Job, Status
from muster.engine.core.session import Session

_WAITING = "sla-waiting-time"
_ANNOTATIONS = (_WAITING, f"volcano.sh/{_WAITING}")
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def duration(text: str) -> float | None:
    """Returns the seconds of a Go duration (`1h15m`, `300ms`); None if it is not a duration."""
    text = text.removeprefix("+")
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return math.fsum(float(number) * _SECONDS[unit] for number, unit in parts)


class Sla(Plugin, JobOrder, JobEnqueue, JobPipelined, Deadlines):
    name = "sla"
    arguments = {_WAITING: "how long a group may wait if it has no annotation, as `1h15m` (no limit)"}

    def __init__(self, arguments: Arguments, option: PluginOption) -> None:
        super().__init__(arguments, option)
        self._waiting: float | None = None
        self._now = 0.0
        self._jobs: list[Job] = []  # the jobs with pending pods
        given = arguments.text(_WAITING, "")
        if given:
            self._waiting = _positive(given)
            if self._waiting is None:
                arguments.warn(_WAITING, f"is {given!r}, which is no duration above 0: ignored", "write it as 1h15m")

    def open(self, session: Session) -> None:
        self._now = session.now
        self._jobs = [job for job in session.jobs.values() if job.count[Status.PENDING]]

    def _deadline(self, job: Job) -> float:
        """Returns the deadline of the group; infinity if it has none."""
        notes = job.group.metadata.annotations
        waiting = self._waiting
        for key in _ANNOTATIONS:
            own = _positive(notes[key]) if key in notes else None
            if own is not None:
                waiting = own
                break
        return math.inf if waiting is None else job.created + waiting

    def job_key(self, job: Job) -> float:
        return self._deadline(job)

    def _vote(self, job: Job) -> Vote:
        # Volcano: sla never rejects, so a rejection by another plugin of the same tier still decides.
        return Vote.PERMIT if self._now >= self._deadline(job) else Vote.ABSTAIN

    def next_deadline(self) -> float | None:
        coming = [at for job in self._jobs if self._now < (at := self._deadline(job)) < math.inf]
        return min(coming, default=None)

    def enqueueable(self, job: Job) -> Vote:
        return self._vote(job)

    def pipelined(self, job: Job) -> Vote:
        return self._vote(job)


def _positive(text: str) -> float | None:
    seconds = duration(text)
    return seconds if seconds is not None and seconds > 0 else None
