"""Waiting plain pods are decided class by class, and their reasons are kept: each plan is that of a cold cycle without
classes, with all its reasons and conditions.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from builders.followed_cluster import FollowedCluster
from builders.manifests import group, node, pod, priority_class, queue
from muster.config.types import Config, PluginOption, Tier
from muster.cycle.scheduler import Scheduler
from muster.engine.core.session import Session
from muster.model.meta import key
from strategies.clusters import NOW
from strategies.profiles import examples

PLACING = ("enqueue", "allocate", "backfill")
FIRST = ("priority", "gang")
CONFIGURATIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "default": (PLACING, (*FIRST, "overcommit", "drf", "predicates", "proportion", "nodeorder", "nodegroup",
                          "topology", "topology910", "propagation")),
    "capacity": (PLACING, (*FIRST, "drf", "predicates", "capacity", "binpack")),
    "not enqueued": (("allocate",), (*FIRST, "drf", "predicates", "binpack")),
    "allocated twice": (("allocate", "backfill", "allocate"), (*FIRST, "predicates", "binpack")),
    "not allocated": (("enqueue", "backfill"), (*FIRST, "predicates")),
    "without gang": (PLACING, ("priority", "overcommit", "predicates", "nodeorder")),
    "with deadlines": (PLACING, (*FIRST, "sla", "overcommit", "predicates", "proportion")),
    "divided": (PLACING, (*FIRST, "predicates", "proportion", "binpack", "topology")),
}  # fmt: skip
ALONE = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
]}}  # fmt: skip
WAITS_FOR: tuple[dict[str, Any], ...] = (
    {}, {}, {"nodeSelector": {"pool": "gpu"}}, {"affinity": ALONE}, {"priorityClassName": "high"},
    {"tolerations": [{"key": "own", "operator": "Exists"}]},
)  # fmt: skip


class History(FollowedCluster):
    """A small cluster with many plain pods of few classes, most of which do not fit."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__()
        self.dice = dice
        self.made = 0
        self.put(priority_class("high", 100))
        self.change_queue()
        for _ in range(dice.randint(0, 2)):
            self.add_node()
        for _ in range(dice.randint(5, 25)):
            self.add_pod()

    def some(self, kind: str) -> Any:
        found = sorted(name for of, name in self.objects if of == kind)
        return self.objects[kind, self.dice.choice(found)] if found else None

    def add_node(self) -> None:
        dice = self.dice
        name = f"n{dice.randrange(6)}"
        labels = {"kubernetes.io/hostname": name, **({"pool": "gpu"} if dice.random() < 0.2 else {})}
        own = {"taints": [{"key": "own", "value": "", "effect": "NoSchedule"}]} if dice.random() < 0.2 else {}
        self.put(node(name, cpu=dice.randint(1, 12), memory=f"{dice.randint(1, 16)}Gi", labels=labels, **own))

    def remove_node(self) -> None:
        one = self.some("Node")
        if one is not None:
            for of, name in sorted(self.objects):
                if of == "Pod" and self.objects[of, name].spec.node_name == one.metadata.name:
                    self.remove(of, name)
            self.remove("Node", one.metadata.name)

    def add_pod(self) -> None:
        dice = self.dice
        at = dice.choice(("a", "a", "b", "c"))
        more = dict(dice.choice(WAITS_FOR))
        asks = {"cpu": dice.choice((1, 1, 2, 20, 20)), "memory": dice.choice(("1Gi", "1Gi", "3Gi"))}
        if dice.random() < 0.05:
            asks = {}
        if dice.random() < 0.05:
            more["schedulingGates"] = [{"name": "later"}]
        labels = {"app": dice.choice("xy")} if dice.random() < 0.3 else {}
        notes = {"scheduling.volcano.sh/queue-name": at}
        for _ in range(dice.choice((1, 1, 6))):
            name = f"p{dice.randrange(100)}-{self.made}"
            self.made += 1
            meta = {"creationTimestamp": f"2026-01-01T00:00:{dice.randrange(0, 60, 15):02d}Z"}
            made = pod(name, requests=asks, labels=labels, annotations=notes, meta=meta, **more)
            if dice.random() < 0.03:
                made["status"]["nominatedNodeName"] = f"n{dice.randrange(6)}"
            self.put(made)

    def add_gang(self) -> None:
        name, size = f"g{self.made}", self.dice.randint(1, 3)
        self.made += 1
        self.put(group(name, "a", minMember=size, minResources={"cpu": size}, phase="Inqueue"))
        for i in range(size):
            self.put(pod(f"{name}-{i}", name))

    def change_pod(self) -> None:
        one = self.some("Pod")
        if one is None:
            return
        meta = one.metadata
        match self.dice.randrange(4):
            case 0:
                self.put(changed(one, metadata=changed(meta, labels={"app": self.dice.choice("xyz")})))
            case 1:
                self.put(changed(one, spec=changed(one.spec, priority=self.dice.choice((1, 50)))))
            case 2:
                self.put(changed(one, metadata=changed(meta, deletion_timestamp=meta.creation_timestamp)))
            case _:
                self.remove("Pod", key(one))

    def change_queue(self) -> None:
        for name in "ab" if not self.made else self.dice.choice("ab"):
            limits = {"cpu": self.dice.randint(1, 12)}
            spec: dict[str, Any] = {"capability": limits} if self.dice.random() < 0.3 else {}
            if self.dice.random() < 0.2:
                spec["dequeueStrategy"] = "fifo"
            self.put(queue(name, weight=self.dice.randint(1, 3), **spec))
        if self.dice.random() < 0.3:
            self.put(queue("c"))

    def change_priority(self) -> None:
        self.put(priority_class("high", self.dice.choice((0, 100))))

    def step(self) -> None:
        how = (self.add_node, self.remove_node, self.add_pod, self.add_pod, self.add_gang, self.change_pod,
               self.change_pod, self.change_queue, self.change_priority)  # fmt: skip
        for _ in range(self.dice.choice((0, 0, 1, 1, 2, 6))):
            self.dice.choice(how)()


