"""Findings of `muster validate` about topologies, HyperNodes and groups that request them."""

from __future__ import annotations

import pytest

from builders.manifests import queue, state_of
from builders.racks import RACK, ZONE, gang, gpu_node, hypernode, members, scheduler, topology
from muster.model.finding import Finding
from muster.model.meta import Object
from muster.plugins.topology import Topology

NODES = [gpu_node("a", rack="r1"), gpu_node("b", rack="r2"), queue()]


def message(*objects: Object) -> list[Finding]:
    session = scheduler().session(state_of(*NODES, *objects), 0.0)
    return Topology.examine(session)


def test_a_sound_cluster_is_passed_over_in_silence() -> None:
    assert message(topology(RACK), hypernode("s", 1, "a"), gang("job", 2, RACK), *members("job", 2)) == []


@pytest.mark.parametrize(
    ("objects", "codes"),
    [
        ([topology()], ["topology-without-levels"]),
        ([topology(RACK, RACK)], ["topology-level-twice"]),
        ([topology(ZONE)], ["topology-without-nodes"]),
        ([topology("")], ["topology-level", "topology-without-levels"]),
        ([topology(RACK), gang("job", 1, ZONE)], ["topology"]),
        ([gang("job", 1, RACK)], ["topology"]),
        ([topology(RACK), gang("job", 1, RACK, tree="")], ["topology-not-named"]),
        ([hypernode("x", 1, "y", kind="HyperNode"), hypernode("y", 2, "x", kind="HyperNode")], ["hypernode-cycle"]),
        ([gang("job", 1, networkTopology={"mode": "hard", "highestTierAllowed": 1})], ["topology"]),
        ([hypernode("s", 1, "a"), gang("job", 1, networkTopology={"mode": "firm"})], ["topology-mode"]),
    ],
)
def test_each_fault_has_its_code(objects: list[Object], codes: list[str]) -> None:
    assert [finding.code for finding in message(*objects)] == codes


def test_a_finding_names_its_object_and_the_remedy() -> None:
    (finding,) = message(topology(RACK), gang("job", 1, ZONE))
    assert finding.object == "PodGroup d/job" and finding.severity == "error" and finding.fix
    assert finding.message.startswith("the group requires the level zone, but the topology tree has rack")


def test_sub_groups_are_looked_at_too() -> None:
    near = {"topology": "tree", "requiredTopologyLevel": ZONE}
    (finding,) = message(topology(RACK), gang("job", 1, RACK, subGroups=[{"name": "left", "topologyConstraint": near}]))
    assert finding.message.startswith("sub-group left requires the level zone")
