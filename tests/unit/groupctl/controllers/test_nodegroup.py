"""NodeGroupController: statuses that are true."""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from builders.node_groups import city_node, node_group, store_of
from muster.cluster.memory import MemoryStore, VirtualClock
from muster.groupctl.controllers.nodegroup import FINALIZER, NodeGroupController
from muster.groups.grouping import Grouping
from muster.model.core import Node
from muster.model.groups import NodeGroup, NodeGroupStatus
from muster.model.meta import Object
from muster.store import ApiError

T = TypeVar("T", bound=Object)


def status(store: MemoryStore, name: str) -> NodeGroupStatus:
    return store.get(NodeGroup, name).status


def test_a_group_says_which_nodes_it_contains_and_how_they_are() -> None:
    store = store_of(
        city_node("b", "x"),
        city_node("a", "x", ready=False),
        city_node("c"),
        node_group("g", "c", "gone", location="x"),
    )
    controller = NodeGroupController(store)
    assert controller.run()
    found = status(store, "g")
    assert found.contained_nodes == ["a", "b", "c"]
    assert (found.nodes, found.ready_nodes) == (3, 2)
    reported = {s.node_name: (s.ready_status, s.selection_status) for s in found.node_statuses}
    assert reported == {
        "a": ("NotReady", "Succeeded"),
        "b": ("Ready", "Succeeded"),
        "c": ("Ready", "Succeeded"),
        "gone": ("Unknown", "Failed"),
    }
    assert [(c.type, c.status, c.reason) for c in found.conditions] == [("Resolved", "False", "NodesMissing")]
    assert not controller.run()
    assert controller.next_time() is None


def test_every_group_that_contains_or_contained_a_node_is_reconciled() -> None:
    store = store_of(
        city_node("n", "x"),
        node_group("first", "n"),
        node_group("second", location="x"),
        node_group("third", location="y"),
    )
    controller = NodeGroupController(store)
    controller.run()
    assert status(store, "second").contained_nodes == ["n"]
    store.patch(type(city_node("n")), "n", {"metadata": {"labels": {"location": "y"}}})
    controller.run()
    held = {name: status(store, name).contained_nodes for name in ("first", "second", "third")}
    assert held == {"first": ["n"], "second": [], "third": ["n"]}
    store.delete(type(city_node("n")), "n")
    controller.run()
    assert status(store, "first").contained_nodes == status(store, "third").contained_nodes == []


def test_a_group_with_neither_names_nor_labels_is_empty() -> None:
    store = store_of(city_node("n", "x"), node_group("g"))
    NodeGroupController(store).run()
    assert status(store, "g").contained_nodes == []
    assert status(store, "g").conditions[0].reason == "Empty"


def test_nothing_is_written_while_nothing_changes() -> None:
    store = store_of(city_node("n", "x"), node_group("g", location="x"))
    controller = NodeGroupController(store)
    controller.run()
    version = store.version
    store.patch(type(city_node("n")), "n", {"metadata": {"annotations": {"heartbeat": "1"}}})
    assert not controller.run()
    assert store.version == version + 1


def labels(store: MemoryStore, name: str) -> list[str]:
    prefix = "nodegroup.groupmanagement.kubeedge.io/"
    found = store.get(Node, name).metadata.labels
    return sorted(label.removeprefix(prefix) for label in found if label.startswith(prefix))


def rest(controller: NodeGroupController) -> None:
    while controller.run():
        pass


def test_nodes_carry_the_names_of_their_groups_and_of_no_others() -> None:
    store = store_of(
        city_node("a", "x"),
        city_node("b"),
        node_group("g", "b", location="x"),
        node_group("h", "a"),
        node_group("l" * 64, "a"),
    )
    controller = NodeGroupController(store, labels=True)
    rest(controller)
    assert (labels(store, "a"), labels(store, "b")) == (["g", "h"], ["g"])
    store.patch(Node, "a", {"metadata": {"labels": {"location": "y"}}})
    rest(controller)
    assert labels(store, "a") == ["h"]
    store.patch(Node, "b", {"metadata": {"labels": {"nodegroup.groupmanagement.kubeedge.io/gone": ""}}})
    rest(controller)
    assert labels(store, "b") == ["g"]


