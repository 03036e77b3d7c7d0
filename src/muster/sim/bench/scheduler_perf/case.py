"""One case of scheduler_perf: the pods per second of the measured pods, beside the floors that Kubernetes publishes.

Deciding is what the scheduler computes: the session, the actions and the plan, with all nodes considered. The total
adds the time in which the state reads the objects and follows what changed.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from msgspec.structs import replace

from muster.config.loader import DEFAULT
from muster.engine.core.plan import Plan
from muster.engine.core.session import Session
from muster.engine.core.state import State
from muster.model.core import Pod
from muster.sim.bench.measurement import Figures, WrongAnswer
from muster.sim.bench.scheduler_perf.clusters import Changes, Cluster
from muster.sim.bench.scheduler_perf.templates import MEASURED
from muster.sim.bench.work import Objects, check_capacity, peak_rss_mib, scheduler_of

FAMILY = "scheduler-perf"
_MEASURED_PODS = (f"{MEASURED}/pod-", f"{MEASURED}/gang-")
PREEMPT = DEFAULT.replace("allocate, backfill", "allocate, backfill, preempt")


@dataclass(frozen=True)
class Case:
    """`published`: release → the floor in pods per second; `multiple`: how many times that of 1.37 is required."""

    number: str
    about: str
    make: Callable[[], Cluster]
    measured: int
    published: Mapping[str, int] = field(default_factory=dict)
    multiple: int = 0
    evicted: int = 0
    config: str = DEFAULT

    @property
    def name(self) -> str:
        return f"{FAMILY}/{self.number}"

    @cached_property
    def floors(self) -> dict[str, float]:
        newest = self.published.get("1.37", 0)
        return {"decide_s": round(self.measured / (self.multiple * newest), 5)} if self.multiple and newest else {}

    def run(self) -> Figures:
        made = self.make()
        run = _Run(made.objects, self.config, self.name)
        gc.collect()
        gc.freeze()  # the objects are there before the clock starts, as an informer's are
        run.start()
        rounds = list(made.rounds)
        plan = run.cycle()
        while rounds or (plan.evictions and self._bound(run) < self.measured):
            run.follow(plan, rounds.pop(0) if rounds else [])  # victims end at once: nothing waits for a kubelet
            plan = run.cycle()
        figures = run.figures | {"peak_rss_mib": peak_rss_mib()}
        run.carry_out(plan)
        bound = self._bound(run)
        if bound != self.measured or run.evicted != self.evicted:
            raise WrongAnswer(
                f"{self.name}: bound {bound} (want {self.measured}), evicted {run.evicted} (want {self.evicted}); "
                f"first reasons: {list(plan.reasons.items())[:2]}"
            )
        check_capacity(self.name, run.objects)
        return figures | {"bound": bound, "evicted": run.evicted}

    @staticmethod
    def _bound(run: _Run) -> int:
        """The number of measured pods that have nodes."""
        return sum(key.startswith(_MEASURED_PODS) for key in run.bound)

    def derived(self, best: Figures) -> dict[str, object]:
        deciding, total = self.measured / best["decide_s"], self.measured / best["seconds"]
        times = {
            version: {"deciding": round(deciding / floor, 1), "total": round(total / floor, 1)}
            for version, floor in self.published.items()
        }
        return {
            "deciding_pods_per_s": round(deciding), "pods_per_s": round(total),
            "published_pods_per_s": dict(self.published), "times_published": times, "required_times": self.multiple,
        }  # fmt: skip


class _Run:
    """The clocks, and the cluster as it follows the plans."""

    def __init__(self, objects: Objects, config: str, name: str) -> None:
        self.objects = objects
        self.bound: dict[str, str] = {}
        self.evicted = 0
        self._scheduler = scheduler_of(config, name)
        self._state = State()
        self._began = self._deciding = self._reading = 0.0
        self._cycles = 0

    def start(self) -> None:
        self._began = time.process_time()
        self._state.load(self.objects)
        self._reading = time.process_time() - self._began

    def cycle(self) -> Plan:
        decided = 0.0

        def look(_: Session) -> None:
            nonlocal decided
            decided = time.process_time()

        start = time.process_time()
        plan = self._scheduler.cycle(self._state, float(self._cycles), look=look)
        self._deciding += decided - start
        self._cycles += 1
        self.bound |= plan.binds
        self.evicted += len(plan.evictions)
        return plan

    def follow(self, plan: Plan, changes: Changes) -> None:
        """Carries a plan out, and applies what happens meanwhile."""
        changes = [*self.carry_out(plan), *changes]
        start = time.process_time()
        for kind, key, one in changes:
            if one is None:
                self._state.remove(kind, key)
            else:
                self._state.upsert(kind, key, one)
        self._reading += time.process_time() - start
        _apply(self.objects, changes)

    def carry_out(self, plan: Plan) -> Changes:
        """Binds and evicts in the objects, and returns what changed."""
        changes: Changes = [("Pod", eviction.pod, None) for eviction in plan.evictions]
        for key, node in plan.binds.items():
            pod = self.objects["Pod"][key]
            assert isinstance(pod, Pod)
            spec, status = replace(pod.spec, node_name=node), replace(pod.status, phase="Running")
            changes.append(("Pod", key, replace(pod, spec=spec, status=status)))
        _apply(self.objects, changes)
        return changes

    @property
    def figures(self) -> Figures:
        return {
            "seconds": self._reading + self._deciding, "build_s": self._reading, "decide_s": self._deciding,
            "cycles": self._cycles,
        }  # fmt: skip


def _apply(objects: Objects, changes: Changes) -> None:
    for kind, key, one in changes:
        if one is None:
            objects[kind].pop(key, None)
        else:
            objects[kind][key] = one
