"""Promises: kept from cycle to cycle, fulfilled first, withdrawn as a whole, and then a back-off."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from builders.manifests import Manifest, group, node, pod, queue, state_of, typed
from builders.queued_jobs import made, option
from muster.config.types import Config, Tier
from muster.cycle.scheduler import Scheduler
from muster.engine.core.plan import Plan
from muster.engine.core.state import State
from muster.engine.evictions.promises import COUNTERCLAIM_S, GRACE_S, ClaimBackoff, PromiseRecord
from muster.model.core import Pod
from muster.model.meta import key as key_of
from muster.model.pod import PodSchedulingGate

TIERS = (Tier(tuple(option(name) for name in ("priority", "gang", "predicates", "proportion"))),)
CONFIG = Config(("enqueue", "allocate", "preempt"), TIERS)
CLASSES = [made("scheduling.k8s.io/v1", "PriorityClass", {"name": n}, value=v) for n, v in (("low", 1), ("high", 10))]
FOUR = {"cpu": 4}


def high(name: str = "a", count: int = 1, least: int = 1, **spec: Any) -> list[Manifest]:
    pods = [pod(f"{name}-{i}", name, requests=FOUR, priority=10, **spec) for i in range(count)]
    return [group(name, "q", minMember=least, phase="Inqueue", priorityClassName="high"), *pods]


def low(name: str = "low", on: str = "n1") -> list[Manifest]:
    return [
        group(name, "q", phase="Running", priorityClassName="low"),
        pod(f"{name}-0", name, on, requests=FOUR, priority=1),
    ]


class Run:
    """Cycles of one scheduler over one state, with what happens in between."""

    def __init__(self, *objects: Manifest | list[Manifest], nodes: int = 1) -> None:
        self.state: State = state_of(*CLASSES, *[node(f"n{i + 1}", cpu=4) for i in range(nodes)], queue("q"), *objects)
        self.scheduler = Scheduler(CONFIG)

    def cycle(self, now: float = 0.0) -> Plan:
        """A cycle; its nominations are written to the pods."""
        plan = self.scheduler.cycle(self.state, now)
        for key, name in plan.nominated.items():
            self.nominate(key, name)
        return plan

    def nominate(self, key: str, name: str) -> None:
        old = self.pod(key)
        self.state.upsert("Pod", key, replace(old, status=replace(old.status, nominated_node_name=name)))

    def pod(self, key: str) -> Pod:
        found = self.state.tasks[key].pod
        assert isinstance(found, Pod)
        return found

    def leaves(self, key: str) -> None:
        old = self.pod(key)
        meta = replace(old.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
        self.state.upsert("Pod", key, replace(old, metadata=meta))

    def gone(self, key: str, kind: str = "Pod") -> None:
        self.state.remove(kind, key)

    def comes(self, *manifests: Manifest) -> None:
        for one in map(typed, manifests):
            self.state.upsert(type(one).__name__, key_of(one), one)

    @property
    def book(self) -> PromiseRecord:
        return self.state.promises


def promised() -> Run:
    """A claim was made for default/a-0, and its victim is terminating."""
    run = Run(high(), low())
    plan = run.cycle()
    assert [e.pod for e in plan.evictions] == ["default/low-0"] and plan.nominated == {"default/a-0": "n1"}
    assert plan.promises_changed
    run.leaves("default/low-0")
    return run


def test_a_promise_is_kept_while_the_victim_leaves_and_nobody_else_gets_the_capacity() -> None:
    run = promised()
    run.comes(*high("b"))
    for now in (1.0, 100.0):
        plan = run.cycle(now)
        assert plan.nominated == {"default/a-0": "n1"} and not plan.evictions and not plan.binds
        assert not plan.promises_changed
    run.gone("default/low-0")
    assert run.cycle(101.0).binds == {"default/a-0": "n1"}


def test_it_is_fulfilled_whatever_the_order_and_the_quota_of_the_queue_say() -> None:
    run = promised()
    run.comes(*high("0"))  # before default/a by name
    run.comes(node("n2", cpu=4), queue("other", guarantee={"resource": {"cpu": 8}}))  # q deserves nothing any more
    run.gone("default/low-0")
    assert run.cycle(1.0).binds["default/a-0"] == "n1"


def test_it_is_withdrawn_when_the_node_cannot_hold_it_any_more() -> None:
    run = promised()
    run.gone("default/low-0")
    run.comes(node("n1", cpu=2))
    plan = run.cycle(1.0)
    assert not plan.nominated and not plan.binds and plan.promises_changed
    assert run.book.backoff["default/a"] == ClaimBackoff(11.0, 10.0, "node n1 cannot hold default/a-0 any more")
    assert plan.again_at == 11.0


def test_it_is_withdrawn_when_the_node_is_gone() -> None:
    run = promised()
    run.gone("default/low-0")
    run.gone("n1", "Node")
    assert not run.cycle(1.0).nominated
    assert run.book.backoff["default/a"].why == "node n1 is gone"


def test_the_promise_of_a_gang_is_withdrawn_as_a_whole() -> None:
    run = Run(high(count=2, least=2), low("x", "n1"), low("y", "n2"), nodes=2)
    assert set(run.cycle().nominated) == {"default/a-0", "default/a-1"}
    run.leaves("default/x-0")
    run.leaves("default/y-0")
    assert set(run.cycle(1.0).nominated) == {"default/a-0", "default/a-1"}
    run.gone("n2", "Node")
    assert not run.cycle(2.0).nominated


def test_a_deleted_claimer_frees_the_capacity() -> None:
    run = promised()
    run.gone("default/a-0")
    run.gone("default/low-0")
    run.comes(*low("next", ""))
    plan = run.cycle(1.0)
    assert plan.binds == {"default/next-0": "n1"} and not plan.nominated and not run.book.nodes.get("default/a")


def test_capacity_that_is_free_is_kept_for_thirty_seconds() -> None:
    """A gated pod cannot be bound."""
    run = promised()
    run.gone("default/low-0")
    gated = replace(run.pod("default/a-0").spec, scheduling_gates=[PodSchedulingGate(name="wait")])
    run.state.upsert("Pod", "default/a-0", replace(run.pod("default/a-0"), spec=gated))
    plan = run.cycle(50.0)
    assert plan.nominated == {"default/a-0": "n1"} and plan.again_at == 50.0 + GRACE_S
    assert run.cycle(50.0 + GRACE_S - 1).nominated == {"default/a-0": "n1"}
    assert not run.cycle(50.0 + GRACE_S).nominated
    assert "30 s" in run.book.backoff["default/a"].why


def test_a_claimer_whose_promise_was_withdrawn_claims_again_after_its_back_off() -> None:
    run = promised()
    run.gone("default/low-0")
    run.comes(*low("next"))  # somebody else bound a pod to the node
    assert not run.cycle(1.0).evictions
    assert not run.cycle(10.9).evictions
    assert [e.pod for e in run.cycle(11.0).evictions] == ["default/next-0"]


@pytest.mark.parametrize(("before", "after"), [(10.0, 20.0), (160.0, 300.0), (300.0, 300.0)])
def test_the_back_off_doubles_up_to_five_minutes(before: float, after: float) -> None:
    run = promised()
    run.book.backoff["default/a"] = ClaimBackoff(0.0, before, "")
    run.gone("default/low-0")
    run.comes(*low("next"))
    run.cycle(1.0)
    assert run.book.backoff["default/a"].wait == after and run.book.backoff["default/a"].until == 1.0 + after


def test_the_back_off_is_reset_when_the_claimer_is_bound() -> None:
    run = promised()
    run.book.backoff["default/a"] = ClaimBackoff(0.0, 40.0, "")
    run.gone("default/low-0")
    assert run.cycle(1.0).binds and not run.book.backoff


def test_nominations_of_an_earlier_run_are_adopted() -> None:
    run = promised()
    run.state.promises = PromiseRecord()
    run.comes(*high("0"))
    assert run.cycle(1.0).nominated == {"default/a-0": "n1"}
    run.gone("default/low-0")
    run.state.promises = PromiseRecord()
    assert run.cycle(2.0).binds == {"default/a-0": "n1"}


def test_a_nomination_that_was_withdrawn_is_not_adopted_while_it_is_still_written_on_the_pod() -> None:
    run = promised()
    run.gone("default/low-0")
    run.comes(*low("next"))
    run.cycle(1.0)
    run.gone("default/next-0")
    run.comes(*low("third", ""))
    run.state.remove("Pod", "default/third-0")
    run.comes(pod("third-0", "third", requests=FOUR, priority=100))
    run.comes(group("third", "q", phase="Inqueue", priorityClassName="high"))
    assert run.pod("default/a-0").status.nominated_node_name == "n1"
    assert "default/a-0" not in run.cycle(2.0).nominated


def test_a_promise_holds_if_its_binding_fails() -> None:
    run = promised()
    run.gone("default/low-0")
    assert run.cycle(1.0).binds == {"default/a-0": "n1"}
    run.comes(*high("0"))
    assert run.cycle(2.0).binds == {"default/a-0": "n1"}


def evicted_by_a(*others: list[Manifest], nodes: int = 1) -> Run:
    """Job a has evicted job low and is bound; now low has the higher priority and waits."""
    run = Run(low(), high(), *others, nodes=nodes)
    assert [e.pod for e in run.cycle().evictions] == ["default/low-0"]
    run.gone("default/low-0")
    assert run.cycle(1.0).binds == {"default/a-0": "n1"}
    run.comes(
        pod("a-0", "a", "n1", requests=FOUR, priority=10),
        made("scheduling.k8s.io/v1", "PriorityClass", {"name": "low"}, value=100),
        pod("low-1", "low", requests=FOUR, priority=100),
        group("low", "q", phase="Inqueue", priorityClassName="low"),
    )
    return run


def test_a_job_does_not_claim_from_the_job_that_claimed_from_it_until_some_time_has_passed() -> None:
    run = evicted_by_a()
    plan = run.cycle(2.0)
    assert plan.evictions == [] and plan.again_at == COUNTERCLAIM_S
    plan = run.cycle(COUNTERCLAIM_S)
    assert [(e.pod, e.by) for e in plan.evictions] == [("default/a-0", "default/low-1")]


def test_it_claims_from_another_job_instead() -> None:
    run = evicted_by_a(high("b"), nodes=1)
    run.gone("default/b-0")
    run.comes(node("n2", cpu=4), pod("b-0", "b", "n2", requests=FOUR, priority=10))
    assert [e.pod for e in run.cycle(2.0).evictions] == ["default/b-0"]


def test_claims_are_forgotten_with_their_jobs() -> None:
    run = evicted_by_a()
    assert run.book.claimed == {"default/low": {"default/a": 0.0}}
    run.gone("default/a-0")
    run.gone("default/a", "PodGroup")
    run.cycle(3.0)
    assert run.book.claimed == {}
