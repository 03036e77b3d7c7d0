"""Victims: how the answers of plugins combine, the order in which pods go, and which jobs may claim."""

from __future__ import annotations

from typing import Any

import pytest

from builders.manifests import group, node, pod, queue, state_of
from builders.queued_jobs import job, named, of, task, tasks
from fakes.plugins import real, session_of, stub
from muster.engine.core.hooks import JobOrder, JobStarving, JobValid, Opinion, Plugin, Preemptable, Reason, Reclaimable
from muster.engine.core.session import Session
from muster.engine.core.state import State
from muster.engine.evictions.victims import Opinions, Victims, claimants, combine

Names = list[bool] | None
Y, N = True, False


def hooks(*answers: Names) -> list[Any]:
    return [lambda claimer, candidates, a=answer: a for answer in answers]


@pytest.mark.parametrize(
    ("tiers", "result"),
    [
        ([[[Y, N]]], [Y, N]),
        ([[[Y, Y], [N, Y]]], [N, Y]),
        ([[None, [N, Y]]], [N, Y]),
        ([[None]], None),
        ([[None], [[Y, N]]], [Y, N]),
        ([[[Y, N]], [[N, Y]]], [Y, N]),  # the first tier decides
        ([[[N, N]], [[N, Y]]], [N, Y]),  # a tier that names nobody leaves the decision to the next
        ([[[Y, Y], [N, N], [Y, N]]], None),  # an empty answer ends its tier at once
        ([[[Y, N], [N, Y]], [[Y, Y]]], [Y, Y]),
        ([[[Y, N], [N, Y], [N, Y]]], [N, Y]),  # an intersection that becomes empty counts as no answer yet
        ([], None),
    ],
)
def test_tiers_combine_as_in_volcano(tiers: list[list[Names]], result: Names) -> None:
    assert combine([hooks(*tier) for tier in tiers], None, []) == result  # type: ignore[arg-type]


def cluster() -> State:
    """Queue q: claimer `a`, and `old` and `older` run; queue r: `other` runs."""
    return state_of(
        node("n1", cpu=8), node("n2", cpu=8), queue("q"), queue("r"), job("a", waiting=1),
        job("old", running=2, least=0), job("older", running=1, least=0),
        job("other", queue="r", running=1, least=0, on="n2"),
    )  # fmt: skip


def names(answer: Any, opinion: Opinion = Opinion.ANSWER, **more: Any) -> Plugin:
    found = stub("names", Preemptable, Reclaimable, preemptable=answer, reclaimable=answer, **more)
    type(found).opinion = opinion  # type: ignore[attr-defined]
    return found


def everybody(claimer: object, candidates: list[Any]) -> list[bool]:
    return [True] * len(candidates)


def nobody(claimer: object, candidates: list[Any]) -> list[bool]:
    return [False] * len(candidates)


def only(*allowed: str) -> Any:
    return lambda claimer, candidates: [t.name in allowed for t in candidates]


def named_by(rule: str, *tiers: Any) -> list[str]:
    state = cluster()
    session = session_of(state, *tiers)
    return [t.name for t in Opinions(session, rule).named(task(state, "a-0"), tasks(state, "old-0", "old-1"))]


@pytest.mark.parametrize("rule", ["preempt", "reclaim"])
def test_within_a_tier_opinions_are_intersected_and_the_first_tier_that_names_somebody_decides(rule: str) -> None:
    assert named_by(rule, [names(everybody), names(only("old-1"))]) == ["old-1"]
    assert named_by(rule, [names(only("old-0")), names(only("old-1"))]) == []
    assert named_by(rule, names(nobody), names(only("old-0"))) == ["old-0"]
    assert named_by(rule, names(only("old-1")), names(only("old-0"))) == ["old-1"]
    assert named_by(rule, [names(None), names(only("old-0"))]) == ["old-0"]


def test_a_plugin_that_leaves_it_to_the_protections_names_all_and_one_without_opinion_nobody() -> None:
    rest, none = names(nobody, Opinion.REST), names(everybody, Opinion.NONE)
    assert named_by("preempt", [rest]) == ["old-0", "old-1"]
    assert named_by("preempt", [names(only("old-0")), rest]) == ["old-0"]
    assert named_by("preempt", [none]) == []
    assert named_by("preempt", [none], [names(only("old-0"))]) == ["old-0"]
    state = cluster()
    for tiers, all_, nobody_ in (
        ([rest], True, False),
        ([none], False, True),
        ([rest, names(everybody)], False, False),
    ):
        opinions = Opinions(session_of(state, tiers), "preempt")
        assert (opinions.names_all, opinions.names_no_victims) == (all_, nobody_)


def test_a_plugin_that_is_switched_off_or_inactive_names_nobody() -> None:
    off = names(everybody, switches={"enablePreemptable": False})
    assert named_by("preempt", off) == [] and named_by("reclaim", off) == ["old-1", "old-0"]
    inactive = names(everybody, inactive=lambda rule: rule == "reclaim")
    assert named_by("reclaim", inactive) == [] and named_by("preempt", inactive) == ["old-1", "old-0"]


# --- order


def in_order(session: Session, *candidates: str) -> list[str]:
    state = session.state
    found = Victims(session, "preempt").in_order(task(state, "a-0"), tasks(state, *candidates))
    return [t.name for t in found]


