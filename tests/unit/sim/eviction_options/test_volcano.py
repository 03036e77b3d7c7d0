"""The options of a pending pod by Volcano's rules."""

from __future__ import annotations

import pytest

from builders.manifests import Manifest, group, node, pod, priority_class, queue, state_of
from muster.cycle.configure import configure
from muster.cycle.scheduler import Scheduler
from muster.sim.eviction_options import EvictionOption, eviction_options

CONFIG = """
actions: "enqueue, allocate, preempt, reclaim"
compatibility: volcano
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: proportion}]
"""


def options(*objects: Manifest, phase: str = "Inqueue") -> list[EvictionOption]:
    """One node of 2 cpu; default/new of priority 10 wants 1 cpu."""
    claimer = [group("new", "q", phase=phase, priorityClassName="high"), pod("new", "new", priority=10)]
    classes = [priority_class("low", 1), priority_class("high", 10)]
    state = state_of(*classes, node(cpu=2), queue("q"), queue("other"), *claimer, *objects)
    live = Scheduler(configure(CONFIG, "scheduler.yaml")[0]).session(state, 0.0)
    return eviction_options(live, state.tasks["default/new"])


def running(least: int, on: str = "q") -> list[Manifest]:
    pods = [pod(f"v-{i}", "v", "n1", priority=1) for i in range(2)]
    return [group("v", on, minMember=least, phase="Running", priorityClassName="low"), *pods]


@pytest.mark.parametrize(("on", "action"), [("q", "preempt"), ("other", "reclaim")])
def test_a_pod_above_the_minimum_would_go(on: str, action: str) -> None:
    (option,) = options(*running(1, on))
    assert option.possible and option.action == action and len(option.victims) == 1
    assert "by Volcano's rules" in option.text


def test_the_plugin_that_does_not_name_a_pod_is_named() -> None:
    (option,) = options(*running(2))
    assert not option.possible
    assert {(one.rule, one.plugin) for one in option.protected} == {("gang-minimum", "gang")}
    assert "2 pods are protected by the gang minimum" in option.text


def test_a_group_that_is_not_admitted_makes_no_claim() -> None:
    (option,) = options(*running(1), phase="Pending")
    assert "admitted" in option.text and not option.possible
