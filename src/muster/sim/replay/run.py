"""Replays a trace: the jobs arrive on the embedded cluster, and the same cycles as on a live cluster schedule them.

The clock jumps from event to event: a submission, the end of a job, of a pod's grace period, a node that joins or
leaves, a deadline of the scheduler. A cycle follows an event, at most one in each second, or cycles are periodic.
Nothing depends on real time, so the same input gives the same result.
"""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from muster.cluster.embedded import EmbeddedCluster
from muster.engine.core.plan import Plan, PodReason
from muster.engine.core.session import Log, Session, silent
from muster.engine.core.state import Objects, State
from muster.model.core import Node
from muster.model.meta import Object
from muster.model.meta import key as key_of
from muster.sim import summary
from muster.sim.group_controllers import open_cluster
from muster.sim.inputs import SCHEDULER_NAMES, LoadedConfig
from muster.sim.replay.cluster_use import Sampler, default_interval
from muster.sim.replay.job_objects import NAMESPACE, JobObjects
from muster.sim.replay.node_events import NodeEvent, NodeEvents, absent_at_start
from muster.sim.replay.records import Replay
from muster.sim.replay.trace_jobs import TraceJobs
from muster.sim.result import CycleRecord
from muster.sim.traces.table import Trace

GPU_SHARE = "gpu-share"
MIN_GAP_S = 1.0  # between cycles that follow events
MAX_REASONS = 1000
_IN_ORDER = frozenset(("enqueue", "allocate", "backfill"))  # actions that evict nothing
# A run is stopped if so many cycles evict pods and no job completes or starts for the first time.
MAX_FRUITLESS_CYCLES = 5000

