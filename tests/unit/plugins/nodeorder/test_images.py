"""Image locality: kube-scheduler's numbers."""

from __future__ import annotations

from typing import Any

from builders.filter_clusters import by_node, task
from builders.manifests import node, pod, state_of, typed
from muster.plugins.nodeorder.preferences import ImageScores, full_name

MB = 1024 * 1024


def image(name: str, size: float) -> dict[str, Any]:
    return {"names": [f"registry/{name}:latest"], "sizeBytes": int(size * MB)}


def scores(images: dict[str, list[dict[str, Any]]], *wanted: str) -> dict[str, int]:
    containers = [{"name": name, "image": f"registry/{name}"} for name in wanted]
    world = state_of(*(node(name, images=held) for name, held in images.items()), pod("p", containers=containers))
    return by_node(world, ImageScores().of(task(world, "p").shape, world.nodes).tolist())


HELD = {
    "one": [image("40", 40), image("300", 300), image("2000", 2000)],
    "two": [image("250", 250), image("10", 10), image("4000", 4000)],
}


def test_the_larger_image_counts_more() -> None:
    assert scores(HELD, "40", "250") == {"one": 0, "two": 5}


def test_images_of_a_pod_add_up() -> None:
    assert scores(HELD, "40", "300") == {"one": 7, "two": 0}


def test_sizes_beyond_the_thresholds_are_0_and_100() -> None:
    assert scores(HELD, "10", "4000") == {"one": 0, "two": 100}


def test_an_image_that_is_on_more_nodes_counts_more() -> None:
    few = {"one": [image("a", 600)], "two": [], "three": []}
    many = {"one": [image("a", 600)], "two": [image("a", 600)], "three": []}
    assert scores(few, "a") == {"one": 18, "two": 0, "three": 0}
    assert scores(many, "a") == {"one": 38, "two": 38, "three": 0}


def test_a_node_that_pulls_an_image_changes_the_answers() -> None:
    world = state_of(node("one", images=[image("a", 600)]), node("two"), pod("p", container={"image": "registry/a"}))
    rule, shape = ImageScores(), task(world, "p").shape
    assert rule.of(shape, world.nodes).tolist() == [28, 0]
    world.upsert("Node", "two", typed(node("two", images=[image("a", 600)])))
    assert rule.of(shape, world.nodes).tolist() == [59, 59]


def test_a_name_without_a_tag_means_latest() -> None:
    assert full_name("app") == "app:latest"
    assert full_name("host:5000/app") == "host:5000/app:latest"
    assert full_name("host:5000/app:v1") == "host:5000/app:v1"
    assert full_name("app@sha256:abc") == "app@sha256:abc"
