"""Interrupted commits are finished on the intended nodes, left to the next cycles, or undone."""

from __future__ import annotations

import asyncio
import random

import pytest
from msgspec.structs import replace

from builders.manifests import node, queue, typed
from builders.scheduler_objects import EVICTS, bound, cluster_of, waiting
from builders.small_cluster import pod_group
from fakes.stepped_scheduler import Leader, assert_gangs_whole
from muster.cluster.embedded import EmbeddedCluster
from muster.model.core import Pod
from muster.model.scheduling import PodGroup
from muster.scheduler.journal import JOURNAL, RECOVERY_GRACE_S, Entry, Journal, TooLarge, decode, encode, journal_of


def begun(*, bound_pods: int, free: str = "8", at: float = 990.0) -> EmbeddedCluster:
    """A gang of three of which some were bound when the leader died; n2 has that much cpu by now."""
    names = [f"gang-x-{i}" for i in range(3)]
    entries = {name: Entry("n1" if i < 1 else "n2", f"uid-{name}"[:8]) for i, name in enumerate(names)}
    group = pod_group("gang", members=3, annotations={JOURNAL: encode(Journal(holder="dead", at=at, pods=entries))})
    pods = [waiting(name, "gang", entries[name].node if i < bound_pods else "") for i, name in enumerate(names)]
    return cluster_of(queue("default"), node("n1", cpu="1"), node("n2", cpu=free), group, *pods)


def test_the_remaining_pods_are_bound_to_the_intended_nodes() -> None:
    async def run() -> None:
        cluster = begun(bound_pods=1)
        leader = Leader(cluster, holder="new")
        await leader.settle(3)
        assert bound(cluster) == {"gang-x-0": "n1", "gang-x-1": "n2", "gang-x-2": "n2"}
        assert_gangs_whole(cluster)
        leader.assert_exact()

    asyncio.run(run())


def test_without_a_bound_pod_only_the_journal_is_removed() -> None:
    async def run() -> None:
        cluster = begun(bound_pods=0)
        leader = Leader(cluster, holder="new")
        decision = leader.decide()
        assert [(place.kind, place.key) for place in decision.finished_journals] == [(PodGroup, "d/gang")]

    asyncio.run(run())


def test_the_remaining_pods_get_other_nodes_if_the_intended_ones_are_full() -> None:
    async def run() -> None:
        cluster = begun(bound_pods=1, free="0")
        cluster.store.create(typed(node("n3", cpu="4")))
        leader = Leader(cluster, holder="new")
        await leader.settle(4)
        assert bound(cluster) == {"gang-x-0": "n1", "gang-x-1": "n3", "gang-x-2": "n3"}
        assert_gangs_whole(cluster)

    asyncio.run(run())


def test_a_gang_that_cannot_be_completed_is_undone_after_a_grace_period() -> None:
    async def run() -> None:
        cluster = begun(bound_pods=1, free="0", at=1000.0)
        leader = Leader(cluster, EVICTS, holder="new")
        await leader.turn()
        assert bound(cluster) == {"gang-x-0": "n1"}
        cluster.advance(1000.0 + RECOVERY_GRACE_S + 1)
        await leader.settle(4)
        assert bound(cluster) == {}
        assert_gangs_whole(cluster)
        evicted = [message for _, reason, message in leader.events if reason == "Evict"]
        assert evicted[0] == "1 pod evicted because its gang could not be completed: d/gang-x-0"

    asyncio.run(run())


def test_a_recreated_pod_is_not_the_pod_of_the_journal() -> None:
    async def run() -> None:
        cluster = begun(bound_pods=1)
        recreated = cluster.store.get(Pod, "d/gang-x-2")
        cluster.store.delete(Pod, "d/gang-x-2")
        cluster.store.create(replace(recreated, metadata=replace(recreated.metadata, uid="other", resource_version="")))
        leader = Leader(cluster, holder="new")
        decision = leader.decide()
        first = decision.commits.bindings[0]
        assert [binding.key for binding in first.bindings] == ["d/gang-x-1"]

    asyncio.run(run())


def test_a_journal_is_the_same_after_encoding_and_decoding() -> None:
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


def test_an_annotation_of_another_program_is_not_a_journal() -> None:
    assert decode("yes") is None and decode('{"pods": 3}') is None and decode("z:!!") is None
    group = pod_group("g", annotations={JOURNAL: "nonsense"})
    assert isinstance(group, PodGroup) and journal_of(group) is None
