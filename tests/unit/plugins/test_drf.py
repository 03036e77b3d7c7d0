"""drf: shares of jobs, and the tree of queues, with the tables of the hierarchical rule played by allocate."""

from __future__ import annotations

from collections import Counter

import pytest

from builders.manifests import Manifest, group, node, pod, queue, state_of, typed
from builders.queued_jobs import job, named, of, opened, option, session, task, tasks
from muster.actions import allocate
from muster.engine.core.nodes import MoveKind
from muster.engine.core.state import State
from muster.plugins.drf import Drf, weight_of


def test_the_smaller_dominant_share_goes_first() -> None:
    state = state_of(
        node(cpu=10, memory=1000, pods=100), queue("q"),
        job("a", running=2, asks={"cpu": 1}), job("b", running=1, asks={"cpu": 1, "memory": 300}),
    )  # fmt: skip
    _, plugin = opened(Drf, state)
    assert [plugin.job_key(of(state, name)) for name in "ab"] == [0.2, 0.3]


def test_pods_are_a_resource_like_any_other() -> None:
    state = state_of(node(cpu=10, memory="10Gi", pods=4), queue("q"), job("a", running=2, asks={}))
    _, plugin = opened(Drf, state)
    assert plugin.job_key(of(state, "a")) == 0.5


def test_promised_capacity_counts_and_undoing_is_exact() -> None:
    state = state_of(node(cpu=10, memory="10Gi"), queue("q"), job("a", running=1, waiting=2))
    live, plugin = opened(Drf, state)
    statement = live.statement()
    statement.pipeline(tasks(state, "a-1"), [0])
    assert plugin.job_key(of(state, "a")) == 0.2
    statement.allocate(tasks(state, "a-2"), [0])
    statement.evict(task(state, "a-0"), None, "preempt")
    assert plugin.job_key(of(state, "a")) == 0.2
    statement.discard()
    assert plugin.job_key(of(state, "a")) == 0.1


def test_victims_leave_their_job_no_smaller_a_share_than_the_claimers() -> None:
    state = state_of(
        node(cpu=10, memory="10Gi"),
        queue("q"),
        job("claims", running=1, waiting=1),
        job("a", running=4),
        job("b", running=2),
    )
    _, plugin = opened(Drf, state)
    # the claimer's job would have 2 of 10; a falls to 3, 2, 1, b to 1
    victims = tasks(state, "a-0", "a-1", "b-0", "a-2")
    assert plugin.preemptable(task(state, "claims-1"), victims) == [True, True, False, False]


def test_pods_that_are_promised_capacity_count_like_those_that_have_it() -> None:
    state = state_of(node(cpu=10, memory="10Gi"), queue("q"), job("a", waiting=3), job("b", running=1))
    live, plugin = opened(Drf, state)
    promise = live.statement()
    promise.pipeline(tasks(state, "a-0", "a-1"), [0, 0])
    assert plugin.job_key(of(state, "a")) == 0.2
    # b would be left with nothing, which is less than the 3 of 10 that a would have; without the promise it were 1.
    assert plugin.preemptable(task(state, "a-2"), tasks(state, "b-0")) == [False]
    promise.discard()
    assert plugin.job_key(of(state, "a")) == 0.0


def test_a_promise_lets_the_other_job_go_first() -> None:
    """Both jobs have a pod and two places are left; a's first pod is promised the capacity of one that leaves."""
    terminating = typed(pod("leaves", "x", "n1", requests={"cpu": 3}))
    terminating.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    state = state_of(
        node("n1", cpu=3, memory="10Gi"), node("n2", cpu=4, memory="10Gi"), queue("q"),
        group("x", "q", phase="Inqueue"), terminating,
        group("a", "q", phase="Inqueue"), pod("a", "a", "n2"), pod("a-0", "a", requests={"cpu": 3}), pod("a-1", "a"),
        pod("a-2", "a"),
        group("b", "q", phase="Inqueue"), pod("b", "b", "n2"), pod("b-0", "b"), pod("b-1", "b"),
    )  # fmt: skip
    live = session(state, "gang", "drf")
    allocate.run(live)
    bound = [t.name for move in live.committed if move.kind == MoveKind.ALLOCATE for t in move.tasks]
    assert sorted(bound) == ["b-0", "b-1"]


def test_without_hierarchy_queues_are_not_its_business() -> None:
    state = state_of(
        node(cpu=10, memory="10Gi"), queue("a"), queue("b"), job("x", "a", running=1), job("y", "b", waiting=1)
    )
    _, plugin = opened(Drf, state)
    assert plugin.queue_cmp(named(state, "a"), named(state, "b")) == 0
    assert plugin.reclaimable(task(state, "y-0"), tasks(state, "x-0")) is None


