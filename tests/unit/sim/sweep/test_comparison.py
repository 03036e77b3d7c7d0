"""The best configurations of a sweep, and the reasons."""

from __future__ import annotations

from typing import Any

from fakes.sweep_cells import metrics_of
from muster.sim.sweep.cells import Cell
from muster.sim.sweep.comparison import Best, Comparison, compare
from muster.sim.sweep.reasons import explain, side_effects


def compared(by_configuration: dict[str, list[dict[str, Any] | None]], seeded: bool = True) -> Comparison:
    """The comparison of configurations with the metrics of their seeds; None is a cell that failed."""
    cells, results = [], {}
    for name, of_seeds in by_configuration.items():
        for seed, metrics in enumerate(of_seeds):
            cell = Cell("jobs", "8 nodes", name, seed if seeded else None, f"{name}-{seed}")
            cells.append(cell)
            if metrics is not None:
                results[cell.key] = {"metrics": metrics}
    [found] = compare(cells, results)
    return found


def best_by(comparison: Comparison, column: str) -> Best:
    return next(best for best in comparison.best if best.figure.column == column)


def test_the_best_is_explained_by_size_class_queue_and_seeds() -> None:
    found = compared({
        "fifo": [metrics_of({"1": 10, "5-8": 600}, {"nlp": 500, "cv": 110}), metrics_of({"1": 12, "5-8": 700})],
        "drf": [metrics_of({"1": 40, "5-8": 100}, {"nlp": 40, "cv": 100}), metrics_of({"1": 42, "5-8": 90})],
    })  # fmt: skip
    best = best_by(found, "waiting_mean")
    assert [one.configuration for one in best.best] == ["drf"]
    assert best.clear is True
    assert explain(best, found) == [
        "drf has the shortest mean waiting time: 1.13 min ± 2.83 s, against 5.51 min ± 36.06 s of fifo (79.43 % "
        "shorter).",
        "The difference (4.38 min ± 38.89 s) is larger than its spread over the seeds; drf is better with 2 of 2 "
        "seeds.",
        "More than all of it comes from jobs with 5-8 GPUs: 1.58 min instead of 10.83 min.",
        "Jobs with 1 GPU lose: 41 s instead of 11 s.",
        "98 % of it comes from jobs of queue nlp: 40 s instead of 8.33 min.",
    ]
    assert side_effects(found) == []


def test_equal_configurations_are_not_marked() -> None:
    found = compared({"a": [metrics_of({"1": 10})], "b": [metrics_of({"1": 10})]}, seeded=False)
    best = best_by(found, "waiting_mean")
    assert best.runner_up is None
    assert explain(best, found) == ["a and b have the same mean waiting time: 10 s."]


def test_a_difference_within_the_spread_is_not_clear() -> None:
    found = compared({
        "a": [metrics_of({"1": 10}), metrics_of({"1": 50})], "b": [metrics_of({"1": 40}), metrics_of({"1": 25})],
    })  # fmt: skip
    best = best_by(found, "waiting_mean")
    assert [one.configuration for one in best.best] == ["a"] and best.clear is False
    assert "is not larger than its spread over the seeds; a is better with 1 of 2 seeds" in explain(best, found)[1]


def test_without_seeds_the_spread_is_unknown() -> None:
    one_seed = compared({"a": [metrics_of({"1": 10})], "b": [metrics_of({"1": 40})]})
    assert "There is one seed: the spread is unknown." in explain(one_seed.best[0], one_seed)
    none = compared({"a": [metrics_of({"1": 10})], "b": [metrics_of({"1": 40})]}, seeded=False)
    assert explain(none.best[0], none)[1].startswith("The trace has no seeds")


def test_a_configuration_that_leaves_jobs_waiting_forever_is_not_the_best() -> None:
    starved = metrics_of({"1": 1}, jobs={"submitted": 10, "never_started": 4, "not_completed": 4})
    found = compared({"greedy": [starved], "fair": [metrics_of({"1": 10})], "slow": [metrics_of({"1": 20})]})
    best = best_by(found, "waiting_mean")
    assert [one.configuration for one in best.best] == ["fair"]
    assert explain(best, found)[-1] == (
        "greedy (1 s) is not compared: 4 more jobs never started, and they are not part of its mean."
    )
    assert "jobs that never started: greedy 4, fair 0, slow 0" in side_effects(found)


def test_fairness_names_the_queues_at_both_ends() -> None:
    ratios = {"a": {"mean": 1.0}, "b": {"mean": 3.0}}
    fair = metrics_of({"1": 10}, fairness={"resource": "cpu", "jain": {"finish_time": 0.9}},
                      finish_time_ratio={"queues": {"a": {"mean": 1.5}, "b": {"mean": 2.0}}})  # fmt: skip
    unfair = metrics_of({"1": 10}, fairness={"resource": "cpu", "jain": {"finish_time": 0.8}},
                        finish_time_ratio={"queues": ratios})  # fmt: skip
    found = compared({"x": [unfair], "y": [fair]})
    assert explain(best_by(found, "jain_finish_time"), found)[-1] == (
        "With x the mean finish-time ratio of queues is between 1 (a) and 3 (b); with y the mean finish-time ratio of "
        "queues is between 1.5 (a) and 2 (b)."
    )


def test_an_allocation_that_contains_lost_work_is_called_so() -> None:
    wasteful = metrics_of({"1": 10}, resources={"nvidia.com/gpu": {"allocation": 0.6}},
                          evictions={"evictions": 3, "lost_gpu_hours": 2.5})  # fmt: skip
    found = compared({"x": [metrics_of({"1": 10})], "y": [wasteful]})
    assert explain(best_by(found, "allocation"), found)[-1] == (
        "y loses 2.5 more GPU-hours, and lost work counts as allocated."
    )
    assert side_effects(found) == ["evictions of jobs: x 0, y 3", "lost GPU-hours: x 0, y 2.5"]


def test_a_configuration_with_a_failed_cell_is_left_out() -> None:
    found = compared({"a": [metrics_of({"1": 10}), None], "b": [metrics_of({"1": 40}), metrics_of({"1": 40})]})
    assert found.incomplete == ["a"] and found.best == []


def test_a_figure_without_values_is_not_compared() -> None:
    found = compared({"a": [{}], "b": [{}]})
    assert found.best == [] and side_effects(found) == []