def test_a_node_has_no_label_before_the_group_has_its_finalizer() -> None:
    store = store_of(city_node("a", "x"), node_group("g", location="x"))
    controller = NodeGroupController(store, labels=True)
    assert controller.run()
    assert (labels(store, "a"), store.get(NodeGroup, "g").metadata.finalizers) == ([], [FINALIZER])
    assert controller.run()
    assert len(labels(store, "a")) == 1


def test_a_group_that_goes_leaves_no_label_and_then_no_finalizer() -> None:
    store = store_of(city_node("a"), node_group("g", "a"))
    controller = NodeGroupController(store, labels=True)
    rest(controller)
    known = store.get(NodeGroup, "g")
    assert known.metadata.finalizers == [FINALIZER]
    store.write(replace(known, metadata=replace(known.metadata, deletion_timestamp="2026-01-01T00:00:00Z")))
    rest(controller)
    assert labels(store, "a") == []
    assert store.get(NodeGroup, "g").metadata.finalizers == []
    assert controller.next_time() is None


def test_one_group_that_cannot_be_written_keeps_no_other_from_its_status() -> None:
    class Refusing(MemoryStore):
        def update_status(self, obj: T) -> T:
            if obj.metadata.name == "bad":
                raise ApiError("", "forbidden")
            return super().update_status(obj)

    message: list[str] = []
    store = Refusing(VirtualClock(1000.0), [city_node("n"), node_group("bad", "n"), node_group("good", "n")])
    controller = NodeGroupController(store, report=message.append)
    controller.run()
    assert status(store, "good").contained_nodes == ["n"]
    assert message == ["NodeGroup bad: forbidden"] and controller.next_time() == 1000.1


def test_where_groups_are_exclusive_the_oldest_has_the_node_and_the_others_report_it() -> None:
    old, new = node_group("b-old", location="x"), node_group("a-new", "n", location="x")
    for one, day in ((old, 1), (new, 2)):
        one.metadata.creation_timestamp = f"2026-01-0{day}T00:00:00Z"
    store = store_of(city_node("n", "x"), old, new, node_group("apart", location="y"))
    controller = NodeGroupController(store, labels=True, exclusive=True)
    rest(controller)
    assert labels(store, "n") == ["b-old"]
    assert status(store, "b-old").contained_nodes == ["n"] and status(store, "a-new").contained_nodes == []
    (reported,) = status(store, "a-new").node_statuses
    assert (reported.selection_status, reported.selection_status_reason) == ("Failed", "already belongs to b-old")
    assert status(store, "a-new").conditions[0].reason == "NodesTaken"
    assert Grouping(store.of(Node), store.of(NodeGroup), {}).groups_by_node == {"n": ("b-old",)}
    store.delete(NodeGroup, "b-old")
    rest(controller)
    assert labels(store, "n") == ["a-new"] and status(store, "a-new").contained_nodes == ["n"]
    shared = NodeGroupController(store, exclusive=False)
    rest(shared)
    assert store.get(NodeGroup, "a-new").metadata.annotations == {}


def test_where_labels_are_not_wanted_any_more_they_go_and_so_does_the_finalizer() -> None:
    store = store_of(city_node("a"), node_group("g", "a"))
    rest(NodeGroupController(store, labels=True))
    rest(NodeGroupController(store))
    assert labels(store, "a") == ["g"]
    rest(NodeGroupController(store, labels=False))
    assert labels(store, "a") == [] and store.get(NodeGroup, "g").metadata.finalizers == []
    assert status(store, "g").contained_nodes == ["a"]
