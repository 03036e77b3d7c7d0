"""Why a claim evicts this pod and no other, and what the watch records of a claim."""

from __future__ import annotations

from typing import Any

import pytest

from builders.manifests import Manifest, group, node, pod, priority_class, queue, state_of
from builders.queued_jobs import session
from muster.actions import preempt, reclaim
from muster.engine.core.session import Session
from muster.engine.placement.turns import Turns
from muster.sim.eviction_options import ClaimWatch, EvictedPod

CLASSES = [priority_class("low", 1), priority_class("mid", 5), priority_class("high", 10)]


def running(name: str, count: int = 1, least: int = 1, on: str = "n1", created: int = 0, **more: Any) -> list[Manifest]:
    level, where = more.pop("level", "low"), more.pop("queue", "q")
    value = {"low": 1, "mid": 5}[level]
    meta = {"creationTimestamp": f"2026-01-01T00:00:0{created}Z"}
    pods = [pod(f"{name}-{i}", name, on, priority=value, meta=meta, **more) for i in range(count)]
    return [group(name, where, minMember=least, phase="Running", priorityClassName=level), *pods]


def decided(
    pod_name: str, *objects: Manifest, cpu: int = 1, nodes: tuple[int, ...] = (2,)
) -> tuple[Session, ClaimWatch]:
    """Runs reclaim and preempt for default/new, which watches the pod of that name."""
    claimer = [group("new", "q", phase="Inqueue", priorityClassName="high"), pod("new", "new", cpu=cpu, priority=10)]
    made = [node(f"n{i + 1}", cpu=size) for i, size in enumerate(nodes)]
    live = session(state_of(*CLASSES, *made, queue("q"), queue("other"), *claimer, *objects),
                   "gang", "priority", "conformance", "proportion")  # fmt: skip
    watch = ClaimWatch(f"default/{pod_name}")
    live.turns = Turns(lambda task: False, claims=watch)
    reclaim.run(live)
    preempt.run(live)
    live.turns.end(live)
    return live, watch


def evicted(*arguments: Any, **more: Any) -> EvictedPod:
    found = decided(*arguments, **more)[1].evicted
    assert found is not None
    return found


def test_the_lowest_priority_goes_first() -> None:
    found = evicted("a-0", *running("a"), *running("b", level="mid"))
    assert (found.by, found.action, found.rule, found.node) == ("default/new", "preempt", "priority", "n1")
    assert found.why == "priority 1 is lower than 10; lowest priority (1) of 2 pods that may be evicted on n1"
    assert found.to_dict(3)["for"] == "default/new" and found.to_dict(3)["cycle"] == 3


@pytest.mark.parametrize(
    ("pod_name", "objects", "more", "why"),
    [
        ("b-0", [*running("a"), *running("b", created=1)], {}, "newest of 2 pods that may be evicted on n1"),
        ("a-0", [*running("a", cpu=2)], {"cpu": 2}, "it is the only pod that may be evicted on n1"),
        ("a-0", [*running("a"), *running("b")], {"cpu": 2}, "all 2 pods that may be evicted on n1 are needed"),
        ("a-1", running("a", 2, least=2), {}, "gang default/a is evicted as a whole (2 pods)"),
        (
            "a-0", [*running("a", cpu=2), *running("b", on="n2", cpu=2, level="mid")], {"nodes": (2, 2)},
            "n1 costs least of 2 nodes: on n2 a pod of priority 5 would go",
        ),
        (
            "a-0", [*running("a", cpu=2), *running("b", 2, on="n2")], {"nodes": (2, 2), "cpu": 2},
            "n1 costs least of 2 nodes: on n2 2 pods would go",
        ),
        ("b-0", [*running("a"), *running("b", cpu=3)], {"cpu": 3, "nodes": (4,)}, "it frees more than others of 2"),
        (
            "b-0", [*running("a"), *running("b", level="mid", cpu=3)], {"cpu": 3, "nodes": (4,)},
            "default/a-0 would go first, but does not free enough",
        ),
        ("b-0", [*running("a"), *running("b")], {}, "last by name of 2 pods"),
    ],
)  # fmt: skip
def test_the_order_of_the_search_is_the_reason(
    pod_name: str, objects: list[Manifest], more: dict[str, Any], why: str
) -> None:
    assert why in evicted(pod_name, *objects, **more).why


def test_reclaim_names_the_share_of_the_queue() -> None:
    found = evicted("a-1", *running("a", 2, queue="other"))
    assert (found.action, found.rule) == ("reclaim", "queue-share")
    assert found.why.startswith("queue other has 2 cpu and deserves 1")


def test_the_watch_has_the_claims_own_solution_first_and_changes_nothing() -> None:
    objects = [*running("a"), *running("b", on="n2"), *running("c", level="mid")]
    live, watch = decided("new", *objects, cpu=2, nodes=(2, 2))
    first, *others = watch.options
    assert first.possible and first.where == "n2"
    assert [victim.pod for victim in first.victims] == [move.task.key for move in live.committed if move.rule]
    assert [(option.where, option.possible) for option in others] == [("n1", True)]


def test_a_claim_that_fails_leaves_impossible_options() -> None:
    _, watch = decided("new", *running("a", annotations={"volcano.sh/preemptable": "false"}), cpu=2)
    (option,) = watch.options
    assert not option.possible and [one.rule for one in option.protected] == ["not-preemptable"]


def test_a_group_that_may_not_claim_says_why() -> None:
    _, watch = decided("held", *running("a", cpu=2), group("held", "q"), pod("held", "held", cpu=2, priority=10))
    (option,) = watch.options
    assert option.text == "no claim was made: the group is not admitted"
