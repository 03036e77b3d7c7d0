"""Status patches are sent once, when something is new, and not too often."""

from __future__ import annotations

import asyncio

from builders.manifests import node, queue, typed
from builders.scheduler_objects import bound, cluster_of, waiting
from builders.small_cluster import pod_group
from fakes.stepped_scheduler import Leader
from muster.model.core import Pod
from muster.model.scheduling import PodGroup, Queue
from muster.scheduler.status import (
    BELOW_MIN_MEMBER,
    COUNT_INTERVAL_S,
    FIRST_MESSAGE_DELAY_S,
    MESSAGE_INTERVAL_S,
    GroupStatusPatch,
    PodStatusPatch,
    QueueStatusPatch,
)


def test_a_new_pod_gets_no_condition_and_a_pending_one_does() -> None:
    async def run() -> None:
        cluster = cluster_of(queue("default"), node("n1", cpu="1"), waiting("big", cpu="4"))
        leader = Leader(cluster)
        first = leader.decide()
        assert not [n for n in first.status_patches if isinstance(n, PodStatusPatch)]
        cluster.advance(1000.0 + FIRST_MESSAGE_DELAY_S + 0.5)
        second = leader.decide()
        patches = [n for n in second.status_patches if isinstance(n, PodStatusPatch)]
        assert [n.key for n in patches] == ["d/big"]
        assert patches[0].condition.reason == "Unschedulable" and patches[0].condition.status == "False"

    asyncio.run(run())


def test_a_new_message_for_the_same_pod_is_delayed() -> None:
    async def run() -> None:
        cluster = cluster_of(queue("default"), node("n1", cpu="1"), waiting("big", cpu="4"))
        leader = Leader(cluster)
        leader.decide()
        cluster.advance(1000.0 + FIRST_MESSAGE_DELAY_S)
        await leader.turn()
        before = cluster.store.get(Pod, "d/big").status.conditions
        cluster.store.create(typed(node("n2", cpu="1")))
        leader.watch()
        await leader.turn()
        assert cluster.store.get(Pod, "d/big").status.conditions == before
        cluster.advance(1000.0 + FIRST_MESSAGE_DELAY_S + 2 * MESSAGE_INTERVAL_S)
        leader.watch()
        await leader.turn()
        assert cluster.store.get(Pod, "d/big").status.conditions != before

    asyncio.run(run())


def test_statuses_of_groups_and_queues_have_their_counts_and_usage() -> None:
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


def test_counts_are_written_at_intervals_and_a_phase_at_once() -> None:
    async def run() -> None:
        pods = [waiting(f"g-x-{i}", "g", "n1") for i in range(2)]
        cluster = cluster_of(queue("default"), node("n1", cpu="4"), pod_group("g", members=2), *pods)
        leader = Leader(cluster)
        patches = [n.status for n in (await leader.turn()).status_patches if isinstance(n, GroupStatusPatch)]
        assert [(s["phase"], s["running"]) for s in patches] == [("Running", 2)]
        cluster.store.create(waiting("g-x-4", "g", "n1"))
        leader.watch()
        delayed = leader.decide()
        assert not [n for n in delayed.status_patches if isinstance(n, GroupStatusPatch | QueueStatusPatch)]
        assert delayed.due is not None and delayed.due <= cluster.clock.now() + COUNT_INTERVAL_S
        cluster.advance(cluster.clock.now() + COUNT_INTERVAL_S)
        patches = [n.status for n in leader.decide().status_patches if isinstance(n, GroupStatusPatch)]
        assert [s["running"] for s in patches] == [3]
        for name in ("g-x-1", "g-x-4"):
            cluster.store.delete(Pod, f"d/{name}")
        leader.watch()
        patches = [n.status for n in leader.decide().status_patches if isinstance(n, GroupStatusPatch)]
        assert [c["type"] for c in patches[0]["conditions"] if c["status"] == "True"] == ["Scheduled", BELOW_MIN_MEMBER]

    asyncio.run(run())


def test_a_group_gets_no_condition_while_its_pods_are_created_and_one_patch_when_it_is_bound() -> None:
    async def run() -> None:
        cluster = cluster_of(queue("default"), node("n1"), pod_group("g", members=2), waiting("g-x-0", "g"))
        leader = Leader(cluster)
        await leader.turn()  # it is admitted
        leader.watch()
        decision = await leader.turn()
        assert not [n for n in decision.status_patches if isinstance(n, GroupStatusPatch)]
        assert decision.due is not None and decision.due <= cluster.clock.now() + FIRST_MESSAGE_DELAY_S
        cluster.store.create(waiting("g-x-1", "g"))
        leader.watch()
        made: list[GroupStatusPatch] = []
        for _ in range(3):
            made += [n for n in (await leader.turn()).status_patches if isinstance(n, GroupStatusPatch)]
            leader.watch()
        assert [(n.status.get("phase"), [c["type"] for c in n.status["conditions"]]) for n in made] == [
            ("Running", ["Scheduled"])
        ]

    asyncio.run(run())


def test_a_group_that_stays_unschedulable_gets_the_condition_and_its_event() -> None:
    async def run() -> None:
        cluster = cluster_of(queue("default"), node("n1"), pod_group("g", members=2), waiting("g-x-0", "g"))
        leader = Leader(cluster)
        await leader.settle(int(FIRST_MESSAGE_DELAY_S) + 2)
        group = cluster.store.get(PodGroup, "d/g")
        assert [(c.type, c.status) for c in group.status.conditions] == [("Unschedulable", "True")]
        assert [reason for name, reason, _ in leader.events if name == "g"] == ["Unschedulable"]

    asyncio.run(run())


def test_an_unchanged_status_is_not_written_again() -> None:
    async def run() -> None:
        cluster = cluster_of(queue("default"), node("n1"), pod_group("g", members=2), waiting("g-x-0", "g"))
        leader = Leader(cluster)
        await leader.settle(4)
        calls = len(leader.calls.made)
        for _ in range(3):
            await leader.turn()
        assert len(leader.calls.made) == calls

    asyncio.run(run())


def test_a_running_gang_below_its_minimum_has_a_condition_until_it_is_complete() -> None:
    async def run() -> None:
        cluster = cluster_of(
            queue("default"), node("n1", cpu="3"), pod_group("g", members=3),
            *(waiting(f"g-x-{i}", "g", "n1") for i in range(2)),
        )  # fmt: skip
        leader = Leader(cluster)
        decision = await leader.turn()
        patches = [n for n in decision.status_patches if isinstance(n, GroupStatusPatch)]
        assert any(c["type"] == BELOW_MIN_MEMBER and c["status"] == "True" for c in patches[0].status["conditions"])
        assert leader.metrics.statistics.below_minimum == 1
        cluster.store.create(waiting("g-x-2", "g"))
        leader.watch()
        await leader.settle(4)
        assert len(bound(cluster)) == 3
        states = {c.type: c.status for c in cluster.store.get(PodGroup, "d/g").status.conditions}
        assert states[BELOW_MIN_MEMBER] == "False"

    asyncio.run(run())
