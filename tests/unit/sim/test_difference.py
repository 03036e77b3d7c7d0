"""Two simulations are compared by group."""

from __future__ import annotations

from builders.files import full_cluster, manifests, replica_set, scheduler
from builders.manifests import Manifest, group, node, pod
from muster.sim.difference import Difference, GroupDifference
from muster.sim.result import Result
from muster.sim.simulate import simulate


def run(*documents: Manifest) -> Result:
    return simulate(scheduler(), manifests(*documents).objects, 0.0, ("muster",))


def compared(first: list[Manifest], second: list[Manifest]) -> dict[str, GroupDifference]:
    return {found.group: found for found in Difference(run(*first), run(*second)).groups}


def test_equal_runs_do_not_differ() -> None:
    same = [node(), pod("a"), pod("b", on="n1")]
    assert compared(same, same) == {}


def test_a_new_gang_is_bound_and_listed_under_its_group() -> None:
    gang = [group("train", minMember=2), pod("t-0", "train"), pod("t-1", "train")]
    found = compared([node()], [node(), *gang])["default/train"]
    assert found.bound == {"default/t-0": "n1", "default/t-1": "n1"}
    assert (found.queue, found.moved, found.waiting) == ("default", {}, {})


def test_a_pod_that_a_new_pod_displaces_waits_with_its_reason() -> None:
    before = [node(cpu=2), pod("old", cpu=2, meta={"creationTimestamp": "2026-01-02T00:00:00Z"})]
    found = compared(before, [*before, pod("first", cpu=2, meta={"creationTimestamp": "2026-01-01T00:00:00Z"})])
    assert found["default/first"].bound == {"default/first": "n1"}
    assert "Insufficient cpu" in found["default/old"].waiting["default/old"]


def test_a_pod_on_another_node_is_moved() -> None:
    small, large = node("n1", cpu=2), node("n2", cpu=8)
    found = compared([small, pod("a", cpu=2)], [large, pod("a", cpu=2)])
    assert found["default/a"].moved == {"default/a": ("n1", "n2")}


def test_evictions_are_listed_with_the_claimer_and_not_as_removed() -> None:
    low = compared(full_cluster()[:-1], full_cluster())["default/low"]
    assert [(e.by, e.rule) for e in low.evicted] == [("default/boss", "preempt")]
    assert low.removed == {}
    back = Difference(run(*full_cluster()), run(*full_cluster()[:-1]))
    assert [len(of.spared) for of in back.groups if of.spared] == [1]


def test_a_pod_that_is_gone_is_removed_and_counted() -> None:
    answer = Difference(run(node(), pod("a", on="n1")), run(node())).to_dict()
    assert answer["counts"] == {"bound": 0, "moved": 0, "evicted": 0, "spared": 0, "waiting": 0, "removed": 1}


def test_pods_with_random_names_are_compared_by_their_number_and_nodes() -> None:
    def web(replicas: int) -> list[Manifest]:
        return [node("n1", cpu=2), node("n2", cpu=2), replica_set("web", replicas, pod("web"))]

    fewer = compared(web(6), web(3))["default/web"]
    assert (len(fewer.removed), fewer.bound, fewer.moved, fewer.waiting) == (1, {}, {}, {})
    more = compared(web(3), web(6))["default/web"]
    assert (len(more.bound), len(more.waiting), more.moved, more.removed) == (1, 2, {}, {})
