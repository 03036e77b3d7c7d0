"""Findings of nodegroup: queues that do not match their node groups, for validate and the running scheduler."""

from __future__ import annotations

from typing import Any

from builders.manifests import Manifest, node, queue, state_of
from builders.small_cluster import affinity_queue, grouped_node, node_group, option, pod_group, session_of
from muster.model.finding import Finding
from muster.model.meta import Object
from muster.plugins.nodegroup import NodeGroup

NODES = [grouped_node("n1", "gpu-east"), grouped_node("n2", "gpu-west")]


def examined(
    *objects: Object | Manifest, arguments: dict[str, Any] | None = None, others: list[Any] | None = None
) -> list[Finding]:
    session = session_of(state_of(*NODES, *objects), option("nodegroup", arguments), *(others or []))
    return NodeGroup.examine(session)


def only(*objects: Object | Manifest, **how: Any) -> Finding:
    (finding,) = examined(*objects, **how)
    return finding


def test_a_capability_beyond_the_groups_is_reported_with_both_numbers() -> None:
    found = only(affinity_queue("nlp", required=["gpu-east"], capability={"memory": "1024Gi", "cpu": "8"}))
    assert (found.code, found.object) == ("nodegroup-capability", "Queue nlp")
    assert "capability of memory is 1Ti, but the nodes it may use (node group gpu-east) hold 16Gi" in found.message


def test_guarantee_and_deserved_are_compared_with_the_groups_too() -> None:
    found = examined(
        affinity_queue(
            "nlp", required=["gpu-east"], guarantee={"resource": {"cpu": "9"}}, deserved={"nvidia.com/gpu": "1"}
        )
    )
    assert [f.code for f in found] == ["nodegroup-guarantee", "nodegroup-deserved"]


def test_a_queue_without_a_rule_is_not_limited() -> None:
    assert examined(queue("nlp", capability={"cpu": "1000"})) == []


def test_a_group_on_no_node_is_named_with_the_nearest_name() -> None:
    found = only(affinity_queue("nlp", required=["gpu-east", "gpu-wset"]))
    assert (found.code, found.fix) == ("nodegroup-unknown", "did you mean gpu-west?")
    assert "gpu-wset" in found.message


def test_a_queue_that_matches_no_node_is_reported() -> None:
    assert [f.code for f in examined(affinity_queue("nlp", required=["far"]))] == [
        "nodegroup-unknown",
        "nodegroup-no-node",
    ]
    found = only(queue("nlp"), arguments={"strict": True})
    assert found.code == "nodegroup-no-node"
    assert "names no node group" in found.message


def test_queues_that_only_hold_queues_are_not_missed() -> None:
    found = only(queue("root"), queue("dept", parent="root"), queue("nlp", parent="dept"), arguments={"strict": True})
    assert found.object == "Queue nlp"


def test_an_inherited_rule_is_reported_once_at_its_own_queue() -> None:
    session = session_of(
        state_of(*NODES, affinity_queue("dept", required=["gpu-east", "far"]), queue("team", parent="dept")),
        option("nodegroup", enableHierarchy=True),
    )
    assert [f.object for f in NodeGroup.examine(session)] == ["Queue dept"]


def test_an_empty_object_and_a_capital_letter_are_reported() -> None:
    assert only(node_group("edge"), affinity_queue("q", preferred=["edge"])).code == "nodegroup-empty"
    found = only(node_group("beijing", nodes=["n1"]), affinity_queue("q", required=["Beijing"]))
    assert (found.code, found.fix) == ("nodegroup-case", "write beijing")


def test_a_limit_on_an_unknown_group_is_reported() -> None:
    notes = {"volcano.sh/nodegroup-resource-limits": '{"gpu-eas": {"cpu": 1}}'}
    assert only(queue("q", annotations=notes)).fix == "did you mean gpu-east?"


def test_a_weight_for_a_group_that_is_not_preferred_is_reported() -> None:
    notes = {"muster.io/nodegroup-preferred-weights": '{"gpu-west": 3}'}
    assert only(affinity_queue("q", preferred=["gpu-east"], annotations=notes)).code == "nodegroup-weights"


def test_a_one_node_group_that_is_neither_true_nor_false_is_reported() -> None:
    found = only(queue("q"), pod_group("j", "q", annotations={"muster.io/one-node-group": "yes"}))
    assert (found.object, found.code) == ("PodGroup d/j", "nodegroup-annotation")


def test_scorers_that_can_outweigh_a_preference_are_reported_with_the_weight_that_prevents_it() -> None:
    scorer = option("resource-strategy-fit", {"resourceStrategyFitWeight": 10})
    preferring = affinity_queue("q", preferred=["gpu-east"])
    found = only(preferring, others=[scorer])
    assert found.code == "nodegroup-outweighed"
    assert "differ by 50 points, other scorers by up to 1000" in found.message
    assert found.fix.endswith("weight: 21")
    assert examined(preferring, arguments={"weight": 21}, others=[scorer]) == []
    assert examined(affinity_queue("q", required=["gpu-east"]), others=[scorer]) == []


def test_nodeorder_and_binpack_count_with_their_weights() -> None:
    scorers = [option("nodeorder", {"imagelocality.weight": 0}), option("binpack", {"binpack.weight": 4})]
    found = only(affinity_queue("q", avoided=["gpu-east"]), others=scorers)
    assert "differ by 1 points, other scorers by up to 1500" in found.message  # 100 · (1+0+1+2+2+3+0+2 + 4)


def test_the_running_scheduler_hears_of_risks_but_not_of_points() -> None:
    state = state_of(*NODES, affinity_queue("q", preferred=["gpu-est"], avoided=["gpu-east"]))
    session = session_of(state, option("nodegroup"), option("resource-strategy-fit"))
    assert len(session.warnings) == 1
    assert "gpu-est" in session.warnings[0]


def test_by_the_chart_a_queue_without_groups_has_the_nodes_without_group_and_hears_how_much_they_hold() -> None:
    state = state_of(node("n1", cpu="2"), queue("q", capability={"cpu": "4"}))
    found = session_of(state, option("nodegroup", {"strict": False})).warnings
    assert any("the nodes it may use (those in no node group) hold 2" in text for text in found)
