"""A leader that is killed between any two calls: the next one finishes or undoes what it had begun."""

from __future__ import annotations

import asyncio
import random

import pytest

from builders.manifests import node, queue
from builders.scheduler_objects import EVICTS, bound, cluster_of, priority_class, waiting
from builders.small_cluster import pod_group
from fakes import virtual_time
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


class FirstTakes30Seconds(Faults):
    """The first binding of the gang is answered late, or its answer is lost and it cannot be read for so long."""

    def __init__(self, lost: bool) -> None:
        self.lost = lost
        self.reads = 0
        self._late = False

    def before(self, number: int, verb: str, key: str) -> Exception | None:
        self._late = not self.lost and (verb, key) == ("bind", "d/gang-0")
        self.reads += verb == "get"
        return errors.Unreachable(verb, "away") if verb == "get" and self.reads < 8 else None

    def after(self, number: int, verb: str, key: str) -> Exception | None:
        return errors.TimedOut(verb, "no answer") if self.lost and (verb, key) == ("bind", "d/gang-0") else None

    def delay(self) -> float:
        late, self._late = self._late, False
        return 30.0 if late else 0.01


@pytest.mark.parametrize("lost", [False, True], ids=["late", "lost"])
def test_a_first_binding_that_takes_long_does_not_stop_the_bindings_of_other_pods(lost: bool) -> None:
    async def scenario() -> None:
        gang = [pod_group("gang", members=5), *(waiting(f"gang-{i}", "gang") for i in range(5))]
        cluster = cluster_of(queue("default"), node("n1", cpu="99"), *gang)
        leader = Leader(cluster, faults=FirstTakes30Seconds(lost))
        leader.binder._slots = asyncio.Semaphore(3)
        leader.begin()
        await asyncio.sleep(0.5)
        cluster.store.create(waiting("single"))
        leader.watch()
        leader.begin()
        await asyncio.sleep(2.0)
        assert set(bound(cluster)) - {"gang-0"} == {"single"}
        await asyncio.sleep(60.0)
        assert len(bound(cluster)) == 6 and leader.binder._slots._value == 3

    virtual_time.run(scenario())


class ConflictsWithItself(Faults):
    """The answer was lost on the way, the request was sent again, and the second one is answered."""

    def after(self, number: int, verb: str, key: str) -> Exception | None:
        return errors.Conflict(verb, "is bound already", code=409) if verb == "bind" else None


def test_a_binding_that_conflicts_with_our_own_earlier_one_is_a_success() -> None:
    async def run() -> None:
        cluster = five_binds_and_two_evictions()
        leader = Leader(cluster, EVICTS, ConflictsWithItself())
        await leader.turn()
        assert sum(name.startswith("gang") for name in bound(cluster)) == 5
        assert leader.metrics.bind_failures._value.get() == 0 and leader.metrics.gang_commits._value.get() == 1

    asyncio.run(run())


class SomebodyBindsFirst(Faults):
    """Another scheduler binds the first pod to the node that was chosen, without the journal."""

    def __init__(self) -> None:
        self.cluster: EmbeddedCluster | None = None

    def before(self, number: int, verb: str, key: str) -> Exception | None:
        if (number, verb) == (0, "bind") and self.cluster is not None:
            self.cluster.store.bind(key, "n0")
        return None


def test_no_pod_is_bound_after_a_first_one_that_has_no_journal() -> None:
    async def run() -> None:
        gang = [pod_group("gang", members=3), *(waiting(f"gang-{i}", "gang") for i in range(3))]
        cluster = cluster_of(queue("default"), node("n0", cpu="9"), *gang)
        faults = SomebodyBindsFirst()
        faults.cluster = cluster
        leader = Leader(cluster, faults=faults)
        await leader.turn()
        assert bound(cluster) == {"gang-0": "n0"}
        leader.watch()
        await leader.settle(3)
        assert len(bound(cluster)) == 3

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
