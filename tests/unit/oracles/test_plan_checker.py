"""The plan checker refuses plans that break groups, evict whom they may not, or leave pods that would fit."""

from __future__ import annotations

from typing import Any

import pytest

from builders.manifests import Manifest, group, manifest, node, pod, priority_class, queue, typed
from muster.config.types import Config
from muster.cycle.configure import configure
from muster.engine.core.plan import Eviction, Plan, PodReason
from muster.model.meta import key
from muster.plugin_checks.pod_features import affinity, near
from oracles.chip_rules import CHIPS
from oracles.group_rules import REQUIRED_DOMAIN
from oracles.needed_victims import check_needed
from oracles.plan_checker import check
from oracles.waiting_rules import check_waiting

RACK = "rack"
A, B = (node(f"n{i}", labels={RACK: f"r{i}"}) for i in range(2))
LOW, HIGH = priority_class("low", 10), priority_class("high", 1000)


def config(actions: str = "allocate") -> Config:
    names = ("priority", "gang", "conformance", "predicates", "topology910")
    tier = "".join(f"\n  - name: {name}" for name in names)
    return configure(f'actions: "{actions}"\ntiers:\n- plugins:{tier}\n', "scheduler.yaml")[0]


def judged(objects: list[Manifest], *, actions: str = "allocate", waiting: bool = False, **parts: Any) -> int:
    """Checks the plan; with `waiting` also the pods that it leaves, whose number is returned."""
    made = [typed(one) for one in objects]
    plan = Plan(**parts)
    for names in (plan.binds, plan.pipelined, plan.devices):
        for name in list(names):
            names[f"default/{name}"] = names.pop(name)  # type: ignore[attr-defined]
    plan.reasons = plan.reasons or {key(one): PodReason("x", "waits") for one in made}
    check(made, config(actions), plan)
    check_needed(made, plan)
    return check_waiting(made, config(actions), plan) if waiting else 0


def refused(objects: list[Manifest], match: str, **parts: Any) -> None:
    with pytest.raises(AssertionError, match=match):
        judged(objects, **parts)


# --- what is bound


def test_a_pod_is_bound_once_and_not_behind_its_gate() -> None:
    refused([A, pod("p", on="n0")], "placed twice", binds={"p": "n0"})
    refused([A, pod("p", schedulingGates=[{"name": "wait"}])], "gate", binds={"p": "n0"})
    refused([A, pod("p", "absent")], "before its group", binds={"p": "n0"})
    refused([A, pod("p")], "bound and promised", binds={"p": "n0"}, pipelined={"p": "n0"})


def test_a_pod_that_waits_has_a_reason() -> None:
    refused([A, pod("p"), pod("q")], "without a reason", reasons={"default/p": PodReason("x", " ")}, binds={"q": "n0"})


def test_promised_capacity_is_counted() -> None:
    objects = [A, pod("p", cpu=5), pod("q", cpu=5)]
    refused(objects, "holds 10000 cpu of 8000", binds={"p": "n0"}, pipelined={"q": "n0"})


# --- groups


def test_a_gang_below_its_minimum_is_refused() -> None:
    objects = [A, group("g", minMember=2), pod("p", "g"), pod("q", "g")]
    judged(objects, binds={"p": "n0", "q": "n0"})
    refused(objects, "1 of 2", binds={"p": "n0"})
    refused(objects, "1 of 2", binds={"p": "n0"}, pipelined={"q": "n0"})


def test_a_role_below_its_minimum_is_refused() -> None:
    notes = {"volcano.sh/task-spec": "side"}
    pods = [pod("p", "g"), pod("q", "g"), pod("r", "g", annotations=notes)]
    objects = [A, group("g", minMember=2, minTaskMember={"side": 1}), *pods]
    judged(objects, binds={"p": "n0", "r": "n0"})
    refused(objects, "role side", binds={"p": "n0", "q": "n0"})


def native(name: str, least: int, **spec: Any) -> Manifest:
    policy = {"schedulingPolicy": {"gang": {"minCount": least}}}
    return manifest("scheduling.k8s.io/v1beta1", "PodGroup", name, spec={**policy, **spec})


def member(name: str, of: str, on: str = "", **more: Any) -> Manifest:
    return pod(name, on=on, schedulingGroup={"podGroupName": of}, **more)


