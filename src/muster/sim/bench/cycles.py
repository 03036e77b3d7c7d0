"""What one cycle costs after a small change in a large cluster, and whether it costs the same after 10,000 cycles."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from msgspec.structs import replace

from muster.config.loader import DEFAULT
from muster.engine.core.plan import Plan
from muster.model.core import PodDisruptionBudget, PriorityClass
from muster.model.meta import Condition, LabelSelector, Object, key
from muster.process.memory import GarbageCollection
from muster.sim.bench.cliffs import PREEMPT, claim_of, owned, replica_set
from muster.sim.bench.cluster_run import Changes, Cluster, ClusterRun
from muster.sim.bench.measurement import Figures, WrongResult
from muster.sim.bench.work import check_capacity, peak_rss_mib
from muster.sim.bench.workloads import group, nodes, pod, queue, together


@dataclass(frozen=True)
class Cycles:
    """Cycles of one cluster. `cycle_ms` is the mean cost of following the changes of a round, and of its cycle.

    `drift` compares the last tenth of the rounds with the first, and `growth_mib` the peak memory after these.
    """

    name: str
    about: str
    make: Callable[[], Cluster]
    bound: int
    floors: Mapping[str, float]
    evicted: int = 0
    config: str = DEFAULT

    def run(self) -> Figures:
        made = self.make()
        run = ClusterRun(made.objects, self.config, self.name)
        gc.collect()
        gc.freeze()  # the objects are there before the clock starts, as an informer's are
        run.start()
        plan = run.cycle()
        costs: list[float] = []
        peaks: list[float] = []
        # As in the live scheduler, which collects fully every ten minutes; here a cycle stands for a second.
        collection = GarbageCollection(lambda: float(run.cycles))
        with collection.frozen():
            for changes in made.rounds:
                before = run.reading_s + run.cycles_s
                run.follow(plan, changes)
                plan = run.cycle()
                costs.append(run.reading_s + run.cycles_s - before)
                peaks.append(peak_rss_mib())
                collection.collect_if_due()
        tenth = max(len(costs) // 10, 1)
        self._check(run, plan)
        return {
            "seconds": sum(costs), "cycle_ms": 1000 * sum(costs) / len(costs),
            "drift": sum(costs[-tenth:]) / sum(costs[:tenth]), "growth_mib": peaks[-1] - peaks[tenth - 1],
            "cycles": len(costs), "bound": run.bound, "evicted": run.evicted, "peak_rss_mib": peaks[-1],
        }  # fmt: skip

    def derived(self, best: Figures) -> dict[str, object]:
        return {"pods_per_s": round((best["bound"] or best["evicted"]) / best["seconds"])}

    def _check(self, run: ClusterRun, plan: Plan) -> None:
        if run.bound != self.bound or run.evicted != self.evicted:
            raise WrongResult(
                f"{self.name}: bound {run.bound} (want {self.bound}), evicted {run.evicted} (want {self.evicted}); "
                f"first reasons: {list(plan.reasons.items())[:2]}"
            )
        cold = run.cold_plan()
        if any(getattr(cold, part) != getattr(plan, part) for part in ("binds", "evictions", "reasons", "conditions")):
            raise WrongResult(f"{self.name}: a scheduler that reads the cluster afresh decides something else")
        run.carry_out(plan)
        check_capacity(self.name, run.objects)


@dataclass(frozen=True)
class GroupEvents:
    """`event_ms`: what the state needs to follow one event of a PodGroup: it comes, its status changes, it goes."""

    name: str
    about: str
    nodes: int
    gangs: int
    size: int
    events: int
    floors: Mapping[str, float] = field(default_factory=dict)

    def run(self) -> Figures:
        made = self._cluster()
        run = ClusterRun(made.objects, DEFAULT, self.name)
        gc.collect()
        gc.freeze()
        run.start()
        plan = run.cycle()
        start = run.reading_s
        count = 0
        for changes in made.rounds:
            run.follow(plan, changes)
            plan, count = Plan(), count + len(changes)
        seconds = run.reading_s - start
        plan, cold = run.cycle(), run.cold_plan()
        if run.bound != self.events or (cold.binds, cold.conditions) != (plan.binds, plan.conditions):
            raise WrongResult(f"{self.name}: bound {run.bound} (want {self.events}), read afresh {len(cold.binds)}")
        return {
            "seconds": seconds, "event_ms": 1000 * seconds / count, "bound": run.bound, "peak_rss_mib": peak_rss_mib()
        }

    def derived(self, best: Figures) -> dict[str, object]:
        return {"pods_per_s": 0}

    def _cluster(self) -> Cluster:
        """Creates running gangs, and pods that wait for their group, which comes. Groups without pods go."""
        running = [group(f"run-{g:04}", self.size, phase="Running") for g in range(self.gangs)]
        going = [group(f"going-{i:04}", 1) for i in range(self.events)]

        def objects() -> Iterator[Object]:
            yield queue("default")
            yield from running
            yield from going
            for i in range(self.gangs * self.size):
                name = f"run-{i % self.gangs:04}"
                yield pod(f"{name}-{i // self.gangs}", name, node=f"node-{i % self.nodes:05}")
            yield from (pod(f"new-{i:04}-0", f"new-{i:04}") for i in range(self.events))

        def rounds() -> Iterator[Changes]:
            for i in range(self.events):
                new, old = group(f"new-{i:04}", 1), running[i % self.gangs]
                changed = replace(old, status=replace(old.status, running=i + 1))
                yield [("PodGroup", key(new), new), ("PodGroup", key(old), changed), ("PodGroup", key(going[i]), None)]

        return Cluster(together(nodes(self.nodes), objects()), rounds())


def new_replica(node_count: int, deployments: int, replicas: int, rounds: int) -> Cluster:
    """Creates running Deployments, and one new pod of one of them per round."""

    def made(d: int, i: int, node: str = "") -> Object:
        return owned(pod(f"web-{d:04}-{i:04}", cpu="100m", memory="100Mi", node=node), f"web-{d:04}")

    running = (
        made(d, i, f"node-{(d * replicas + i) % node_count:05}") for d in range(deployments) for i in range(replicas)
    )
    sets = (replica_set(f"web-{d:04}", replicas + rounds) for d in range(deployments))
    new = (made(r % deployments, replicas + r) for r in range(rounds))
    return Cluster(together(nodes(node_count), chain(sets, running)), ([("Pod", key(one), one)] for one in new))


def never_fit(node_count: int, count: int, rounds: int) -> Cluster:
    """Creates pods that select a label that no node has, and one pod that fits per round."""
    waiting = (pod(f"wait-{i:05}", spec='"nodeSelector":{"pool":"gpu"},') for i in range(count))
    new = (pod(f"new-{r:05}") for r in range(rounds))
    return Cluster(together(nodes(node_count), waiting), ([("Pod", key(one), one)] for one in new))


def budgets(count: int, size: int, rounds: int) -> Cluster:
    """Creates full nodes and a budget without status for each group of pods; each claimer evicts one pod."""
    per_node = 20
    machines = count * size // per_node

    def objects() -> Iterator[Object]:
        for name, value in (("low", 10), ("high", 1000)):
            made = PriorityClass(value=value)
            made.metadata.name = name
            yield made
        for g in range(count):
            name = f"run-{g:04}"
            yield group(name, 1, phase="Running", priority="low")
            budget = PodDisruptionBudget()
            budget.metadata.name, budget.metadata.namespace = name, "bench"
            budget.spec.selector, budget.spec.max_unavailable = LabelSelector(match_labels={"app": name}), 1
            yield budget
            for i in range(size):
                node = f"node-{(g * size + i) % machines:05}"
                one = pod(f"{name}-{i}", name, cpu="3200m", node=node, spec='"priority":10,')
                one.metadata.labels["app"] = name
                one.status.conditions = [Condition(type="Ready", status="True")]
                yield one

    def changes() -> Iterator[Changes]:
        for r in range(rounds):
            spec = '"priority":1000,"priorityClassName":"high",'
            one = pod(f"claim-{r:03}", cpu="3200m", spec=spec)
            yield [("Pod", key(one), one)]
            yield []  # the victim is gone

    return Cluster(together(nodes(machines), objects()), changes())


PODS_PER_ROUND = 5  # of `churn`


def churn(node_count: int, alive: int, rounds: int, make: Callable[[int, str], list[Object]]) -> Cluster:
    """Creates running pods; in each round the oldest go and new ones come. `make`: the objects of a pod."""

    def changes() -> Iterator[Changes]:
        for r in range(rounds):
            first = r * PODS_PER_ROUND
            gone = [one for i in range(first, first + PODS_PER_ROUND) for one in make(i, "")]
            come = [one for i in range(first + alive, first + alive + PODS_PER_ROUND) for one in make(i, "")]
            yield [
                *((type(one).__name__, key(one), None) for one in gone),
                *((type(one).__name__, key(one), one) for one in come),
            ]

    there = (one for i in range(alive) for one in make(i, f"node-{i % node_count:05}"))
    return Cluster(together(nodes(node_count), there), changes())


def own_request(i: int, node: str) -> list[Object]:
    return [pod(f"churn-{i:05}", cpu="100m", memory=f"{100_000 + i}Ki", node=node)]


def own_claim(i: int, node: str) -> list[Object]:
    return claim_of(f"churn-{i:05}", node)


_DRIFT = "5 come and 5 go in each of 10,000 cycles"
_FLAT: Mapping[str, float] = {"drift": 1.1, "growth_mib": 8}

CYCLES: tuple[Cycles | GroupEvents, ...] = (
    Cycles(
        "budgets", "1,000 full nodes × 20,000 pods under 500 budgets without status, one claim per two cycles",
        partial(budgets, 500, 40, 10), bound=10, evicted=10, config=PREEMPT, floors={"cycle_ms": 50},
    ),
    Cycles(
        "new-pod", "5,000 nodes × 50 Deployments of 1,000 running pods; one new pod per cycle",
        partial(new_replica, 5000, 50, 1000, 20), bound=20, floors={"cycle_ms": 15},
    ),
    GroupEvents(
        "group-event", "5,000 nodes × 500 running gangs of 100 pods; events of PodGroups",
        5000, 500, 100, 300, floors={"event_ms": 0.1},
    ),
    Cycles(
        "never-fit", "5,000 nodes × 50,000 plain pods that never fit; one new pod that fits per cycle",
        partial(never_fit, 5000, 50_000, 10), bound=10, floors={"cycle_ms": 50},
    ),
    Cycles(
        "drift", f"1,000 nodes, 2,000 pods with own requests; {_DRIFT}",
        partial(churn, 1000, 2000, 10_000, own_request), bound=PODS_PER_ROUND * 10_000, floors=_FLAT,
    ),
    Cycles(
        "drift-pvc", f"1,000 nodes, 2,000 pods with own claims; {_DRIFT}",
        partial(churn, 1000, 2000, 10_000, own_claim), bound=PODS_PER_ROUND * 10_000, floors=_FLAT,
    ),
)  # fmt: skip
