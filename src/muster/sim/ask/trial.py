"""One trial: the job on a cluster, decided by the scheduler's own code, and what became of the job's pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from muster.cycle.requirements import warnings
from muster.cycle.scheduler import Scheduler
from muster.engine.core.jobs import Task
from muster.engine.core.session import Log, silent
from muster.engine.core.state import Objects
from muster.groups.applications import OwnerLoop, owner_chain
from muster.model.collector import collector_paused
from muster.model.meta import Object
from muster.model.meta import key as key_of
from muster.model.scheduling import PodGroup
from muster.sim.applied import overlaid
from muster.sim.ask.answer import JobGroup
from muster.sim.group_controllers import open_cluster
from muster.sim.group_names import shown_group
from muster.sim.result import Result
from muster.sim.simulate import Run

__all__ = ["Asked", "Trial"]

MAX_CYCLES_NOW = 100  # cycles without an advance of the clock; most jobs need one or two
Tables = dict[str, dict[str, Object]]
Gates = Callable[[Objects], Objects]


def _nothing() -> None:
    """Does nothing: nobody counts the trials."""


@dataclass(slots=True)
class Trial:
    """The end of one simulation, seen from the job."""

    result: Result
    groups: list[JobGroup] = field(default_factory=list)
    binds: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    promised: bool = False  # a pod of the job waits for capacity that is being released
    gated: int = 0  # pods with scheduling gates beside others: no change of the cluster lets them run
    tasks: list[Task] = field(default_factory=list)  # the job's pods

    @property
    def runs(self) -> bool:
        """Whether the job has pods, and all of them have nodes."""
        return bool(self.binds) and not self.reasons

    @property
    def runs_partly(self) -> bool:
        return bool(self.binds) and all(group.bound >= max(group.minimum, 1) for group in self.groups)


@dataclass(frozen=True, slots=True)
class Asked:
    """The job and the cluster that it is asked about. A change makes another one; the objects are never changed."""

    scheduler: Scheduler
    cluster: Objects  # without the job
    job: Objects
    now: float
    scheduler_names: Sequence[str]
    gates: Gates  # adds what controllers create besides pods
    log: Log = silent
    on_trial: Callable[[], None] = _nothing  # called before every simulation

    def with_job(self, job: Objects) -> Asked:
        return replace(self, job=job)

    def with_objects(self, kind: str, changed: Mapping[str, Object]) -> Asked:
        """Returns the question with these objects of the cluster added or replaced."""
        return replace(self, cluster={**self.cluster, kind: {**self.cluster.get(kind, {}), **changed}})

    def try_now(self) -> Trial:
        """Runs cycles until the job runs, or nothing more happens without an advance of the clock."""
        with collector_paused():
            run = self._open()
            while True:
                acted = run.cycle()
                if run.result.cycles >= MAX_CYCLES_NOW or self._all_bound(run):
                    break
                if not run.cluster.step() and not acted:
                    break
                run.cluster.follow(run.state)
            run.cluster.follow(run.state)
            return self._seen(run, run.result)

    def try_until_settled(self) -> Trial:
        """Runs cycles until nothing changes: evicted pods end, and capacity is released."""
        with collector_paused():
            run = self._open()
            run.until_settled(None)
            return self._seen(run, run.finish())

    def _open(self) -> Run:
        self.on_trial()
        objects = self.gates(overlaid(self.cluster, self.job))
        run = Run(self.scheduler, *open_cluster(objects, self.now, self.scheduler_names), self.log)
        run.warnings.update(dict.fromkeys(warnings(self.scheduler.config, run.state, self.log)))
        return run

    def _all_bound(self, run: Run) -> bool:
        """Returns whether every pod of the job is bound, without the cost of a look at all pods."""
        ours = self._tasks(run)
        left = (task for task in ours if not task.gated and run.state.needs_node(task) and task.key not in run.bound)
        return bool(ours) and next(left, None) is None and not self._absent(run)

    def _tasks(self, run: Run) -> list[Task]:
        """Returns the pods of the job for this scheduler: its own, and those that its workloads own."""
        state, objects = run.state, run.cluster.store.everything()
        pods, others = self.job.get("Pod", {}), {kind for kind in self.job if kind != "Pod"}

        def belongs(task: Task) -> bool:
            if task.pod.spec.scheduler_name not in state.ours:
                return False
            if task.key in pods:
                return True
            if not others or not task.pod.metadata.owner_references:
                return False
            try:
                chain = owner_chain(task.pod, lambda kind, key: objects.get(kind, {}).get(key), others)
            except OwnerLoop:
                return False
            return any(key_of(owner) in self.job.get(type(owner).__name__, {}) for owner in chain[1:])

        return sorted(filter(belongs, state.tasks.values()), key=lambda task: task.key)

    def _absent(self, run: Run) -> dict[str, tuple[str, str]]:
        """Returns the pods of the job's Volcano Jobs that do not exist yet, because their group is not admitted."""
        groups = run.cluster.store.of(PodGroup)
        found = {}
        for pod, group, waits in run.cluster.missing_pods(run.state.ours):
            owners = groups[group].metadata.owner_references if group in groups else ()
            namespace = group.partition("/")[0]
            if not waits and any(f"{namespace}/{owner.name}" in of_kind for owner in owners
                                 for of_kind in self.job.values()):  # fmt: skip
                found[pod] = group, run.why_absent(group, waits)
        return found

    def _seen(self, run: Run, result: Result) -> Trial:
        trial = Trial(result)
        trial.tasks = self._tasks(run)
        absent = self._absent(run)
        by_group: dict[str, list[Task]] = {}
        gated = {task.key for task in trial.tasks if task.gated}
        trial.gated = len(gated) if len(gated) < len(trial.tasks) else 0
        for task in trial.tasks:
            if trial.gated and task.gated:
                continue
            by_group.setdefault(shown_group(task), []).append(task)
            if task.pod.spec.node_name:
                trial.binds[task.key] = task.pod.spec.node_name
            elif run.state.needs_node(task):
                trial.reasons[task.key] = run.reason(task)
            trial.promised |= task.key in run.plan.pipelined
        for pod, (_, why) in absent.items():
            trial.reasons[pod] = why
        for name in sorted({*by_group, *(group for group, _ in absent.values())}):
            tasks = by_group.get(name, [])
            job = tasks[0].job if tasks else run.state.jobs.get(name)
            size = len(tasks) + sum(1 for group, _ in absent.values() if group == name)
            bound = sum(1 for task in tasks if task.key in trial.binds)
            queue, minimum = ("", 1) if job is None else (job.queue_name, job.min_available)
            trial.groups.append(JobGroup(name, queue, size, minimum, bound))
        return trial
