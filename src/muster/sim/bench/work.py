"""A workload: objects in memory, the plan of one cycle for them, and the time from the objects to the plan."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from muster.config.loader import load
from muster.cycle.registry import known
from muster.cycle.scheduler import Scheduler
from muster.engine.core.nodes import allocatable_of
from muster.engine.core.plan import Plan
from muster.engine.core.state import State
from muster.model.core import Node, Pod
from muster.model.meta import Object
from muster.model.requests import requests
from muster.sim.bench.measurement import Figures, WrongAnswer

Objects = dict[str, dict[str, Object]]

TIERS = """
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
ALLOCATE = 'actions: "enqueue, allocate, backfill"' + TIERS


@dataclass(frozen=True)
class Work:
    """How to create a workload, how to schedule it, and the required result."""

    name: str
    about: str
    make: Callable[[], Objects]
    config: str = ALLOCATE
    bound: int = 0
    evicted: int = 0
    floors: Mapping[str, float] = field(default_factory=dict)

    def run(self) -> Figures:
        objects = self.make()
        scheduler = scheduler_of(self.config, self.name)
        gc.collect()
        gc.freeze()  # the objects are there before the clock starts, as an informer's are
        start = time.process_time()
        state = State()
        state.load(objects)
        built = time.process_time()
        session = scheduler.session(state, 0.0)
        opened = time.process_time()
        plan = scheduler.decide(session)
        decided = time.process_time()
        peak = peak_rss_mib()
        check(self, objects, plan)
        return {
            "seconds": decided - start, "build_s": built - start, "open_s": opened - built,
            "decide_s": decided - opened, "bound": len(plan.binds), "evicted": len(plan.evictions),
            "peak_rss_mib": peak,
        }  # fmt: skip


def scheduler_of(text: str, name: str) -> Scheduler:
    config, findings = load(text, name, known())
    assert not findings, findings
    return Scheduler(config)


def peak_rss_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def check(work: Work, objects: Objects, plan: Plan) -> None:
    """Checks the number of bound pods and the nodes' limits on the objects, independently of the engine's columns."""
    if len(plan.binds) != work.bound or len(plan.evictions) != work.evicted:
        raise WrongAnswer(
            f"{work.name}: bound {len(plan.binds)} (want {work.bound}), evicted {len(plan.evictions)} "
            f"(want {work.evicted}); first reasons: {list(plan.reasons.items())[:2]}"
        )
    free = {name: allocatable_of(node) for name, node in objects["Node"].items() if isinstance(node, Node)}
    gone = {eviction.pod for eviction in plan.evictions}
    for key, obj in objects["Pod"].items():
        assert isinstance(obj, Pod)
        node = plan.binds.get(key) or plan.pipelined.get(key) or obj.spec.node_name
        if node and key not in gone:
            for name, amount in requests(obj.spec).items():
                free[node][name] -= amount
    over = sorted(name for name, amounts in free.items() if min(amounts.values()) < 0)
    if over:
        raise WrongAnswer(f"{work.name}: over their limits: {over[:5]}")
