"""The controller of a trace's jobs in the embedded cluster: it submits, runs, restarts and completes them.

A job runs while at least its minimum of pods runs, and completes after its duration. If evictions or a lost node leave
it below its minimum, its other pods are stopped, too, and all of them are created again (Volcano: RestartJob). It then
starts from its last checkpoint, without checkpoints from the beginning. A job that has completed leaves nothing behind
in the cluster.
"""

from __future__ import annotations

import heapq
import math

import numpy as np

from muster.cluster.embedded import EmbeddedCluster
from muster.engine.core.state import State
from muster.model.core import Pod
from muster.model.meta import key as key_of
from muster.model.pod_states import is_finished, is_terminating
from muster.model.requests import requests
from muster.model.scheduling import PodGroup
from muster.sim.replay.cluster_use import Sampler
from muster.sim.replay.job_objects import NAMESPACE, JobObjects, TraceTemplate
from muster.sim.traces.table import FloatArray, Trace
from muster.store import Change

GPU = 2  # the row of GPUs among the resources


class ActiveJob:
    """A job that was submitted and has not completed."""

    __slots__ = (
        "bound", "contention", "index", "minimum", "progress", "queue", "running", "runs", "since", "templates",
        "used",
    )  # fmt: skip

    def __init__(
        self, index: int, queue: int, templates: list[TraceTemplate], minimum: int, contention: FloatArray
    ) -> None:
        self.index = index
        self.queue = queue
        self.templates = templates
        self.minimum = minimum
        self.contention = contention  # its integral at the submission
        self.bound: dict[str, str] = {}  # pod → node
        self.running: dict[str, TraceTemplate] = {}
        self.since: float | None = None  # it has run from then on
        self.progress = 0.0  # seconds of its duration that are done and saved
        self.runs = 0  # how often it has started
        self.used: FloatArray = np.zeros(3)  # what it counts for in the samples


class JobOutcomes:
    """What happened to each job, in the columns of a Replay."""

    def __init__(self, jobs: int) -> None:
        self.start, self.end = np.full(jobs, np.nan), np.full(jobs, np.nan)
        self.run, self.lost = np.zeros(jobs), np.zeros(jobs)
        self.evictions, self.node_losses = np.zeros(jobs, dtype=np.int64), np.zeros(jobs, dtype=np.int64)
        self.contention = np.full(jobs, np.nan)


