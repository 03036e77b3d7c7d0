"""capacity: limits, deserved amounts and reclaim, flat and in a tree of queues."""

from __future__ import annotations

from typing import Any

import pytest

from builders.manifests import Manifest, group, node, pod, queue, state_of
from builders.queued_jobs import job, named, of, opened, task, tasks
from muster.engine.core.hooks import Vote
from muster.engine.core.state import State
from muster.engine.core.statement import Statement
from muster.plugins.capacity import Capacity

GPU = "nvidia.com/gpu"


def test_a_queue_may_grow_to_its_capability_whatever_it_deserves() -> None:
    state = state_of(
        node(cpu=10, memory="10Gi"),
        queue("q", deserved={"cpu": 2}, capability={"cpu": 5}),
        job("a", running=3, waiting=4),
    )
    _, plugin = opened(Capacity, state)
    q = named(state, "q")
    assert plugin.admits(q, task(state, "a-3"), 4) == 2
    live = state_of(node(cpu=10, memory="10Gi"), queue("q", capability={"cpu": 3}), job("a", running=3, waiting=1))
    _, plugin = opened(Capacity, live)
    refusal = plugin.quota_refusal(named(live, "q"), task(live, "a-3"))
    assert refusal.message() == "queue q: cpu requested 1 + allocated 3 > spec.capability 3"


@pytest.mark.parametrize(
    ("capability", "admitted"), [({"cpu": 0}, 4), ({GPU: 0}, 0), ({GPU: 2}, 2), ({"pods": 1}, 4), ({}, 4)]
)
def test_zero_cpu_is_no_limit_zero_of_a_device_is_one(capability: dict[str, int], admitted: int) -> None:
    state = state_of(
        node(cpu=10, memory="10Gi", resources={"nvidia.com/gpu": 8}),
        queue("q", capability=capability),
        job("a", waiting=4, asks={"cpu": 1, GPU: 1}),
    )
    _, plugin = opened(Capacity, state)
    assert plugin.admits(named(state, "q"), task(state, "a-0"), 4) == admitted


@pytest.mark.parametrize(
    ("deserved", "may"),
    [({"cpu": 4}, True), ({"cpu": 3}, False), ({GPU: 1}, True), ({}, False), ({"cpu": 1, GPU: 1}, True)],
)
def test_a_claim_must_be_deserved_in_one_of_its_dimensions(deserved: dict[str, int], may: bool) -> None:
    state = state_of(
        node(cpu=10, memory="10Gi", resources={"nvidia.com/gpu": 8}), queue("q", deserved=deserved),
        job("a", running=3),
        group("b", "q", phase="Inqueue"), pod("new", "b", requests={"cpu": 1, GPU: 1}),
    )  # fmt: skip
    _, plugin = opened(Capacity, state)
    assert plugin.preemptive(named(state, "q"), task(state, "new")) is may


def victims(*, spec: dict[str, Any], holds: list[dict[str, int]], asks: dict[str, int]) -> list[bool]:
    held = [pod(f"v{i}", "v", "n1", requests=amounts) for i, amounts in enumerate(holds)]
    state = state_of(
        node(cpu=10, memory="10Gi", resources={"nvidia.com/gpu": 8}), queue("mine", deserved=asks),
        queue("theirs", **spec),
        group("c", "mine", phase="Inqueue"), pod("c", "c", requests=asks), group("v", "theirs", phase="Inqueue"), *held,
    )  # fmt: skip
    _, plugin = opened(Capacity, state)
    return plugin.reclaimable(task(state, "c"), tasks(state, *(f"v{i}" for i in range(len(holds)))))


CPU = {"cpu": 1}
BOTH = {"cpu": 1, GPU: 1}


@pytest.mark.parametrize(
    ("spec", "holds", "asks", "answers"),
    [
        ({"deserved": {"cpu": 2}}, [CPU, CPU, CPU, CPU], CPU, [True, True, False, False]),
        ({}, [CPU, CPU], CPU, [True, True]),  # what deserves nothing may always be taken
        ({"guarantee": {"resource": {"cpu": 1}}}, [CPU, CPU], CPU, [True, False]),
        ({"deserved": {"cpu": 1}}, [CPU, CPU], {GPU: 1}, [False, False]),  # nothing in common
        ({"deserved": {GPU: 2}}, [BOTH, BOTH], CPU, [False, False]),  # cpu is not deserved, the devices are
        ({"deserved": {GPU: 1}}, [BOTH, BOTH], BOTH, [True, False]),
        ({"deserved": {"pods": 1}}, [CPU, CPU], CPU, [False, False]),  # pods are deserved, but never compared
    ],
)
def test_what_may_be_taken_back(
    spec: dict[str, Any], holds: list[dict[str, int]], asks: dict[str, int], answers: list[bool]
) -> None:
    assert victims(spec=spec, holds=holds, asks=asks) == answers


