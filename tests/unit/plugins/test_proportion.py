"""proportion: the division by weight, and what follows from what a queue deserves."""

from __future__ import annotations

from typing import Any

import pytest

from builders.manifests import group, node, pod, queue, state_of
from builders.queued_jobs import job, named, of, opened, task, tasks
from muster.engine.core.hooks import Vote
from muster.engine.core.jobs import Queue
from muster.engine.core.state import State
from muster.plugins.proportion import Proportion, WeightedQueue, divide


def shares(total: dict[str, int], *claims: WeightedQueue) -> list[dict[str, float]]:
    divide(total, claims)
    return [claim.deserved for claim in claims]


def claim(weight: int, cpu: int, real: int = 100, guarantee: int = 0) -> WeightedQueue:
    return WeightedQueue(weight, {"cpu": cpu}, {"cpu": real, "memory": 0}, {"cpu": guarantee} if guarantee else {})


@pytest.mark.parametrize(
    ("claims", "deserved"),
    [
        ([claim(1, 50), claim(1, 50)], [50, 50]),
        ([claim(1, 90), claim(3, 90)], [25, 75]),
        ([claim(1, 10), claim(1, 90)], [10, 90]),  # what one does not want goes to the other
        ([claim(1, 90, real=20), claim(1, 90)], [20, 80]),
        ([claim(1, 90, guarantee=60), claim(1, 90)], [60, 50]),  # a guarantee is not divided away again
        ([claim(1, 10), claim(1, 10)], [10, 10]),
    ],
)
def test_division_by_weight(claims: list[WeightedQueue], deserved: list[float]) -> None:
    found = shares({"cpu": 100, "memory": 0}, *claims)
    assert [d["cpu"] for d in found] == pytest.approx(deserved)


def test_each_dimension_is_divided_by_itself() -> None:
    real = {"cpu": 100, "memory": 100, "pods": 10}
    few = WeightedQueue(1, {"cpu": 80, "memory": 10, "pods": 2}, real, {})
    many = WeightedQueue(1, {"cpu": 80, "memory": 100, "pods": 4}, real, {})
    found = shares(real, few, many)
    assert found[0] == pytest.approx({"cpu": 50, "memory": 10, "pods": 2})
    assert found[1] == pytest.approx({"cpu": 50, "memory": 90, "pods": 4})


def test_a_rounding_error_is_not_taken_off_what_a_queue_was_given() -> None:
    """Two rounds; after the first the sum of the parts of cpu is a little more than there is."""
    asks = [(1, 7000, 19000), (6, 14000, 5000), (2, 3000, 11000)]
    total = {"cpu": 15000, "memory": 19000}
    found = shares(
        total, *(WeightedQueue(weight, {"cpu": cpu, "memory": memory}, total, {}) for weight, cpu, memory in asks)
    )
    assert found[2]["cpu"] == 3000


def two(**spec: Any) -> State:
    """10 cpu; queue a holds 6 and requests 9, queue b requests 9."""
    return state_of(
        node(cpu=10, memory="10Gi"), queue("a", **spec), queue("b"), job("ja", "a", 6, 3), job("jb", "b", 0, 9)
    )


def test_a_queue_takes_no_more_than_it_deserves_counted_exactly() -> None:
    state = two()
    live, plugin = opened(Proportion, state)
    a, b = named(state, "a"), named(state, "b")
    assert plugin.admits(a, task(state, "ja-6"), 3) == 0
    assert plugin.admits(b, task(state, "jb-0"), 9) == 5
    live.statement().pipeline(tasks(state, "jb-0", "jb-1"), [0, 0])  # promised capacity counts, too
    assert plugin.admits(b, task(state, "jb-2"), 7) == 3
    message = plugin.quota_refusal(a, task(state, "ja-6")).message()
    assert message == "queue a: cpu requested 1 + allocated 6 > share 5 (spec.weight 1 of 2)"


def test_evictions_are_taken_off_and_undone_exactly() -> None:
    state = two()
    live, plugin = opened(Proportion, state)
    statement = live.statement()
    statement.evict(task(state, "ja-0"), None, "reclaim")
    statement.evict(task(state, "ja-1"), None, "reclaim")
    assert plugin.admits(named(state, "a"), task(state, "ja-6"), 3) == 1
    statement.discard()
    assert plugin.admits(named(state, "a"), task(state, "ja-6"), 3) == 0


def test_dimensions_that_the_pod_does_not_ask_for_do_not_hold_it_back() -> None:
    state = state_of(
        node(cpu=10, memory="4Gi"), queue("a"), queue("b"), job("jb", "b", 0, 4, asks={"cpu": 1, "memory": "1Gi"}),
        group("ja", "a", phase="Inqueue"), pod("old", "ja", "n1", requests={"cpu": 1, "memory": "4Gi"}),
        pod("new", "ja", requests={"cpu": 1}),
    )  # fmt: skip
    _, plugin = opened(Proportion, state)
    assert plugin.admits(named(state, "a"), task(state, "new"), 1) == 1


