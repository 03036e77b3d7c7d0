"""Sub-groups in nested domains, with backtracking over the sets of what they are part of."""

from __future__ import annotations

from typing import Any

from builders.manifests import queue
from builders.racks import BLOCK, RACK, ZONE, cycle, gang, gpu_node, hypernode, member, topology, where
from muster.model.meta import Object

LEVELS = [topology(ZONE, BLOCK, RACK), queue()]


def sub(name: str, least: int = 1, level: str = "", parent: str = "", preferred: str = "") -> dict[str, Any]:
    constraint = {"topology": "tree", "requiredTopologyLevel": level, "preferredTopologyLevel": preferred}
    reported = {"topologyConstraint": constraint} if level or preferred else {}
    return {"name": name, "minMember": least, "parent": parent, **reported}


def zone(name: str, blocks: dict[str, dict[str, list[int]]]) -> list[Object]:
    return [
        gpu_node(f"{name}-{b}-{r}-{i}", gpus=g, zone=name, block=b, rack=r)
        for b, racks in blocks.items()
        for r, gpus in racks.items()
        for i, g in enumerate(gpus)
    ]


def pods(part: str, count: int, **more: Any) -> list[Object]:
    return [member("job", f"{part}-{i}", part=part, **more) for i in range(count)]


def domains(placed: dict[str, str], part: str, depth: int) -> set[str]:
    return {"-".join(at.split("-")[:depth]) for pod, at in placed.items() if pod.startswith(f"job-{part}-")}


def test_each_leaf_has_a_rack_of_its_own_inside_one_zone() -> None:
    nodes = [*zone("a", {"x": {"r": [2], "s": [2]}}), *zone("b", {"x": {"r": [4]}})]
    subs = [sub("left", 2, RACK), sub("right", 2, RACK)]
    job = gang("job", 4, ZONE, subGroups=subs)
    placed = where(cycle(*LEVELS, *nodes, job, *pods("left", 2), *pods("right", 2)), "job")
    assert len(placed) == 4
    assert len({at[0] for at in placed.values()}) == 1
    assert all(len(domains(placed, part, 3)) == 1 for part in ("left", "right"))


def test_the_parents_first_set_fails_only_at_the_last_leaf_of_three_levels() -> None:
    """Zone a is fuller and tried first; by numbers it would do, but its last rack is split in two halves."""
    first = zone("a", {"x": {"r": [2], "s": [2]}, "y": {"r": [2], "s": [1], "t": [1]}})
    second = zone("b", {"x": {"r": [2], "s": [2]}, "y": {"r": [2], "s": [2], "t": [4]}})
    subs = [sub("l", level=BLOCK), sub("r", level=BLOCK), *[sub(f"{s}{i}", 2, RACK, s) for s in "lr" for i in (1, 2)]]
    leaves = [pod for s in "lr" for i in (1, 2) for pod in pods(f"{s}{i}", 2)]
    plan = cycle(*LEVELS, *first, *second, gang("job", 8, ZONE, subGroups=subs), *leaves)
    placed = where(plan, "job")
    assert len(plan.binds) == 8 and {at[0] for at in placed.values()} == {"b"}
    for side in "lr":
        assert len(domains(placed, f"{side}1", 2) | domains(placed, f"{side}2", 2)) == 1
        assert all(len(domains(placed, f"{side}{i}", 3)) == 1 for i in (1, 2))


def test_where_no_zone_holds_all_leaves_nothing_is_placed_and_nothing_is_left_behind() -> None:
    nodes = zone("a", {"x": {"r": [2], "s": [1], "t": [1]}})
    subs = [sub("left", 2, RACK), sub("right", 2, RACK)]
    other = gang("after", 4, phase="Inqueue")
    later = [member("after", i) for i in range(4)]
    plan = cycle(
        *LEVELS, *nodes, gang("job", 4, ZONE, subGroups=subs), *pods("left", 2), *pods("right", 2), other, *later
    )
    assert len(where(plan, "after")) == 4 and not where(plan, "job")
    assert plan.reasons["d/job-left-0"].text.startswith("unschedulable on cluster: 0/3 nodes are available: ")


