"""`python -m muster.sim.bench WORK`: one timed run in a separate process, its figures as a line of JSON.

The figures are the CPU seconds from decoded objects to the complete plan, and the number of placements.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from dataclasses import asdict, dataclass

from muster.config.loader import load
from muster.cycle.registry import known
from muster.cycle.scheduler import Scheduler
from muster.engine.core.nodes import allocatable_of
from muster.engine.core.plan import Plan
from muster.engine.core.state import State
from muster.model.core import Node, Pod
from muster.model.requests import requests
from muster.process.memory import keep_freed_memory
from muster.sim.bench.cliffs import ALL_WORKS
from muster.sim.bench.workloads import Objects, Work


@dataclass(frozen=True)
class Timing:
    build_s: float
    open_s: float
    decide_s: float
    bound: int
    evicted: int
    peak_rss_mib: float

    @property
    def seconds(self) -> float:
        return self.build_s + self.open_s + self.decide_s


class WrongAnswer(Exception):
    """The plan is not the one that the workload requires, so its time is meaningless."""


def measure(work: Work) -> Timing:
    objects = work.make()
    config, findings = load(work.config, work.name, known())
    assert not findings, findings
    scheduler = Scheduler(config)
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
    check(work, objects, plan)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Timing(built - start, opened - built, decided - opened, len(plan.binds), len(plan.evictions), peak)


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


def main() -> None:
    keep_freed_memory()  # as the commands do
    work = next(w for w in ALL_WORKS if w.name == sys.argv[1])
    print(json.dumps(asdict(measure(work))))


if __name__ == "__main__":
    main()
