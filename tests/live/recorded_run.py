"""Plays a trace against a live scheduler and records when its jobs were submitted, started and ended.

The recorder submits and ends jobs, one action at a time. Before the next action there is a gap, and the scheduler has
run a cycle. An API server creates and deletes one object at a time, and a trace has one submission and one end per job.
The recorder therefore stops the scheduler's process (SIGSTOP) for the milliseconds in which it creates or deletes the
pods of a job; `spread` leaves this out.
"""

from __future__ import annotations

import heapq
import json
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np

from live.api import Api, Plain, place
from live.muster_process import Scheduler
from live.recorded_load import LiveJobs
from live.recording import Recording
from muster.sim.traces.table import Trace

SUBMIT_GAP_S = 1.05  # creationTimestamps have whole seconds, and jobs are ordered by them
WATCH_DELAY_S = 0.03  # the API server's watches show an action after this time
POLL_S = 0.01
_NOW = {"gracePeriodSeconds": 0}


@dataclass
class Recorded:
    """What happened, in Unix time. Jobs that did not start or end are missing."""

    begin: float
    end: float = math.nan
    submit: dict[int, float] = field(default_factory=dict)
    start: dict[int, float] = field(default_factory=dict)  # when the scheduler decided, in the order of decisions
    ends: dict[int, float] = field(default_factory=dict)

    def recording(self, planned: Trace) -> Recording:
        """Returns the jobs with their actual submissions and run lengths; a job that did not end has no end."""
        epoch = math.floor(self.begin)
        chosen = sorted(self.submit, key=self.submit.__getitem__)
        submit = np.array([self.submit[job] - epoch for job in chosen])
        run = np.array([self.ends[job] - self.start[job] if job in self.ends else math.inf for job in chosen])
        trace = replace(
            planned.select(np.array(chosen, dtype=np.int64)), source="recorded", epoch=float(epoch),
            submit=np.round(submit, 3), duration=np.round(run, 3),
        )  # fmt: skip
        starts = {planned.names[job]: round(when - epoch, 3) for job, when in self.start.items()}
        return Recording(trace, starts, round(self.end - epoch, 3))


class Recorder:
    """Plays one trace. `play` returns when its time is over; jobs that still wait or run then are left as they are."""

    def __init__(
        self, api: Api, scheduler: Scheduler, namespace: str, trace: Trace, jobs: LiveJobs, gap: float,
        *, spread: bool = False,
    ) -> None:  # fmt: skip
        self._api, self._scheduler, self._trace, self._jobs = api, scheduler, trace, jobs
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._gap, self._spread = gap, spread
        self._ends: list[tuple[float, int]] = []
        self._of_name = {name: i for i, name in enumerate(trace.names)}
        self._unbound: dict[int, set[str]] = {}  # submitted job → its pods without a decision
        self._log = scheduler.log_file.open(encoding="utf-8")
        self._line = ""
        self._cycle_at = 0.0  # when the last cycle ended
        self._at = 0.0  # when the scheduler could see the last action
        self.recorded = Recorded(time.time())

    def play(self, seconds: float) -> Recorded:
        recorded, ready = self.recorded, 0.0
        end = recorded.begin + seconds
        while (now := time.time()) < end or now < ready:  # the last action has its gap, too
            self._read_log()
            submission, completion = self._next_submission(), self._ends[0][0] if self._ends else math.inf
            if now >= end or max(min(submission, completion), ready) > now or self._undecided():
                time.sleep(POLL_S)
                continue
            if submission <= completion:
                self._submit(len(recorded.submit))
            else:
                self._end(heapq.heappop(self._ends)[1])
            ready = time.time() + self._gap
        self._read_log()
        self._log.close()
        recorded.end = time.time()
        return recorded

    def _undecided(self) -> bool:
        """Whether no cycle has run since the last action."""
        return not self._spread and self._cycle_at < self._at

    def _next_submission(self) -> float:
        """Returns when the next job is due; a job that is late delays the next one."""
        job, recorded = len(self.recorded.submit), self.recorded
        if job == len(self._trace):
            return math.inf
        planned = recorded.begin + float(self._trace.submit[job])
        return max(planned, recorded.submit[job - 1] + SUBMIT_GAP_S) if job else planned

    def _submit(self, job: int) -> None:
        group, *pods = self._jobs.of(job)
        self._unbound[job] = {one["metadata"]["name"] for one in pods}
        with self._one_event():
            # One after the other: the API server closes connections that are seldom used.
            for one in (group, *pods):
                self._api.create(one)
        self.recorded.submit[job] = self._at

    def _end(self, job: int) -> None:
        group, *pods = self._jobs.of(job)
        selected = f"{self._pods}?labelSelector=job%3D{self._trace.names[job]}"
        bound = [one for one in self._api.list(selected) if one["spec"].get("nodeName")]
        assert len(bound) == len(pods), f"{self._trace.names[job]} has {len(bound)} of its {len(pods)} pods"
        with self._one_event():
            self._api.delete(selected, _NOW)
            self._api.delete(place(group))
        self.recorded.ends[job] = self._at

    @contextmanager
    def _one_event(self) -> Iterator[None]:
        """The scheduler sees at once what happens in the block."""
        if self._spread:
            yield
            self._at = time.time()
            return
        self._scheduler.pause()
        try:
            yield
            time.sleep(WATCH_DELAY_S)
        finally:
            self._at = time.time()
            self._scheduler.go_on()

    def _read_log(self) -> None:
        """Follows the scheduler's decisions."""
        for line in self._log:
            self._line += line
            if line.endswith("\n"):
                entry, self._line = json.loads(self._line), ""
                self._follow(entry)

    def _follow(self, entry: Plain) -> None:
        if entry["msg"] == "cycle":
            self._cycle_at = _unix(entry)
        elif entry["msg"] == "bind":
            pod = entry["pod"].rpartition("/")[2]
            job = self._of_name[pod.rpartition("-")[0]]
            self._unbound[job].discard(pod)
            if not self._unbound[job]:
                self.recorded.start[job] = when = _unix(entry)
                heapq.heappush(self._ends, (when + float(self._trace.duration[job]), job))


def _unix(entry: Plain) -> float:
    return datetime.fromisoformat(entry["time"]).timestamp()