def test_a_native_gang_below_its_minimum_is_refused() -> None:
    objects = [A, native("g", 2), member("p", "g"), member("q", "g")]
    judged(objects, binds={"p": "n0", "q": "n0"})
    refused(objects, "1 of 2", binds={"p": "n0"})


def test_a_group_outside_its_domain_is_refused() -> None:
    in_rack = {"schedulingConstraints": {"topology": [{"key": RACK}]}}
    written = group("g", minMember=2, annotations={REQUIRED_DOMAIN: RACK})
    for objects in (
        [A, B, native("g", 2, **in_rack), member("p", "g"), member("q", "g")],
        [A, B, written, pod("p", "g"), pod("q", "g")],
    ):
        judged(objects, binds={"p": "n0", "q": "n0"})
        refused(objects, "domains", binds={"p": "n0", "q": "n1"})


# --- chips


def test_chips_are_free_and_a_pods_own_and_in_one_ring() -> None:
    board = node("n0", resources={CHIPS: 8}, annotations={CHIPS: ",".join(f"Ascend910-{i}" for i in range(8))})
    two = {"requests": {"cpu": 1, CHIPS: 2}}
    objects = [board, pod("p", **two), pod("q", **two)]
    binds = {"p": "n0", "q": "n0"}

    def given(p: list[int], q: list[int]) -> dict[str, Any]:
        return {"binds": dict(binds), "devices": {"p": p, "q": q}}

    judged(objects, **given([0, 1], [2, 3]))
    refused(objects, "held by others", **given([0, 1], [1, 2]))
    refused(objects, "one ring", **given([0, 1], [3, 4]))
    refused(objects, "of 2", **given([0, 1], [2]))
    refused(objects, "are free", **given([0, 1], [7, 8]))
    holder = pod("old", on="n0", annotations={CHIPS: "Ascend910-2"}, **two)
    refused([*objects, holder], "are free", **given([0, 1], [2, 3]))


# --- evictions


def evict(*pods: str, by: str = "new", rule: str = "preempt", at: str = "n0") -> dict[str, Any]:
    return {
        "evictions": [Eviction(f"default/{name}", at, f"default/{by}", rule) for name in pods],
        "pipelined": {by: at}, "actions": "allocate, preempt, reclaim",
    }  # fmt: skip


def full(*olds: Manifest, cpu: int = 8, **more: Any) -> list[Manifest]:
    """A node of eight CPUs with old pods, and a pod of high priority that requests so many."""
    return [A, LOW, HIGH, queue("a"), queue("b"), *olds, pod("new", cpu=cpu, priority=1000, **more)]


def old(name: str, of: str = "", cpu: int = 8, **more: Any) -> Manifest:
    return pod(name, of, on="n0", cpu=cpu, **({"priority": 10} | more))


def test_a_pod_of_lower_priority_may_be_evicted() -> None:
    judged(full(old("p")), **evict("p"))


MEMBER = {"schedulingGroup": {"podGroupName": "g"}}


