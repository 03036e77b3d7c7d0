"""Plays a scenario with the simulator and records what each cycle saw and decided.

The recorder wraps the scheduler, so the simulator runs exactly as `muster simulate` runs it.
"""

from __future__ import annotations

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
