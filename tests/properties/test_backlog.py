"""A cycle that gives no reasons, and asks about waiting jobs class by class, decides what a full cycle decides."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from builders.followed_cluster import FollowedCluster
from builders.manifests import group, node, pod, queue, state_of
from muster.config.types import Config, PluginOption, Tier
from muster.cycle.scheduler import Scheduler
from muster.engine.core.plan import Plan
from strategies.clusters import NOW, Cluster, clusters
from strategies.configurations import EVICTING, configurations
from strategies.profiles import examples

PLACING = ("enqueue", "allocate", "backfill")
FIRST = ("priority", "gang")
CONFIGURATIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "default": (PLACING, (*FIRST, "overcommit", "drf", "predicates", "proportion", "nodeorder")),
    "capacity": (PLACING, (*FIRST, "drf", "predicates", "capacity", "binpack")),
    "not enqueued": (("allocate",), (*FIRST, "drf", "predicates", "binpack")),
    "without gang": (PLACING, ("priority", "overcommit", "predicates", "nodeorder")),
    "with deadlines": (PLACING, (*FIRST, "sla", "overcommit", "predicates", "proportion")),
    "reclaims": (("enqueue", "allocate", "reclaim"), (*FIRST, "drf", "predicates", "proportion", "nodeorder")),
}


def decided(plan: Plan) -> Plan:
    return replace(plan, reasons={}, conditions={}, warnings=[])


@given(clusters(), st.one_of(configurations(), configurations(first=("priority", "gang"), actions=EVICTING)))
@examples(200)
def test_reasons_change_no_decision(cluster: Cluster, config: Config) -> None:
    without_reasons = Scheduler(config).cycle(cluster.state(), NOW, reasons=False)
    assert decided(without_reasons) == decided(Scheduler(config).cycle(cluster.state(), NOW))
    assert not without_reasons.conditions


class History(FollowedCluster):
    """A cluster whose jobs are equal: they come in a few sizes, get nodes and go."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__()
        self.dice = dice
        self.made = 0
        for name in ("a", "b", "c"):
            asks = {"deserved": {"cpu": dice.randint(1, 6)}, "capability": {"cpu": dice.randint(4, 20)}}
            spec = {"weight": dice.randint(1, 3), **(asks if dice.random() < 0.5 else {})}
            self.put(queue(name, **spec, **({"dequeueStrategy": "fifo"} if dice.random() < 0.2 else {})))
        for i in range(dice.randint(2, 5)):
            self.put(node(f"n{i}", cpu=str(dice.randint(2, 8)), memory="64Gi"))

    def submit(self) -> None:
        dice = self.dice
        name, pods = f"j{dice.randrange(100)}-{self.made}", dice.choice((1, 1, 2, 3))
        asks = {"cpu": dice.choice((1, 2, 4))}
        self.made += 1
        least = pods if dice.random() < 0.8 else 1
        minimum = {"minResources": {"cpu": asks["cpu"] * least}} if dice.random() < 0.9 else {}
        created = f"2026-01-01T00:00:{dice.randrange(60):02d}Z"
        phase = dice.choice(("", "Pending", "Pending", "Inqueue"))
        self.put(group(name, dice.choice("abc"), phase=phase, created=created, minMember=least, **minimum))
        for i in range(pods):
            self.put(pod(f"{name}-{i}", name, requests=asks))

    def finish(self) -> None:
        groups = sorted(name for kind, name in self.objects if kind == "PodGroup")
        if groups:
            name = self.dice.choice(groups)
            self.remove("PodGroup", name)
            for kind, one in sorted(self.objects):
                if kind == "Pod" and one.rpartition("-")[0] == name:
                    self.remove(kind, one)


@pytest.mark.parametrize("name", CONFIGURATIONS)
@given(seed=st.integers(0, 2**32))
@examples(60)
def test_classes_of_waiting_jobs_change_no_decision(name: str, seed: int) -> None:
    """Also over many cycles: the state that follows with classes equals one that is read afresh without."""
    actions, plugins = CONFIGURATIONS[name]
    config = Config(actions, (Tier(tuple(PluginOption(plugin) for plugin in plugins)),))
    history, lasting = History(random.Random(seed)), Scheduler(config)
    for i in range(12):
        for _ in range(history.dice.choice((0, 1, 1, 2, 8))):
            history.submit()
        if history.dice.random() < 0.5:
            history.finish()
        reasons = history.dice.random() < 0.1
        plan = lasting.cycle(history.state, NOW + i, reasons=reasons)
        fresh = Scheduler(config).cycle(state_of(*history.objects.values()), NOW + i)
        if "reclaim" not in actions:  # promises are remembered from cycle to cycle
            assert decided(plan) == decided(fresh)
        history.apply(plan)
