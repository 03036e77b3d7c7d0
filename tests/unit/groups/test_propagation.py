"""PropagationPolicies as they are understood."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from muster.groups.propagation import Quota, parse_propagation
from muster.model.groups import PropagationPolicySpec

CITIES = ("beijing", "hangzhou")


def spec(**fields: Any) -> PropagationPolicySpec:
    return msgspec.convert(fields, PropagationPolicySpec)


def weigh(*entries: tuple[list[str], int]) -> PropagationPolicySpec:
    return spec(staticWeightList=[{"nodeGroupNames": names, "weight": weight} for names, weight in entries])


def test_a_group_is_found_whatever_its_case_and_a_warning_reports_it() -> None:
    rules = parse_propagation(weigh((["Beijing"], 2), (["Hangzhou"], 3)), CITIES)
    assert rules.weights == {"beijing": 2, "hangzhou": 3}
    assert [t.message for t in rules.warnings] == [
        "names node group 'Beijing'; using 'beijing'",
        "names node group 'Hangzhou'; using 'hangzhou'",
    ]
    assert not rules.errors


def test_each_name_of_an_entry_has_its_weight_and_the_largest_of_several_counts() -> None:
    rules = parse_propagation(weigh((["a", "b"], 2), (["b", "c"], 5), (["B"], 1)))
    assert rules.weights == {"a": 2, "b": 5, "c": 5}


def test_an_unknown_group_keeps_its_share() -> None:
    rules = parse_propagation(weigh((["beijing"], 1), (["atlantis"], 1)), CITIES)
    assert rules.unknown == ["atlantis"]
    assert rules.quotas(4).groups["atlantis"].desired == 2


def test_an_empty_list_means_every_group_equally() -> None:
    assert parse_propagation(spec(), CITIES).weights == {"beijing": 1, "hangzhou": 1}
    assert parse_propagation(spec(propagationStrategy="NumRange"), CITIES).ranges == {
        "beijing": (0, None),
        "hangzhou": (0, None),
    }


def test_the_list_that_is_given_says_the_strategy() -> None:
    ranges = [{"nodeGroupNames": ["a"], "min": 1}]
    assert parse_propagation(spec(numRange=ranges)).strategy == "NumRange"
    both = parse_propagation(spec(numRange=ranges, staticWeightList=[{"nodeGroupNames": ["a"], "weight": 1}]))
    assert both.strategy == "StaticWeight"
    assert [t.path for t in both.warnings] == ["spec.numRange"]


def test_ranges_of_one_group_intersect() -> None:
    entries = [{"nodeGroupNames": ["a"], "min": 1, "max": 5}, {"nodeGroupNames": ["a", "b"], "min": 2, "max": 3}]
    rules = parse_propagation(spec(numRange=entries))
    assert rules.ranges == {"a": (2, 3), "b": (2, 3)}
    assert rules.quotas(7).groups["a"] == Quota(desired=3, min=2, max=3)
    assert rules.quotas(7).unplaced == 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"staticWeightList": [{"nodeGroupNames": ["a"], "weight": -1}]}, "-1 is negative"),
        ({"staticWeightList": [{"nodeGroupNames": ["a"], "weight": 0}]}, "all weights are 0"),
        ({"numRange": [{"nodeGroupNames": ["a"], "min": 3, "max": 1}]}, "min 3 is more than max 1"),
        ({"numRange": [{"nodeGroupNames": ["a"], "min": -1}]}, "-1 is negative"),
        ({"propagationStrategy": "Random"}, "'Random' is no strategy"),
    ],
)
def test_what_cannot_be_used_is_reported(fields: dict[str, Any], message: str) -> None:
    (error,) = parse_propagation(spec(**fields), CITIES).errors
    assert message in str(error)
    assert error.path.startswith("spec.") and error.fix


def test_an_application_without_a_number_is_only_asked_for_membership() -> None:
    quotas = parse_propagation(weigh((["a"], 1))).quotas(None)
    assert quotas.groups == {"a": Quota(0, 0, None)}
    assert quotas.replicas is None