def play(name: str, seed: int, seen: Counter[str]) -> None:
    actions, plugins = CONFIGURATIONS[name]
    config = Config(actions, (Tier(tuple(PluginOption(plugin) for plugin in plugins)),))
    history, lasting = History(random.Random(seed)), Scheduler(config)

    def look(session: Session) -> None:
        for attempts in session.class_attempts.values():
            seen[f"{min(len(attempts), 2)} attempts"] += 1
            seen.update(f"refused: {a.refusal.code}" for _, a in attempts if a.refusal is not None)
            seen["over quota"] += sum(bool(a.over_quota) for _, a in attempts)
        seen["taken"] += len(session.taken)
        seen["taken together"] += sum(move.several_jobs for move in session.committed if move.job in session.taken)
        seen["kept reasons"] += sum(
            cls.report is not None and len(cls.changed) < len(cls.jobs)
            for cls in session.waiting_classes(pending=False)
        )

    for i in range(10):
        cold = history.cold_state()
        plan = lasting.cycle(history.state, NOW + i, look=look)
        with patch.object(Scheduler, "_classes_in", lambda *of: ()):
            assert plan == Scheduler(config).cycle(cold, NOW + i), seed
        history.apply(plan)
        history.step()


@given(name=st.sampled_from(sorted(CONFIGURATIONS)), seed=st.integers(0, 2**32))
@examples(480)
def test_every_plan_is_that_of_a_cold_cycle(name: str, seed: int) -> None:
    play(name, seed, Counter())


@pytest.mark.parametrize("grouped", [False, True])
def test_a_waiting_pod_that_can_run_now_comes_before_the_next_of_two_equal_jobs(grouped: bool) -> None:
    """A class that was refused is considered again between two equal jobs if one of its jobs is between them.

    The equal jobs are in a class of waiting pods themselves, or (`grouped`) have PodGroups.
    """
    config = Config(("enqueue", "allocate"), (Tier(tuple(map(PluginOption, ("gang", "predicates")))),))
    cluster, lasting = FollowedCluster(), Scheduler(config)
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "server"}}, "topologyKey": "kubernetes.io/hostname"}
    ]}}  # fmt: skip
    cluster.put(queue("default"))
    for second in (1, 2, 3, 4):
        created = f"2026-01-01T00:00:0{second}Z"
        meta = {"creationTimestamp": created}
        if second % 2:
            cluster.put(pod(f"client-{second}", cpu=2, meta=meta, affinity=near))
            continue
        name = f"server-{second}"
        if grouped:
            cluster.put(group(name, minMember=1, phase="Inqueue", created=created))
        cluster.put(pod(name, name if grouped else "", cpu=1, meta=meta, labels={"app": "server"}))
    cluster.apply(lasting.cycle(cluster.state, NOW))
    cluster.put(node("n1", cpu=3, labels={"kubernetes.io/hostname": "n1"}))
    plan = lasting.cycle(cluster.state, NOW + 1)
    assert sorted(plan.binds) == ["default/client-3", "default/server-2"]
    with patch.object(Scheduler, "_classes_in", lambda *of: ()):
        assert plan == Scheduler(config).cycle(cluster.cold_state(), NOW + 1)


def test_classes_are_drawn() -> None:
    seen: Counter[str] = Counter()
    for seed in range(10):
        play(("default", "not enqueued", "without gang")[seed % 3], seed, seen)
    least = {
        "1 attempts", "2 attempts", "taken", "taken together", "kept reasons", "over quota", "refused: queue-overused",
    }  # fmt: skip
    assert all(seen[what] for what in least), seen
