"""What `muster bench` measures is decided by the rules: small versions of its workloads are judged by the oracles.

The plan checker looks at the end of each, caches and shortcuts change nothing, and where the plain reading of the rules
knows all plugins, it decides the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace as replace_fields

from muster.config.types import Config
from muster.cycle.scheduler import Scheduler
from muster.engine.core.state import State
from muster.model.core import Pod
from muster.model.meta import Object
from muster.model.scheduling import PodGroup, PodGroupSpec
from muster.plugin_checks.shortcuts import with_shortcuts, without_shortcuts
from muster.sim.bench.catalogue import ALL_WORKS
from muster.sim.bench.cluster_run import Cluster, apply_changes
from muster.sim.bench.cycles import Cycles
from muster.sim.bench.scheduler_perf.case import FAMILY
from muster.sim.bench.scheduler_perf.cases import CASES
from muster.sim.bench.work import Objects, Work, scheduler_of
from muster.sim.bench.workloads import queue
from oracles.naive_actions import decide
from oracles.plan_checker import check
from oracles.plan_end import GROUP
from properties.test_naive import KNOWN
from properties.test_shortcuts import decided
from strategies.clusters import NOW

pytestmark = pytest.mark.long

_LARGE, _PART, _LEAST = 40, 50, 2
_PLAINLY_READ = {"W1", "W2", "W3", "W6", "W8", "W8b", "W9", "plain", "small", "resources", "never-fit", "drift"} | {
    f"{FAMILY}/{number}" for number in ("1", "4", "12", "14-secrets")
}
Made = tuple[Objects, Config]


def smaller(make: Any) -> Any:
    """Returns the same function with smaller numbers of nodes, jobs and pods."""
    assert isinstance(make, partial), make
    return partial(make.func, *(_smaller(each) for each in make.args), **make.keywords)


def _smaller(value: Any) -> Any:
    if isinstance(value, int) and value >= _LARGE:
        return max(_LEAST, value // _PART)
    return tuple(_smaller(each) for each in value) if isinstance(value, tuple) else value


def _works() -> Iterator[tuple[str, Callable[[], Objects], str]]:
    for work in ALL_WORKS:
        if isinstance(work, Work):
            yield work.name, smaller(work.make), work.config
        elif isinstance(work, Cycles):
            yield work.name, partial(_in_first_round, smaller(work.make)), work.config
    for case in CASES:
        make = smaller(case.make)
        yield case.name, (lambda make=make: make().objects), case.config


def _in_first_round(make: Callable[[], Cluster]) -> Objects:
    made = make()
    apply_changes(made.objects, next(iter(made.rounds)))
    return made.objects


SMALL = list(_works())


@pytest.fixture(params=SMALL, ids=[name for name, *_ in SMALL])
def made(request: pytest.FixtureRequest) -> Made:
    name, make, text = request.param
    return make(), scheduler_of(text, name).config


def _state(objects: Objects) -> State:
    state = State()
    state.load(objects)
    return state


def test_the_plan_is_allowed(made: Made) -> None:
    objects, config = made
    plan = Scheduler(config).cycle(_state(objects), NOW)
    check((one for some in objects.values() for one in some.values()), config, plan)


def test_shortcuts_change_nothing(made: Made) -> None:
    objects, config = made
    with with_shortcuts():
        fast = Scheduler(config).cycle(_state(objects), NOW)
    with without_shortcuts():
        slow = Scheduler(config).cycle(_state(objects), NOW)
    assert decided(fast) == decided(slow)


def _with_groups(objects: Objects) -> Iterator[Object]:
    """Yields the objects with the PodGroup and the queue that muster derives for pods without any."""
    if "Queue" not in objects:
        yield queue("default")
    for some in objects.values():
        for one in some.values():
            if isinstance(one, Pod) and GROUP not in one.metadata.annotations:
                own = one.metadata
                yield PodGroup(metadata=replace_fields(own, annotations={}), spec=PodGroupSpec(min_member=1))
                yield replace_fields(one, metadata=replace_fields(own, annotations={GROUP: own.name}))
            else:
                yield one


@pytest.mark.parametrize(
    ("make", "text"), [small[1:] for small in SMALL if small[0] in _PLAINLY_READ],
    ids=[name for name, *_ in SMALL if name in _PLAINLY_READ],
)  # fmt: skip
def test_the_plain_reading_decides_the_same(make: Callable[[], Objects], text: str) -> None:
    """Workloads of pods that only request resources; plugins that have no effect on them are left out."""
    objects, config = make(), scheduler_of(text, "").config
    tiers = [replace(tier, plugins=tuple(one for one in tier.plugins if one.name in KNOWN)) for tier in config.tiers]
    config = replace(config, tiers=tuple(tiers))
    plan = Scheduler(config).cycle(_state(objects), NOW)
    binds, pipelined, evictions = decide(_with_groups(objects), config)
    assert (plan.binds, plan.pipelined, plan.evictions) == (binds, pipelined, evictions)
    assert plan.binds
