"""NodeGroupController: statuses that are true."""

from __future__ import annotations

from muster.cluster.memory import MemoryStore
from muster.controllers.nodegroup import NodeGroupController
from muster.model.groups import NodeGroup, NodeGroupStatus
from node_groups import group, node, store_of


def status(store: MemoryStore, name: str) -> NodeGroupStatus:
    return store.get(NodeGroup, name).status


def test_a_group_says_which_nodes_it_contains_and_how_they_are() -> None:
    store = store_of(node("b", "x"), node("a", "x", ready=False), node("c"), group("g", "c", "gone", location="x"))
    controller = NodeGroupController(store)
    assert controller.run()
    found = status(store, "g")
    assert found.contained_nodes == ["a", "b", "c"]
    assert (found.nodes, found.ready_nodes) == (3, 2)
    told = {s.node_name: (s.ready_status, s.selection_status) for s in found.node_statuses}
    assert told == {
        "a": ("NotReady", "Succeeded"),
        "b": ("Ready", "Succeeded"),
        "c": ("Ready", "Succeeded"),
        "gone": ("Unknown", "Failed"),
    }
    assert [(c.type, c.status, c.reason) for c in found.conditions] == [("Resolved", "False", "NodesMissing")]
    assert not controller.run()
    assert controller.next_time() is None


def test_every_group_that_holds_or_held_a_node_hears_of_it() -> None:
    store = store_of(node("n", "x"), group("first", "n"), group("second", location="x"), group("third", location="y"))
    controller = NodeGroupController(store)
    controller.run()
    assert status(store, "second").contained_nodes == ["n"]
    store.patch(type(node("n")), "n", {"metadata": {"labels": {"location": "y"}}})
    controller.run()
    held = {name: status(store, name).contained_nodes for name in ("first", "second", "third")}
    assert held == {"first": ["n"], "second": [], "third": ["n"]}
    store.delete(type(node("n")), "n")
    controller.run()
    assert status(store, "first").contained_nodes == status(store, "third").contained_nodes == []


def test_a_group_with_neither_names_nor_labels_is_empty() -> None:
    store = store_of(node("n", "x"), group("g"))
    NodeGroupController(store).run()
    assert status(store, "g").contained_nodes == []
    assert status(store, "g").conditions[0].reason == "Empty"


def test_nothing_is_written_while_nothing_changes() -> None:
    store = store_of(node("n", "x"), group("g", location="x"))
    controller = NodeGroupController(store)
    controller.run()
    version = store.version
    store.patch(type(node("n")), "n", {"metadata": {"annotations": {"heartbeat": "1"}}})
    assert not controller.run()
    assert store.version == version + 1
