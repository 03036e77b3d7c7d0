"""Benchmarks of cycles and of whole commands, on small clusters: they check their results."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from muster.sim.bench import cycles
from muster.sim.bench.cliffs import PREEMPT
from muster.sim.bench.commands import Simulate
from muster.sim.bench.cycles import Cycles, GroupEvents
from muster.sim.bench.measurement import WrongResult
from muster.sim.bench.workloads import gangs

NEW_POD = Cycles("new-pod", "", partial(cycles.new_replica, 4, 2, 3, 3), bound=3, floors={})


@pytest.mark.parametrize(
    "row",
    [
        NEW_POD,
        Cycles("never-fit", "", partial(cycles.never_fit, 2, 5, 2), bound=2, floors={}),
        Cycles("budgets", "", partial(cycles.budgets, 4, 10, 2), bound=2, evicted=2, config=PREEMPT, floors={}),
        Cycles("drift", "", partial(cycles.churn, 3, 10, 12, cycles.own_request), bound=60, floors={}),
        Cycles("drift-pvc", "", partial(cycles.churn, 3, 10, 12, cycles.own_claim), bound=60, floors={}),
        GroupEvents("group-event", "", 4, 2, 3, 5),
    ],
    ids=lambda row: str(row.name),
)
def test_a_row_gives_its_figures(row: Cycles | GroupEvents) -> None:
    figures = row.run()
    figure = "event_ms" if isinstance(row, GroupEvents) else "cycle_ms"
    assert figures[figure] > 0 and figures["bound"] >= 2


def test_another_number_of_bound_pods_is_a_wrong_answer() -> None:
    with pytest.raises(WrongResult, match="bound 3"):
        replace(NEW_POD, bound=4).run()


def test_a_command_is_measured_as_a_process() -> None:
    row = Simulate("small", "", partial(gangs, 2, 2, 3), "yaml", 6, {})
    assert row.run()["seconds"] > 0.05
