"""Reclaim and preempt into a node set: whole gangs, one domain, the fewest victims."""

from __future__ import annotations

from collections import Counter

import pytest

from builders.manifests import queue
from builders.racks import RACK, ZONE, cycle, gang, gpu_node, member, members, priority_class, topology, where
from muster.actions.victim_pool import VictimPool
from muster.engine.core.plan import Plan
from muster.model.meta import Object
from muster.plugin_checks.shortcuts import without_shortcuts

CLASSES = [topology(ZONE, RACK), priority_class("low", 1), priority_class("high", 100)]


def rack(name: str, *gpus: int, zone: str = "z") -> list[Object]:
    return [gpu_node(f"{name}-{i}", gpus=g, rack=name, zone=zone) for i, g in enumerate(gpus)]


def running(name: str, at: dict[str, list[int]], least: int = 0, queue: str = "default") -> list[Object]:
    """Pods that run: node → their sizes."""
    pods = [member(name, f"{on}-{i}", gpus=size, on=on) for on, sizes in at.items() for i, size in enumerate(sizes)]
    return [gang(name, least, phase="Running", priorityClassName="low", queue=queue), *pods]


def test_preempt_goes_into_the_rack_with_the_fewest_victims_and_only_there() -> None:
    nodes = [*rack("a", 2, 2), *rack("b", 2, 2)]
    busy = running("run", {"a-0": [1, 1], "a-1": [1, 1], "b-0": [2], "b-1": [1]})
    plan = cycle(
        *CLASSES, queue(), *nodes, *busy, gang("job", 2, RACK, priorityClassName="high"),
        *members("job", 2, gpus=2, priority=100), actions="enqueue, allocate, preempt",
    )  # fmt: skip
    assert sorted(eviction.node for eviction in plan.evictions) == ["b-0", "b-1"]
    assert set(where(plan, "job").values()) == {"b-0", "b-1"} and not plan.binds


def test_reclaim_does_so_across_queues() -> None:
    nodes = [*rack("a", 2, 2), *rack("b", 2, 2)]
    busy = running("run", {"a-0": [1, 1], "a-1": [1, 1], "b-0": [1, 1], "b-1": [1, 1]}, queue="other")
    plan = cycle(
        *CLASSES, queue(), queue("other"), *nodes, *busy, gang("job", 2, RACK), *members("job", 2),
        actions="enqueue, allocate, reclaim",
    )  # fmt: skip
    assert len(plan.evictions) == 2
    assert len({eviction.node[0] for eviction in plan.evictions}) == 1
    assert {eviction.rule for eviction in plan.evictions} == {"reclaim"}


def test_a_rack_that_is_free_needs_no_victims() -> None:
    nodes = [*rack("a", 2), *rack("b", 2)]
    plan = cycle(
        *CLASSES, queue(), *nodes, *running("run", {"a-0": [1]}), gang("job", 2, RACK, priorityClassName="high"),
        *members("job", 2, priority=100), actions="enqueue, allocate, preempt",
    )  # fmt: skip
    assert len(plan.binds) == 2 and not plan.evictions


def test_no_pod_is_evicted_if_no_rack_could_hold_the_gang() -> None:
    nodes = [*rack("a", 2), *rack("b", 2)]
    plan = cycle(
        *CLASSES, queue(), *nodes, *running("run", {"a-0": [1, 1], "b-0": [2]}),
        gang("job", 3, RACK, priorityClassName="high"), *members("job", 3, priority=100),
        actions="enqueue, allocate, preempt",
    )  # fmt: skip
    assert not plan.evictions and not plan.pipelined


@pytest.mark.parametrize(("whole_least", "evicted"), [(1, ["d/whole-a-0-0"]), (0, ["d/whole-a-0-0"])])
def test_the_fewest_pods_go_also_if_that_is_a_whole_gang(whole_least: int, evicted: list[str]) -> None:
    nodes = [*rack("a", 2), *rack("b", 2)]
    whole = running("whole", {"a-0": [2]}, least=whole_least)
    parts = running("parts", {"b-0": [1, 1]})
    plan = preempting(*nodes, *whole, *parts)
    assert [eviction.pod for eviction in plan.evictions] == evicted


