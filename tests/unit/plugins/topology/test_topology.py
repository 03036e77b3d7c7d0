"""Placement of gangs with a topology constraint: levels, order of domains, placed members, surplus, ranks."""

from __future__ import annotations

import pytest

from builders.manifests import queue
from builders.racks import BLOCK, RACK, ZONE, cycle, gang, gpu_node, made, member, members, topology, where
from muster.model.meta import Object


def rack(name: str, *gpus: int, **labels: str) -> list[Object]:
    return [gpu_node(f"{name}-{i}", gpus=g, rack=name, **labels) for i, g in enumerate(gpus)]


TREE = [topology(RACK), queue()]
TWO = [topology(ZONE, RACK), queue()]


def racks_of(placed: dict[str, str]) -> list[str]:
    return [at.rpartition("-")[0] for at in placed.values()]


def test_the_fuller_of_two_racks_is_used_first() -> None:
    plan = cycle(*TREE, *rack("a", 8), *rack("b", 3), gang("job", 2, RACK), *members("job", 2))
    assert racks_of(where(plan, "job")) == ["b", "b"]


def test_exact_figures_decide_not_whole_cores() -> None:
    nodes = [gpu_node("a", cpu=4, gpus=0, rack="a"), gpu_node("b", cpu=4, gpus=0, rack="b")]
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}], "nodeName": "b"}
    other = made("v1", "Pod", {"name": "x", "namespace": "d"}, spec=spec, status={"phase": "Running"})
    plan = cycle(*TREE, *nodes, other, gang("job", 2, RACK), *members("job", 2, gpus=0))
    assert set(where(plan, "job").values()) == {"b"}


def test_a_fuller_zone_goes_before_a_fuller_rack_of_an_emptier_zone() -> None:
    nodes = [*rack("a", 6, zone="z1"), *rack("b", 6, zone="z1"), *rack("c", 4, zone="z2"), *rack("d", 9, zone="z2")]
    plan = cycle(*TWO, *nodes, gang("job", 2, RACK), *members("job", 2))
    assert racks_of(where(plan, "job")) == ["a", "a"]


def test_all_candidate_nodes_in_one_rack_does_not_hide_the_zone() -> None:
    plan = cycle(*TWO, *rack("a", 1, 1, zone="z"), gang("job", 2, ZONE), *members("job", 2))
    assert len(where(plan, "job")) == 2


def test_the_wish_for_a_rack_does_not_keep_a_job_from_nodes_outside_the_topology() -> None:
    plan = cycle(*TREE, *rack("a", 1), gpu_node("outside", gpus=1), gang("job", 2, preferred=RACK), *members("job", 2))
    assert where(plan, "job") == {"job-0": "a-0", "job-1": "outside"}


def test_nodes_outside_are_never_used_where_a_level_is_required() -> None:
    plan = cycle(*TREE, *rack("a", 1), gpu_node("outside", gpus=8), gang("job", 2, RACK), *members("job", 2))
    assert not plan.binds
    assert plan.reasons["d/job-0"].text.startswith("unschedulable on cluster: 0/2 nodes are available: ")
    assert "rack" not in plan.reasons["d/job-0"].text


def test_an_empty_label_value_is_a_domain_of_its_own() -> None:
    nodes = [gpu_node("a", gpus=1, rack=""), gpu_node("b", gpus=1, rack="r"), gpu_node("c", gpus=2, rack="")]
    plan = cycle(*TREE, *nodes, gang("job", 3, RACK), *members("job", 3))
    assert sorted(where(plan, "job").values()) == ["a", "c", "c"]


def test_a_rack_that_can_start_now_goes_before_a_fuller_one_that_must_wait() -> None:
    terminating = member("old", 0, gpus=2, on="b-0")
    terminating.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    plan = cycle(
        *TREE, *rack("a", 8), *rack("b", 2), gang("old", 0, phase="Running"), terminating, gang("job", 2, RACK),
        *members("job", 2),
    )  # fmt: skip
    assert racks_of(plan.binds and where(plan, "job")) == ["a", "a"]


def test_a_gang_waits_for_a_rack_that_is_being_emptied_if_there_is_no_other() -> None:
    terminating = member("old", 0, gpus=2, on="b-0")
    terminating.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    plan = cycle(
        *TREE, *rack("a", 1), *rack("b", 2), gang("old", 0, phase="Running"), terminating, gang("job", 2, RACK),
        *members("job", 2),
    )  # fmt: skip
    assert not plan.binds and racks_of(plan.pipelined) == ["b", "b"]


def test_the_surplus_is_thought_of_when_the_rack_is_chosen() -> None:
    plan = cycle(*TREE, *rack("a", 2), *rack("b", 5), gang("job", 2, RACK), *members("job", 5))
    assert racks_of(where(plan, "job")) == ["b"] * 5


def test_what_does_not_fit_of_the_surplus_waits_beside_an_empty_rack() -> None:
    plan = cycle(*TREE, *rack("a", 3), *rack("b", 4), gang("job", 2, RACK), *members("job", 6))
    assert racks_of(where(plan, "job")) == ["b"] * 4
    assert plan.reasons.keys() == {"d/job-4", "d/job-5"}


