"""The conditions of native groups."""

from __future__ import annotations

import pytest

from muster.engine.core.native_groups import GROUPS
from muster.model.meta import Condition, ObjectMeta
from muster.model.native import CompositePodGroup, GroupStatus, NativePodGroup
from muster.scheduler.native_conditions import Decided, condition_type, disrupted_conditions, updated_conditions

WAITS = Decided(GROUPS, "d/g", False, "Unschedulable", "no node")
STARTED = Decided(GROUPS, "d/g", True, "Unschedulable", "")
NOTHING = Decided(GROUPS, "d/g", None, "Unschedulable", "")


def group(version: str, *given: Condition, generation: int = 0) -> NativePodGroup:
    return NativePodGroup(
        api_version=f"scheduling.k8s.io/{version}",
        metadata=ObjectMeta(name="g", namespace="d", generation=generation),
        status=GroupStatus(conditions=list(given)),
    )


@pytest.mark.parametrize(
    ("version", "type_"),
    [
        ("v1alpha2", "PodGroupScheduled"),
        ("v1alpha3", "PodGroupInitiallyScheduled"),
        ("v1beta1", "PodGroupInitiallyScheduled"),
    ],
)
def test_the_condition_has_the_name_of_its_version(version: str, type_: str) -> None:
    (made,) = updated_conditions(group(version, generation=3), WAITS, 0.0)
    assert (made.type, made.status, made.reason, made.message) == (type_, "False", "Unschedulable", "no node")
    assert made.observed_generation == 3
    assert condition_type(CompositePodGroup()) == "CompositePodGroupInitiallyScheduled"


def test_only_the_first_version_goes_back_to_false() -> None:
    for version, status in (("v1alpha2", "False"), ("v1beta1", "True")):
        started = group(version, *updated_conditions(group(version), STARTED, 0.0))
        (after,) = updated_conditions(started, WAITS, 5.0)
        assert after.status == status


def test_what_says_the_same_already_is_left_as_it_is() -> None:
    given = group("v1alpha2", *updated_conditions(group("v1alpha2"), WAITS, 0.0))
    assert updated_conditions(given, WAITS, 9.0) is given.status.conditions
    assert updated_conditions(given, NOTHING, 9.0) is given.status.conditions


def test_a_group_that_lost_pods_keeps_its_other_conditions() -> None:
    given = group("v1beta1", *updated_conditions(group("v1beta1"), STARTED, 0.0))
    kinds = {c.type: (c.status, c.reason) for c in disrupted_conditions(given, "d/p is evicted", 5.0)}
    assert kinds["DisruptionTarget"] == ("True", "PreemptionByScheduler")
    assert kinds["PodGroupInitiallyScheduled"] == ("True", "Scheduled")