@pytest.mark.parametrize(
    ("objects", "match"),
    [
        (full(old("p", annotations={"volcano.sh/preemptable": "false"})), "protected"),
        (full(old("p", priorityClassName="system-node-critical")), "critical"),
        (full(old("p", priority=1000)), "no lower priority"),
        (full(old("p", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})), "terminating"),
        (full(old("p"), preemptionPolicy="Never"), "must not evict"),
        (full(old("p", "g"), group("g", "b")), "in another queue"),
        (full(old("p", "g"), group("g", priorityClassName="high"), group("h", priorityClassName="low")), "no lower"),
        (full(old("p", "g", cpu=4), old("q", "g", cpu=4), group("g", minMember=2), cpu=4), "below its minimum"),
        (full(old("p", cpu=4, **MEMBER), old("q", cpu=4, **MEMBER), native("g", 2), cpu=4), "below its minimum"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_protected_pod_may_not_be_evicted(objects: list[Manifest], match: str) -> None:
    refused(objects, match, **evict("p"))


def test_a_budget_bounds_the_evictions() -> None:
    spec = {"selector": {"matchLabels": {"app": "x"}}, "maxUnavailable": 1}
    budget = manifest("policy/v1", "PodDisruptionBudget", "b", spec=spec)
    olds = [old(name, cpu=4, labels={"app": "x"}) for name in "pq"]
    judged(full(*olds), **evict("p", "q"))
    refused(full(*olds, budget), "of the budget default/b", **evict("p", "q"))
    judged(full(olds[0], old("q", cpu=4), budget), **evict("p", "q"))


def test_reclaim_takes_from_other_queues_that_allow_it() -> None:
    def objects(theirs: str, **spec: Any) -> list[Manifest]:
        groups = [group("mine", "a"), group("theirs", theirs)]
        return [A, queue("a"), queue("b", **spec), *groups, old("p", "theirs"), pod("new", "mine", cpu=8)]

    judged(objects("b"), **evict("p", rule="reclaim"))
    refused(objects("b", reclaimable=False), "not reclaimable", **evict("p", rule="reclaim"))
    refused(objects("a"), "its own queue", **evict("p", rule="reclaim"))


def test_nobody_is_evicted_for_nobody() -> None:
    refused(full(old("p")), "for nobody", **(evict("p") | {"pipelined": {}}))


def test_a_pod_is_evicted_once_and_from_its_node() -> None:
    refused(full(old("p")), "evicted twice", **evict("p", "p"))
    refused([B, *full(old("p"))], "not on n1", **evict("p", at="n1"))


def test_a_victim_that_could_have_stayed_is_named() -> None:
    objects = full(old("p", cpu=4), old("q", cpu=4), cpu=4)
    judged(objects, **evict("p"))
    refused(objects, "could have stayed", **evict("p", "q"))


def test_of_a_gang_that_goes_as_a_whole_no_single_pod_could_have_stayed() -> None:
    gang = [old(f"p{i}", "g", cpu=4) for i in range(2)]
    objects = full(*gang, group("g", minMember=2), cpu=4)
    judged(objects, **evict("p0", "p1"))
    elsewhere = evict("p0", "p1") | {"pipelined": {"new": "n1"}}
    refused([B, *objects], "could have stayed", **elsewhere)


# --- what is left


def test_a_pod_that_fits_nowhere_may_wait() -> None:
    assert judged([A, old("p", cpu=4), pod("q", cpu=5)], waiting=True) == 1
    assert judged([A, pod("q", nodeSelector={"pool": "gpu"})], waiting=True) == 1


def test_a_pod_that_fits_may_not_wait() -> None:
    refused([A, old("p", cpu=4), pod("q", cpu=4)], "1 fit", waiting=True)
    terminating = old("p", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    refused([A, terminating, pod("q", cpu=8)], "1 fit", waiting=True)  # it could be promised what comes free


def test_a_gang_waits_if_its_minimum_fits_nowhere() -> None:
    pods = [pod(f"p{i}", "g", cpu=4) for i in range(3)]
    assert judged([A, group("g", minMember=3), *pods], waiting=True) == 3
    refused([A, B, group("g", minMember=3), *pods], "4 fit", waiting=True)
    refused([A, group("g", minMember=2), *pods], "2 fit", waiting=True)
    in_rack = group("g", minMember=3, annotations={REQUIRED_DOMAIN: RACK})
    assert judged([A, B, in_rack, *pods], waiting=True) == 3
    assert judged([A, group("g", minMember=2), *pods], waiting=True, binds={"p0": "n0", "p1": "n0"}) == 1
    refused([A, B, group("g", minMember=2), *pods], "2 fit", waiting=True, binds={"p0": "n0", "p1": "n0"})


def test_a_pod_that_may_evict_somebody_may_not_wait() -> None:
    evicting = {"actions": "allocate, preempt", "waiting": True}
    refused(full(old("p")), "after evictions", **evicting)
    assert judged(full(old("p", priority=1000)), **evicting) == 1
    assert judged(full(old("p")), waiting=True) == 1  # nobody evicts


def test_a_pod_that_waits_for_its_gate_or_its_group_is_not_asked_about() -> None:
    assert judged([A, pod("p", schedulingGates=[{"name": "x"}]), pod("q", "absent")], waiting=True) == 0


def test_what_cannot_be_proved_is_no_pass() -> None:
    rules = affinity(anti=[near("x")])
    refused([A, old("p"), pod("q", labels={"app": "x"}, affinity=rules)], "only plain pods", waiting=True)
    different = [group("g", minMember=2), pod("q", "g"), pod("r", "g", cpu=2)]
    refused([A, old("p"), *different], "differs", waiting=True)
