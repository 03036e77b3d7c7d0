"""The page that shows a run as a picture."""

from __future__ import annotations

from builders.files import PACKING, full_cluster, manifests, scheduler
from builders.manifests import node, pod
from builders.pages import checked, self_contained
from muster.sim.report.pages import comparison_page, page
from muster.sim.result import Comparison, Result
from muster.sim.simulate import simulate


def run(*documents: dict[str, object]) -> Result:
    found = manifests(*documents)
    return simulate(scheduler(), found.objects, 0.0, ("muster",))


def test_the_page_is_whole_and_needs_nothing_from_outside() -> None:
    self_contained(page(run(*full_cluster()), "cluster.yaml"))


def test_placements_evictions_and_reasons_are_shown() -> None:
    text = page(run(*full_cluster()), "cluster.yaml")
    for message in ("default/boss", "default/low-2", "Insufficient cpu", "queue default", "preempt"):
        assert message in text


def test_what_comes_from_the_input_is_escaped() -> None:
    bad = "<script>alert(1)</script>"
    text = page(
        run(node("n1", cpu=4, labels={"volcano.sh/nodegroup-name": bad}), pod("p", nodeSelector={bad: "x"})), bad
    )
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_two_runs_stand_on_one_page() -> None:
    found = manifests(node("n1", cpu=4), node("n2", cpu=4), pod("a"), pod("b"))
    packed = simulate(scheduler(PACKING), found.objects, 0.0, ("muster",))
    spread = run(node("n1", cpu=4), node("n2", cpu=4), pod("a"), pod("b"))
    text = comparison_page(Comparison(("pack <1>", "spread"), packed, spread))
    checked(text)
    assert "Placements that differ" in text
    assert "pack &lt;1&gt;" in text


def test_a_cluster_without_nodes_is_a_page_too() -> None:
    checked(page(run(pod("p")), "empty"))
