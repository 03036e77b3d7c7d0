"""The name of a pod's PodGroup in pictures and tables, and the domain trees of a report."""

from __future__ import annotations

from builders.files import manifests, scheduler
from builders.manifests import group, manifest, node, pod, state_of
from builders.small_cluster import member_pod, pod_group, task
from muster.engine.core.podgroups import GROUP
from muster.sim.group_names import group_of
from muster.sim.report.pages import page
from muster.sim.report.topology import render as trees
from muster.sim.result import Result
from muster.sim.simulate import simulate

CONFIG = 'actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n  - name: topology\n'


def test_a_group_that_was_written_has_its_name_whatever_that_is() -> None:
    state = state_of(node("n1"), pod_group("podgroup-mine"), member_pod("a", "podgroup-mine"))
    assert group_of(task(state, "a")) == "podgroup-mine"


def test_a_group_in_memory_has_none() -> None:
    alone = member_pod("a", "")
    alone.metadata.annotations.pop(GROUP, None)
    assert group_of(task(state_of(node("n1"), alone), "a")) == ""


def run(*documents: dict[str, object]) -> Result:
    found = manifests(*documents)
    return simulate(scheduler(CONFIG), found.objects, 0.0, ("muster",))


def racks(rack: str = "rack") -> list[dict[str, object]]:
    levels = {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "rack"}]}
    gang = group("job", minMember=2)
    notes = {"kai.scheduler/topology": "tree", "kai.scheduler/topology-required-placement": "rack"}
    gang["metadata"]["annotations"] = notes
    nodes = [node(f"n{i}", cpu=4, labels={"zone": "z", "rack": f"{rack}{i // 2}"}) for i in range(4)]
    tree = manifest("kueue.x-k8s.io/v1alpha1", "Topology", "tree", spec=levels)
    return [tree, *nodes, gang, pod("p0", group="job"), pod("p1", group="job")]


def test_the_tree_is_drawn_with_what_runs_where() -> None:
    text = trees(run(*racks()))
    assert text.count('class="domain"') == 3  # a zone and two racks
    assert "job × 2" in text and "default/job" in text
    assert "zone › rack" in text
    assert trees(run(*racks())) in page(run(*racks()), "cluster.yaml")


def test_names_are_escaped() -> None:
    assert "<b>&lt;i&gt;0</b>" in trees(run(*racks("<i>")))


def test_hypernodes_are_a_tree_too() -> None:
    members = [{"type": "Node", "selector": {"regexMatch": {"pattern": "n[01]"}}}]
    switch = manifest("topology.volcano.sh/v1alpha1", "HyperNode", "s0", spec={"tier": 1, "members": members})
    text = trees(run(switch, *[node(f"n{i}", cpu=4) for i in range(3)]))
    assert text.count('class="domain"') == 1 and "1 node outside" in text


def test_without_a_topology_there_is_nothing_to_draw() -> None:
    assert trees(run(node("n1", cpu=4))) == ""
