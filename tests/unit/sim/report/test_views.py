"""The views of a report: what each shows, and that a page stays small."""

from __future__ import annotations

import re
from pathlib import Path

from builders.files import full_cluster, manifests, scheduler
from builders.manifests import Manifest, group, manifest, node, pod, queue
from builders.pages import self_contained
from muster.sim.api import simulate as simulate_files
from muster.sim.report import nodes, queues
from muster.sim.report.decisions import causes, evictions, gang_tables, timeline, waiting
from muster.sim.report.frame import Section, document
from muster.sim.report.node_groups import node_groups, policies
from muster.sim.report.pages import VIEWS, page
from muster.sim.result import Result
from muster.sim.simulate import simulate

CAPACITY = 'actions: "enqueue, allocate"\ntiers:\n- plugins: [{name: gang}, {name: predicates}, {name: capacity}]\n'


def run(*documents: Manifest, configuration: str = "") -> Result:
    found = manifests(*documents)
    made = scheduler(configuration) if configuration else scheduler()
    return simulate(made, found.objects, 0.0, ("muster",))


def words(html: str) -> str:
    """The text of a fragment, with single spaces."""
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def test_what_needs_attention_comes_first() -> None:
    names = [view.name for view in VIEWS]
    assert names[:4] == ["warnings", "waiting", "evictions", "queues"] and names.index("nodes") > 3
    found = self_contained(page(run(*full_cluster()), "cluster.yaml", [("command", "muster simulate")]))
    assert {"header", "nav", "main", "footer", "caption"} <= found.seen
    assert found.ids.index("waiting") < found.ids.index("nodes") < found.ids.index("origin")


def test_reasons_that_differ_in_numbers_and_own_names_are_one_cause() -> None:
    wide = [pod(f"wide-{i}", cpu=10 + i) for i in range(5)]
    result = run(node("n1", cpu=2), *wide, pod("picky", nodeSelector={"a": "b"}))
    found = causes(result)
    assert [len(cause.pods) for cause in found] == [5, 1]
    assert words(waiting(result)).count("Insufficient cpu") == 1


def test_a_queue_shows_its_parent_and_what_it_borrows() -> None:
    tree = [
        queue("company", deserved={"cpu": "4"}), queue("lab", parent="company", deserved={"cpu": "1"},
                                                        guarantee={"resource": {"cpu": "1"}}),
        group("job", "lab", minMember=3), *[pod(f"job-{i}", "job") for i in range(3)], node("n1", cpu=8),
    ]  # fmt: skip
    html = queues.render(run(*tree, configuration=CAPACITY))
    text = words(html)
    assert "company cpu D 3 4 – 0 –" in text.replace(" G", "").replace("L ", "")
    assert re.search(r"└ \w lab cpu .*3 1 1 2 –", text)
    assert 'data-queue="lab"' in html and 'class="level1"' in html


def test_queues_that_are_their_own_parents_are_shown_once() -> None:
    html = queues.render(run(queue("a", parent="b"), queue("b", parent="a"), node("n1"), pod("p")))
    assert html.count('data-queue="a"') == html.count('data-queue="b"') == 1


def test_incomplete_gangs_come_first() -> None:
    jobs = [group("big", minMember=2), *[pod(f"big-{i}", "big", cpu=9) for i in range(2)]]
    jobs += [group("apt", minMember=2), *[pod(f"apt-{i}", "apt") for i in range(2)]]
    text = words(gang_tables(run(node("n1", cpu=8), *jobs)))
    assert "1 of 2 gangs have their minimum." in text
    assert text.index("default/big") < text.index("default/apt")
    assert "n1 × 2" in text


def test_evictions_name_the_claimer_and_the_cycle() -> None:
    assert "default/low-2 n1 default/boss preempt 1" in words(evictions(run(*full_cluster())))


def test_the_timeline_has_a_row_for_each_cycle_that_did_something() -> None:
    result = run(*full_cluster())
    html = timeline(result)
    acted = [record.number for record in result.history if record.binds or record.evictions]
    assert [int(n) for n in re.findall(r'data-cycle="(\d+)"', html)] == acted


def test_few_nodes_are_boxes_and_many_are_squares_by_rack() -> None:
    few = nodes.render(run(node("n1", cpu=4), pod("p")))
    assert words(few).count("1 of 4") == 1 and 'data-pod="default/p"' in few
    labels = [{"topology.kubernetes.io/rack": f"r{i // 30}"} for i in range(60)]
    many = [node(f"n{i}", cpu=4, labels=labels[i], unschedulable=i == 7) for i in range(60)]
    html = nodes.render(run(*many, pod("p"), pod("x", on="n3", cpu=4)))
    assert html.count('<figure class="rack">') == 2 and html.count("<rect") - 5 == 60
    assert "rack r0 30 nodes: cpu 5 of 120 (4%)" in words(html) and "1 take no pods" in words(html)
    assert html.count('class="cross"') == 2 and html.count('class="dot"') == 2  # one of each is in the legend
    assert nodes.render(run(*many), names=False).count("<table") == 0


def test_node_groups_show_their_nodes() -> None:
    api = "groupmanagement.kubeedge.io/v1alpha1"
    made = manifest(api, "NodeGroup", "east", spec={"nodes": ["n1", "gone"]})
    assert re.search(r"east 1 of 1 cpu 1 of 8 .*n1", words(node_groups(run(node("n1"), made, pod("p")))))


def test_policies_show_counts_and_the_pods_that_they_move() -> None:
    case = Path(__file__).parents[3] / "cases" / "groups" / "design-example" / "cluster.yaml"
    text = words(policies(simulate_files(case)))
    assert "hangzhou D 3 3 3 none" in text
    assert "default/nginx-5d4-2 node-c beijing propagation" in text


def test_a_page_has_the_same_bytes_each_time_and_a_table_of_contents() -> None:
    one, two = (page(run(*full_cluster()), "x") for _ in range(2))
    assert one == two
    parts = [Section("a", "A", "<p>a</p>", "3"), Section("b", "B", "")]
    text = document("t", parts, "study", origin=[("version", "<1>")])
    assert text.count("<li><a href=") == 2 and '<a href="#a">A</a> <b>3</b>' in text and "&lt;1&gt;" in text
