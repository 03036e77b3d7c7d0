"""Node selectors and node affinity, over all nodes at once."""

from __future__ import annotations

from typing import Any

import pytest

from builders.filter_clusters import by_node, task
from builders.manifests import node, pod, state_of, typed
from muster.engine.core.state import State
from muster.engine.pod_rules.node_selectors import Preferred, Required

NODES = (
    node("a", labels={"disk": "ssd", "cores": "8", "zone": "east"}),
    node("b", labels={"disk": "hdd", "cores": "16", "zone": "east"}),
    node("c", labels={"cores": "many"}),
)


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def preferred(*terms: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    given = [{"weight": weight, "preference": term} for weight, term in terms]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": given}}


def labels(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def names(operator: str, *values: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(values)}]}


def accepted(**spec: Any) -> str:
    world = state_of(*NODES, pod("p", **spec))
    answer = by_node(world, Required().of(task(world, "p").shape, world.nodes))
    return "".join(name for name, yes in answer.items() if yes)


@pytest.mark.parametrize(
    ("term", "nodes"),
    [
        (labels("disk", "In", "ssd", "nvme"), "a"),
        (labels("disk", "NotIn", "ssd"), "bc"),
        (labels("disk", "Exists"), "ab"),
        (labels("disk", "DoesNotExist"), "c"),
        (labels("cores", "Gt", "8"), "b"),
        (labels("cores", "Lt", "16"), "a"),
        (labels("cores", "Gt", "few"), ""),
        (labels("rack", "In", "r1"), ""),
        (names("In", "c", "elsewhere"), "c"),
        (names("NotIn", "c"), "ab"),
        ({}, ""),
    ],
)
def test_a_required_term_selects(term: dict[str, Any], nodes: str) -> None:
    assert accepted(affinity=required(term)) == nodes


def test_expressions_of_a_term_must_all_hold_and_one_term_is_enough() -> None:
    both = {**labels("zone", "In", "east"), **names("NotIn", "a")}
    assert accepted(affinity=required(both)) == "b"
    assert accepted(affinity=required(both, labels("disk", "DoesNotExist"))) == "bc"


def test_a_node_selector_must_hold_besides() -> None:
    assert accepted(nodeSelector={"zone": "east"}) == "ab"
    assert accepted(nodeSelector={"zone": "east"}, affinity=required(labels("disk", "In", "hdd"))) == "b"


def test_required_without_terms_selects_nothing() -> None:
    assert accepted(affinity=required()) == ""


def test_a_term_that_cannot_be_evaluated_selects_nothing_and_the_others_count() -> None:
    broken = labels("disk", "Near", "ssd")
    assert accepted(affinity=required(broken)) == ""
    assert accepted(affinity=required(broken, labels("disk", "In", "hdd"))) == "b"


def test_weights_of_preferred_terms_add_up_and_empty_terms_count_nothing() -> None:
    terms = preferred((2, labels("zone", "In", "east")), (5, labels("disk", "In", "ssd")), (50, {}))
    world = state_of(*NODES, pod("p", affinity=terms))
    assert by_node(world, Preferred().of(task(world, "p").shape, world.nodes)) == {"a": 7, "b": 2, "c": 0}


def test_answers_follow_a_changed_label() -> None:
    world = state_of(*NODES, pod("p", nodeSelector={"disk": "ssd"}))
    rule = Required()
    assert chosen(world, rule) == ["a"]
    world.upsert("Node", "c", typed(node("c", labels={"disk": "ssd"})))
    assert chosen(world, rule) == ["a", "c"]


def chosen(world: State, rule: Required) -> list[str]:
    answer = rule.of(task(world, "p").shape, world.nodes)
    return [name for name, yes in zip(world.nodes.names, answer, strict=True) if yes]
