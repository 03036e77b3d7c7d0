"""Gangs that no PodGroup speaks for: whole or absent all the same, whoever is killed and whatever is seen first."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from builders.manifests import node, queue
from builders.scheduler_objects import EVICTS, bound, cluster_of, open_journals, replica_set, waiting
from fakes.stepped_scheduler import Faults, KillAt, Leader
from muster.cluster.embedded import EmbeddedCluster
from muster.groupctl.controllers.podgroups import PodGroupController
from muster.model.batch import ReplicaSet
from muster.model.core import Node, Pod
from muster.model.meta import OwnerReference
from muster.model.scheduling import PodGroup
from muster.scheduler.inbox import Observed
from muster.scheduler.journal import RECOVERY_GRACE_S, journal_of
from muster.scheduler.status import PodStatusPatch
from muster.store import errors

SIZE = 5


def five_pods() -> EmbeddedCluster:
    return cluster_of(queue("default"), *(node(f"n{i}", cpu="2") for i in range(3)), replica_set("web", SIZE))


def no_open_journal(cluster: EmbeddedCluster) -> bool:
    return not open_journals(cluster.store.of(Pod).values())


def test_the_first_binding_writes_the_journal_and_nobody_removes_it() -> None:
    async def run() -> None:
        cluster = five_pods()
        leader = Leader(cluster)
        await leader.turn()
        first = min(cluster.store.of(Pod))
        assert leader.calls.made[0] == ("bind", first)
        assert [verb for verb, _ in leader.calls.made[:SIZE]] == ["bind"] * SIZE
        journal = journal_of(cluster.store.get(Pod, first))
        assert journal is not None and {name: entry.node for name, entry in journal.pods.items()} == bound(cluster)
        leader.watch()
        await leader.settle(3)
        assert len(bound(cluster)) == SIZE and no_open_journal(cluster)
        assert not any(verb == "patch" for verb, _ in leader.calls.made)
        leader.assert_exact()

    asyncio.run(run())


def test_a_journal_is_not_taken_for_open_however_late_the_watch_is() -> None:
    async def run() -> None:
        cluster = five_pods()
        leader = Leader(cluster)
        await leader.turn()
        leader.watch(at_most=1)  # the pod with the journal is bound
        decision = await leader.turn()
        assert decision.closed_journals == [] and not decision.commits.bindings
        leader.watch()
        leader.assert_exact()

    asyncio.run(run())


def test_if_the_first_binding_is_refused_no_other_pod_is_bound() -> None:
    class FirstRefused(Faults):
        def before(self, number: int, verb: str, key: str) -> Exception | None:
            return errors.Forbidden("bind", "no", code=403) if number == 0 else None

    async def run() -> None:
        cluster = five_pods()
        leader = Leader(cluster, faults=FirstRefused())
        await leader.turn()
        assert bound(cluster) == {} and [verb for verb, _ in leader.calls.made].count("bind") == 1
        await leader.settle(90)
        assert len(bound(cluster)) == SIZE and no_open_journal(cluster)
        leader.assert_exact()

    asyncio.run(run())


def test_a_gang_that_does_not_fit_is_not_begun() -> None:
    async def run() -> None:
        cluster = cluster_of(queue("default"), node("n0", cpu="4"), replica_set("web", SIZE))
        leader = Leader(cluster)
        await leader.settle(3)
        assert bound(cluster) == {} and no_open_journal(cluster)

    asyncio.run(run())


@pytest.mark.parametrize("sent", [False, True], ids=["unsent", "answer lost"])
@pytest.mark.parametrize("number", range(SIZE))
@pytest.mark.parametrize("written", [False, True], ids=["in memory", "then written"])
def test_killed_at_any_call_the_next_leader_completes_the_gang(written: bool, number: int, sent: bool) -> None:
    async def run() -> None:
        cluster = five_pods()
        first = Leader(cluster, "", KillAt(number, sent=sent))
        await first.settle(3)
        assert first.calls.dead, "the first leader makes more calls than this test kills it at"
        if written:
            cluster.join(PodGroupController(cluster.store, ("muster",)))
            cluster.step()
            assert len(cluster.store.of(PodGroup)) == 1
        second = Leader(cluster, holder="second")
        await second.settle()
        assert len(bound(cluster)) == SIZE and no_open_journal(cluster)
        second.assert_exact()

    asyncio.run(run())


@pytest.mark.parametrize("number", range(9))
def test_killed_at_any_call_of_undoing_it_the_next_leader_undoes_the_rest(number: int) -> None:
    async def run() -> None:
        cluster = five_pods()
        killed = Leader(cluster, EVICTS, KillAt(2, sent=True))
        await killed.settle(3)
        assert len(bound(cluster)) == 3
        for one in list(cluster.store.of(Node).values()):
            cluster.store.write(replace(one, spec=replace(one.spec, unschedulable=True)))
        await Leader(cluster, EVICTS, holder="second").turn()
        cluster.advance(cluster.clock.now() + RECOVERY_GRACE_S + 1)
        third = Leader(cluster, EVICTS, KillAt(number, sent=True), holder="third")
        await third.turn()
        cluster.advance(cluster.clock.now() + RECOVERY_GRACE_S + 1)
        third.watch()
        await third.settle(6)
        fourth = Leader(cluster, EVICTS, holder="fourth")
        await fourth.turn()
        cluster.advance(cluster.clock.now() + RECOVERY_GRACE_S + 1)
        fourth.watch()
        await fourth.settle(8)
        assert bound(cluster) == {} and no_open_journal(cluster)

    asyncio.run(run())


def test_a_pod_is_not_placed_before_its_owner_is_known() -> None:
    async def run() -> None:
        cluster = five_pods()
        owner = cluster.store.get(ReplicaSet, "d/web")
        leader = Leader(cluster)
        leader.cache.state.remove("ReplicaSet", "d/web")
        assert not leader.decide().commits.bindings
        cluster.clock.advance(1020.0)
        patches = leader.decide().status_patches
        messages = {patch.condition.message for patch in patches if isinstance(patch, PodStatusPatch)}
        assert messages == {"waits for its owner ReplicaSet web, which is not known yet."}
        leader.cache.state.upsert("ReplicaSet", "d/web", owner)
        await leader.settle(2)
        assert len(bound(cluster)) == SIZE

    asyncio.run(run())


def test_pods_of_an_owner_that_was_deleted_are_not_placed_one_by_one() -> None:
    async def run() -> None:
        cluster = cluster_of(queue("default"), node("n0", cpu="4"), replica_set("web", SIZE))
        leader = Leader(cluster)
        await leader.turn()
        leader.cache.put(Observed("ReplicaSet", "d/web", None))
        await leader.turn()
        assert bound(cluster) == {}

    asyncio.run(run())


def test_owners_of_other_kinds_are_not_waited_for() -> None:
    async def run() -> None:
        theirs = waiting("theirs")
        theirs.metadata.owner_references = [
            OwnerReference(api_version="example.io/v1", kind="Job", name="x", uid="u", controller=True)
        ]
        cluster = cluster_of(queue("default"), node("n0"), theirs)
        await Leader(cluster).turn()
        assert bound(cluster) == {"theirs": "n0"}

    asyncio.run(run())