def test_a_lost_member_is_replaced_in_the_gangs_rack() -> None:
    running = [member("job", i, on="b-0") for i in (0, 1)]
    plan = cycle(
        *TREE, *rack("a", 3), *rack("b", 8, 8), gang("job", 3, RACK, phase="Running"), *running, member("job", 2)
    )
    assert racks_of(where(plan, "job")) == ["b"]


def test_a_lost_member_comes_back_to_the_rack_it_only_preferred() -> None:
    running = [member("job", i, on="b-0") for i in (0, 1)]
    plan = cycle(
        *TREE, *rack("a", 3), *rack("b", 8, 8), gang("job", 3, preferred=RACK, phase="Running"), *running,
        member("job", 2),
    )  # fmt: skip
    assert racks_of(where(plan, "job")) == ["b"]


def test_members_in_two_racks_allow_both() -> None:
    running = [member("job", 0, on="a-0"), member("job", 1, on="b-0")]
    nodes = [*rack("a", 1, 0), *rack("b", 1, 2), *rack("c", 2)]
    plan = cycle(*TREE, *nodes, gang("job", 4, RACK, phase="Running"), *running, member("job", 2), member("job", 3))
    assert where(plan, "job") == {"job-2": "b-1", "job-3": "b-1"}


def test_a_member_outside_the_topology_leaves_no_domain() -> None:
    plan = cycle(
        *TREE, *rack("a", 8), gpu_node("outside"), gang("job", 2, RACK, phase="Running"),
        member("job", 0, on="outside"), member("job", 1),
    )  # fmt: skip
    assert not plan.binds


def test_the_emptiest_preferred_racks_are_filled_first() -> None:
    nodes = [*rack("a", 3, zone="z"), *rack("b", 4, zone="z"), *rack("c", 1, zone="z")]
    plan = cycle(*TWO, *nodes, gang("job", 5, ZONE, RACK), *members("job", 5))
    assert sorted(set(racks_of(where(plan, "job")))) == ["a", "b"]


def test_neighbouring_ranks_share_a_rack() -> None:
    nodes = [*rack("a", *[1] * 6, zone="z"), *rack("b", *[1] * 6, zone="z")]
    plan = cycle(*TWO, *nodes, gang("job", 12, ZONE), *members("job", 12))
    at = where(plan, "job")
    in_order = [at[f"job-{i}"].partition("-")[0] for i in range(12)]
    assert in_order in (["a"] * 6 + ["b"] * 6, ["b"] * 6 + ["a"] * 6)


def test_an_index_on_the_pod_goes_before_the_number_in_its_name() -> None:
    nodes = [*rack("a", 1, 1, zone="z"), *rack("b", 1, 1, zone="z")]
    pods = [member("job", name, labels={"apps.kubernetes.io/pod-index": str(i)}) for i, name in enumerate("wzxy")]
    plan = cycle(*TWO, *nodes, gang("job", 4, ZONE), *pods)
    at = {name[-1]: node_name[0] for name, node_name in where(plan, "job").items()}
    assert at["w"] == at["z"] and at["x"] == at["y"] and at["w"] != at["x"]


@pytest.mark.parametrize(
    ("annotated", "says"),
    [
        (gang("job", 1, RACK, tree="three"), "Requested topology three does not exist; did you mean tree?"),
        (gang("job", 1, "row"), "the group requires the level row, but the topology tree has zone, rack"),
        (gang("job", 1, preferred="row"), "the group prefers the level row"),
        (gang("job", 1, RACK, ZONE), "prefers the level zone, which is wider than the level rack that it requires"),
    ],
)
def test_what_cannot_be_understood_keeps_the_job_waiting_with_the_reason(annotated: Object, says: str) -> None:
    plan = cycle(*TWO, *rack("a", 8, zone="z"), annotated, *members("job", 1), gang("fine", 1), *members("fine", 1))
    assert says in plan.reasons["d/job-0"].text
    assert plan.binds == {"d/fine-0": "a-0"}


def test_several_gangs_take_racks_one_after_the_other() -> None:
    nodes = [*rack("a", 1, 1), *rack("b", 1, 1), *rack("c", 1, 1)]
    gangs = [o for name in ("j1", "j2", "j3", "j4") for o in (gang(name, 2, RACK), *members(name, 2))]
    plan = cycle(*TREE, *nodes, *gangs)
    taken = [set(racks_of(where(plan, name))) for name in ("j1", "j2", "j3")]
    assert all(len(some) == 1 for some in taken) and len(set.union(*taken)) == 3
    assert not where(plan, "j4")


def test_block_rack_and_host_are_levels_like_any_other() -> None:
    nodes = [gpu_node(f"{b}{r}{h}", gpus=2, block=b, rack=r) for b in "ab" for r in "xy" for h in "12"]
    levels = topology(BLOCK, RACK, "kubernetes.io/hostname")
    plan = cycle(levels, queue(), *nodes, gang("job", 4, BLOCK, "kubernetes.io/hostname"), *members("job", 4))
    at = list(where(plan, "job").values())
    assert len(set(at)) == 2 and len({name[:2] for name in at}) == 1
