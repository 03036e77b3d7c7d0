"""What objects are told: once, when it is new, and not too often."""

from __future__ import annotations

import asyncio

from hand_driven import Leader
from live_objects import bound, cluster_of, waiting
from muster.live.status import AGAIN, BELOW, GroupNote, PodNote
from muster.model.core import Pod
from muster.model.scheduling import PodGroup, Queue
from small_cluster import node, pod_group, queue


def test_a_pod_that_just_came_is_told_nothing_and_one_that_waits_is() -> None:
    async def run() -> None:
        cluster = cluster_of(queue("default"), node("n1", cpu="1"), waiting("big", cpu="4"))
        leader = Leader(cluster)
        first = leader.decide()
        assert not [n for n in first.notes if isinstance(n, PodNote)]
        cluster.advance(1001.5)
        second = leader.decide()
        told = [n for n in second.notes if isinstance(n, PodNote)]
        assert [n.key for n in told] == ["d/big"]
        assert told[0].condition.reason == "Unschedulable" and told[0].condition.status == "False"

    asyncio.run(run())


def test_new_words_for_the_same_pod_are_held_back() -> None:
    async def run() -> None:
        cluster = cluster_of(queue("default"), node("n1", cpu="1"), waiting("big", cpu="4"))
        leader = Leader(cluster)
        leader.decide()
        cluster.advance(1002.0)
        await leader.turn()
        before = cluster.store.get(Pod, "d/big").status.conditions
        cluster.store.create(node("n2", cpu="1"))
        leader.watch()
        await leader.turn()
        assert cluster.store.get(Pod, "d/big").status.conditions == before
        cluster.advance(1002.0 + AGAIN)
        leader.watch()
        await leader.turn()
        assert cluster.store.get(Pod, "d/big").status.conditions != before

    asyncio.run(run())


def test_groups_and_queues_say_what_they_hold() -> None:
    async def run() -> None:
        cluster = cluster_of(
            queue("default"), node("n1"), pod_group("g", members=2), *(waiting(f"g-x-{i}", "g") for i in range(2))
        )
        leader = Leader(cluster)
        await leader.settle(4)
        group = cluster.store.get(PodGroup, "d/g")
        assert group.status.phase == "Running" and group.status.running == 2
        assert [c.type for c in group.status.conditions if c.status == "True"] == ["Scheduled"]
        found = cluster.store.get(Queue, "default").status
        assert found.allocated == {"cpu": "2"} and found.running == 1 and found.state == "Open"

    asyncio.run(run())


def test_what_was_said_is_not_said_again() -> None:
    async def run() -> None:
        cluster = cluster_of(queue("default"), node("n1"), pod_group("g", members=2), waiting("g-x-0", "g"))
        leader = Leader(cluster)
        await leader.settle(4)
        calls = len(leader.calls.made)
        for _ in range(3):
            await leader.turn()
        assert len(leader.calls.made) == calls

    asyncio.run(run())


def test_a_running_gang_that_lost_pods_says_so_and_takes_it_back() -> None:
    async def run() -> None:
        cluster = cluster_of(
            queue("default"), node("n1", cpu="3"), pod_group("g", members=3),
            *(waiting(f"g-x-{i}", "g", "n1") for i in range(2)),
        )  # fmt: skip
        leader = Leader(cluster)
        decision = await leader.turn()
        notes = [n for n in decision.notes if isinstance(n, GroupNote)]
        assert any(c["type"] == BELOW and c["status"] == "True" for c in notes[0].status["conditions"])
        assert leader.metrics.figures.below_minimum == 1
        cluster.store.create(waiting("g-x-2", "g"))
        leader.watch()
        await leader.settle(4)
        assert len(bound(cluster)) == 3
        states = {c.type: c.status for c in cluster.store.get(PodGroup, "d/g").status.conditions}
        assert states[BELOW] == "False"

    asyncio.run(run())
