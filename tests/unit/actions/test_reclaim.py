"""reclaim: a queue below its deserved share takes capacity from others, by muster's rules and by Volcano's."""

from __future__ import annotations

from typing import Any

import pytest

from builders.manifests import node, queue, state_of
from builders.queued_jobs import evicted, job, of, placed, task
from fakes.plugins import Refuse, real, session_of, stub
from muster.actions import reclaim
from muster.engine.core.hooks import Overused, Plugin, Preemptive, Protection, QueueOrder, Reason, Reclaimable
from muster.engine.core.nodes import MoveKind
from muster.engine.core.session import Session
from muster.engine.core.state import State

BOTH = pytest.mark.parametrize("compatibility", ["", "volcano"])


def cluster(*objects: Any, nodes: int = 1, cpu: int = 2, **of_rich: Any) -> State:
    """Queue rich has `busy` with one pod per core of n1; queue poor waits."""
    busy = job("busy", queue="rich", running=cpu, least=0)
    return state_of(
        *(node(f"n{i + 1}", cpu=cpu) for i in range(nodes)), queue("poor"), queue("rich", **of_rich), busy, *objects
    )


def claimer(name: str = "claim", count: int = 1, **more: Any) -> Any:
    return job(name, queue="poor", waiting=count, **more)


def give_up_all() -> Plugin:
    """Names every candidate; queues deserve whatever they claim."""
    return stub("all", Reclaimable, reclaimable=lambda claimer, candidates: [True] * len(candidates))


def run(state: State, *plugins: Plugin, actions: tuple[str, ...] = ("allocate", "reclaim"), **more: Any) -> Session:
    session = session_of(
        state, [real("gang"), real("predicates"), *(plugins or (give_up_all(),))], actions=actions, **more
    )
    reclaim.run(session)
    return session


def promised(session: Session) -> dict[str, str]:
    return placed(session, MoveKind.PIPELINE)


@BOTH
def test_a_job_takes_what_it_needs_from_another_queue_and_no_more(compatibility: str) -> None:
    session = run(cluster(claimer()), real("proportion"), compatibility=compatibility)
    assert evicted(session) in (["busy-0"], ["busy-1"]) and promised(session) == {"claim-0": "n1"}
    assert {move.rule for move in session.committed if move.kind == MoveKind.EVICT} == {"reclaim"}


@BOTH
def test_pods_of_its_own_queue_stay(compatibility: str) -> None:
    state = state_of(node(cpu=2), queue("poor"), job("mine", queue="poor", running=2, least=0), claimer())
    assert evicted(run(state, compatibility=compatibility)) == []


@BOTH
def test_a_queue_that_is_not_reclaimable_keeps_its_pods(compatibility: str) -> None:
    assert evicted(run(cluster(claimer(), reclaimable=False), compatibility=compatibility)) == []
    assert len(evicted(run(cluster(claimer(), reclaimable=True), compatibility=compatibility))) == 1


@BOTH
def test_a_gang_takes_its_whole_minimum_or_nothing(compatibility: str) -> None:
    assert evicted(run(cluster(claimer(count=2, least=2)), compatibility=compatibility)) == ["busy-0", "busy-1"]
    session = run(cluster(claimer(count=3, least=3)), compatibility=compatibility)
    assert session.committed == [] and session.reserved == []


@BOTH
def test_a_group_that_is_not_admitted_reclaims_nothing(compatibility: str) -> None:
    state = cluster(claimer(phase="Pending"))
    session = run(state, actions=("enqueue", "allocate", "reclaim"), compatibility=compatibility)
    assert evicted(session) == []


@BOTH
def test_a_queue_does_not_take_beyond_its_deserved_share(compatibility: str) -> None:
    """Two queues of equal weight deserve one core each."""
    mine = job("mine", queue="poor", running=1, least=0)
    state = state_of(
        node(cpu=2), queue("poor"), queue("rich"), job("busy", queue="rich", running=1, least=0), mine, claimer()
    )
    assert evicted(run(state, real("proportion"), compatibility=compatibility)) == []


@BOTH
def test_no_pod_is_evicted_where_a_filter_refuses_permanently(compatibility: str) -> None:
    plugins = (give_up_all(), Refuse(0, resolvable=False))
    assert evicted(run(cluster(claimer()), *plugins, compatibility=compatibility)) == []


@BOTH
def test_where_no_plugin_names_victims_nothing_is_claimed(compatibility: str) -> None:
    nobody = stub("nobody", Reclaimable, reclaimable=lambda claimer, candidates: [False] * len(candidates))
    assert evicted(run(cluster(claimer()), nobody, compatibility=compatibility)) == []


def test_without_a_plugin_that_names_victims_musters_rules_end_at_once() -> None:
    assert evicted(run(cluster(claimer()), real("priority"))) == []


def test_a_protection_holds_by_musters_rules() -> None:
    keep = stub("keep", Protection, protects=Reason("kept", "kept"))
    assert evicted(run(cluster(claimer()), give_up_all(), keep)) == []


def test_queues_claim_in_queue_order() -> None:
    def state() -> State:
        return cluster(claimer(), queue("third"), job("late", queue="third", waiting=1, least=1), cpu=1)

    backwards = stub("backwards", QueueOrder, queue_cmp=lambda a, b: -1 if a.name > b.name else 1)
    for rules in ("", "volcano"):
        assert promised(run(state(), compatibility=rules)) == {"claim-0": "n1"}
        assert promised(run(state(), give_up_all(), backwards, compatibility=rules)) == {"late-0": "n1"}


# --- Volcano's rules


def test_by_volcano_an_overused_queue_reclaims_nothing_and_its_jobs_read_why() -> None:
    reason = Reason("overused", "overused")
    state = cluster(claimer())
    over = stub("over", Overused, overused=lambda queue: reason if queue.name == "poor" else None)
    assert evicted(run(state, give_up_all(), over, compatibility="volcano")) == []
    assert of(state, "claim").attempt.refusal is reason


def test_by_volcano_a_queue_that_may_not_claim_for_a_pod_does_not() -> None:
    forbids = stub("forbids", Preemptive, preemptive=False)
    assert evicted(run(cluster(claimer()), give_up_all(), forbids, compatibility="volcano")) == []


def test_by_volcano_the_first_node_by_name_is_used_and_jobs_claim_until_they_no_longer_starve() -> None:
    more = job("more", queue="rich", running=2, least=0, on="n2")
    session = run(cluster(more, claimer(count=3, least=1), nodes=2), compatibility="volcano")
    assert len(evicted(session)) == 1 and promised(session) == {"claim-0": "n1"}


def test_by_volcano_the_policy_never_keeps_a_pod_from_claiming() -> None:
    state = cluster(claimer())
    task(state, "claim-0").shape.spec.preemption_policy = "Never"
    assert evicted(run(state, compatibility="volcano")) == []
