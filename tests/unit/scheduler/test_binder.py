"""A leader that is killed between any two calls: the next one finishes or undoes what it had begun."""

from __future__ import annotations

import asyncio
import random

import pytest

from builders.manifests import node, queue
from builders.scheduler_objects import EVICTS, bound, cluster_of, priority_class, waiting
from builders.small_cluster import pod_group
from fakes.stepped_scheduler import Faults, KillAt, Leader, assert_gangs_whole
from muster.cluster.embedded import EmbeddedCluster
from muster.scheduler.cache import CONFIRM_TIMEOUT_S
from muster.store import errors


def five_binds_and_two_evictions() -> EmbeddedCluster:
    """A gang of five fits at once; a pod of high priority needs two small ones to go."""
    low = pod_group("low", members=0)
    high = pod_group("high", members=1)
    high.spec.priority_class_name = "high"  # type: ignore[attr-defined]
    return cluster_of(
        queue("default"),
        *(node(f"n{i}", cpu="2", labels={"kubernetes.io/hostname": f"n{i}"}) for i in range(3)),
        node("full", cpu="4", labels={"kubernetes.io/hostname": "full"}),
        priority_class("high", 1000), low, high, pod_group("gang", members=5),
        *(waiting(f"low-{i}", "low", "full", cpu="2") for i in range(2)),
        waiting("high-0", "high", cpu="4", priority=1000),
        *(waiting(f"gang-x-{i}", "gang") for i in range(5)),
    )  # fmt: skip


def test_without_errors_it_makes_these_calls() -> None:
    async def run() -> None:
        cluster = five_binds_and_two_evictions()
        leader = Leader(cluster, EVICTS)
        await leader.turn()
        verbs = [verb for verb, _ in leader.calls.made]
        assert verbs.count("bind") == 5
        assert verbs.count("evict-dry") == 1  # one for the two pods of a job
        assert verbs.count("evict") == 2
        assert "annotate" not in verbs  # the journal is in a binding
        leader.watch()
        await leader.settle()
        assert bound(cluster)["high-0"] == "full"
        assert sum(name.startswith("gang") for name in bound(cluster)) == 5
        assert_gangs_whole(cluster)
        leader.assert_exact()

    asyncio.run(run())


def test_no_other_binding_comes_between_those_of_a_gang() -> None:
    """A gang is partial from its first binding to its last one, which must not wait behind a burst of other pods."""

    async def run() -> None:
        singles = [waiting(f"single-{i}") for i in range(40)]
        gangs = [(pod_group(name, members=5), *(waiting(f"{name}-{i}", name) for i in range(5))) for name in "ab"]
        one, two = gangs
        cluster = cluster_of(queue("default"), node("n1", cpu="99"), *one, *singles, *two)
        leader = Leader(cluster)
        leader.binder._slots = asyncio.Semaphore(2)
        await leader.turn()
        order = [key for verb, key in leader.calls.made if verb == "bind"]
        assert len(order) == 50
        for name in "ab":
            places = [place for place, key in enumerate(order) if key.startswith(f"d/{name}-")]
            assert len(places) == 5 and places[-1] - places[0] <= 5, order

    asyncio.run(run())


CALLS = 14


@pytest.mark.parametrize("sent", [False, True], ids=["unsent", "answer lost"])
@pytest.mark.parametrize("number", range(CALLS))
def test_killed_at_any_call_the_next_leader_completes_the_gang(number: int, sent: bool) -> None:
    async def run() -> None:
        cluster = five_binds_and_two_evictions()
        first = Leader(cluster, EVICTS, KillAt(number, sent=sent))
        await first.settle(3)
        assert first.calls.dead, "the first leader makes more calls than this test kills it at"
        second = Leader(cluster, EVICTS, holder="second")
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
        leader = Leader(cluster, EVICTS, faults)
        await leader.settle(60)
        assert sum(name.startswith("gang") for name in bound(cluster)) == 5
        leader.calls._faults = Faults()
        # One turn is a second. An eviction whose answer was lost is looked up after this time.
        await leader.settle(int(CONFIRM_TIMEOUT_S) + 3)
        assert_gangs_whole(cluster)
        leader.assert_exact()

    asyncio.run(run())
