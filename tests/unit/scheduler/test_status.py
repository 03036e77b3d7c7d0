"""What objects are told: once, when it is new, and not too often."""

from __future__ import annotations

import asyncio

from builders.scheduler_objects import bound, cluster_of, waiting
from builders.small_cluster import node, pod_group, queue
from fakes.stepped_scheduler import Leader
from muster.model.core import Pod
from muster.model.scheduling import PodGroup, Queue
from muster.scheduler.status import AGAIN, BELOW, FIRST, PACE, GroupStatusPatch, PodStatusPatch, QueueStatusPatch


def test_a_pod_that_just_came_is_told_nothing_and_one_that_waits_is() -> None:
    async def run() -> None:
        cluster = cluster_of(queue("default"), node("n1", cpu="1"), waiting("big", cpu="4"))
        leader = Leader(cluster)
        first = leader.decide()
        assert not [n for n in first.notes if isinstance(n, PodStatusPatch)]
        cluster.advance(1000.0 + FIRST + 0.5)
        second = leader.decide()
        told = [n for n in second.notes if isinstance(n, PodStatusPatch)]
        assert [n.key for n in told] == ["d/big"]
        assert told[0].condition.reason == "Unschedulable" and told[0].condition.status == "False"

    asyncio.run(run())


def test_new_words_for_the_same_pod_are_held_back() -> None:
    async def run() -> None:
        cluster = cluster_of(queue("default"), node("n1", cpu="1"), waiting("big", cpu="4"))
        leader = Leader(cluster)
        leader.decide()
        cluster.advance(1000.0 + FIRST)
        await leader.turn()
        before = cluster.store.get(Pod, "d/big").status.conditions
        cluster.store.create(node("n2", cpu="1"))
        leader.watch()
        await leader.turn()
        assert cluster.store.get(Pod, "d/big").status.conditions == before
        cluster.advance(1000.0 + FIRST + 2 * AGAIN)
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
        await leader.settle(12)
        group = cluster.store.get(PodGroup, "d/g")
        assert group.status.phase == "Running" and group.status.running == 2
        assert [c.type for c in group.status.conditions if c.status == "True"] == ["Scheduled"]
        found = cluster.store.get(Queue, "default").status
        assert found.allocated == {"cpu": "2"} and found.running == 1 and found.state == "Open"

    asyncio.run(run())


def test_counts_are_told_now_and_then_and_a_phase_at_once() -> None:
    async def run() -> None:
        pods = [waiting(f"g-x-{i}", "g", "n1") for i in range(2)]
        cluster = cluster_of(queue("default"), node("n1", cpu="4"), pod_group("g", members=2), *pods)
        leader = Leader(cluster)
        told = [n.status for n in (await leader.turn()).notes if isinstance(n, GroupStatusPatch)]
        assert [(s["phase"], s["running"]) for s in told] == [("Running", 2)]
        cluster.store.create(waiting("g-x-4", "g", "n1"))
        leader.watch()
        held = leader.decide()
        assert not [n for n in held.notes if isinstance(n, GroupStatusPatch | QueueStatusPatch)]
        assert held.due is not None and held.due <= cluster.clock.now() + PACE
        cluster.advance(cluster.clock.now() + PACE)
        told = [n.status for n in leader.decide().notes if isinstance(n, GroupStatusPatch)]
        assert [s["running"] for s in told] == [3]
        for name in ("g-x-1", "g-x-4"):
            cluster.store.delete(Pod, f"d/{name}")
        leader.watch()
        told = [n.status for n in leader.decide().notes if isinstance(n, GroupStatusPatch)]
        assert [c["type"] for c in told[0]["conditions"] if c["status"] == "True"] == ["Scheduled", BELOW]

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
        notes = [n for n in decision.notes if isinstance(n, GroupStatusPatch)]
        assert any(c["type"] == BELOW and c["status"] == "True" for c in notes[0].status["conditions"])
        assert leader.metrics.statistics.below_minimum == 1
        cluster.store.create(waiting("g-x-2", "g"))
        leader.watch()
        await leader.settle(4)
        assert len(bound(cluster)) == 3
        states = {c.type: c.status for c in cluster.store.get(PodGroup, "d/g").status.conditions}
        assert states[BELOW] == "False"

    asyncio.run(run())