class TraceJobs:
    """A part of the embedded cluster. `offset` is added to a time of the trace to get the time of the cluster."""

    def __init__(
        self, cluster: EmbeddedCluster, state: State, trace: Trace, objects: JobObjects, sampler: Sampler,
        offset: float, checkpoint: float | None,
    ) -> None:  # fmt: skip
        self._store, self._clock = cluster.store, cluster.clock
        self._state, self._trace, self._objects, self._sampler = state, trace, objects, sampler
        self._offset, self._checkpoint = offset, checkpoint
        self._watch = self._store.watch(str(self._store.version), (Pod,))
        self._submitted = 0
        self._queues = [sampler.queues.index(name) for name in trace.queues]
        self._ends: list[tuple[float, int, int]] = []  # when, job, its run
        self._pods: dict[str, tuple[ActiveJob, int]] = {}  # pod → its job, its number
        self._others: dict[str, tuple[int, FloatArray]] = {}  # other pods with a node → queue, amounts
        self.active: dict[int, ActiveJob] = {}
        self.unbound: set[str] = set()  # pods that wait for a node
        self.lost_nodes: set[str] = set()  # nodes that left; their pods were not evicted
        self.started = self.completed = 0
        self.outcomes = JobOutcomes(len(trace))
        for key, pod in self._store.of(Pod).items():
            self._follow_other(key, pod)

    # --- a part of the embedded cluster

    def run(self) -> bool:
        before = self._store.version
        for event in self._watch.take():
            pod = None if event.change == Change.DELETED else event.object
            assert pod is None or isinstance(pod, Pod)
            if event.key in self._pods:
                self._follow(event.key, pod)
            else:
                self._follow_other(event.key, pod)
        # Events are due by the same sum as in next_time: rounding must not leave one in the future.
        now, at = self._now(), self._clock.now()
        while self._ends and self._ends[0][0] + self._offset <= at:
            _, index, runs = heapq.heappop(self._ends)
            job = self.active.get(index)
            if job is not None and job.runs == runs and job.since is not None:
                self._complete(job, now)
        while self._submitted < len(self._trace) and self._trace.submit[self._submitted] + self._offset <= at:
            self._submit(self._submitted)
            self._submitted += 1
        return self._store.version != before

    def next_time(self) -> float | None:
        times = [self._trace.submit[self._submitted]] if self._submitted < len(self._trace) else []
        while self._ends:
            when, index, runs = self._ends[0]
            job = self.active.get(index)
            if job is not None and job.runs == runs and job.since is not None:
                times.append(when)
                break
            heapq.heappop(self._ends)
        return None if not times else float(min(times)) + self._offset

    def _now(self) -> float:
        return self._clock.now() - self._offset

    # --- the life of a job

    def _submit(self, index: int) -> None:
        trace, made, sampler = self._trace, self._objects, self._sampler
        templates, queue = made.templates_of(index), self._queues[int(trace.queue[index])]
        job = ActiveJob(index, queue, templates, made.minimum_of(index), sampler.contention())
        self.active[index] = job
        self._store.create(made.group_of(index))
        for number in range(len(templates)):
            self._create_pod(job, number)
        sampler.waiting[queue] += 1
        sampler.demand += _sum(templates)

    def _create_pod(self, job: ActiveJob, number: int) -> None:
        pod = self._objects.pod_of(job.index, number, job.templates[number])
        self._pods[key_of(pod)] = job, number
        self.unbound.add(key_of(pod))
        self._store.create(pod)

    def _follow(self, key: str, pod: Pod | None) -> None:
        job, number = self._pods[key]
        template = job.templates[number]
        self._follow_binding(key, pod)
        if pod is None:
            node = job.bound.pop(key, "")
            if node:
                self._sampler.allocated[job.queue] -= template.amounts
        else:
            node = pod.spec.node_name
            if node and key not in job.bound:
                job.bound[key] = node
                self._sampler.allocated[job.queue] += template.amounts
        if pod is not None and pod.status.phase == "Running" and not is_terminating(pod):
            job.running[key] = template
        else:
            job.running.pop(key, None)
        if job.since is None and len(job.running) >= job.minimum:
            self._start(job)
        elif job.since is not None and len(job.running) < job.minimum:
            self._stop(job, lost_node=node in self.lost_nodes)
        else:
            self._use(job)
        if pod is None:
            self._create_pod(job, number)

    def _follow_other(self, key: str, pod: Pod | None) -> None:
        """Counts a pod of the cluster that is not the trace's."""
        self._follow_binding(key, pod)
        on_node = pod is not None and bool(pod.spec.node_name) and not is_finished(pod)
        if on_node and pod is not None and key not in self._others:
            task = self._state.tasks.get(key)
            name = task.job.queue_name if task is not None and task.job is not None else "default"
            has = requests(pod.spec)
            amounts = np.array([has.get(resource, 0) for resource in self._sampler.resources], dtype=np.float64)
            queues = self._sampler.queues
            self._others[key] = queues.index(name) if name in queues else queues.index("default"), amounts
            self._sampler.allocated[self._others[key][0]] += amounts
            self._sampler.used[self._others[key][0]] += amounts
        elif not on_node and key in self._others:
            queue, amounts = self._others.pop(key)
            self._sampler.allocated[queue] -= amounts
            self._sampler.used[queue] -= amounts

    def _follow_binding(self, key: str, pod: Pod | None) -> None:
        if pod is not None and not pod.spec.node_name:
            self.unbound.add(key)
        else:
            self.unbound.discard(key)

    def _start(self, job: ActiveJob) -> None:
        now, index = self._now(), job.index
        job.since = now
        job.runs += 1
        if math.isnan(self.outcomes.start[index]):
            self.outcomes.start[index] = now
            self.started += 1
        end = now + float(self._trace.duration[index]) - job.progress
        if math.isfinite(end):
            heapq.heappush(self._ends, (end, index, job.runs))
        self._sampler.waiting[job.queue] -= 1
        self._sampler.running[job.queue] += 1
        self._use(job)

    def _stop(self, job: ActiveJob, *, lost_node: bool) -> None:
        assert job.since is not None
        out, index = self.outcomes, job.index
        ran = self._now() - job.since
        done = job.progress + ran
        step = self._checkpoint
        job.progress = max(job.progress, done // step * step) if step else 0.0
        job.since = None
        out.run[index] += ran
        out.lost[index] += done - job.progress
        (out.node_losses if lost_node else out.evictions)[index] += 1
        self._sampler.running[job.queue] -= 1
        self._sampler.waiting[job.queue] += 1
        job.running.clear()
        self._use(job)
        table = self._store.of(Pod)
        for key in sorted(job.bound):
            pod = table.get(key)
            if pod is not None and not is_terminating(pod):
                self._store.delete(Pod, key)

    def _complete(self, job: ActiveJob, now: float) -> None:
        assert job.since is not None
        out, index = self.outcomes, job.index
        out.end[index] = now
        out.run[index] += now - job.since
        submitted = float(self._trace.submit[index])
        row = GPU if self._trace.gpus[index] else 0
        passed = float(self._sampler.contention()[row] - job.contention[row])
        out.contention[index] = passed / (now - submitted) if now > submitted else 1.0
        job.since = None
        job.running.clear()
        self._use(job)
        self._sampler.running[job.queue] -= 1
        self._sampler.demand -= _sum(job.templates)
        self._sampler.allocated[job.queue] -= _sum([job.templates[self._pods[key][1]] for key in job.bound])
        del self.active[index]
        for number in range(len(job.templates)):
            key = f"{NAMESPACE}/{self._trace.names[index]}-{number}"
            del self._pods[key]
            self.unbound.discard(key)
            self._store.forget(Pod, key)
        self._store.forget(PodGroup, f"{NAMESPACE}/{self._trace.names[index]}")
        self.completed += 1

    def _use(self, job: ActiveJob) -> None:
        """Updates what the job counts for: its running pods, while it runs with its minimum."""
        used = _sum(list(job.running.values())) if job.since is not None else np.zeros(3)
        used[GPU] *= self._trace.usage[job.index]
        self._sampler.used[job.queue] += used - job.used
        job.used = used

    def close(self) -> None:
        """Counts the time of the jobs that still run at the end."""
        for job in self.active.values():
            if job.since is not None:
                self.outcomes.run[job.index] += self._now() - job.since


def _sum(templates: list[TraceTemplate]) -> FloatArray:
    total = np.zeros(3)
    for template in templates:
        total += template.amounts
    return total
