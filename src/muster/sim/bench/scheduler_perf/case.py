"""One case of scheduler_perf: the pods per second of the measured pods, beside the floors that Kubernetes publishes.

Deciding is what the scheduler computes: the session, the actions and the plan, with all nodes considered. The total
adds the time in which the state reads the objects and follows what changed.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from muster.config.loader import DEFAULT
from muster.sim.bench.cluster_run import Cluster, ClusterRun
from muster.sim.bench.measurement import Figures, WrongResult
from muster.sim.bench.scheduler_perf.templates import MEASURED
from muster.sim.bench.work import check_capacity, peak_rss_mib

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
        run = ClusterRun(made.objects, self.config, self.name, measured=_MEASURED_PODS)
        gc.collect()
        gc.freeze()  # the objects are there before the clock starts, as an informer's are
        run.start()
        rounds = list(made.rounds)
        plan = run.cycle()
        while rounds or (plan.evictions and run.bound < self.measured):
            run.follow(plan, rounds.pop(0) if rounds else [])  # victims end at once: nothing waits for a kubelet
            plan = run.cycle()
        peak = peak_rss_mib()
        run.carry_out(plan)
        if run.bound != self.measured or run.evicted != self.evicted:
            raise WrongResult(
                f"{self.name}: bound {run.bound} (want {self.measured}), evicted {run.evicted} (want {self.evicted}); "
                f"first reasons: {list(plan.reasons.items())[:2]}"
            )
        check_capacity(self.name, run.objects)
        return {
            "seconds": run.reading_s + run.deciding_s, "build_s": run.reading_s, "decide_s": run.deciding_s,
            "cycles": run.cycles, "peak_rss_mib": peak, "bound": run.bound, "evicted": run.evicted,
        }  # fmt: skip

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
