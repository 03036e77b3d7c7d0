"""Selectors, node terms and tolerations match what Kubernetes says they match."""

from __future__ import annotations

import pytest

from muster.model.affinity import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration
from muster.model.meta import LabelSelector, LabelSelectorRequirement
from muster.model.selectors import (
    check_label_selector,
    check_node_selector,
    check_toleration,
    expression_matches,
    matches,
    node_matches,
    tolerates,
)
from muster.model.shape import Problem

LABELS = {"app": "web", "gen": "7"}


def test_no_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert not matches(None, LABELS)
    assert matches(LabelSelector(), LABELS)


def test_all_labels_and_expressions_must_hold() -> None:
    expression = LabelSelectorRequirement(key="tier", operator="DoesNotExist")
    assert matches(LabelSelector(match_labels={"app": "web"}, match_expressions=[expression]), LABELS)
    assert not matches(LabelSelector(match_labels={"app": "db"}, match_expressions=[expression]), LABELS)
    assert not matches(LabelSelector(match_expressions=[expression]), {"tier": ""})


@pytest.mark.parametrize(
    ("key", "operator", "values", "expected"),
    [
        ("app", "In", ["web", "db"], True),
        ("app", "In", ["db"], False),
        ("none", "In", ["db"], False),
        ("app", "NotIn", ["web"], False),
        ("none", "NotIn", ["web"], True),
        ("app", "Exists", [], True),
        ("none", "Exists", [], False),
        ("app", "DoesNotExist", [], False),
        ("none", "DoesNotExist", [], True),
        ("gen", "Gt", ["6"], True),
        ("gen", "Gt", ["7"], False),
        ("gen", "Lt", ["8"], True),
        ("gen", "Lt", ["7"], False),
        ("app", "Gt", ["1"], False),
        ("none", "Lt", ["1"], False),
    ],
)
def test_each_operator(key: str, operator: str, values: list[str], expected: bool) -> None:
    assert expression_matches(key, operator, values, LABELS) is expected


def test_an_unknown_operator_is_refused() -> None:
    with pytest.raises(ValueError, match="'Matches' is not one of In"):
        expression_matches("app", "Matches", ["web"], LABELS)


def requirement(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=list(values))


def test_one_term_is_enough_but_all_of_it_must_hold() -> None:
    web = NodeSelectorTerm(match_expressions=[requirement("app", "In", "web"), requirement("gen", "Gt", "9")])
    named = NodeSelectorTerm(match_fields=[requirement("metadata.name", "In", "n1")])
    assert node_matches(NodeSelector(node_selector_terms=[web, named]), "n1", LABELS)
    assert not node_matches(NodeSelector(node_selector_terms=[web, named]), "n2", LABELS)


def test_an_empty_term_and_no_term_select_no_node() -> None:
    assert not node_matches(NodeSelector(node_selector_terms=[NodeSelectorTerm()]), "n1", LABELS)
    assert not node_matches(NodeSelector(), "n1", LABELS)


TAINT = Taint(key="gpu", value="9", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration(operator="Exists"), True),
        (Toleration(key="gpu", operator="Exists"), True),
        (Toleration(key="gpu", value="9"), True),
        (Toleration(key="gpu", operator="Equal", value="9", effect="NoSchedule"), True),
        (Toleration(key="gpu", operator="Equal", value="9", effect="NoExecute"), False),
        (Toleration(key="gpu", value="8"), False),
        (Toleration(key="fpga", operator="Exists"), False),
        (Toleration(key="gpu", operator="Gt", value="8"), True),
        (Toleration(key="gpu", operator="Lt", value="9"), False),
        (Toleration(key="gpu", operator="Lt", value="ten"), False),
    ],
)
def test_a_toleration_covers_a_taint(toleration: Toleration, expected: bool) -> None:
    assert tolerates(toleration, TAINT) is expected


@pytest.mark.parametrize(
    ("expression", "path"),
    [
        (requirement("app", "in", "web"), "s.nodeSelectorTerms[0].matchExpressions[0].operator"),
        (requirement("", "In", "web"), "s.nodeSelectorTerms[0].matchExpressions[0].key"),
        (requirement("app", "In"), "s.nodeSelectorTerms[0].matchExpressions[0].values"),
        (requirement("app", "Exists", "web"), "s.nodeSelectorTerms[0].matchExpressions[0].values"),
        (requirement("app", "Gt", "web"), "s.nodeSelectorTerms[0].matchExpressions[0].values"),
    ],
)
def test_a_term_that_cannot_be_evaluated_is_named_by_its_path(expression: NodeSelectorRequirement, path: str) -> None:
    selector = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=[expression])])
    with pytest.raises(Problem) as refused:
        check_node_selector(selector, "s")
    assert refused.value.path == path


def test_fields_other_than_the_name_cannot_be_selected() -> None:
    term = NodeSelectorTerm(match_fields=[requirement("spec.nodeName", "In", "n1")])
    with pytest.raises(Problem, match=r"matchFields\[0\].key: 'spec.nodeName' is not a field"):
        check_node_selector(NodeSelector(node_selector_terms=[term]), "s")


def test_a_label_selector_has_no_greater_and_less() -> None:
    selector = LabelSelector(match_expressions=[LabelSelectorRequirement(key="a", operator="Gt", values=["1"])])
    with pytest.raises(Problem, match=r"s.matchExpressions\[0\].operator: 'Gt'"):
        check_label_selector(selector, "s")


def test_a_toleration_without_a_key_tolerates_everything_or_nothing() -> None:
    check_toleration(Toleration(operator="Exists"), "t")
    with pytest.raises(Problem, match=r"t\.operator: must be Exists"):
        check_toleration(Toleration(operator="Equal", value="x"), "t")
