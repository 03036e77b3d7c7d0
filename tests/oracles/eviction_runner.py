"""Plays a scenario with the simulator and records what each cycle saw and decided; splits the recording into steps.

The recorder wraps the scheduler, so the simulator runs exactly as `muster simulate` runs it. A step is one cycle with
the cluster before and after it, and the claims that it made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from muster.cycle.configure import configure
from muster.cycle.scheduler import Scheduler
from muster.engine.core.plan import Plan
from muster.engine.core.state import State
from muster.model import kinds
from muster.model.core import Node, Pod, PodDisruptionBudget
from muster.model.meta import Object, key
from muster.model.scheduling import PodGroup, Queue
from muster.sim.result import Result
from muster.sim.simulate import simulate
from oracles.eviction_model import Member, World, classes_of, world
from oracles.eviction_shares import Shares, shares
from strategies.eviction_clusters import Scenario

Tables = dict[str, dict[str, Object]]
START = 1_704_200_000.0
MOST_CYCLES = 400
_READ = (Node, Pod, PodDisruptionBudget, PodGroup, Queue)


@dataclass
class Cycle:
    """One scheduling cycle: the objects when it began, and its plan."""

    now: float
    tables: Tables
    plan: Plan


@dataclass
class Played:
    scenario: Scenario
    cycles: list[Cycle] = field(default_factory=list)
    result: Result | None = None
    error: str = ""
    final: Tables = field(default_factory=dict)
    asked: int = 0  # pending jobs at the end, and those of them that the exhaustive search could not decide
    undecided: int = 0


class _TooLong(Exception):
    """The run did not settle within the number of cycles that a small cluster may need."""


class Recorder(Scheduler):
    """A scheduler that keeps what every cycle saw and decided. Objects are never changed in place."""

    cycles: list[Cycle]
    nodes: dict[str, Object]

    def cycle(self, state: State, now: float, *args: Any, **more: Any) -> Plan:
        if len(self.cycles) >= MOST_CYCLES:
            raise _TooLong
        kinds_kept = ("PodDisruptionBudget", "PodGroup", "Queue")
        tables: Tables = {kind: dict(state.objects[kind]) for kind in kinds_kept}
        tables["Node"] = self.nodes
        tables["Pod"] = {name: task.pod for name, task in state.tasks.items()}
        plan = super().cycle(state, now, *args, **more)
        self.cycles.append(Cycle(now, tables, plan))
        return plan


def tables_of(scenario: Scenario) -> Tables:
    """The objects of a scenario by kind and key."""
    objects: Tables = {kind.__name__: {} for kind in _READ}
    for manifest in scenario.objects:
        made = kinds.decode(manifest)
        objects.setdefault(type(made).__name__, {})[key(made)] = made
    return objects


def play(scenario: Scenario) -> Played:
    config, findings = configure(yaml.safe_dump(scenario.config), "scheduler.yaml")
    assert not any(finding.severity == "error" for finding in findings), findings
    objects = tables_of(scenario)
    recorder = Recorder(config)
    recorder.cycles = []
    recorder.nodes = objects["Node"]
    played = Played(scenario, recorder.cycles)
    try:
        played.result = simulate(recorder, objects, START, ("volcano", "muster"))
    except _TooLong:
        played.error = f"not settled after {MOST_CYCLES} cycles"
        return played
    store = played.result.cluster.store
    played.final = {kind.__name__: dict(store.of(kind)) for kind in _READ}
    return played


@dataclass
class Fault:
    kind: str
    text: str


@dataclass
class Claim:
    """The evictions that one cycle made for one job, in the order of the plan."""

    job: str
    rule: str
    by: list[str] = field(default_factory=list)  # pods
    victims: list[str] = field(default_factory=list)


@dataclass
class Step:
    """A cycle with the cluster before it and after its plan."""

    number: int
    cycle: Cycle
    before: World
    after: World
    shares: Shares
    claims: list[Claim]
    promised: dict[str, str]  # pods whose promise is new in this cycle

    def surely_claimed(self, claim: Claim) -> list[Member]:
        """The pods for which something was evicted; for a gang, as many promised pods as it needs, smallest first."""
        job = self.after.jobs[claim.job]
        sure = [self.before.members[by] for by in dict.fromkeys(claim.by)]
        missing = job.minimum - len(job.of("placed")) - len(sure)
        others = sorted(
            (m for m in self.claimed(claim) if m.key not in claim.by), key=lambda m: sum(m.request.values())
        )
        return sure + others[: max(missing, 0)]

    def claimed(self, claim: Claim) -> list[Member]:
        """The pods that the claim is for."""
        job = self.before.jobs[claim.job]
        if len(job.of("placed")) >= job.minimum:  # above its minimum a job claims pod by pod
            return [self.before.members[by] for by in dict.fromkeys(claim.by)]
        new = [self.before.members[key] for key in self.promised if key in self.before.members]
        return [m for m in new if m.job == claim.job]


def steps(played: Played) -> list[Step]:
    classes = classes_of(kinds.decode(o) for o in played.scenario.objects if o["kind"] == "PriorityClass")
    found: list[Step] = []
    promised: dict[str, str] = {}
    for number, cycle in enumerate(played.cycles, 1):
        before = world(cycle.tables, classes)
        plan = cycle.plan
        gone = {e.pod for e in plan.evictions}
        after = before.after(plan.binds, gone)
        new = {key: node for key, node in plan.nominated.items() if promised.get(key) != node}
        part = shares(before, played.scenario.config)
        found.append(Step(number, cycle, before, after, part, list(claims_of(before, plan.evictions)), new))
        promised = dict(plan.nominated)
    return found


def final_world(played: Played) -> World:
    classes = classes_of(kinds.decode(o) for o in played.scenario.objects if o["kind"] == "PriorityClass")
    return world(played.final, classes)


def claims_of(before: World, evictions: Iterable[Any]) -> Iterator[Claim]:
    current: Claim | None = None
    for eviction in evictions:
        claimer = before.members.get(eviction.by)
        job = claimer.job if claimer is not None else ""
        if current is None or (current.job, current.rule) != (job, eviction.rule):
            if current is not None:
                yield current
            current = Claim(job, eviction.rule)
        current.by.append(eviction.by)
        current.victims.append(eviction.pod)
    if current is not None:
        yield current