# --- the tree


def in_tree(name: str, path: str, weights: str) -> Manifest:
    return queue(name, annotations={"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights})


def bound(state: State) -> dict[str, int]:
    live = session(state, option("drf", enableHierarchy=True))
    allocate.run(live)
    return dict(Counter(t.job.name for move in live.committed for t in move.tasks if t.job is not None))


def test_rescaling_gives_each_branch_its_half_of_what_it_can_use() -> None:
    state = state_of(
        node(cpu=10, memory="10G", pods=1000),
        in_tree("sci", "root/sci", "100/50"),
        in_tree("dev", "root/eng/dev", "100/50/50"),
        in_tree("prod", "root/eng/prod", "100/50/50"),
        job("pg1", "sci", waiting=10, asks={"cpu": 1, "memory": "1G"}),
        job("pg21", "dev", waiting=10, asks={"cpu": 1}),
        job("pg22", "prod", waiting=10, asks={"memory": "1G"}),
    )
    assert bound(state) == {"pg1": 5, "pg21": 5, "pg22": 5}


def test_a_branch_that_cannot_grow_does_not_block_the_others() -> None:
    state = state_of(
        node(cpu=30, memory="30G", pods=1000),
        in_tree("q1", "root/pg1", "100/25"),
        in_tree("q2", "root/pg2", "100/25"),
        in_tree("q31", "root/pg3/pg31", "100/25/50"),
        in_tree("q32", "root/pg3/pg32", "100/25/50"),
        in_tree("q4", "root/pg4", "100/25"),
        *(job(name, f"q{name[2:]}", waiting=30, asks={"cpu": 1}) for name in ("pg1", "pg2", "pg31")),
        *(job(name, f"q{name[2:]}", waiting=30, asks={"memory": "1G"}) for name in ("pg32", "pg4")),
    )
    assert bound(state) == {"pg1": 10, "pg2": 10, "pg31": 10, "pg32": 15, "pg4": 15}


def test_weights_divide_among_siblings() -> None:
    state = state_of(
        node(cpu=9, memory="10Gi"), in_tree("a", "root/a", "1/2"), in_tree("b", "root/b", "1/1"),
        job("x", "a", waiting=9), job("y", "b", waiting=9),
    )  # fmt: skip
    assert bound(state) == {"x": 6, "y": 3}


def test_a_job_that_has_all_it_asks_for_comes_last() -> None:
    state = state_of(
        node(cpu=10, memory="10Gi"), in_tree("a", "root/a", "1/1"), in_tree("b", "root/b", "1/1"),
        job("x", "a", running=1), job("y", "b", running=3, waiting=1),
    )  # fmt: skip
    _, plugin = opened(Drf, state, enableHierarchy=True)
    assert plugin.queue_cmp(named(state, "b"), named(state, "a")) < 0


def test_reclaimed_is_what_leaves_the_claimers_queue_still_first() -> None:
    state = state_of(
        node(cpu=10, memory="10Gi"), in_tree("a", "root/a", "1/1"), in_tree("b", "root/b", "1/1"),
        group("x", "a", phase="Inqueue"), pod("big", "x", "n1", requests={"cpu": 5}),
        pod("small", "x", "n1", requests={"cpu": 3}),
        pod("more", "x"), job("y", "b", running=2, waiting=2),
    )  # fmt: skip
    live, plugin = opened(Drf, state, enableHierarchy=True)
    # b would hold 3; a holds 8, and 3 without `big`, 5 without `small`
    assert plugin.reclaimable(task(state, "y-2"), tasks(state, "big", "small")) == [False, True]
    live.statement().evict(task(state, "y-0"), None, "reclaim")
    assert plugin.reclaimable(task(state, "y-2"), tasks(state, "big", "small")) == [True, True]


def test_a_queue_without_a_path_is_neither_before_nor_behind() -> None:
    state = state_of(
        node(cpu=10, memory="10Gi"), queue("a"), in_tree("b", "root/b", "1/1"), job("x", "a", running=1), job("y", "b")
    )
    _, plugin = opened(Drf, state, enableHierarchy=True)
    assert plugin.queue_cmp(named(state, "a"), named(state, "b")) == 0


@pytest.mark.parametrize(("text", "weight"), [("2.5", 2.5), ("0.5", 1.0), ("", 1.0), ("many", 1.0)])
def test_a_weight_below_one_or_no_number_is_one(text: str, weight: float) -> None:
    assert weight_of(text) == weight