def test_the_last_job_of_a_queue_goes_first_and_of_a_job_the_last_pod() -> None:
    rank = {"default/old": 1.0, "default/older": 2.0, "default/a": 0.0, "default/other": 0.0}
    session = session_of(cluster(), stub("rank", JobOrder, job_key=lambda job: rank[job.key]))
    assert in_order(session, "old-0", "older-0", "old-1") == ["older-0", "old-1", "old-0"]
    rank["default/older"] = 0.0
    session = session_of(cluster(), stub("rank", JobOrder, job_key=lambda job: rank[job.key]))
    assert in_order(session, "older-0", "old-0", "old-1") == ["old-1", "old-0", "older-0"]


def test_of_several_queues_the_last_in_queue_order_gives_first() -> None:
    state = cluster()
    assert in_order(session_of(state, real("gang")), "old-0", "other-0") == ["other-0", "old-0"]
    named(state, "q").created = 5.0
    assert in_order(session_of(state, real("gang")), "old-0", "other-0") == ["old-0", "other-0"]


def test_the_chosen_are_those_that_the_plugins_give_up_in_victim_order() -> None:
    state = cluster()
    victims = Victims(session_of(state, names(only("old-0", "older-0"))), "preempt")
    chosen = victims.chosen(task(state, "a-0"), tasks(state, "old-0", "older-0", "old-1"))
    assert [t.name for t in chosen] == ["older-0", "old-0"]
    assert victims.chosen(task(state, "a-0"), []) == []
    assert Victims(session_of(state, names(None)), "preempt").chosen(task(state, "a-0"), tasks(state, "old-0")) == []


# --- which nodes are worth a visit


def test_nodes_where_a_plugin_of_every_tier_never_gives_up_any_job_hold_no_victims() -> None:
    state = cluster()
    keeps_old = names(everybody, never_victim=lambda job: job.name != "other")
    assert Victims(session_of(state, keeps_old), "preempt").promising.tolist() == [False, True]
    assert Victims(session_of(state, [names(everybody)]), "preempt").promising.tolist() == [True, True]
    keeps_other = names(everybody, never_victim=lambda job: job.name == "other")
    assert Victims(session_of(state, [keeps_old, keeps_other]), "preempt").promising.tolist() == [False, False]
    assert Victims(session_of(state, keeps_old, keeps_other), "preempt").promising.tolist() == [True, True]
    assert Victims(session_of(state, real("priority", enablePreemptable=False)), "preempt").promising.tolist() == [
        False, False,
    ]  # fmt: skip


def test_nodes_that_are_used_up_count_per_queue_until_an_eviction_is_taken_back() -> None:
    victims = Victims(session_of(cluster(), real("gang")), "reclaim")
    victims.exhausted("q")[0] = True
    assert victims.exhausted("q").tolist() == [True, False] and victims.exhausted("r").tolist() == [False, False]
    victims.on_rollback()
    assert victims.exhausted("q").tolist() == [False, False]


# --- who may claim


def claiming(
    state: State, *plugins: Plugin, actions: tuple[str, ...] = ("enqueue", "allocate", "preempt")
) -> list[str]:
    found = claimants(session_of(state, list(plugins) or [real("gang")], actions=actions, compatibility="volcano"))
    return [one.name for one in found]


def test_jobs_with_pods_that_wait_and_lack_their_minimum_may_claim() -> None:
    state = state_of(
        node(cpu=10), queue("q"), job("a", waiting=1), job("full", running=1, waiting=1), job("runs", running=1),
        job("lost", queue="nowhere", waiting=1),
    )  # fmt: skip
    assert claiming(state) == ["a"]


def test_a_group_that_was_not_admitted_does_not_claim() -> None:
    state = state_of(node(cpu=10), queue("q"), job("a", waiting=1, phase="Pending"), job("b", waiting=1, phase=""))
    assert claiming(state) == []
    of(state, "a").phase = "Inqueue"
    assert claiming(state) == ["a"]


def test_a_job_that_is_not_valid_does_not_claim() -> None:
    state = state_of(node(cpu=10), queue("q"), job("a", waiting=1))
    hungry, invalid = stub("hungry", JobStarving, starving=True), stub("v", JobValid, valid=Reason("no", "no"))
    assert claiming(state, hungry) == ["a"] and claiming(state, hungry, invalid) == []


def promised(cpu: int, **more: Any) -> State:
    return state_of(
        node("n1", cpu=cpu),
        queue("q"),
        group("a", "q", minMember=2, phase="Inqueue"),
        pod("a-0", "a", **more),
        pod("a-1", "a", **more),
    )


def test_a_job_whose_promised_nodes_have_the_capacity_now_is_left_to_allocate() -> None:
    state = promised(cpu=4)
    for one in tasks(state, "a-0", "a-1"):
        one.nominated = "n1"
    assert claiming(state) == []
    assert claiming(state, actions=("enqueue", "preempt")) == ["a"], "nobody would allocate it"
    task(state, "a-1").nominated = ""
    assert claiming(state) == ["a"]
    task(state, "a-1").nominated = "gone"
    assert claiming(state) == ["a"]


def test_a_job_whose_promised_node_is_still_full_claims() -> None:
    state = promised(cpu=0)
    for one in tasks(state, "a-0", "a-1"):
        one.nominated = "n1"
    assert claiming(state) == ["a"]
