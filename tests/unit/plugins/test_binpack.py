"""binpack, by its formula."""

from __future__ import annotations

from typing import Any

import pytest

from builders.filter_clusters import by_node, plugin, session, task
from builders.manifests import node, pod, state_of
from muster.engine.core.hooks import Batch
from muster.engine.core.state import State
from muster.plugins.binpack import Binpack


def score(world: State, **arguments: Any) -> dict[str, float]:
    packing = plugin(Binpack, **arguments)
    assert isinstance(packing, Binpack)
    session(world, packing)
    if packing.batch(task(world, "p")) == Batch.SKIP:
        return dict.fromkeys(world.nodes.names, 0.0)
    return by_node(world, packing.raw(task(world, "p"), world.nodes.everything()).tolist())


def test_the_fuller_node_is_better() -> None:
    world = state_of(
        node("a", cpu="4", memory=1000),
        node("b", cpu="4", memory=1000),
        pod("old", on="a", cpu="1"),
        pod("p", cpu="1", memory=500),
    )
    assert score(world) == {"a": 50.0, "b": 37.5}


def test_weights_of_resources_and_of_the_plugin() -> None:
    world = state_of(node("a", cpu="4", memory=1000), pod("p", cpu="1", memory=500))
    found = score(world, binpack__weight=5, binpack__cpu=1, binpack__memory=3)
    assert found == {"a": pytest.approx((0.25 + 1.5) / 4 * 500)}


def test_only_requested_resources_with_a_weight_count() -> None:
    gpus = {"nvidia.com/gpu": 4}
    world = state_of(
        node("a", cpu="4", memory=1000, resources=gpus),
        node("b", cpu="4", memory=1000),
        pod("p", requests={"cpu": "2", "nvidia.com/gpu": 1}),
    )
    assert score(world) == {"a": 50.0, "b": 50.0}
    weighed = score(
        world, binpack__resources="nvidia.com/gpu, example.com/foo", **{"binpack__resources__nvidia.com/gpu": 3}
    )
    # a node without the resource adds nothing, but its weight divides
    assert weighed == {"a": pytest.approx((0.5 + 0.75) / 4 * 100), "b": pytest.approx(0.5 / 4 * 100)}


def test_a_node_that_would_overflow_scores_0() -> None:
    world = state_of(
        node("a", cpu="4", memory=1000), pod("old", on="a", memory=900, cpu=None), pod("p", cpu="1", memory=200)
    )
    assert score(world) == {"a": 0.0}


def test_a_resource_of_weight_0_is_not_looked_at() -> None:
    world = state_of(
        node("a", cpu="4", memory=1000), pod("old", on="a", memory=900, cpu=None), pod("p", cpu="1", memory=200)
    )
    assert score(world, binpack__memory=0) == {"a": 25.0}


def test_a_negative_weight_of_a_resource_is_1() -> None:
    world = state_of(node("a", cpu="4", memory=1000), pod("p", cpu="1", memory=500))
    assert score(world, binpack__cpu=-3) == {"a": 37.5}


def test_weight_0_switches_it_off() -> None:
    world = state_of(node("a", cpu=4, memory="8Gi"), pod("p", cpu="1"))
    assert score(world, binpack__weight=0) == {"a": 0.0}
