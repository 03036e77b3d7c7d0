"""Domains against brute force: none is refused that could be filled, and the fewest pods go for a gang."""

from __future__ import annotations

from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from builders.manifests import queue
from builders.racks import RACK, cycle, gang, gpu_node, member, priority_class, topology, where
from muster.model.meta import Object

sizes = st.integers(1, 4)


@given(
    idle=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=3), min_size=1, max_size=3),
    wanted=st.lists(sizes, min_size=1, max_size=5),
)
def test_a_gang_is_placed_exactly_if_some_arrangement_fills_a_rack(idle: list[list[int]], wanted: list[int]) -> None:
    nodes = [gpu_node(f"r{r}n{i}", gpus=g, rack=f"r{r}") for r, rack in enumerate(idle) for i, g in enumerate(rack)]
    pods = [member("job", i, gpus=g) for i, g in enumerate(wanted)]
    plan = cycle(topology(RACK), queue(), *nodes, gang("job", len(pods), RACK), *pods)
    placed = where(plan, "job")
    assert len(placed) in (0, len(wanted))
    assert bool(placed) == any(fills(rack, wanted) for rack in idle)
    assert len({at[:2] for at in placed.values()}) <= 1


def fills(rack: list[int], wanted: list[int]) -> bool:
    return any(fits(rack, wanted, at) for at in product(range(len(rack)), repeat=len(wanted)))


def fits(rack: list[int], wanted: list[int], at: tuple[int, ...]) -> bool:
    left = list(rack)
    for size, place in zip(wanted, at, strict=True):
        left[place] -= size
    return min(left) >= 0


rack_of_pods = st.lists(st.lists(st.integers(1, 4), max_size=3), min_size=1, max_size=3)


@given(racks=st.lists(rack_of_pods, min_size=1, max_size=2), wanted=st.lists(sizes, min_size=1, max_size=3))
def test_the_smallest_victim_set_of_all_racks_is_chosen(racks: list[list[list[int]]], wanted: list[int]) -> None:
    """Nodes of four GPUs, each with some running pods that together may not fit; those that do not are left out."""
    nodes: list[Object] = []
    running: list[Object] = []
    held: dict[str, list[int]] = {}
    for r, rack in enumerate(racks):
        for i, pods in enumerate(rack):
            name = f"r{r}n{i}"
            nodes.append(gpu_node(name, gpus=4, rack=f"r{r}"))
            held[name] = []
            for size in pods:
                if sum(held[name]) + size <= 4:
                    running.append(member("run", f"{name}-{len(held[name])}", gpus=size, on=name))
                    held[name].append(size)
    plan = cycle(
        topology(RACK), queue(), priority_class("low", 1), priority_class("high", 9), *nodes,
        gang("run", 0, phase="Running", priorityClassName="low"), *running,
        gang("job", len(wanted), RACK, priorityClassName="high"),
        *[member("job", i, gpus=size, priority=9) for i, size in enumerate(wanted)],
        actions="enqueue, allocate, preempt",
    )  # fmt: skip
    fewest = min(
        (n for r, rack in enumerate(racks) if (n := least(held, [f"r{r}n{i}" for i in range(len(rack))], wanted)) >= 0),
        default=-1,
    )
    assert bool(where(plan, "job")) == (fewest >= 0)
    assert len(plan.evictions) == max(fewest, 0)
    assert len({eviction.node[:2] for eviction in plan.evictions}) <= 1
    assert not plan.warnings


def least(held: dict[str, list[int]], rack: list[str], wanted: list[int]) -> int:
    """The fewest pods that must leave the rack; −1 if it is not enough if all do."""
    pods = [(name, i) for name in rack for i in range(len(held[name]))]
    for count in range(len(pods) + 1):
        for gone in combinations(pods, count):
            idle = [4 - sum(s for i, s in enumerate(held[name]) if (name, i) not in gone) for name in rack]
            if fills(idle, wanted):
                return count
    return -1
