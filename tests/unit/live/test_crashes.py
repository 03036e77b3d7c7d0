"""A leader that is killed between any two calls: the next one finishes or undoes what it had begun."""

from __future__ import annotations

import asyncio
import random

import pytest

from hand_driven import Faults, KillAt, Leader, assert_gangs_whole
from muster.cluster.embedded import EmbeddedCluster
from muster.kube import errors
from muster.model.core import Pod
from muster.model.meta import Object, key
from small_cluster import node, pod, pod_group, queue

CONFIG = """
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""


def muster_pod(name: str, group: str, on: str = "", cpu: str = "1", priority: int = 0) -> Object:
    made = pod(name, group, on, cpu=cpu)
    assert isinstance(made, Pod)
    made.spec.scheduler_name = "muster"
    made.spec.priority = priority
    made.spec.termination_grace_period_seconds = 1
    made.metadata.labels = {"app": group}
    if on:
        made.status.phase = "Running"
    return made


def made(*objects: Object) -> EmbeddedCluster:
    tables: dict[str, dict[str, Object]] = {}
    for obj in objects:
        tables.setdefault(type(obj).__name__, {})[key(obj)] = obj
    return EmbeddedCluster(tables, 1000.0)


def five_binds_and_two_evictions() -> EmbeddedCluster:
    """A gang of five fits at once; a pod of high priority needs two small ones to go."""
    low = pod_group("low", members=0)
    high = pod_group("high", members=1)
    high.spec.priority_class_name = "high"  # type: ignore[attr-defined]
    return made(
        queue("default"),
        *(node(f"n{i}", cpu="2", labels={"kubernetes.io/hostname": f"n{i}"}) for i in range(3)),
        node("full", cpu="4", labels={"kubernetes.io/hostname": "full"}),
        _high(), low, high, pod_group("gang", members=5),
        *(muster_pod(f"low-{i}", "low", "full", cpu="2") for i in range(2)),
        muster_pod("high-0", "high", cpu="4", priority=1000),
        *(muster_pod(f"gang-x-{i}", "gang") for i in range(5)),
    )  # fmt: skip


def _high() -> Object:
    from muster.model.core import PriorityClass
    from muster.model.meta import ObjectMeta

    return PriorityClass(metadata=ObjectMeta(name="high"), value=1000)


def bound(cluster: EmbeddedCluster) -> dict[str, str]:
    return {k.partition("/")[2]: p.spec.node_name for k, p in cluster.store.of(Pod).items() if p.spec.node_name}


def test_undisturbed_it_makes_these_calls() -> None:
    async def run() -> None:
        cluster = five_binds_and_two_evictions()
        leader = Leader(cluster, CONFIG)
        await leader.turn()
        verbs = [verb for verb, _ in leader.calls.made]
        assert verbs.count("bind") == 5
        assert verbs.count("evict-dry") == 2
        assert verbs.count("evict") == 2
        assert verbs.count("annotate") == 2
        leader.watch()
        await leader.settle()
        assert bound(cluster)["high-0"] == "full"
        assert sum(name.startswith("gang") for name in bound(cluster)) == 5
        assert_gangs_whole(cluster)
        leader.assert_exact()

    asyncio.run(run())


CALLS = 16


@pytest.mark.parametrize("sent", [False, True], ids=["unsent", "answer lost"])
@pytest.mark.parametrize("number", range(CALLS))
def test_killed_at_any_call_the_next_leader_makes_it_whole(number: int, sent: bool) -> None:
    async def run() -> None:
        cluster = five_binds_and_two_evictions()
        first = Leader(cluster, CONFIG, KillAt(number, sent=sent))
        await first.settle(3)
        assert first.calls.dead, "the first leader makes more calls than this test kills it at"
        second = Leader(cluster, CONFIG, holder="second")
        await second.settle()
        assert_gangs_whole(cluster)
        there = bound(cluster)
        assert there["high-0"] == "full"
        assert sum(name.startswith("gang") for name in there) == 5
        second.assert_exact()

    asyncio.run(run())


class LosesEverySecondAnswer(Faults):
    def after(self, number: int, verb: str, key: str) -> Exception | None:
        return errors.TimedOut(verb, "no answer") if number % 2 else None


class FailsAThird(Faults):
    """With all that an API server and the way to it can do to a call."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def before(self, number: int, verb: str, key: str) -> Exception | None:
        kinds = (
            errors.ServerFault(verb, "etcdserver: request timed out", code=500),
            errors.TooManyRequests(verb, "too many requests", code=429, retry_after=0.0),
            errors.Unreachable(verb, "connection reset"),
        )
        return self._dice.choice(kinds) if self._dice.random() < 0.2 else None

    def after(self, number: int, verb: str, key: str) -> Exception | None:
        return errors.TimedOut(verb, "no answer") if self._dice.random() < 0.15 else None


@pytest.mark.parametrize("faults", [LosesEverySecondAnswer(), *map(FailsAThird, range(8))])
def test_calls_that_fail_leave_the_accounts_exact(faults: Faults) -> None:
    async def run() -> None:
        cluster = five_binds_and_two_evictions()
        leader = Leader(cluster, CONFIG, faults)
        await leader.settle(60)
        assert sum(name.startswith("gang") for name in bound(cluster)) == 5
        leader.calls._faults = Faults()
        await leader.settle(3)
        assert_gangs_whole(cluster)
        leader.assert_exact()

    asyncio.run(run())
