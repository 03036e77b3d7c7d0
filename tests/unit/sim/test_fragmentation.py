"""The share of what is idle that no waiting pod can use."""

from __future__ import annotations

from builders.manifests import node, queue, state_of
from builders.small_cluster import member_pod, pod_group, task
from muster.sim.summary import fragmentation


def test_idle_gpus_scattered_below_the_waiting_size_are_all_fragments() -> None:
    state = state_of(
        *(node(f"n{i}", resources={"nvidia.com/gpu": "4"}) for i in range(3)),
        queue("default"),
        pod_group("run"),
        pod_group("big"),
        *(member_pod(f"r{i}", "run", on=f"n{i}", nvidia_com__gpu="2") for i in range(3)),
        member_pod("big-0", "big", nvidia_com__gpu="4"),
    )
    waiting = [task(state, "big-0").shape]
    figures = fragmentation(state.nodes.everything(), waiting)
    assert figures["nvidia.com/gpu"] == 1.0


def test_what_copies_of_a_shape_take_up_is_no_fragment() -> None:
    state = state_of(
        node("n0", cpu="10"),
        queue("default"),
        pod_group("p"),
        member_pod("p-0", "p", cpu="3"),
        member_pod("p-1", "p", cpu="3"),
    )
    shapes = [task(state, "p-0").shape, task(state, "p-1").shape]
    assert fragmentation(state.nodes.everything(), shapes) == {"cpu": 0.1}


def test_capacity_beside_a_missing_resource_is_a_fragment() -> None:
    state = state_of(
        node("n0", cpu="8", memory="1Gi"), queue("default"), pod_group("p"), member_pod("p-0", "p", memory="2Gi")
    )
    assert fragmentation(state.nodes.everything(), [task(state, "p-0").shape]) == {"cpu": 1.0, "memory": 1.0}


def test_resources_nobody_waits_for_have_no_figure() -> None:
    state = state_of(
        node("n0", resources={"nvidia.com/gpu": "8"}), queue("default"), pod_group("p"), member_pod("p-0", "p")
    )
    assert "nvidia.com/gpu" not in fragmentation(state.nodes.everything(), [task(state, "p-0").shape])
    assert fragmentation(state.nodes.everything(), []) == {}


def test_a_node_with_more_used_than_it_offers_counts_as_having_nothing_idle() -> None:
    state = state_of(
        node("n0", cpu="2"), node("n1", cpu="2"), queue("default"), pod_group("p"),
        member_pod("r", "p", on="n0", cpu="5"), member_pod("w", "p", cpu="1"),
    )  # fmt: skip
    assert fragmentation(state.nodes.everything(), [task(state, "w").shape]) == {"cpu": 0.0}
