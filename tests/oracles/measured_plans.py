"""Judges what `muster bench` measures: the plan of each measured run, at its full size.

The plans are those of the run whose time is taken; they are kept on the way, and judged when the run is over. Of a
workload with more than twelve cycles the first, the last, every hundredth and those with evictions are judged, of the
others all.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from unittest.mock import patch

from muster.config.loader import DEFAULT
from muster.config.types import Config
from muster.engine.core.plan import Plan
from muster.model.meta import Object
from muster.sim.bench import commands, work
from muster.sim.bench.catalogue import ALL_WORKS
from muster.sim.bench.cluster_run import ClusterRun
from muster.sim.bench.controllers import CONTROLLERS
from muster.sim.bench.extender import EXTENDER
from muster.sim.bench.measurement import Measurement
from muster.sim.bench.scheduler_perf.cases import CASES
from muster.sim.bench.work import Objects, Work, scheduler_of
from oracles.needed_victims import check_needed
from oracles.plan_checker import check
from oracles.waiting_rules import check_waiting

# The other rows have no plan; the extender's answers are checked where they are measured.
DECIDED = [one for one in (*ALL_WORKS, *CASES) if one not in (EXTENDER, CONTROLLERS)]
_FEW_CYCLES = 12
_EACH = 100


@dataclass(frozen=True)
class Decision:
    """What a scheduler was given, and its plan."""

    objects: Objects
    config: Config
    plan: Plan

    def every(self) -> Iterator[Object]:
        for some in self.objects.values():
            yield from some.values()


@dataclass
class Judgement:
    """What was judged of a workload, and what both cost."""

    name: str
    run_s: float = 0.0
    judge_s: float = 0.0
    cycles: int = 0
    judged: int = 0
    nodes: int = 0
    pods: int = 0
    bound: int = 0
    pipelined: int = 0
    evicted: int = 0
    waiting: int = 0


@dataclass
class Kept:
    """The decisions of a run: the first ones, then every hundredth and those that evict, and the last."""

    first: list[Decision] = field(default_factory=list)
    later: list[Decision] = field(default_factory=list)
    last: Decision | None = None
    count: int = 0

    def add(self, objects: Objects, config: Config, plan: Plan) -> None:
        self.count += 1
        self.last = Decision({kind: dict(some) for kind, some in objects.items()}, config, plan)
        if self.count <= _FEW_CYCLES:
            self.first.append(self.last)
        elif self.count % _EACH == 0 or plan.evictions:
            self.later.append(self.last)

    def chosen(self) -> list[Decision]:
        assert self.last is not None, "the run made no decision"
        if self.count <= _FEW_CYCLES:
            return self.first
        early = [one for i, one in enumerate(self.first) if not i or one.plan.evictions]
        return [*early, *(one for one in self.later if one is not self.last), self.last]


def judge(measured: Measurement) -> Judgement:
    """Runs the workload once as `muster bench` does, and judges its plans."""
    found = Judgement(measured.name)
    start = time.process_time()
    with _keeping() as kept:
        measured.run()
    gc.unfreeze()
    found.run_s = time.process_time() - start
    start = time.process_time()
    for one in kept.chosen():
        unjudged = check(one.every(), one.config, one.plan)
        assert not unjudged, f"{measured.name}: {len(unjudged)} pods could not be judged, such as {min(unjudged)}"
        found.waiting += check_waiting(one.every(), one.config, one.plan)
        check_needed(one.every(), one.plan)
        found.judged += 1
        found.nodes, found.pods = len(one.objects["Node"]), len(one.objects.get("Pod", ()))
        found.bound += len(one.plan.binds)
        found.pipelined += len(one.plan.pipelined)
        found.evicted += len(one.plan.evictions)
    found.cycles = kept.count
    found.judge_s = time.process_time() - start
    return found


@contextmanager
def _keeping() -> Iterator[Kept]:
    """Keeps the plans of the three ways in which workloads run: one cycle, many, and as a command."""
    kept = Kept()
    checked, cycled, room = Work._check, ClusterRun.cycle, work.check_capacity

    def of_work(self: Work, objects: Objects, plan: Plan) -> None:
        kept.add(objects, scheduler_of(self.config, self.name).config, plan)
        checked(self, objects, plan)

    def of_cycle(self: ClusterRun) -> Plan:
        plan = cycled(self)
        kept.add(self.objects, self._scheduler.config, plan)
        return plan

    def of_command(name: str, objects: Objects, placed: Mapping[str, str] = MappingProxyType({})) -> None:
        kept.add(objects, scheduler_of(DEFAULT, name).config, Plan(binds=dict(placed)))
        room(name, objects, placed)

    with (
        patch.object(Work, "_check", of_work),
        patch.object(ClusterRun, "cycle", of_cycle),
        patch.object(commands, "check_capacity", of_command),
    ):
        yield kept
