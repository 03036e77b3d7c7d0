"""The census of pods: what counts as equal, and what it has read after changes."""

from __future__ import annotations

from typing import Any

from builders.manifests import node, pod, state_of, typed
from muster.engine.core.pod_census import EqualPods
from muster.engine.core.state import State

WEB = {"app": "web"}
SPREAD = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]


def owned(name: str) -> dict[str, Any]:
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": True}
    return {"ownerReferences": [reference]}


def count(state: State) -> list[tuple[int, dict[str, int]]]:
    """The number of equal pods and their nodes by name, the most first."""
    found = [(equal.count, _by_name(state, equal)) for equal in state.census.update(state)]
    return sorted(found, key=lambda entry: (-entry[0], sorted(entry[1])))


def _by_name(state: State, equal: EqualPods) -> dict[str, int]:
    return {state.nodes.names[at]: number for at, number in equal.count_by_node.items()}


def put(state: State, manifest: dict[str, Any]) -> None:
    state.upsert("Pod", f"default/{manifest['metadata']['name']}", typed(manifest))


def test_pods_of_equal_labels_are_counted_together_by_node() -> None:
    state = state_of(
        node("a"), node("b"),
        pod("one", on="a", labels=WEB), pod("two", on="a", labels=WEB, cpu=2), pod("three", on="b", labels=WEB),
    )  # fmt: skip
    assert count(state) == [(3, {"a": 2, "b": 1})]


def test_pods_that_a_rule_can_tell_apart_are_counted_apart() -> None:
    state = state_of(
        node("a"),
        pod("plain", on="a", labels=WEB),
        pod("labelled", on="a", labels={"app": "db"}),
        pod("elsewhere", on="a", labels=WEB, namespace="other"),
        pod("terminating", on="a", labels=WEB, meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        pod("with-rules", on="a", labels=WEB, topologySpreadConstraints=SPREAD),
        pod("pending", labels=WEB),
    )
    assert count(state) == [(1, {})] + [(1, {"a": 1})] * 5


def test_the_controller_tells_only_pods_without_a_node_apart() -> None:
    pending = (pod("p1", labels=WEB, meta=owned("x")), pod("p2", labels=WEB, meta=owned("y")))
    assert count(state_of(*pending)) == [(1, {}), (1, {})]
    running = (pod("r1", on="a", labels=WEB, meta=owned("x")), pod("r2", on="a", labels=WEB, meta=owned("y")))
    assert count(state_of(node("a"), *running)) == [(2, {"a": 2})]


def test_finished_pods_are_on_no_node() -> None:
    state = state_of(node("a"), pod("done", on="a", labels=WEB, phase="Succeeded"), pod("runs", on="a", labels=WEB))
    assert count(state) == [(2, {"a": 1})]


def test_pods_that_come_move_and_go_are_followed() -> None:
    state = state_of(node("a"), node("b"), pod("one", on="a", labels=WEB))
    assert count(state) == [(1, {"a": 1})]
    put(state, pod("two", on="b", labels=WEB))
    assert count(state) == [(2, {"a": 1, "b": 1})]
    put(state, pod("one", on="b", labels=WEB))
    assert count(state) == [(2, {"b": 2})]
    put(state, pod("one", on="b", labels={"app": "db"}))
    assert count(state) == [(1, {"b": 1}), (1, {"b": 1})]
    state.remove("Pod", "default/two")
    assert count(state) == [(1, {"b": 1})]
    state.remove("Pod", "default/one")
    assert count(state) == []


def test_only_pods_that_changed_are_read_again() -> None:
    state = state_of(node("a"), pod("one", on="a", labels=WEB), pod("two", on="a", labels={"app": "db"}))
    first = {equal.example.key: equal for equal in state.census.update(state)}
    put(state, pod("two", on="a", labels={"app": "other"}))
    second = {equal.example.key: equal for equal in state.census.update(state)}
    assert second["default/one"] is first["default/one"]
    assert second["default/two"] is not first["default/two"]


def test_after_nodes_came_the_counts_have_their_new_positions() -> None:
    state = state_of(node("b"), pod("one", on="b", labels=WEB))
    assert count(state) == [(1, {"b": 1})]
    state.upsert("Node", "a", typed(node("a")))
    state.refresh()
    assert state.nodes.names[0] == "a"
    assert count(state) == [(1, {"b": 1})]