def test_order_by_priority_then_share_then_who_deserves_something() -> None:
    state = state_of(
        node(cpu=10, memory="10Gi"), queue("half", deserved={"cpu": 4}), queue("full", deserved={"cpu": 1}),
        queue("none"),
        queue("vip", priority=1), job("a", "half", 2), job("b", "full", 1), job("c", "none"), job("d", "vip", 1),
    )  # fmt: skip
    live, plugin = opened(Capacity, state)
    queues = [q for name, q in live.queues.items() if name != "default"]
    ordered = sorted(queues, key=lambda q: [plugin.queue_cmp(q, o) for o in queues].count(1))
    assert [q.name for q in ordered] == ["vip", "half", "full", "none"]


# --- in a tree


def tree(*objects: Manifest | list[Manifest], level: int = 0) -> tuple[State, Capacity]:
    state = state_of(node(cpu=10, memory="10Gi", resources={"nvidia.com/gpu": 8}), *objects)
    arguments = {"ancestorReclaimLevel": level} if level else None
    _, plugin = opened(Capacity, state, arguments, enableHierarchy=True)
    return state, plugin


def test_every_ancestors_limit_holds() -> None:
    state, plugin = tree(
        queue("root"), queue("team", capability={"cpu": 4}), queue("x", parent="team"), queue("y", parent="team"),
        job("a", "x", running=3), job("b", "y", waiting=3),
    )  # fmt: skip
    assert plugin.admits(named(state, "y"), task(state, "b-0"), 3) == 1


def test_a_placement_counts_for_every_ancestor_until_it_is_undone() -> None:
    state = state_of(
        node(cpu=10, memory="10Gi"), queue("root"), queue("team", capability={"cpu": 4}), queue("x", parent="team"),
        queue("y", parent="team"), job("a", "x", waiting=3), job("b", "y", waiting=3),
    )  # fmt: skip
    session, plugin = opened(Capacity, state, enableHierarchy=True)
    statement = Statement(session)
    statement.allocate(tasks(state, "a-0", "a-1"), [0, 0])
    assert plugin.admits(named(state, "y"), task(state, "b-0"), 3) == 2
    statement.rollback()
    assert plugin.admits(named(state, "y"), task(state, "b-0"), 3) == 3


def test_admission_names_the_ancestor_that_is_full() -> None:
    state, plugin = tree(
        queue("root"), queue("team", capability={"cpu": 4}), queue("x", parent="team"), queue("y", parent="team"),
        job("a", "x", running=3, minResources={"cpu": 3}),
        job("b", "y", waiting=2, phase="Pending", minResources={"cpu": 2}),
    )  # fmt: skip
    assert plugin.enqueueable(of(state, "b")) == Vote.REJECT
    assert plugin.refusal(of(state, "b")).message() == "queue team: cpu requested 2 + allocated 3 > spec.capability 4"


def test_siblings_guarantees_are_kept_free_below_the_parent() -> None:
    state, plugin = tree(
        queue("root"), queue("team", capability={"cpu": 6}), queue("x", parent="team"),
        queue("y", parent="team", guarantee={"resource": {"cpu": 4}}), job("a", "x", waiting=5),
    )  # fmt: skip
    assert plugin.admits(named(state, "x"), task(state, "a-0"), 5) == 2


def test_without_a_root_queue_there_is_one_without_limits() -> None:
    state, plugin = tree(queue("x"), job("a", "x", waiting=5))
    assert plugin.admits(named(state, "x"), task(state, "a-0"), 5) == 5


@pytest.mark.parametrize(
    ("queues", "text"),
    [
        ([queue("q", parent="gone")], "queue q: its parent gone does not exist"),
        ([queue("q", parent="p"), queue("p", parent="q")], "queue q: its ancestors form a loop at q"),
        ([queue("q"), queue("p", parent="q")], "queue q has child queues: jobs belong into queues without any"),
    ],
)
def test_a_queue_that_has_no_place_in_the_tree_reports_it_and_others_go_on(queues: list[Manifest], text: str) -> None:
    state, plugin = tree(*queues, queue("good"), job("a", waiting=1), job("b", "good", waiting=1))
    assert plugin.admits(named(state, "q"), task(state, "a-0"), 1) == 0
    assert plugin.quota_refusal(named(state, "q"), task(state, "a-0")).message() == text
    assert plugin.admits(named(state, "good"), task(state, "b-0"), 1) == 1