def test_surplus_pods_go_before_a_whole_gang_of_as_many() -> None:
    nodes = [*rack("a", 2), *rack("b", 2)]
    plan = preempting(*nodes, *running("whole", {"a-0": [1, 1]}, least=2), *running("parts", {"b-0": [1, 1]}))
    assert sorted(eviction.pod for eviction in plan.evictions) == ["d/parts-b-0-0", "d/parts-b-0-1"]


def test_a_gang_goes_as_a_whole_with_its_pods_in_other_racks() -> None:
    nodes = [*rack("a", 2), *rack("b", 1)]
    plan = preempting(*nodes, *running("whole", {"a-0": [1, 1], "b-0": [1]}, least=3))
    assert sorted(eviction.node for eviction in plan.evictions) == ["a-0", "a-0", "b-0"]
    assert set(where(plan, "job").values()) == {"a-0"}


def preempting(*objects: Object) -> Plan:
    """A gang of two in one rack, of high priority."""
    job = [gang("job", 2, RACK, priorityClassName="high"), *members("job", 2, priority=100)]
    return cycle(*CLASSES, queue(), *objects, *job, actions="enqueue, allocate, preempt")


def test_the_rest_of_a_gang_evicts_in_its_own_rack_only() -> None:
    nodes = [*rack("a", 2), *rack("b", 2)]
    mine = [member("job", 0, on="a-0", priority=100)]
    plan = cycle(
        *CLASSES, queue(), *nodes, *running("run", {"a-0": [1], "b-0": [1]}), *mine,
        gang("job", 2, RACK, phase="Running", priorityClassName="high"), member("job", 1, priority=100),
        actions="enqueue, allocate, preempt",
    )  # fmt: skip
    assert [eviction.pod for eviction in plan.evictions] == ["d/run-a-0-0"]


def test_sub_groups_evict_in_nested_domains() -> None:
    nodes = [*rack("a", 2), *rack("b", 2), *rack("c", 1, 1, zone="y"), *rack("d", 2, zone="y")]
    busy = running("run", {"a-0": [2], "b-0": [2], "c-0": [1], "c-1": [1], "d-0": [1, 1]})
    near = {"topology": "tree", "requiredTopologyLevel": RACK}
    subs = [{"name": part, "minMember": 2, "topologyConstraint": near} for part in ("l", "r")]
    pods = [member("job", f"{part}{i}", part=part, priority=100) for part in ("l", "r") for i in (0, 1)]
    plan = cycle(
        *CLASSES, queue(), *nodes, *busy, gang("job", 4, ZONE, priorityClassName="high", subGroups=subs), *pods,
        actions="enqueue, allocate, preempt",
    )  # fmt: skip
    assert sorted(eviction.node for eviction in plan.evictions) == ["a-0", "b-0"]
    at = where(plan, "job")
    assert at["job-l0"] == at["job-l1"] != at["job-r0"] == at["job-r1"]


def test_no_victims_are_looked_for_if_no_node_is_large_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VictimPool, "__init__", None)
    plan = cycle(
        *CLASSES, queue(), *rack("a", 2, 2), *running("run", {"a-0": [2], "a-1": [2]}),
        gang("job", 1, priorityClassName="high"), *members("job", 1, gpus=3, priority=100),
        actions="enqueue, allocate, preempt",
    )  # fmt: skip
    assert not plan.evictions and "Insufficient" in plan.reasons["d/job-0"].text


def test_victims_of_the_size_of_the_pods_are_evicted_one_after_the_other_on_a_node() -> None:
    """On more nodes than are compared exactly: the pods above a gang's minimum one by one, then what is left of it."""
    nodes = rack("a", *[4] * 18)
    busy = [one for node in nodes for one in running(f"run-{node.metadata.name}", {node.metadata.name: [1] * 4}, 1)]
    objects = [
        *CLASSES, queue(), *nodes, *busy, gang("job", 7, priorityClassName="high"),
        *members("job", 7, priority=100),
    ]  # fmt: skip
    plan = cycle(*objects, actions="enqueue, allocate, preempt")
    with without_shortcuts():
        assert cycle(*objects, actions="enqueue, allocate, preempt").evictions == plan.evictions
    assert Counter(eviction.node for eviction in plan.evictions) == {"a-0": 4, "a-1": 3}
    assert {eviction.by for eviction in plan.evictions} == {"d/job-0"}
