"""What a dashboard shows, in a form that a worker process can compute with.

An input gives the result of a simulation, or the result that shows a cluster as it is: its state, and the decisions of
a cycle that is not applied.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from muster.cluster.embedded import EmbeddedCluster
from muster.cluster.manifests import Manifests
from muster.cycle.requirements import warnings
from muster.engine.core.jobs import Task
from muster.engine.core.plan import Eviction, Plan
from muster.engine.core.session import silent
from muster.engine.core.state import Objects, State
from muster.model.finding import Finding, InputError
from muster.sim.api import explain, simulate
from muster.sim.explain import Explanation
from muster.sim.group_controllers import open_cluster
from muster.sim.inputs import SCHEDULER_NAMES, LoadedConfig
from muster.sim.replay.run import ReplayOptions, ReplayRun
from muster.sim.result import CycleRecord, Result
from muster.sim.simulate import fill_summary
from muster.sim.traces.table import Trace


class Input(ABC):
    """A cluster and what happens to it. Cycle 0 is the state before the first cycle, None the end."""

    @abstractmethod
    def result(self, config: LoadedConfig, cycle: int | None = None) -> Result:
        """Returns the cluster after that cycle."""

    @abstractmethod
    def after(self, config: LoadedConfig, cycle: int | None) -> ClusterInput:
        """Returns the objects after that cycle, to continue from."""


@dataclass(frozen=True, slots=True)
class ClusterInput(Input):
    """The objects of a cluster at one time. With `live`, they are shown as they are, and no cycle is applied."""

    objects: Objects
    now: float
    scheduler_names: Sequence[str] = SCHEDULER_NAMES
    findings: list[Finding] = field(default_factory=list)
    live: bool = False

    @property
    def manifests(self) -> Manifests:
        return Manifests({kind: dict(some) for kind, some in self.objects.items()}, list(self.findings))

    def result(self, config: LoadedConfig, cycle: int | None = None) -> Result:
        if cycle == 0 or self.live:
            _, state = open_cluster(self.objects, self.now, self.scheduler_names)
            return observed(config, state, self.now, written=self.live)
        return simulate(
            self.manifests, config=config, cycles=cycle, now=self.now, scheduler_names=self.scheduler_names,
            keep_going=True,
        )  # fmt: skip

    def after(self, config: LoadedConfig, cycle: int | None) -> ClusterInput:
        """None is the start: a whole run is decided again."""
        if self.live or not cycle:
            return ClusterInput(self.objects, self.now, self.scheduler_names, self.findings)
        return _objects_of(self.result(config, cycle).cluster, self.scheduler_names)

    def explanation(self, config: LoadedConfig, pod: str, *, upcoming: bool) -> Explanation:
        """Explains the decision of the run about a pod; with `upcoming` that of the next cycle, if it decides."""
        ask = partial(
            explain, pod, self.manifests, config=config, sets=True, now=self.now,
            scheduler_names=self.scheduler_names, keep_going=True,
        )  # fmt: skip
        try:
            return ask(cycle=1 if upcoming else None)
        except InputError as fault:
            if not fault.message.startswith("cycle 1 "):
                raise
            return ask()  # the next cycle only admits its group, or creates it


@dataclass(frozen=True, slots=True)
class ReplayInput(Input):
    """A trace that is replayed on a cluster."""

    trace: Trace
    objects: Objects
    options: ReplayOptions

    def started(self, config: LoadedConfig) -> ReplayRun:
        run = ReplayRun(self.trace, self.objects, config, self.options, lambda level, message: None)
        run.history = []
        return run

    def result(self, config: LoadedConfig, cycle: int | None = None) -> Result:
        run = self.started(config)
        run.until_end(None, cycle)
        return replayed(config, run)

    def after(self, config: LoadedConfig, cycle: int | None) -> ClusterInput:
        run = self.started(config)
        run.until_end(None, cycle)
        return _objects_of(run.cluster, self.options.scheduler_names)


def replayed(config: LoadedConfig, run: ReplayRun) -> Result:
    """Returns the cluster of a replay as it is now."""
    return observed(config, run.state, run.cluster.clock.now(), run.history or ())


def _objects_of(cluster: EmbeddedCluster, scheduler_names: Sequence[str]) -> ClusterInput:
    objects = {kind: dict(some) for kind, some in cluster.store.everything().items()}
    return ClusterInput(objects, cluster.clock.now(), scheduler_names)


MAX_EVICTIONS = 1000
COMPUTED = "(computed now: the scheduler has not written a reason yet)"


def observed(
    config: LoadedConfig, state: State, now: float, history: Iterable[CycleRecord] = (), *, written: bool = False
) -> Result:
    """Returns the cluster as it is. `history` are the cycles that led to it.

    With `written`, a pod waits for the reason that the running scheduler wrote on it, if there is one.
    """
    plan = config.scheduler.cycle(state, now)
    result = Result(EmbeddedCluster({}, now), state)
    result.configuration = config
    result.findings = list(config.findings)
    result.history = list(history)
    result.cycles = result.history[-1].number if result.history else 0
    result.evictions = [eviction for record in result.history for eviction in record.evictions][-MAX_EVICTIONS:]
    victims: dict[str, list[Eviction]] = {}
    for eviction in plan.evictions:
        victims.setdefault(eviction.by, []).append(eviction)
    for key, task in state.tasks.items():
        if state.needs_node(task):
            message = _written(task) if written else ""
            text = message or _planned(key, plan, victims.get(key, []))
            result.pending[key] = f"{text} {COMPUTED}" if written and not message else text
    result.pipelined = {key: node for key, node in plan.pipelined.items() if key in result.pending}
    fill_summary(result, config.scheduler, now)
    result.summary.settled = plan.empty
    found = [*warnings(config.scheduler.config, state, silent), *plan.warnings, *config.warnings]
    result.summary.warnings = list(dict.fromkeys(found))
    return result


def _written(task: Task) -> str:
    """Returns the message of the pod's condition PodScheduled, which its scheduler writes; empty if there is none."""
    for condition in task.pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False" and condition.reason != "SchedulingGated":
            return condition.message
    return ""


def _planned(key: str, plan: Plan, victims: list[Eviction]) -> str:
    if (node := plan.binds.get(key)) is not None:
        return f"the next cycle binds it to {node}"
    if victims:
        pods = ", ".join(victim.pod for victim in victims[:3]) + (" …" if len(victims) > 3 else "")
        return f"the next cycle evicts {len(victims)} pods for it by {victims[0].rule}: {pods}"
    reason = plan.reasons.get(key)
    return reason.text if reason is not None else "waits for its first cycle"