def test_leaves_are_compared_by_the_ancestors_below_their_common_one() -> None:
    state, plugin = tree(
        queue("busy", deserved={"cpu": 4}), queue("calm", deserved={"cpu": 4}),
        queue("b1", parent="busy", deserved={"cpu": 2}), queue("b2", parent="busy", deserved={"cpu": 2}),
        queue("c1", parent="calm", deserved={"cpu": 1}),
        job("a", "b2", running=2), job("b", "c1", running=1), job("c", "b1", waiting=1),
    )  # fmt: skip
    b1, b2, c1 = (named(state, name) for name in ("b1", "b2", "c1"))
    assert plugin.queue_cmp(c1, b1) < 0  # calm has 1/4, busy 2/4, though b1 itself has nothing
    assert plugin.queue_cmp(b1, b2) < 0
    assert plugin.queue_cmp(b1, named(state, "busy")) < 0  # leaves before inner queues


def test_near_relatives_give_first() -> None:
    state, plugin = tree(
        queue("team"), queue("mine", parent="team"), queue("near", parent="team"), queue("far"),
        job("a", "mine"), job("b", "near"), job("c", "far"),
    )  # fmt: skip
    near, far, mine = (named(state, name) for name in ("near", "far", "mine"))
    assert plugin.victim_queue_cmp(near, far, mine) < 0
    assert plugin.victim_queue_cmp(far, near, mine) > 0
    assert plugin.victim_queue_cmp(far, far, mine) == 0


def teams(level: int) -> tuple[State, Capacity]:
    """Two teams of 1 and 3 devices, whose leaves deserve nothing; team two holds 4."""
    asks = {"cpu": 1, GPU: 1}
    return tree(
        queue("root"), queue("one", deserved={GPU: 1}), queue("two", deserved={GPU: 3}), queue("a", parent="one"),
        queue("a2", parent="one"), queue("b", parent="two"), queue("b2", parent="two"),
        job("claims", "a", waiting=1, asks=asks), job("sister", "b2", waiting=1, asks=asks),
        job("held", "b", running=4, asks=asks), level=level,
    )  # fmt: skip


def test_an_ancestors_deserved_amount_can_justify_a_claim() -> None:
    for level, may in ((0, False), (1, True)):
        state, plugin = teams(level)
        assert plugin.preemptive(named(state, "a"), task(state, "claims-0")) is may


def test_ancestors_must_hold_too_much_and_leaves_of_one_ancestor_do_not_take_from_each_other() -> None:
    state, plugin = teams(1)
    held = tasks(state, "held-0", "held-1")
    assert plugin.reclaimable(task(state, "claims-0"), held) == [True, False]
    assert plugin.reclaimable(task(state, "sister-0"), held) == [False, False]
    state, plugin = teams(0)
    held = tasks(state, "held-0", "held-1")
    assert plugin.reclaimable(task(state, "claims-0"), held) == [True, True]


@pytest.mark.parametrize(
    ("queues", "limit"),
    [
        ([queue("q")], "10, all that the cluster has"),
        ([queue("q", capability={"cpu": 4})], "spec.capability 4"),
        (
            [queue("q"), queue("b", guarantee={"resource": {"cpu": 3}})],
            "7: 3 of 10 cpu are guaranteed to b (spec.guarantee.resource)",
        ),
        (
            [queue("q"), *(queue(name, guarantee={"resource": {"cpu": 2}}) for name in "cb")],
            "6: 2 of 10 cpu are guaranteed to b, 2 to c (spec.guarantee.resource)",
        ),
        ([queue("q", capability={"cpu": 9}), queue("b", guarantee={"resource": {"cpu": 3}})], "7: 3 of 10 cpu"),
    ],
)
def test_a_limit_is_named_as_the_user_wrote_it(queues: list[Manifest], limit: str) -> None:
    state = state_of(node(cpu=10, memory="10Gi"), *queues, job("a", waiting=1, asks={"cpu": 12}))
    _, plugin = opened(Capacity, state)
    message = plugin.quota_refusal(named(state, "q"), task(state, "a-0")).message()
    assert message.startswith(f"queue q: cpu requested 12 + allocated 0 > {limit}")


def test_a_limit_in_a_tree_is_named_with_the_queue_that_sets_it() -> None:
    state, plugin = tree(
        queue("root"), queue("team", capability={"cpu": 6}), queue("x", parent="team"),
        queue("y", parent="team", guarantee={"resource": {"cpu": 4}}), job("a", "x", waiting=1, asks={"cpu": 3}),
        job("b", "y", waiting=1, asks={"cpu": 7}),
    )  # fmt: skip
    x = plugin.quota_refusal(named(state, "x"), task(state, "a-0")).message()
    assert x == "queue x: cpu requested 3 + allocated 0 > 2: 4 of 6 cpu are guaranteed to y (spec.guarantee.resource)"
    y = plugin.quota_refusal(named(state, "y"), task(state, "b-0")).message()
    assert y == "queue y: cpu requested 7 + allocated 0 > spec.capability 6 of queue team"
