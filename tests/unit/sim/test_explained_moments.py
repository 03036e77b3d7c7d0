"""The names that explain accepts, the cycle that it shows, and the pod that stands for a gang."""

from __future__ import annotations

import pytest

from builders.files import PREEMPTING, full_cluster, manifests, replica_set, scheduler
from builders.manifests import Manifest, group, manifest, node, pod
from muster.engine.placement.turns import TurnKind
from muster.model.finding import InputError
from muster.sim.explain import Explanation, explain
from muster.sim.simulate import simulate

NAMES = ("muster",)


def about(
    name: str, *documents: Manifest, namespace: str | None = None, cycle: int | None = None, before: bool = False
) -> Explanation:
    found = manifests(*documents)
    return explain(
        scheduler(PREEMPTING), found.objects, found.latest, NAMES, name,
        namespace=namespace, cycle=cycle, before=before,
    )  # fmt: skip


def gang(size: int = 3, cpu: str = "2") -> list[Manifest]:
    pods = [pod(f"g-{i}", group="g", cpu=cpu) for i in range(size)]
    return [group("g", minMember=size), *pods]


def deployment(name: str, replicas: int, cpu: str) -> Manifest:
    template = pod("t", cpu=cpu, labels={"app": name})
    del template["metadata"]["name"]
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": template["metadata"], "spec": template["spec"]},
    }
    return manifest("apps/v1", "Deployment", name, spec=spec)


# --- names


@pytest.mark.parametrize("name", ["deploy/web", "deployment/web", "Deployments/web", "deployments.apps/web"])
def test_an_owner_stands_for_its_first_pod_without_a_node(name: str) -> None:
    answer = about(name, node("n1", cpu=3), deployment("web", 2, "2"), namespace="default")
    assert answer.pod.startswith("default/web-")
    assert answer.decision.node is None
    assert any("stands for deployment" in note for note in answer.notes)


def test_three_parts_name_the_namespace_too() -> None:
    documents = [node("n1", cpu=4), replica_set("low", 1, pod("low"))]
    assert about("default/rs/low", *documents).pod == about("rs/low", *documents).pod


def test_a_pod_wins_over_an_owner_of_the_same_name_and_a_note_says_so() -> None:
    documents = [node("n1", cpu=4), group("a", namespace="default", minMember=1), pod("b", group="a")]
    answer = about("pg/a", *documents, pod("a", namespace="pg"), namespace="default")
    assert answer.pod == "pg/a"
    assert answer.notes == ["there is also a podgroup default/a with pods; the pod pg/a was taken"]


def test_a_gang_that_is_bound_stands_for_its_first_pod() -> None:
    answer = about("pg/g", node("n1", cpu=8), *gang())
    assert (answer.pod, answer.decision.node) == ("default/g-0", "n1")
    assert answer.gang is not None
    assert (answer.gang.minimum, answer.gang.pods, answer.gang.placed, answer.gang.failing) == (3, 3, 3, None)


def test_a_gang_that_waits_names_the_pod_that_fails() -> None:
    answer = about("podgroup/g", node("n1", cpu=5), *gang())
    assert answer.gang is not None and answer.gang.failing is not None
    assert answer.pod == answer.gang.failing.pod == "default/g-2"
    assert "Insufficient cpu" in answer.gang.failing.reason
    assert answer.placed_before == 2


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("deploy/none", "there is no pod deploy/none and no deployment default/none"),
        ("a/deploy/none", "there is no deployment a/none"),
        ("a/b/c/d", "names no pod"),
        ("/x", "names no pod"),
    ],
)
def test_a_name_that_nothing_has_is_one_clear_line(name: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        about(name, node("n1", cpu=1))


# --- moments


def test_the_nodes_are_those_after_the_pods_before_it_were_placed() -> None:
    answer = about("g-2", node("n1", cpu=4), node("n2", cpu=4), *gang())
    assert (answer.cycle, answer.placed_before) == (1, 2)
    assert [reason.code for _, reason, _ in answer.nodes["n1"].reasons] == []
    full = about("g-2", node("n1", cpu=4), node("n2", cpu=2), *gang())
    assert sum(trace.feasible for trace in full.nodes.values()) == 1


def test_a_pod_that_its_gang_drags_along_shows_its_own_attempt() -> None:
    answer = about("g-1", node("n1", cpu=5), *gang())
    assert answer.decision.node is None
    assert answer.nodes["n1"].feasible and answer.placed_before == 1
    assert answer.gang is not None and answer.gang.failing is not None


def test_the_cycle_that_bound_the_pod_is_shown_and_others_on_request() -> None:
    bound = about("boss", *full_cluster())
    assert (bound.decision.node, bound.turn_kind) == ("n1", TurnKind.ASSIGNED)
    assert bound.cycle > 1
    first = about("boss", *full_cluster(), cycle=1)
    assert (first.decision.pipelined, first.turn_kind) == ("n1", TurnKind.CLAIM)
    assert not first.nodes["n1"].feasible
    with pytest.raises(InputError, match="cycle 99"):
        about("boss", *full_cluster(), cycle=99)


def test_a_cycle_after_the_decision_is_refused_with_the_right_one() -> None:
    documents = [node("n1", cpu=2), pod("p"), pod("q", cpu="9")]
    found = manifests(*documents)
    last = simulate(scheduler(), found.objects, found.latest, NAMES).cycles
    with pytest.raises(InputError, match=f"cycle {last} decided nothing about default/p: see cycle 1"):
        about("p", *documents, cycle=last)


def test_before_shows_the_first_state_and_excludes_a_cycle() -> None:
    answer = about("g-2", node("n1", cpu=4), node("n2", cpu=2), *gang(), before=True)
    assert (answer.cycle, answer.placed_before) == (0, 0)
    assert all(trace.feasible for trace in answer.nodes.values())
    with pytest.raises(InputError, match="either"):
        about("g-2", node("n1", cpu=4), *gang(), before=True, cycle=1)


def test_a_pod_that_was_evicted_in_the_run_is_accepted() -> None:
    found = manifests(*full_cluster())
    gone = simulate(scheduler(), found.objects, found.latest, NAMES).evictions[0]
    answer = about(gone.pod, *full_cluster())
    assert answer.pod == gone.pod
    assert "evicted" in str(answer.to_dict())


# --- scores


def test_the_scores_that_decided_are_named_with_the_runner_up() -> None:
    answer = about("p", node("n1", cpu=4), node("n2", cpu=8), pod("old", on="n1"), pod("p"))
    assert answer.deciding is not None
    assert (answer.deciding.node, answer.deciding.runner_up) == ("n2", "n1")
    assert answer.deciding.difference > 0
    largest = [abs(term.difference) for term in answer.deciding.terms]
    assert largest == sorted(largest, reverse=True)
    assert {term.plugin for term in answer.deciding.terms} == {"nodeorder"}


def test_one_candidate_needs_no_scores() -> None:
    assert about("p", node("n1", cpu=4), node("n2", cpu=1), pod("p", cpu="2")).deciding is None
