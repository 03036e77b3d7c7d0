"""Trees from Topology and HyperNode objects, and what is reported of faulty ones."""

from __future__ import annotations

import pytest

from builders.manifests import state_of
from builders.racks import gpu_node, hypernode, made, topology
from muster.engine.core.nodes import Nodes
from muster.engine.domains.domain_sources import Source, from_hypernodes, from_topology
from muster.model.meta import Object
from muster.model.topology import HyperNode, Topology


def nodes(*objects: Object) -> Nodes:
    return state_of(*objects).nodes


def topology_source(*levels: str, api: str = "kueue.x-k8s.io/v1alpha1") -> Source:
    found = topology(*levels, api=api)
    assert isinstance(found, Topology)
    return from_topology(
        found, nodes(gpu_node("a", zone="z", rack="r"), gpu_node("b", zone="z"), gpu_node("c", rack="r", zone=""))
    )


def network(*hypernodes: Object) -> Source:
    given = {h.metadata.name: h for h in hypernodes if isinstance(h, HyperNode)}
    return from_hypernodes(given, nodes(*[gpu_node(name) for name in ("n0", "n1", "n2", "n3")]))


@pytest.mark.parametrize("api", ["kueue.x-k8s.io/v1alpha1", "kai.scheduler/v1alpha1"])
def test_a_node_needs_the_label_of_every_level_whatever_its_value(api: str) -> None:
    source = topology_source("zone", "rack", api=api)
    assert source.tree.ids[0].tolist() == [0, -1, 0]
    assert source.tree.paths[2] == ["/r", "z/r"]
    (fault,) = source.faults
    assert fault.code == "topology-partial-labels"
    assert fault.message.startswith("1 of 3 nodes have only some of the labels of its levels (zone, rack)")
    assert fault.message.endswith("the first is b, which lacks rack")


def test_a_topology_without_levels_is_reported() -> None:
    assert [fault.code for fault in topology_source().faults] == ["topology-without-levels"]


def test_a_level_that_stands_twice_counts_once() -> None:
    source = topology_source("zone", "rack", "zone")
    assert source.tree.levels == ["", "zone", "rack"]
    assert [fault.code for fault in source.faults] == ["topology-level-twice", "topology-partial-labels"]


def test_a_topology_that_no_node_belongs_to_is_reported() -> None:
    assert [fault.code for fault in topology_source("row").faults] == ["topology-without-nodes"]


def test_hypernodes_make_one_tree_whose_levels_are_the_tiers() -> None:
    source = network(
        hypernode("s0", 1, "n0", "n1"), hypernode("s1", 1, "n2"), hypernode("top", 3, "s0", "s1", kind="HyperNode")
    )
    assert source.tree.levels == ["", "3", "1"]
    assert source.tree.paths[2] == ["top/s0", "top/s1"]
    assert source.tree.ids[2].tolist() == [0, 0, 1, -1]
    assert not source.faults


def test_members_are_found_by_pattern_and_by_label() -> None:
    def picked(name: str, selector: dict[str, object]) -> Object:
        spec = {"tier": 1, "members": [{"type": "Node", "selector": selector}]}
        return made("topology.volcano.sh/v1alpha1", "HyperNode", {"name": name}, spec=spec)

    source = network(
        picked("pattern", {"regexMatch": {"pattern": "^n[01]$"}}),
        picked("label", {"labelMatch": {"matchLabels": {"kubernetes.io/hostname": "n2"}}}),
    )
    assert source.tree.paths[1] == ["label", "pattern"]
    assert source.tree.ids[1].tolist() == [1, 1, 0, -1]


@pytest.mark.parametrize("names", [("a", "b", "c"), ("c", "a", "b"), ("b", "c", "a")])
def test_hypernodes_that_contain_each_other_are_left_out_and_reported_once(names: tuple[str, str, str]) -> None:
    one, two, three = names
    source = network(
        hypernode(one, 1, two, kind="HyperNode"),
        hypernode(two, 2, three, kind="HyperNode"),
        hypernode(three, 3, one, kind="HyperNode"),
        hypernode("good", 1, "n0"),
    )
    assert source.tree.paths[1:] == [["good"]]
    assert [fault.code for fault in source.faults] == ["hypernode-cycle"]


def test_a_hypernode_in_itself_is_a_cycle() -> None:
    assert [f.code for f in network(hypernode("a", 1, "a", kind="HyperNode")).faults] == ["hypernode-cycle"]


def test_a_member_that_is_not_there_or_belongs_elsewhere_is_reported() -> None:
    source = network(hypernode("a", 1, "n0", "n9"), hypernode("b", 1, "n0", "n1"))
    assert [fault.code for fault in source.faults] == ["hypernode-member", "hypernode-overlap"]
    assert source.tree.ids[1].tolist() == [0, 1, -1, -1]


def test_what_contains_others_must_be_of_a_higher_tier() -> None:
    source = network(hypernode("low", 1, "n0"), hypernode("flat", 1, "low", kind="HyperNode"))
    assert [fault.code for fault in source.faults] == ["hypernode-tier"]
    assert source.tree.paths[1] == ["low"]
