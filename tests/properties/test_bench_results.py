"""What `muster bench` measures is decided by the rules: smaller versions of its workloads are judged by the oracles.

The plan checker looks at the end of each, and caches and shortcuts change nothing. Where the plain reading of the rules
knows everything that has an effect, it decides the same; where pods are evicted, the oracle of evictions finds no
fault. `test_measured_plans` judges the measured plans themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import yaml
from msgspec.structs import replace as replace_fields

from muster.config.types import Config
from muster.cycle.scheduler import Scheduler
from muster.engine.core.plan import Plan
from muster.engine.core.state import State
from muster.model.core import Pod
from muster.model.meta import Object
from muster.model.native import NativePodGroup
from muster.model.scheduling import PodGroup, PodGroupSpec
from muster.plugin_checks.shortcuts import with_shortcuts, without_shortcuts
from muster.sim.bench.catalogue import ALL_WORKS
from muster.sim.bench.cluster_run import Cluster, apply_changes
from muster.sim.bench.cycles import Cycles
from muster.sim.bench.scheduler_perf.case import FAMILY
from muster.sim.bench.scheduler_perf.cases import CASES
from muster.sim.bench.work import Objects, Work, scheduler_of
from muster.sim.bench.workloads import queue
from oracles.eviction_checks import check_step
from oracles.eviction_model import classes_of, world
from oracles.eviction_needs import check_needs
from oracles.eviction_runner import Cycle, Step, claims_of
from oracles.eviction_shares import shares
from oracles.naive_actions import decide
from oracles.needed_victims import check_needed
from oracles.plan_checker import check
from oracles.plan_end import GROUP
from oracles.waiting_rules import check_waiting
from properties.test_shortcuts import decided
from strategies.clusters import NOW

pytestmark = pytest.mark.long

_LARGE, _SMALL, _LEAST = 40, 50, 2

# Workload → the part of it that the plain reading decides. It sums everything anew for each pod and node; each part
# takes a few seconds at most. The others have plugins or rules with an effect that it does not know: topology (W4, W4b,
# 22-*), topology910 (W7), scores about other pods and owners (replicas, services, new-pod, 6, 7, 7-anti, 9b-preferred,
# 9b-default), PodDisruptionBudgets (budgets), and the choice of victims by muster's rules (10, 23-*).
_PARTS = {
    10: ("W1", "W2", "W5x", "W8", "W8b", "small", "claimers", "resources", "drift", "drift-pvc"),
    20: ("W3", "W6", "W9", "plain", "volumes"),
    50: ("W10s", "W10a", "never-fit"),
}
_CASE_PARTS = {
    10: ("4", "12", "21-3x1000"),
    20: ("1", "8", "11", "13", "14-csi", "14-in-tree", "14-migrated", "14-secrets", "21-1000x3", "21-6x1000"),
    50: ("2", "3", "5", "9", "9b-inclusion", "11-20k", "21-2000x3", "21-3000x3", "21-9x1000"),
}
_PLAINLY_READ = {name: part for part, names in _PARTS.items() for name in names} | {
    f"{FAMILY}/{number}": part for part, numbers in _CASE_PARTS.items() for number in numbers
}
_BY_VOLCANO = ("W5r", "W5p")  # the plain reading chooses victims by Volcano's rules
_EVICTING = ("W5r", "W5p", "W5x", "claimers", "budgets", f"{FAMILY}/10", f"{FAMILY}/11")
_EVICTED = ("W5r", "W5p", "budgets", f"{FAMILY}/10")
_READ = ("Node", "Pod", "PodDisruptionBudget", "PodGroup", "Queue")
_EVICTING_PART = 10
_BINDS_NOTHING = ("W5x", "claimers")
Made = tuple[Objects, Config]


def smaller(make: Any, part: int) -> Any:
    """Returns the same function with numbers of nodes, jobs and pods that are smaller by that factor."""
    assert isinstance(make, partial), make
    return partial(make.func, *(_smaller(each, part) for each in make.args), **make.keywords)


def _smaller(value: Any, part: int) -> Any:
    if isinstance(value, int) and value >= _LARGE:
        return max(_LEAST, value // part)
    return tuple(_smaller(each, part) for each in value) if isinstance(value, tuple) else value


def _works() -> Iterator[tuple[str, Callable[[int], Objects], str]]:
    """Yields names, functions that create a part of the objects, and configurations."""
    for work in ALL_WORKS:
        if isinstance(work, Work):
            yield work.name, lambda part, make=work.make: smaller(make, part)(), work.config
        elif isinstance(work, Cycles):
            yield work.name, lambda part, make=work.make: _in_first_round(smaller(make, part)), work.config
    for case in CASES:
        yield case.name, lambda part, make=case.make: smaller(make, part)().objects, case.config


def _in_first_round(make: Callable[[], Cluster]) -> Objects:
    made = make()
    apply_changes(made.objects, next(iter(made.rounds)))
    return made.objects


BY_NAME = {name: (make, text) for name, make, text in _works()}


@pytest.fixture(params=BY_NAME)
def made(request: pytest.FixtureRequest) -> Made:
    return _part_of(request.param, _SMALL)


def _part_of(name: str, part: int) -> Made:
    make, text = BY_NAME[name]
    return make(part), scheduler_of(text, name).config


def _state(objects: Objects) -> State:
    state = State()
    state.load(objects)
    return state


def test_the_plan_is_allowed(made: Made) -> None:
    objects, config = made
    plan = Scheduler(config).cycle(_state(objects), NOW)
    every = [one for some in objects.values() for one in some.values()]
    assert not check(every, config, plan)
    check_needed(every, plan)
    check_waiting(every, config, plan)


def test_shortcuts_change_nothing(made: Made) -> None:
    objects, config = made
    with with_shortcuts():
        fast = Scheduler(config).cycle(_state(objects), NOW)
    with without_shortcuts():
        slow = Scheduler(config).cycle(_state(objects), NOW)
    assert decided(fast) == decided(slow)


def _with_groups(objects: Objects) -> Iterator[Object]:
    """Yields the objects with Volcano's PodGroup, and the queue, for pods without any and for native gangs."""
    if "Queue" not in objects:
        yield queue("default")
    for some in objects.values():
        for one in some.values():
            own = one.metadata
            if isinstance(one, NativePodGroup):
                assert one.spec.gang is not None and not one.spec.topology_key
                yield PodGroup(metadata=own, spec=PodGroupSpec(min_member=one.spec.gang.min_count))
            elif isinstance(one, Pod) and one.spec.scheduling_group is not None:
                notes = {GROUP: one.spec.scheduling_group.pod_group_name}
                yield replace_fields(one, metadata=replace_fields(own, annotations=notes))
            elif isinstance(one, Pod) and GROUP not in own.annotations:
                yield PodGroup(metadata=replace_fields(own, annotations={}), spec=PodGroupSpec(min_member=1))
                yield replace_fields(one, metadata=replace_fields(own, annotations={GROUP: own.name}))
            else:
                yield one