def test_overused_is_full_in_every_dimension() -> None:
    # a deserves 2 cpu and 3 pods (it requests three), and holds 2 cpu in 2 pods
    state = state_of(
        node(cpu=4, memory="10Gi"), queue("a"), queue("b"), job("jb", "b", 0, 4),
        job("ja", "a", 2), group("rest", "a", phase="Inqueue"), pod("free", "rest", requests={}),
    )  # fmt: skip
    live, plugin = opened(Proportion, state)
    assert plugin.overused(named(state, "a")) is None
    live.statement().allocate(tasks(state, "free"), [0])
    reason = plugin.overused(named(state, "a"))
    assert reason is not None and reason.code == "queue-overused"
    assert "cpu allocated 2 >= share 2 (spec.weight 1 of 2)" in reason.message()


def test_order_is_by_priority_then_by_share() -> None:
    def first(state: State) -> str:
        _, plugin = opened(Proportion, state)
        queues: list[Queue] = [named(state, "a"), named(state, "b")]
        return "a" if plugin.queue_cmp(*queues) < 0 else "b"

    assert first(two()) == "b"
    assert first(two(priority=1)) == "a"


def test_victims_are_what_a_queue_uses_beyond_what_it_deserves() -> None:
    state = two()
    _, plugin = opened(Proportion, state)
    victims = tasks(state, "ja-0", "ja-1", "ja-2")
    # 6 pods are held, 5 deserved
    assert plugin.reclaimable(task(state, "jb-0"), victims) == [True, False, False]


def minimums(**spec: Any) -> State:
    small = {"cpu": 4}
    return state_of(
        node(cpu=10, memory="10Gi"), queue("a", **spec),
        job("held", "a", running=3, least=1, minResources={"cpu": 2}),
        job("in", "a", waiting=2, least=2, minResources={"cpu": 2}),
        job("one", "a", waiting=1, phase="Pending", minResources=small),
        job("two", "a", waiting=1, phase="Pending", minResources=small),
    )  # fmt: skip


def test_admission_counts_what_is_used_reserved_and_requested() -> None:
    # 3 held (1 of them above its minimum) and 2 reserved: a limit of 8 leaves 4
    state = minimums(capability={"cpu": 8})
    _, plugin = opened(Proportion, state)
    one, two = of(state, "one"), of(state, "two")
    assert plugin.enqueueable(one) == Vote.PERMIT
    plugin.enqueued(one)
    assert plugin.enqueueable(two) == Vote.REJECT
    assert plugin.refusal(two).message() == (
        "queue a: cpu requested 4 + allocated 3 + inqueue 6 - elastic 1 > spec.capability 8"
    )


def test_what_an_admitted_job_already_uses_is_not_reserved_again() -> None:
    state = state_of(
        node(cpu=4, memory="10Gi"), queue("a"),
        job("in", "a", running=1, waiting=1, phase="Inqueue", minResources={"cpu": 2}),
        job("new", "a", waiting=1, phase="Pending", minResources={"cpu": 2}),
    )  # fmt: skip
    _, plugin = opened(Proportion, state)
    assert plugin.enqueueable(of(state, "new")) == Vote.PERMIT


def test_gated_pods_reserve_nothing() -> None:
    gates = [{"name": "wait"}]
    state = state_of(
        node(cpu=4, memory="10Gi"), queue("a"), group("in", "a", phase="Inqueue", minResources={"cpu": 4}),
        pod("gated", "in", requests={"cpu": 4}, schedulingGates=gates),
        job("new", "a", waiting=1, phase="Pending", minResources={"cpu": 4}),
    )  # fmt: skip
    _, plugin = opened(Proportion, state)
    assert plugin.enqueueable(of(state, "new")) == Vote.PERMIT


def test_others_guarantees_are_kept_free() -> None:
    state = state_of(
        node(cpu=10, memory="10Gi"), queue("a"), queue("b", guarantee={"resource": {"cpu": 4}}),
        job("new", "a", waiting=1, phase="Pending", minResources={"cpu": 7}),
    )  # fmt: skip
    _, plugin = opened(Proportion, state)
    message = plugin.refusal(of(state, "new")).message()
    limit = "6: 4 of 10 cpu are guaranteed to b (spec.guarantee.resource)"
    assert message == f"queue a: cpu requested 7 + allocated 0 > {limit}"


def test_a_closed_queue_takes_nothing() -> None:
    state = state_of(
        node(cpu=10, memory="10Gi"), queue("a", state="Closed"), job("new", "a", waiting=1, minResources={"cpu": 1})
    )
    _, plugin = opened(Proportion, state)
    a, new = named(state, "a"), task(state, "new-0")
    assert plugin.enqueueable(of(state, "new")) == Vote.REJECT
    assert (plugin.admits(a, new, 1), plugin.preemptive(a, new)) == (0, False)
    assert plugin.quota_refusal(a, new).message() == "queue a is Closed, not Open"
