"""Commits cut short: finished where it was meant, left to the cycles, or undone."""

from __future__ import annotations

import asyncio
import random

import pytest
from msgspec.structs import replace

from builders.scheduler_objects import EVICTS, bound, cluster_of, waiting
from builders.small_cluster import node, pod_group, queue
from fakes.stepped_scheduler import Leader, assert_gangs_whole
from muster.cluster.embedded import EmbeddedCluster
from muster.model.core import Pod
from muster.model.scheduling import PodGroup
from muster.scheduler.journal import JOURNAL, Entry, Journal, TooLarge, decode, encode, journal_of
from muster.scheduler.recovery import GRACE


def begun(*, bound_pods: int, room: str = "8", at: float = 990.0) -> EmbeddedCluster:
    """A gang of three of which some were bound when the leader died; n2 has that much cpu by now."""
    names = [f"gang-x-{i}" for i in range(3)]
    entries = {name: Entry("n1" if i < 1 else "n2", f"uid-{name}"[:8]) for i, name in enumerate(names)}
    group = pod_group("gang", members=3, annotations={JOURNAL: encode(Journal(holder="dead", at=at, pods=entries))})
    pods = [waiting(name, "gang", entries[name].node if i < bound_pods else "") for i, name in enumerate(names)]
    return cluster_of(queue("default"), node("n1", cpu="1"), node("n2", cpu=room), group, *pods)


def test_the_rest_is_bound_where_it_was_meant_to_go() -> None:
    async def run() -> None:
        cluster = begun(bound_pods=1)
        leader = Leader(cluster, holder="new")
        await leader.settle(3)
        assert bound(cluster) == {"gang-x-0": "n1", "gang-x-1": "n2", "gang-x-2": "n2"}
        assert_gangs_whole(cluster)
        leader.assert_exact()

    asyncio.run(run())


def test_nothing_was_bound_yet_so_the_journal_only_goes() -> None:
    async def run() -> None:
        cluster = begun(bound_pods=0)
        leader = Leader(cluster, holder="new")
        decision = leader.decide()
        assert [(place.kind, place.key) for place in decision.close] == [(PodGroup, "d/gang")]

    asyncio.run(run())


def test_the_room_was_taken_but_there_is_other_room() -> None:
    async def run() -> None:
        cluster = begun(bound_pods=1, room="0")
        cluster.store.create(node("n3", cpu="4"))
        leader = Leader(cluster, holder="new")
        await leader.settle(4)
        assert bound(cluster) == {"gang-x-0": "n1", "gang-x-1": "n3", "gang-x-2": "n3"}
        assert_gangs_whole(cluster)

    asyncio.run(run())


def test_what_cannot_be_completed_is_undone_after_a_grace() -> None:
    async def run() -> None:
        cluster = begun(bound_pods=1, room="0", at=1000.0)
        leader = Leader(cluster, EVICTS, holder="new")
        await leader.turn()
        assert bound(cluster) == {"gang-x-0": "n1"}
        cluster.advance(1000.0 + GRACE + 1)
        await leader.settle(4)
        assert bound(cluster) == {}
        assert_gangs_whole(cluster)
        evicted = [message for _, reason, message in leader.told if reason == "Evict"]
        assert evicted[0] == "1 pod evicted because its gang could not be completed: d/gang-x-0"

    asyncio.run(run())


def test_a_pod_made_anew_is_not_the_one_that_was_meant() -> None:
    async def run() -> None:
        cluster = begun(bound_pods=1)
        anew = cluster.store.get(Pod, "d/gang-x-2")
        cluster.store.delete(Pod, "d/gang-x-2")
        cluster.store.create(replace(anew, metadata=replace(anew.metadata, uid="other", resource_version="")))
        leader = Leader(cluster, holder="new")
        decision = leader.decide()
        first = decision.commits.commits[0]
        assert [bind.key for bind in first.binds] == ["d/gang-x-1"]

    asyncio.run(run())


def test_a_journal_survives_the_way_into_an_annotation_and_back() -> None:
    small = Journal(holder="me", at=1.0, pods={"p": Entry("n", "u", {"chips": "0"})})
    large = Journal(holder="me", at=1.0, pods={f"worker-{i}": Entry(f"node-{i % 99}", f"{i:08x}") for i in range(5000)})
    for journal in (small, large):
        assert decode(encode(journal)) == journal
    assert len(encode(large)) < 200 * 1024


def test_a_journal_that_is_too_large_is_refused_before_anything_is_bound() -> None:
    dice = random.Random(1)
    pods = {f"p{i}": Entry("n", "u", {"note": dice.randbytes(1000).hex()}) for i in range(400)}
    with pytest.raises(TooLarge, match="more than"):
        encode(Journal(holder="me", at=1.0, pods=pods))


def test_what_somebody_else_wrote_there_is_no_journal() -> None:
    assert decode("yes") is None and decode('{"pods": 3}') is None and decode("z:!!") is None
    group = pod_group("g", annotations={JOURNAL: "nonsense"})
    assert isinstance(group, PodGroup) and journal_of(group) is None
