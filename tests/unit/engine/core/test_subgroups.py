"""The tree of a job's sub-groups."""

from __future__ import annotations

from typing import Any

from builders.manifests import state_of
from builders.racks import gang, member
from muster.engine.core.subgroups import SubGroup, sub_group_tree
from muster.model.meta import Object


def tree(*pods: Object, **spec: Any) -> SubGroup:
    state = state_of(gang("job", 1, **spec), *pods)
    found = sub_group_tree(state.jobs["d/job"])
    assert found is not None
    return found


def names(group: SubGroup) -> list[str]:
    return [task.name for task in group.own]


def test_a_job_without_sub_groups_has_no_tree() -> None:
    assert sub_group_tree(state_of(gang("job", 1)).jobs["d/job"]) is None


def test_kais_sub_groups_hang_under_their_parents_and_pods_under_their_leaf() -> None:
    subs = [{"name": "top"}, {"name": "a", "parent": "top", "minMember": 2}, {"name": "b", "parent": "top"}]
    root = tree(member("job", "0", part="a"), member("job", "1", part="b"), member("job", "2"), subGroups=subs)
    (top,) = root.children
    found = [(part.name, part.minimum, names(part)) for part in top.children]
    assert found == [("a", 2, ["job-0"]), ("b", 1, ["job-1"])]
    assert names(root) == ["job-2"] and top.minimum == 0
    assert [group.name for group in top.children[0].chain()] == ["top", "a"]
    assert root.shortfall() == 3


def test_parents_that_are_missing_or_go_in_a_circle_do_no_harm() -> None:
    subs = [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}, {"name": "c", "parent": "nobody"}]
    root = tree(member("job", "0", part="c"), subGroups=subs)
    assert sorted(group.name for group in root.groups()) == ["a", "b", "c", "d/job"]


def test_volcanos_sub_groups_are_distinguished_by_label_values() -> None:
    policy = {"name": "p", "subGroupSize": 2, "minSubGroups": 1, "matchLabelKeys": ["slice"]}
    pods = [member("job", i, labels={"slice": s}) for i, s in enumerate("xyx")]
    (inner,) = tree(*pods, subGroupPolicy=[policy]).children
    assert [(part.name, names(part)) for part in inner.children] == [("x", ["job-0", "job-2"]), ("y", ["job-1"])]
    assert inner.shortfall() == 2  # one of the two must hold


def test_pods_that_use_capacity_are_not_missing() -> None:
    subs = [{"name": "a", "minMember": 2}]
    root = tree(member("job", "0", part="a", on="n"), member("job", "1", part="a"), subGroups=subs)
    assert root.shortfall() == 1
