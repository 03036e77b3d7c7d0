"""The pods of a unit per node group, followed and counted anew."""

from __future__ import annotations

from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from builders.node_groups import CITIES, groups, nginx_pod, nodes
from muster.groupctl.grouping_cache import UnitCounts
from muster.groups.assignment import ASSIGNED
from muster.groups.grouping import Grouping
from muster.model.core import Node, Pod
from muster.model.groups import NodeGroup
from muster.model.meta import key

UNIT = ("ReplicaSet", "default/nginx-1")
POLICY = ("beijing", "hangzhou")
NODES = cast("dict[str, Node]", {key(one): one for one in nodes()})
GROUPING = Grouping(NODES, cast("dict[str, NodeGroup]", {key(one): one for one in groups()}), {})
STEP = st.tuples(
    st.sampled_from("abcd"),
    st.sampled_from(["", *CITIES, "elsewhere"]),
    st.sampled_from(["", "beijing", "hangzhou", "other"]),
    st.sampled_from(["Running", "Succeeded", "terminating", "gone", "asked"]),
)


def _pod(name: str, on: str, group: str, phase: str) -> Pod:
    one = nginx_pod(name, on)
    assert isinstance(one, Pod)
    one.status.phase = phase if phase == "Succeeded" else "Running"
    one.metadata.uid = f"uid-{name}"
    if group:
        one.metadata.labels[ASSIGNED] = group
    if phase == "terminating":
        one.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    return one


@given(st.lists(STEP, max_size=12), st.booleans())
def test_counts_that_were_followed_are_those_of_the_pods_there_are(
    steps: list[tuple[str, str, str, str]], count_assigned: bool
) -> None:
    counts = UnitCounts(count_assigned=count_assigned)
    there: dict[str, Pod] = {}
    for name, on, group, phase in steps:
        if phase == "asked":
            counts.per_group(UNIT, POLICY, GROUPING)
        elif phase == "gone":
            counts.remove(f"default/{name}")
            there.pop(name, None)
        else:
            there[name] = _pod(name, on, group, phase)
            counts.put(f"default/{name}", there[name])
    expected = dict.fromkeys(POLICY, 0)
    for name, one in there.items():
        counted = one.status.phase == "Running" and one.metadata.deletion_timestamp is None
        assigned = one.metadata.labels.get(ASSIGNED) if count_assigned else None
        group = GROUPING.group_of(POLICY).get(one.spec.node_name) if one.spec.node_name else assigned
        if counted and group in expected:
            expected[group] += 1
        known = counts.node_of(f"uid-{name}")
        assert (known is not None) == (counted and bool(one.spec.node_name or assigned))
    found = counts.per_group(UNIT, POLICY, GROUPING)
    assert {group: found.get(group, 0) for group in POLICY} == expected


def test_one_pod_can_be_left_out_and_other_nodes_count_at_once() -> None:
    counts = UnitCounts()
    on = next(name for name, group in GROUPING.group_of(POLICY).items() if group == "beijing")
    counts.put("default/a", _pod("a", on, "", "Running"))
    assert counts.per_group(UNIT, POLICY, GROUPING) == {"beijing": 1}
    assert counts.per_group(UNIT, POLICY, GROUPING, but="default/a") == {"beijing": 0}
    assert counts.per_group(UNIT, POLICY, Grouping({}, {}, {})) == {}