Progress = Callable[[int, int], None]  # jobs that have completed, jobs in all


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How a trace is replayed. Times are in seconds of the trace."""

    cycle: float | None = None  # the period of cycles; None: a cycle follows an event, at most one in a second
    checkpoint: float | None = None  # a stopped job continues from the last multiple of this; None: from the start
    sample: float | None = None  # the interval of the samples; None: about 500 intervals
    until: float | None = None  # the end of the replay; None: when nothing more happens
    node_events: Sequence[NodeEvent] = ()
    gpu_resource: str = "nvidia.com/gpu"
    scheduler_names: Sequence[str] = SCHEDULER_NAMES
    now: float | None = None  # Unix time of the first submission; None: as the trace says
    seed: int | None = None  # of the trace, for the record


def replay(
    trace: Trace,
    objects: Objects,
    config: LoadedConfig,
    options: ReplayOptions | None = None,
    *,
    name: str = "",
    log: Log = silent,
    progress: Progress | None = None,
) -> Replay:
    """Replays a trace on a cluster with a configuration."""
    run = ReplayRun(trace, objects, config, options or ReplayOptions(), log)
    run.until_end(progress)
    return run.finish(name or config.text.source)


@dataclass(slots=True)
class _Cycles:
    """When the next cycle is due."""

    period: float | None
    dirty: bool = True  # something changed since the last cycle
    last: float = -math.inf
    deadline: float | None = None  # of the last plan
    count: int = 0
    seconds: array[float] = field(default_factory=lambda: array("d"))

    def next_time(self, now: float) -> float:
        if not self.dirty:
            return math.inf if self.deadline is None else max(self.deadline, now)
        if self.period is None:
            return max(now, self.last + MIN_GAP_S)
        tick = math.ceil(now / self.period) * self.period
        return tick if tick > self.last else tick + self.period


class ReplayRun:
    """One replay: the cluster, the scheduler's state, the jobs and the samples."""

    def __init__(self, trace: Trace, objects: Objects, config: LoadedConfig, options: ReplayOptions, log: Log) -> None:
        self._trace, self._config, self._options, self._log = trace, config, options, log
        self._scheduler = config.scheduler
        self._first = float(trace.submit[0]) if len(trace) else 0.0
        # The clock of the cluster is the trace's, moved by whole seconds.
        zero = math.floor(self._first)
        self._offset = math.floor(trace.epoch if options.now is None else options.now - zero)
        start = zero + self._offset
        nodes = {key: node for key, node in objects.get("Node", {}).items() if isinstance(node, Node)}
        made = JobObjects(trace, nodes, options.gpu_resource)
        absent = absent_at_start(options.node_events)
        present = {**objects, "Node": {key: node for key, node in nodes.items() if key not in absent}}
        self._cluster, self._state = open_cluster(_with(present, made), start, options.scheduler_names)
        queues = tuple(sorted(self._state.queues))
        interval = options.sample or default_interval(trace)
        self._sampler = Sampler(self._first, interval, made.resources, queues)
        self._jobs = TraceJobs(self._cluster, self._state, trace, made, self._sampler, self._offset, options.checkpoint)
        self._cluster.join(
            NodeEvents(self._cluster, nodes, options.node_events, self._jobs, self._sampler, self._offset)
        )
        self._cluster.join(self._jobs)
        self._cycles = _Cycles(options.cycle)
        self._pods_evicted = 0
        self._warnings: dict[str, None] = {}
        if bool((trace.gpu_milli < 1000).any()) and self._scheduler.config.plugin(GPU_SHARE) is None:
            self._warnings[f"the trace has jobs with parts of GPUs, but plugin {GPU_SHARE} is not configured"] = None
        self._fruitless = 0
        self.history: list[CycleRecord] | None = None
        """The cycles, if a list is set before the run."""

    @property
    def cluster(self) -> EmbeddedCluster:
        return self._cluster

    @property
    def state(self) -> State:
        """Returns the scheduler's state, with what has happened in the cluster."""
        self._cluster.follow(self._state)
        return self._state

    def until_end(self, progress: Progress | None, most_cycles: int | None = None) -> None:
        """Replays until nothing more happens, the time of `until`, or so many cycles."""
        cluster, cycles = self._cluster, self._cycles
        end = math.inf if self._options.until is None else self._options.until + self._offset
        while True:
            now, due = cluster.clock.now(), cluster.next_time()
            cycle = cycles.next_time(now)
            then = min(cycle, math.inf if due is None else due)
            if cycles.count == most_cycles:
                return
            if then > end or then == math.inf:
                if end < math.inf:
                    self._sampler.advance(end - self._offset)
                    cluster.clock.advance(end)
                return
            if then > now:
                self._sampler.advance(then - self._offset)
            if ((due is not None and due <= then) or then > now) and cluster.advance(then):
                cycles.dirty = True
            if then >= cycle and not self._cycle(then):
                return
            if progress is not None:
                progress(self._jobs.completed, len(self._trace))

    def _cycle(self, now: float) -> bool:
        """Runs a cycle, if a pod waits; returns whether the replay goes on."""
        cycles, cluster, jobs = self._cycles, self._cluster, self._jobs
        cycles.dirty, cycles.deadline = False, None
        if not jobs.unbound:
            return True
        cluster.follow(self._state)
        before = time.perf_counter()
        look = self._look if self._sampler.due else None
        plan = self._scheduler.cycle(self._state, now, self._log, look, reasons=False)
        cycles.seconds.append(time.perf_counter() - before)
        cycles.count += 1
        cycles.last, cycles.deadline = now, plan.again_at
        finished, started = jobs.completed, jobs.started
        outcome = cluster.apply(plan)
        cluster.step()
        cluster.store.events.clear()
        self._pods_evicted += len(outcome.evicted)
        if self.history is not None:
            gone = set(outcome.evicted)
            evictions = [eviction for eviction in plan.evictions if eviction.pod in gone]
            record = CycleRecord(cycles.count, now, outcome.bound, evictions, len(jobs.unbound), cycles.seconds[-1])
            self.history.append(record)
        self._warnings.update(dict.fromkeys(plan.warnings))
        cycles.dirty = bool(outcome.bound or outcome.evicted or plan.promises_changed or self._phases_matter(plan))
        return self._goes_on(bool(outcome.evicted), (finished, started) != (jobs.completed, jobs.started))

    def _phases_matter(self, plan: Plan) -> bool:
        """Returns whether the phases that a cycle changed may change what the next one decides.

        Phases decide which groups are admitted, and a group that is admitted is served in the same cycle. So they do
        not matter if no group waits for its admission.
        """
        actions, state = self._scheduler.config.actions, self._state
        if not plan.phases or not _IN_ORDER.issuperset(actions) or actions[0] != "enqueue":
            return bool(plan.phases)
        waiting = [*state.unsettled.jobs.values()]
        for cls in () if state.unsettled.backlog is None else state.unsettled.backlog.classes.values():
            waiting += cls.jobs.values() if cls.pending else ()
        return any(job.is_pending and plan.phases.get(job.key) != "Inqueue" for job in waiting)

    def _goes_on(self, evicted: bool, progressed: bool) -> bool:
        self._fruitless = 0 if progressed else self._fruitless + evicted
        if self._fruitless < MAX_FRUITLESS_CYCLES:
            return True
        text = f"stopped: {self._fruitless:,} cycles evicted pods, and no job completed or started for the first time"
        self._warnings[text] = None
        return False

    def _look(self, session: Session) -> None:
        """Reads the deserved shares and the fragments, once in each interval of the samples."""
        sampler = self._sampler
        sampler.due = False
        deserved = summary.deserved(session)
        for q, queue in enumerate(sampler.queues):
            if queue in deserved:
                sampler.deserved[q] = [deserved[queue].get(name, 0) for name in sampler.resources]
        found = (plugin.fragmentation() for plugin in session.sharers)
        sampler.fragment = next((f.amount for f in found if f is not None), math.nan)

    def finish(self, name: str) -> Replay:
        jobs = self._jobs
        jobs.close()
        out = jobs.outcomes
        given: dict[str, PodReason] = {}
        if jobs.unbound:
            # Nothing more changes: this cycle decides as the last one did, and explains it.
            self._cluster.follow(self._state)
            given = self._scheduler.cycle(self._state, self._cluster.clock.now(), self._log).reasons
        reasons = {index: self._reason(index, given) for index in sorted(jobs.active)[:MAX_REASONS]}
        return Replay(
            trace=self._trace,
            name=name,
            seed=self._options.seed,
            samples=self._sampler.samples(),
            start=out.start,
            end=out.end,
            run=out.run,
            lost=out.lost,
            evictions=out.evictions,
            node_losses=out.node_losses,
            contention=out.contention,
            cycles=self._cycles.count,
            pods_evicted=self._pods_evicted,
            first=self._first,
            last=self._cluster.clock.now() - self._offset,
            reasons=reasons,
            warnings=tuple(self._warnings),
            timings=np.array(self._cycles.seconds),
        )

    def _reason(self, index: int, given: Mapping[str, PodReason]) -> str:
        """Returns why a job has not completed: the reason of its first pod that waits."""
        group = f"{NAMESPACE}/{self._trace.names[index]}"
        pods = [f"{group}-{number}" for number in range(len(self._jobs.active[index].templates))]
        found = next((given[pod].text for pod in pods if pod in given), "")
        return found or ("is running" if self._jobs.active[index].since is not None else "waits for its first cycle")


def _with(objects: Objects, made: JobObjects) -> dict[str, dict[str, Object]]:
    """Returns the cluster with the queues and priority classes of the trace."""
    found = {kind: dict(some) for kind, some in objects.items()}
    for obj in made.surroundings(objects):
        found.setdefault(type(obj).__name__, {})[key_of(obj)] = obj
    return found
