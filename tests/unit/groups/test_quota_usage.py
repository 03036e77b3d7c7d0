"""The pods of a unit, compared with its quotas."""

from __future__ import annotations

from muster.groups.propagation import Quota, Quotas
from muster.groups.quota_usage import Acceptance, QuotaUsage, UndecidedPods, score

BY_WEIGHT = Quotas({"b": Quota(2, 0, 2), "h": Quota(3, 0, 3)}, 5)
BY_RANGE = Quotas({"a": Quota(3, 1, 3), "b": Quota(3, 2, 5)}, 6)


def undecided(*pods: str) -> UndecidedPods:
    found = UndecidedPods()
    for groups in pods:
        found.add(groups)
    return found


def test_a_group_that_has_its_number_takes_no_more() -> None:
    usage = QuotaUsage(BY_WEIGHT, {"b": 2, "h": 1})
    assert usage.refusal("b") == "node group b already has 2 of 2 replicas"
    assert usage.accepts("b") == Acceptance.NO
    assert usage.refusal("h") is None
    assert usage.accepts("h") == Acceptance.YES
    assert (usage.missing("b"), usage.missing("h")) == (0, 2)


def test_pods_on_their_way_leave_the_last_place_open() -> None:
    assert QuotaUsage(BY_WEIGHT, {"b": 1}, undecided("bh")).accepts("b") == Acceptance.UNDECIDED
    assert QuotaUsage(BY_WEIGHT, {"b": 1}, undecided("bh")).accepts("h") == Acceptance.YES
    assert QuotaUsage(BY_WEIGHT, {"b": 2}, undecided("bh")).accepts("b") == Acceptance.NO


def test_what_groups_below_their_min_need_is_kept_for_them() -> None:
    quotas = Quotas({"a": Quota(2, 0, 3), "b": Quota(2, 2, 5)}, 4)
    assert QuotaUsage(quotas, {"a": 1}).refusal("a") is None
    kept = QuotaUsage(quotas, {"a": 2})
    assert kept.refusal("a") == "node group a has its min of 0: the rest is kept for node groups below their min"
    assert kept.refusal("b") is None
    assert kept.accepts("a") == Acceptance.NO
    # Two pods that may both go to b could leave the place to a.
    assert QuotaUsage(quotas, {"a": 1}, undecided("ab", "ab")).accepts("a") == Acceptance.UNDECIDED


def test_a_range_is_a_range_and_only_what_is_outside_is_too_much() -> None:
    assert QuotaUsage(BY_RANGE, {"a": 1, "b": 5}).excess() == {}
    assert QuotaUsage(BY_RANGE, {"a": 4, "b": 2}).excess() == {"a": 1}
    assert QuotaUsage(BY_RANGE, {"a": 0, "b": 5}).excess() == {"b": 1}
    assert QuotaUsage(BY_WEIGHT, {"b": 3, "h": 2}).excess() == {"b": 1}


def test_the_score_is_the_part_of_the_greatest_lack() -> None:
    assert [score(n, 3) for n in (0, 1, 2, 3)] == [0, 3, 6, 10]
    assert score(0, 0) == 0
    assert score(10, 100) == score(11, 100) == 1
