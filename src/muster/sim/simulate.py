"""Runs scheduling cycles on an embedded cluster and reports the outcome for each pod.

The cluster applies the plan of a cycle, kubelets and controllers act, and when nothing more happens the virtual clock
advances to the next event: evicted pods are removed after their grace period, their owners create new ones, pods are
bound to the capacity that was promised to them, or a deadline of a group (`sla`) passes. The run ends when nothing
changes any more. If the simulation repeats a state (two jobs that evict each other), it stops and reports a cycle.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter
from typing import Protocol

from muster.cluster.embedded import EmbeddedCluster
from muster.cycle.requirements import warnings
from muster.cycle.scheduler import Scheduler
from muster.engine.core.hooks import NodeNotes, Picture
from muster.engine.core.jobs import Status, Task
from muster.engine.core.native_groups import GROUPS, WORKLOADS, group_of
from muster.engine.core.plan import Plan
from muster.engine.core.podgroups import GROUP
from muster.engine.core.session import Log, Session, silent
from muster.engine.core.state import Objects, State
from muster.engine.placement.turns import Turns
from muster.model.core import Pod
from muster.model.meta import controller
from muster.model.pod_states import is_terminating
from muster.sim import summary
from muster.sim.group_controllers import open_cluster
from muster.sim.result import CycleRecord, Result
from muster.sim.summary import Breaches

MAX_CYCLES = 10_000
FIRST_FINGERPRINT_CYCLE = 8  # most runs have ended by then; a fingerprint of the cluster costs time
MAX_REPEATS = 3
CYCLES_PER_COLLECTION = 100  # where the collector is off (a process that only simulates): the cycles leave garbage
ENDED = (Status.SUCCEEDED, Status.FAILED)


class Observer(Protocol):
    """Observes the cycles of a run, and the turns of pods in them."""

    def begin(self, cycle: int) -> Turns | None:
        """Returns what observes the turns of this cycle; None: nothing does."""
        ...

    def end(self, cycle: int, plan: Plan) -> None:
        """The cycle has decided; its plan is not applied yet."""
        ...


def simulate(
    scheduler: Scheduler,
    objects: Objects,
    now: float,
    scheduler_names: Iterable[str],
    cycles: int | None = None,
    log: Log = silent,
    unusable: Mapping[str, str] | None = None,
    started: Callable[[State], None] | None = None,
) -> Result:
    """Runs cycles until nothing changes, or the given number. `unusable` are objects that were left out, with the
    reason. `started` is called with the state before the first cycle."""
    run = Run(scheduler, *open_cluster(objects, now, scheduler_names), log)
    run.unusable = unusable or {}
    run.warnings.update(dict.fromkeys(warnings(scheduler.config, run.state, log)))
    if started is not None:
        started(run.state)
    run.until_settled(cycles)
    return run.finish()


class Run:
    """One run of a scheduler on a cluster, from the state as it stands."""

    def __init__(self, scheduler: Scheduler, cluster: EmbeddedCluster, state: State, log: Log) -> None:
        self.scheduler = scheduler
        self.cluster = cluster
        self.state = state
        self.log = log
        self.result = Result(cluster, state)
        self.plan = Plan()
        self.bound: dict[str, tuple[str, str]] = {}  # pod → node, uid
        self.devices: dict[str, list[int]] = {}
        self.shares: dict[str, dict[int, int]] = {}
        self.unbindable: dict[str, str] = {}
        self.unusable: Mapping[str, str] = {}
        self.warnings: dict[str, None] = {}
        self.breaches = Breaches(state)
        self.seen: Counter[int] = Counter()
        self.observer: Observer | None = None

    def until_settled(self, cycles: int | None) -> None:
        result = self.result
        while True:
            acted = self.cycle()
            if result.cycles == cycles:
                idle = self.cluster.next_time() is None and self.plan.again_at is None
                result.summary.settled = not acted and idle
                return
            if not self.cluster.step() and not acted:
                due, deadline = self.cluster.next_time(), self.plan.again_at
                if deadline is not None and (due is None or deadline < due):
                    # A deadline passes before anything happens; this is not part of a cycle of states.
                    self.cluster.advance(deadline)
                    self.cluster.follow(self.state)
                    continue
                if due is None:
                    result.summary.settled = True
                    return
                self.cluster.advance(due)
            self.breaches.note_gangs([eviction.pod for eviction in self.cluster.evicted])
            result.evictions += self.cluster.evicted
            result.history[-1].evictions += self.cluster.evicted
            self.cluster.evicted.clear()
            self.cluster.follow(self.state)
            if (cycles is None or cycles > MAX_CYCLES) and self.repeats():
                return

    def cycle(self) -> bool:
        """Runs a cycle and applies its plan; returns whether anything changed."""
        result, cluster = self.result, self.cluster
        began, now = perf_counter(), cluster.clock.now()
        turns = None if self.observer is None else self.observer.begin(result.cycles + 1)
        self.plan = plan = self.scheduler.cycle(self.state, now, self.log, turns=turns)
        seconds = perf_counter() - began
        result.cycles += 1
        if result.cycles % CYCLES_PER_COLLECTION == 0 and not gc.isenabled():
            gc.collect()
        if self.observer is not None:
            self.observer.end(result.cycles, plan)
        outcome = cluster.apply(plan)
        pods = cluster.store.of(Pod)
        for key, node in outcome.bound.items():
            self.bound[key] = node, pods[key].metadata.uid
        gone = set(outcome.evicted)
        self.breaches.note(gone)
        evictions = [eviction for eviction in plan.evictions if eviction.pod in gone]
        result.evictions += evictions
        record = CycleRecord(result.cycles, now, outcome.bound, evictions, len(plan.reasons), seconds)
        result.history.append(record)
        self.devices.update(plan.devices)
        self.shares.update(plan.shares)
        self.unbindable = {key: why for key, why in outcome.failed.items() if key in plan.binds}
        self.warnings.update(dict.fromkeys(plan.warnings))
        self.log(2, f"cycle {result.cycles}: {len(outcome.bound)} bound, {len(gone)} evicted")
        return bool(outcome.bound or outcome.evicted or plan.phases or plan.promises_changed)

    def repeats(self) -> bool:
        count = self.result.cycles
        if count < FIRST_FINGERPRINT_CYCLE:
            return False
        print_ = fingerprint(self.state)
        self.seen[print_] += 1
        if self.seen[print_] >= MAX_REPEATS:
            why = f"the cluster goes round in circles: after {count} cycles it looks as it did before"
        elif count >= MAX_CYCLES:
            why = f"the cluster has not come to rest in {count} cycles"
        else:
            return False
        evicted = len(self.result.evictions)
        self.warnings[f"never settles: {why} ({evicted} evictions so far); stopped"] = None
        return True

    # --- the end

    def finish(self) -> Result:
        result, state = self.result, self.state
        self.cluster.follow(state)
        for key, (node, uid) in self.bound.items():
            task = state.tasks.get(key)
            if task is not None and task.uid == uid and not is_terminating(task.pod):
                result.binds[key] = node
        for key, task in state.tasks.items():
            if state.needs_node(task):
                result.pending[key] = self.reason(task)
        for key, group, waits in self.cluster.missing_pods(self.state.ours):
            result.pending[key] = self.why_absent(group, waits)
        result.pipelined = {key: node for key, node in self.plan.pipelined.items() if key in result.pending}
        result.devices = {key: ids for key, ids in self.devices.items() if key in result.binds}
        result.shares = {key: parts for key, parts in self.shares.items() if key in result.binds}
        self.sum_up()
        return result

    def reason(self, task: Task) -> str:
        if task.key in self.unbindable:
            return f"could not be bound: {self.unbindable[task.key]}"
        group = f"{task.namespace}/{task.pod.metadata.annotations.get(GROUP, '')}"
        kind = "PodGroup"
        if native := group_of(task.pod):
            group = "/".join(native.split("/")[:2])
            kind = GROUPS if native == group else WORKLOADS
        if task.job is None and (why := self.unusable.get(f"{kind} {group}")) is not None:
            return f"{'Workload' if kind == WORKLOADS else 'pod group'} {group} was set aside: {why}"
        given = self.plan.reasons.get(task.key)
        return given.text if given is not None else "came too late: the simulation ended before its first cycle."

    def why_absent(self, group: str, waits: str) -> str:
        """Returns why a pod of that PodGroup does not exist yet."""
        if waits:
            return f"is not created yet: it waits for {waits}."
        condition = self.plan.conditions.get(group)
        why = "." if condition is None else f": {condition.message}"
        return f"is not created yet: pod group {group} is not admitted{why}"

    def sum_up(self) -> None:
        fill_summary(self.result, self.scheduler, self.cluster.clock.now())
        ignored = self.cluster.ignored_policies({eviction.pod for eviction in self.result.evictions})
        self.result.summary.warnings = [*self.warnings, *self.breaches.warnings(), *dict.fromkeys(ignored)]


def fill_summary(result: Result, scheduler: Scheduler, now: float) -> None:
    """Computes the figures of the result's summary, and draws the devices, from the result's state."""
    figures, state = result.summary, result.state
    figures.pods = len(state.tasks)
    figures.bound = len(result.binds)
    figures.pending = len(result.pending)
    figures.evicted = len(result.evictions)
    session = scheduler.session(state, now)
    try:
        figures.nodes = len(state.nodes)
        figures.gpu_fragmentation = summary.gpu_fragmentation(session)
        shared = summary.shared_gpus(session) if figures.gpu_fragmentation is not None else {}
        figures.queues = summary.queue_shares(state, summary.deserved(session), shared)
        figures.utilisation = summary.utilisation(state, sum(shared.values()))
        result.pictures = pictures(session)
    finally:
        session.close()
    figures.fragmentation = summary.fragments(state, result.pending)
    if figures.gpu_fragmentation is not None:
        figures.fragmentation.pop(summary.GPU, None)  # the resource does not count what pods share


def pictures(session: Session) -> dict[str, list[Picture]]:
    """Returns the drawings of plugins for each node."""
    drawn: dict[str, list[Picture]] = {}
    for plugin in session.flat(NodeNotes):
        for i, name in enumerate(session.state.nodes.names):
            if (picture := plugin.picture(i)) is not None:
                drawn.setdefault(name, []).append(picture)
    return drawn


def fingerprint(state: State) -> int:
    """Returns a fingerprint of the cluster, independent of the time and of the names of re-created pods.

    Pods that have ended are progress (a Job counts its completions), unless their owner just starts them again.
    """
    pods: Counter[tuple[object, ...]] = Counter()
    for key, task in state.tasks.items():
        owner = controller(task.pod.metadata)
        if task.status in ENDED and owner is not None and owner.kind != "Job":
            continue
        name = f"{task.namespace}/{owner.kind}/{owner.name}" if owner is not None else key
        pods[name, task.shape.id, task.status, task.node] += 1
    groups = frozenset((job.key, job.phase) for job in state.jobs.values() if job.key in state.objects["PodGroup"])
    return hash((frozenset(pods.items()), groups))
