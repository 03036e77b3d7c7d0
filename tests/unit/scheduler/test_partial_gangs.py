"""Cycles that run while a gang is being bound, and gangs that are partial because a binding failed or a pod is new."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from builders.manifests import node, queue
from builders.scheduler_objects import EVICTS, bound, cluster_of, waiting
from builders.small_cluster import pod_group
from fakes.stepped_scheduler import Faults, Leader, assert_gangs_whole
from fakes.virtual_time import run
from muster.cluster.embedded import EmbeddedCluster
from muster.model.core import Node, Pod
from muster.scheduler.journal import RECOVERY_GRACE_S
from muster.scheduler.queueing_hints import Hint
from muster.store import errors


class Slow(Faults):
    """Calls and answers take a second each. The bindings of these pods are lost; a GET shows it two seconds later."""

    def __init__(self, *lost: str) -> None:
        self.lost = lost

    def before(self, number: int, verb: str, key: str) -> Exception | None:
        return errors.TimedOut(verb, "no answer") if verb == "bind" and key in self.lost else None

    def delay(self) -> float:
        return 1.0


def gang_of_three(minimum: int, cpu: str = "8") -> EmbeddedCluster:
    pods = [waiting(f"gang-{i}", "gang") for i in range(3)]
    return cluster_of(queue("default"), node("n1", cpu=cpu), pod_group("gang", members=minimum), *pods)


def recreate(cluster: EmbeddedCluster, key: str) -> None:
    old = cluster.store.get(Pod, key)
    cluster.store.delete(Pod, key, grace=0)
    meta = replace(old.metadata, uid=f"{old.metadata.uid}-again"[::-1], resource_version="")
    fresh = replace(old, metadata=meta, spec=replace(old.spec, node_name=""), status=type(old.status)())
    cluster.store.create(fresh)


def cordon(cluster: EmbeddedCluster) -> None:
    for one in list(cluster.store.of(Node).values()):
        cluster.store.write(replace(one, spec=replace(one.spec, unschedulable=True)))


async def passes(leader: Leader, seconds: int) -> None:
    """A cycle each second, whether or not calls are in flight."""
    for _ in range(seconds):
        leader.begin()
        await asyncio.sleep(1.0)
        leader.cluster.advance(leader.cluster.clock.now() + 1.0)
        leader.watch()


def test_a_pod_waits_for_the_answers_to_the_bindings_of_its_gang_before_it() -> None:
    """It would be bound without a journal, because the gang seems to have its minimum, and the others may fail."""

    async def scenario() -> None:
        cluster = gang_of_three(2)
        late = cluster.store.get(Pod, "d/gang-2")
        cluster.store.delete(Pod, "d/gang-2")
        leader = Leader(cluster, faults=Slow("d/gang-0"))
        leader.begin()
        cluster.store.create(replace(late, metadata=replace(late.metadata, resource_version="")))
        await asyncio.sleep(0.5)
        leader.watch()
        decision = leader.begin()
        assert decision.commits.bindings == [] and decision.bound == 0 and decision.pending == 1
        assert leader.cache.committing == {"d/gang"} and "d/gang-2" not in leader.cache.assumed
        await asyncio.sleep(5.0)
        assert leader.decider.apply_messages() is Hint.SCHEDULE_NOW
        assert leader.cache.committing == set() and bound(cluster) == {}

    run(scenario())


def test_other_pods_do_not_wait_for_the_answers_to_the_bindings_of_a_gang() -> None:
    async def scenario() -> None:
        cluster = gang_of_three(3)
        leader = Leader(cluster, faults=Slow())
        leader.begin()
        cluster.store.create(waiting("single"))
        leader.watch()
        (commit,) = leader.begin().commits.bindings
        assert [binding.key for binding in commit.bindings] == ["d/single"]
        await asyncio.sleep(10.0)
        assert leader.decider.apply_messages() is not Hint.SCHEDULE_NOW
        assert len(bound(cluster)) == 4

    run(scenario())


def test_what_recovery_cannot_bind_is_tried_once_and_undone_after_the_grace_period() -> None:
    """Also if cycles run while its commit is in flight."""

    async def scenario() -> None:
        cluster = gang_of_three(3)
        first = Leader(cluster, EVICTS, Slow("d/gang-1", "d/gang-2"))
        first.begin()
        await asyncio.sleep(1.5)
        first.calls.dead = True
        assert list(bound(cluster)) == ["gang-0"]
        leader = Leader(cluster, EVICTS, Slow("d/gang-1", "d/gang-2"), holder="second")
        await passes(leader, int(RECOVERY_GRACE_S) + 40)
        assert bound(cluster) == {}
        assert leader.metrics.repairs.labels("finish")._value.get() == 1

    run(scenario())


@pytest.mark.parametrize("carrier", [False, True], ids=["another", "the one with the journal"])
def test_a_gang_one_of_whose_pods_was_recreated_in_the_middle_is_undone(carrier: bool) -> None:
    """The recreated pod is not the one of the journal, which seems to be complete."""

    async def scenario() -> None:
        cluster = gang_of_three(3, cpu="3")
        leader = Leader(cluster, EVICTS, Slow("d/gang-1") if carrier else Slow())
        leader.begin()
        await asyncio.sleep(2.5 if carrier else 0.5)
        recreate(cluster, "d/gang-0" if carrier else "d/gang-2")
        cordon(cluster)
        await asyncio.sleep(10.0)
        assert 0 < len(bound(cluster)) < 3
        leader.watch()
        await passes(leader, int(RECOVERY_GRACE_S) + 10)
        assert bound(cluster) == {}
        assert_gangs_whole(cluster)
        leader.decider.apply_messages()
        leader.begin()
        assert leader.cache.unfinished == {}

    run(scenario())


def test_a_gang_one_of_whose_pods_was_recreated_in_the_middle_is_completed_if_there_is_capacity() -> None:
    async def scenario() -> None:
        cluster = gang_of_three(3)
        leader = Leader(cluster, EVICTS, Slow())
        leader.begin()
        await asyncio.sleep(0.5)
        recreate(cluster, "d/gang-2")
        leader.watch()
        await passes(leader, int(RECOVERY_GRACE_S) + 10)
        assert len(bound(cluster)) == 3
        assert leader.cache.unfinished == {} and leader.cache.carriers == {}

    run(scenario())


class FailsOnce(Faults):
    """An error that nobody expects, in a call of one binding."""

    def before(self, number: int, verb: str, key: str) -> Exception | None:
        return ZeroDivisionError() if (verb, key) == ("bind", "d/gang-1") else None


def test_an_unexpected_error_does_not_leave_a_gang_being_committed() -> None:
    async def scenario() -> None:
        cluster = gang_of_three(3)
        leader = Leader(cluster, faults=FailsOnce())
        leader.begin()
        await asyncio.sleep(1.0)
        leader.decider.apply_messages()
        assert leader.cache.committing == set() and set(leader.cache.unfinished) == {"d/gang"}
        assert set(bound(cluster)) == {"gang-0", "gang-2"}
        assert leader.cache.assumed["d/gang-1"].check_at is not None  # the pod is read, if the watch shows nothing

    run(scenario())


class RefusesAll(Faults):
    def before(self, number: int, verb: str, key: str) -> Exception | None:
        return errors.Forbidden(verb, "the webhook says no", code=403) if verb == "bind" else None


@pytest.mark.parametrize("minimum", [1, 2, 3])
def test_after_a_refused_binding_the_next_cycle_is_not_urgent(minimum: int) -> None:
    """If all bindings are refused, each cycle would bind another pod of the gang first, without a pause."""

    async def scenario() -> None:
        leader = Leader(gang_of_three(minimum), faults=RefusesAll())
        leader.begin()
        await asyncio.sleep(0.5)
        assert leader.decider.apply_messages() is Hint.SCHEDULE_SOON
        assert leader.cache.assumed == {} and leader.cache.committing == set()

    run(scenario())
