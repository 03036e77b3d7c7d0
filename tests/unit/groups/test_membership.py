"""Which nodes a NodeGroup contains."""

from __future__ import annotations

from muster.groups.membership import EXCLUSIVE, Membership, contains, members, resolve
from muster.model.groups import NodeGroup, NodeGroupSpec
from muster.model.meta import ObjectMeta

NODES = {"a": {"zone": "x", "arch": "arm"}, "b": {"zone": "x"}, "c": {}}


def test_names_and_labels_are_united_and_each_node_counts_once() -> None:
    assert members(NodeGroupSpec(nodes=["c", "a"], match_labels={"zone": "x"}), NODES) == ["a", "b", "c"]


def test_all_labels_must_match() -> None:
    assert members(NodeGroupSpec(match_labels={"zone": "x", "arch": "arm"}), NODES) == ["a"]


def test_no_labels_select_no_node() -> None:
    assert members(NodeGroupSpec(), NODES) == []
    assert not contains(NodeGroupSpec(match_labels={}), "c", {})


def test_a_name_without_a_node_contains_nothing() -> None:
    assert members(NodeGroupSpec(nodes=["gone"]), NODES) == []


def test_a_spelling_means_the_exact_name_first_and_then_its_lower_case() -> None:
    assert resolve("beijing", {"beijing"}) == "beijing"
    assert resolve("Beijing", {"beijing"}) == "beijing"
    assert resolve("Beijing", {"Beijing", "beijing"}) == "Beijing"
    assert resolve("tianjin", {"beijing"}) is None


def aged(name: str, day: int) -> NodeGroup:
    meta = ObjectMeta(name=name, annotations={EXCLUSIVE: "true"}, creation_timestamp=f"2026-01-0{day}T00:00:00Z")
    return NodeGroup(metadata=meta, spec=NodeGroupSpec(nodes=["n"]))


def test_of_exclusive_groups_the_oldest_has_the_node_and_groups_that_share_keep_it() -> None:
    shared = NodeGroup(metadata=ObjectMeta(name="shared"), spec=NodeGroupSpec(nodes=["n"]))
    groups = {"a": aged("a", 3), "b": aged("b", 1), "c": aged("c", 2), "shared": shared}
    assert Membership(groups).of("n", {}) == ("b", "shared")
