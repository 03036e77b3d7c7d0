"""The columns of a trace."""

from __future__ import annotations

import numpy as np

from muster.sim.traces.table import COLUMNS, Trace


def small(submit: list[float]) -> Trace:
    floats, ints = np.ones(len(submit)), np.ones(len(submit), dtype=np.int64)
    columns = {name: (floats if name in ("duration", "estimate", "usage") else ints) for name in COLUMNS}
    columns |= {"submit": np.array(submit), "gpus": np.arange(len(submit))}
    names = [f"job-{i}" for i in range(len(submit))]
    return Trace("small", 0.0, names, **columns, queues=("a", "b"), models=("", "x"), users=("", "u"))


def test_a_selection_keeps_the_order_and_all_columns() -> None:
    trace = small([0.0, 5.0, 5.0, 9.0])
    by_mask = trace.select(np.array([True, False, True, True]))
    assert (list(by_mask.names), by_mask.submit.tolist()) == (["job-0", "job-2", "job-3"], [0.0, 5.0, 9.0])
    assert all(len(getattr(by_mask, name)) == len(by_mask) == 3 for name in COLUMNS)


def test_chosen_indices_are_sorted_by_submission_and_may_repeat() -> None:
    chosen = small([0.0, 5.0, 5.0, 9.0]).select(np.array([3, 2, 1, 2]))
    assert (chosen.submit.tolist(), chosen.gpus.tolist()) == ([5.0, 5.0, 5.0, 9.0], [2, 1, 2, 3])
    assert list(chosen.names) == ["job-2", "job-1", "job-2-2", "job-3"]
