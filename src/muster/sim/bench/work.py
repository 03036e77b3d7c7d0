"""A workload: objects in memory, the plan of one cycle for them, and the time from the objects to the plan."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from muster.config.loader import load
from muster.cycle.registry import known
from muster.cycle.scheduler import Scheduler
from muster.engine.core.allocatable import allocatable_of
from muster.engine.core.plan import Plan
from muster.engine.core.state import State
from muster.model.core import Node, Pod
from muster.model.meta import Object
from muster.model.requests import requests
from muster.sim.bench.measurement import Figures, WrongResult

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
        self._check(objects, plan)
        return {
            "seconds": decided - start, "build_s": built - start, "open_s": opened - built,
            "decide_s": decided - opened, "bound": len(plan.binds), "evicted": len(plan.evictions),
            "peak_rss_mib": peak,
        }  # fmt: skip

    def derived(self, best: Figures) -> dict[str, object]:
        placed = best["bound"] or best["evicted"]
        return {"pods_per_s": round(placed / best["seconds"]) if placed else 0}

    def _check(self, objects: Objects, plan: Plan) -> None:
        if len(plan.binds) != self.bound or len(plan.evictions) != self.evicted:
            raise WrongResult(
                f"{self.name}: bound {len(plan.binds)} (want {self.bound}), evicted {len(plan.evictions)} "
                f"(want {self.evicted}); first reasons: {list(plan.reasons.items())[:2]}"
            )
        gone = {eviction.pod for eviction in plan.evictions}
        pods = {key: pod for key, pod in objects["Pod"].items() if key not in gone}
        check_capacity(self.name, {**objects, "Pod": pods}, {**plan.binds, **plan.pipelined})


def scheduler_of(text: str, name: str) -> Scheduler:
    config, findings = load(text, name, known())
    assert not findings, findings
    return Scheduler(config)


def peak_rss_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def check_capacity(name: str, objects: Objects, placed: Mapping[str, str] = MappingProxyType({})) -> None:
    """Checks the nodes' limits on the objects, independently of the engine's columns; `placed`: pod → its node."""
    free = {name: allocatable_of(node) for name, node in objects["Node"].items() if isinstance(node, Node)}
    for key, obj in objects["Pod"].items():
        assert isinstance(obj, Pod)
        node = placed.get(key) or obj.spec.node_name
        if node:
            for resource_name, amount in requests(obj.spec).items():
                free[node][resource_name] -= amount
    over = sorted(name for name, amounts in free.items() if min(amounts.values()) < 0)
    if over:
        raise WrongResult(f"{name}: over their limits: {over[:5]}")
