"""A node whose kubelet turned a pod away is left alone by such pods for a while."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from builders.manifests import node, queue
from builders.scheduler_objects import bound, cluster_of, waiting
from fakes.stepped_scheduler import Leader
from muster.model.core import Pod
from muster.scheduler.configuration import read_config
from muster.scheduler.kubelet_rejections import BACKOFF_FIRST_S, rejected


def rejected_pod(name: str, on: str, reason: str = "OutOfcpu") -> Pod:
    pod = waiting(name, on=on)
    return replace(pod, status=replace(pod.status, phase="Failed", reason=reason))


def test_only_failed_admission_is_a_rejection() -> None:
    assert rejected(rejected_pod("a", "n1")) and rejected(rejected_pod("a", "n1", "UnexpectedAdmissionError"))
    assert not rejected(rejected_pod("a", "n1", "Evicted")) and not rejected(waiting("a", on="n1"))


def test_pods_of_the_same_shape_get_other_nodes_until_the_backoff_ends() -> None:
    async def run() -> None:
        cluster = cluster_of(queue("default"), node("n1"), waiting("x", on="n1"))
        leader = Leader(cluster)
        cluster.store.write(replace(rejected_pod("x", "n1"), metadata=cluster.store.get(Pod, "d/x").metadata))
        cluster.store.create(waiting("same"))
        cluster.store.create(waiting("other", cpu="2"))
        leader.watch()
        await leader.turn()
        assert "same" not in bound(cluster) and bound(cluster)["other"] == "n1"
        assert leader.metrics.registry.get_sample_value(
            "muster_kubelet_rejections_total", {"reason": "OutOfcpu"}
        ) == 1  # fmt: skip
        cluster.advance(1000.0 + BACKOFF_FIRST_S + 1)
        leader.watch()
        await leader.turn()
        assert bound(cluster)["same"] == "n1"

    asyncio.run(run())


def test_a_term_knows_nothing_of_the_rejections_of_the_terms_before_it() -> None:
    """The number of a shape means another one to another term's cache."""

    async def run() -> None:
        loaded = read_config(None)  # as long as the process lives
        cluster = cluster_of(queue("default"), node("n1"), waiting("x", on="n1"))
        first = Leader(cluster, loaded=loaded)
        cluster.store.write(replace(rejected_pod("x", "n1"), metadata=cluster.store.get(Pod, "d/x").metadata))
        first.watch()
        await first.turn()
        cluster.store.delete(Pod, "d/x")
        cluster.store.create(waiting("unrelated", cpu="2"))
        second = Leader(cluster, loaded=loaded)
        await second.turn()
        assert bound(cluster) == {"unrelated": "n1"}

    asyncio.run(run())


def test_a_term_leaves_the_configuration_as_it_was() -> None:
    """Otherwise each term would add its timing and its rejections to the next term's scheduler."""

    async def run() -> None:
        loaded = read_config(None)
        cluster = cluster_of(queue("default"), node("n1"), waiting("a"))
        for _ in range(3):
            await Leader(cluster, loaded=loaded).turn()
        assert loaded == read_config(None)

    asyncio.run(run())
