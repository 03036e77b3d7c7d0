"""The judge of `muster bench` judges the plan that is measured, and refuses what the workload's own check lets pass."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from muster.cycle.scheduler import Scheduler
from muster.engine.core.plan import Plan, PodReason
from muster.engine.core.session import Session
from muster.model.core import Node
from muster.sim.bench.cycles import Cycles, never_fit
from muster.sim.bench.measurement import WrongResult
from muster.sim.bench.work import Objects, Work
from muster.sim.bench.workloads import gangs
from oracles.measured_plans import judge


def _cordoned() -> Objects:
    """Two nodes, the second of which takes no pods."""
    made = gangs(2, 2, 4)
    second = made["Node"]["node-00001"]
    assert isinstance(second, Node)
    second.spec.unschedulable = True
    return made


WORK = Work("tiny", "two gangs of four", _cordoned, bound=8)
CYCLES = Cycles("tiny", "one pod per round", partial(never_fit, 2, 3, 20), bound=20, floors={})


def test_a_workload_is_judged_as_it_was_measured() -> None:
    found = judge(WORK)
    assert (found.judged, found.nodes, found.pods, found.bound) == (1, 2, 8, 8)


def test_of_many_cycles_the_first_and_the_last_are_judged() -> None:
    found = judge(CYCLES)
    assert (found.cycles, found.judged, found.bound, found.waiting) == (21, 2, 1, 6)


def test_a_plan_that_breaks_a_rule_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The nodes' limits, which the workload itself checks, hold."""
    decide = Scheduler.decide

    def elsewhere(self: Scheduler, session: Session) -> Plan:
        plan = decide(self, session)
        plan.binds[min(plan.binds)] = "node-00001"
        return plan

    monkeypatch.setattr(Scheduler, "decide", elsewhere)
    with pytest.raises(AssertionError, match="cordoned"):
        judge(WORK)


def test_a_plan_that_does_less_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many are bound as the workload wants, but half of its gangs could be as well."""
    decide = Scheduler.decide

    def half(self: Scheduler, session: Session) -> Plan:
        plan = decide(self, session)
        for name in [name for name in plan.binds if "job-0001" in name]:
            del plan.binds[name]
            plan.reasons[name] = PodReason("x", "left out")
        return plan

    monkeypatch.setattr(Scheduler, "decide", half)
    with pytest.raises(WrongResult, match="bound 4"):
        judge(WORK)
    with pytest.raises(AssertionError, match="such pods are missing"):
        judge(replace(WORK, bound=4))
