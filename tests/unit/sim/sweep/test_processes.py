"""Cells in worker processes."""

from __future__ import annotations

import os
from pathlib import Path

from fakes.sweep_cells import failing, made, slow, squared
from muster.sim.sweep.processes import Failure, run_in_processes


def test_every_task_has_one_outcome_whatever_the_number_of_processes() -> None:
    for processes in (1, 3):
        found = {one.task.seed: one.result for one in run_in_processes(made(5), 7, squared, processes)}
        assert found == {n: {"metrics": {"value": n * n + 7, "by": "drf"}} for n in range(5)}


def test_a_task_that_fails_or_kills_its_worker_fails_alone() -> None:
    outcomes = list(run_in_processes(made(6), 0, failing, 2))
    found = {one.task.seed: one.result for one in outcomes}
    assert len(outcomes) == 6
    failed = {seed: result for seed, result in found.items() if isinstance(result, Failure)}
    assert sorted(failed) == [1, 2, 3]
    assert failed[1].message == "ValueError: an odd mistake" and "sweep_cells" in failed[1].trace
    assert "SIGKILL" in failed[2].message and "out of memory" in failed[2].message
    assert failed[3].message == "the trace has no jobs"


def test_workers_end_with_the_iteration(tmp_path: Path) -> None:
    outcomes = run_in_processes(made(99), str(tmp_path), slow, 2)
    pids: set[int] = set()
    while len(pids) < 2:  # on a loaded machine the second worker starts late
        assert next(outcomes).task.seed < 90
        pids = {int(file.suffix[1:]) for file in tmp_path.iterdir()}
    outcomes.close()  # type: ignore[attr-defined]
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
    assert len(list(tmp_path.iterdir())) < 99