@pytest.mark.parametrize("name", _PLAINLY_READ)
def test_the_plain_reading_decides_the_same(name: str) -> None:
    """Workloads of pods that request resources and have required rules; the other plugins have no effect on them."""
    objects, config = _part_of(name, _PLAINLY_READ[name])
    plan = _agreed(objects, config)
    assert bool(plan.binds) == (name not in _BINDS_NOTHING)


@pytest.mark.parametrize("name", _BY_VOLCANO)
def test_by_volcanos_rules_the_plain_reading_evicts_the_same(name: str) -> None:
    objects, config = _part_of(name, _EVICTING_PART)
    assert _agreed(objects, replace(config, compatibility="volcano")).evictions


def _agreed(objects: Objects, config: Config) -> Plan:
    plan = Scheduler(config).cycle(_state(objects), NOW)
    binds, pipelined, evictions = decide(_with_groups(objects), config)
    assert (plan.binds, plan.pipelined) == (binds, pipelined)
    assert [eviction.pod for eviction in plan.evictions] == evictions
    return plan


@pytest.mark.parametrize("name", _EVICTING)
def test_the_oracle_of_evictions_finds_no_fault(name: str) -> None:
    """Protections, budgets and shares of queues hold, and every victim is needed (oracles/eviction_checks)."""
    objects, config = _part_of(name, _EVICTING_PART)
    plan = Scheduler(config).cycle(_state(objects), NOW)
    tables = {kind: dict(objects.get(kind, {})) for kind in _READ}
    tables["Queue"] = tables["Queue"] or {"default": queue("default")}
    before = world(tables, classes_of(objects.get("PriorityClass", {}).values()))
    after = before.after(plan.binds, {eviction.pod for eviction in plan.evictions})
    written = yaml.safe_load(BY_NAME[name][1])
    claims = list(claims_of(before, plan.evictions))
    step = Step(1, Cycle(NOW, tables, plan), before, after, shares(before, written), claims, dict(plan.nominated))
    assert bool(plan.evictions) == (name in _EVICTED)
    assert not [*check_step(step, written), *check_needs(step, before, written)]