def test_the_larger_leaf_chooses_first() -> None:
    nodes = zone("a", {"x": {"r": [3], "s": [1]}})
    subs = [sub("big", 3, RACK), sub("aaa", 1, RACK)]
    placed = where(
        cycle(*LEVELS, *nodes, gang("job", 4, ZONE, subGroups=subs), *pods("big", 3), *pods("aaa", 1)), "job"
    )
    assert domains(placed, "big", 3) == {"a-x-r"} and domains(placed, "aaa", 3) == {"a-x-s"}


def test_the_root_may_be_free_while_its_parts_are_bound() -> None:
    nodes = [*zone("a", {"x": {"r": [2]}}), *zone("b", {"x": {"r": [2]}})]
    job = gang("job", 4, subGroups=[sub("left", 2, RACK), sub("right", 2, RACK)])
    placed = where(cycle(*LEVELS, *nodes, job, *pods("left", 2), *pods("right", 2)), "job")
    assert domains(placed, "left", 3) != domains(placed, "right", 3)
    assert len(placed) == 4


def test_a_surplus_pod_of_a_leaf_stays_in_its_rack() -> None:
    nodes = zone("a", {"x": {"r": [3], "s": [2, 8]}})
    running = [member("job", f"left-{i}", part="left", on="a-x-r-0") for i in (0, 1)]
    running += [member("job", f"right-{i}", part="right", on="a-x-s-0") for i in (0, 1)]
    job = gang("job", 4, ZONE, phase="Running", subGroups=[sub("left", 2, RACK), sub("right", 2, RACK)])
    more = [member("job", f"left-{i}", part="left") for i in (2, 3)]
    plan = cycle(*LEVELS, *nodes, job, *running, *more)
    assert where(plan, "job") == {"job-left-2": "a-x-r-0"}
    assert plan.reasons.keys() == {"d/job-left-3"}


def test_a_childs_preference_beats_its_parents() -> None:
    nodes = zone("a", {"x": {"r": [1, 1], "s": [1]}, "y": {"r": [1], "s": [1], "t": [1]}})
    job = gang("job", 2, ZONE, BLOCK, subGroups=[sub("only", 2, preferred=RACK)])
    placed = where(cycle(*LEVELS, *nodes, job, *pods("only", 2)), "job")
    assert domains(placed, "only", 3) == {"a-x-r"}


SWITCHES = [
    hypernode("s0", 1, "a0", "a1"), hypernode("s1", 1, "b0", "b1"),
    hypernode("top", 2, "s0", "s1", kind="HyperNode", tier_name="spine"), queue(),
]  # fmt: skip
HOSTS = [gpu_node(name, gpus=1) for name in ("a0", "a1", "b0", "b1", "c0")]


def test_volcanos_slices_get_a_switch_each() -> None:
    near = {"mode": "hard", "highestTierAllowed": 1}
    policy = {"subGroupSize": 2, "minSubGroups": 2, "matchLabelKeys": ["slice"], "networkTopology": near}
    job = gang("job", 4, subGroupPolicy=[policy], networkTopology={"mode": "hard", "highestTierName": "spine"})
    slices = [member("job", f"{s}-{i}", labels={"slice": s}) for s in "xy" for i in (0, 1)]
    placed = where(cycle(*SWITCHES, *HOSTS, job, *slices), "job")
    assert [at[0] for at in placed.values()] in (list("aabb"), list("bbaa"))


def test_as_many_slices_start_as_must() -> None:
    near = {"mode": "hard", "highestTierAllowed": 1}
    policy = {"subGroupSize": 2, "minSubGroups": 1, "matchLabelKeys": ["slice"], "networkTopology": near}
    full = [gang("run", 0, phase="Running"), member("run", "0", on="a0")]
    slices = [member("job", f"{s}-{i}", labels={"slice": s}) for s in "xy" for i in (0, 1)]
    placed = where(cycle(*SWITCHES, *HOSTS, *full, gang("job", 2, subGroupPolicy=[policy]), *slices), "job")
    assert sorted(placed.values()) == ["b0", "b1"]
    assert len({pod.split("-")[1] for pod in placed}) == 1
