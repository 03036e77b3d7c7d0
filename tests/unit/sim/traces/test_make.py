"""Traces that are made from distributions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from muster.model.finding import InputError
from muster.sim.traces.make import Recipe, make_trace
from muster.sim.traces.table import COLUMNS

MIXED = Recipe(
    hours=2000, load=0.8, cluster_gpus=64, mean_duration=3600, sigma=1.0, pods={1: 0.7, 4: 0.3},
    gpus={0: 0.1, 0.5: 0.2, 1: 0.6, 8: 0.1}, queues={"b": 1, "a": 3}, priorities={0: 1, 100: 1},
    models={"": 1, "A100": 1}, estimate_error=2,
)  # fmt: skip


def test_the_same_seed_gives_the_same_trace_and_another_seed_another() -> None:
    first, again, other = (make_trace(MIXED, seed) for seed in (3, 3, 4))
    assert all(np.array_equal(getattr(first, name), getattr(again, name)) for name in COLUMNS)
    assert not np.array_equal(first.submit[:100], other.submit[:100])


def test_the_offered_load_is_the_one_that_was_asked_for() -> None:
    trace = make_trace(MIXED, 1)
    offered = (trace.gpus * trace.gpu_milli / 1000 * trace.duration).sum() / (2000 * 3600)
    assert offered == pytest.approx(0.8 * 64, rel=0.1)


def test_mixes_have_their_weights_and_shared_gpus_are_one_per_pod() -> None:
    trace = make_trace(MIXED, 1)
    assert trace.queues == ("a", "b")
    assert (trace.queue == 0).mean() == pytest.approx(0.75, abs=0.02)
    assert (trace.pods == 4).mean() == pytest.approx(0.3, abs=0.02)
    shared = trace.gpu_milli < 1000
    assert shared.mean() == pytest.approx(0.2, abs=0.02)
    assert np.array_equal(trace.gpus[shared], trace.pods[shared])
    assert set(trace.priority.tolist()) == {0, 100} and trace.models == ("", "A100")


def test_estimates_are_wrong_by_at_most_the_factor() -> None:
    trace = make_trace(MIXED, 1)
    wrong = trace.estimate / trace.duration
    assert wrong.min() > 0.49 and wrong.max() < 2.01 and wrong.std() > 0.1


def test_another_mix_of_queues_leaves_the_arrivals_as_they_are() -> None:
    other = make_trace(replace(MIXED, queues={"c": 1, "d": 1}), 1)
    assert np.array_equal(other.submit, make_trace(MIXED, 1).submit)


def test_the_median_and_the_mean_are_those_of_the_distribution() -> None:
    by_median = make_trace(Recipe(jobs=20_000, hours=1, median_duration=600, sigma=0.5), 1)
    assert np.median(by_median.duration) == pytest.approx(600, rel=0.03)
    exponential = make_trace(Recipe(jobs=20_000, hours=1, durations="exponential", mean_duration=600), 1)
    assert exponential.duration.mean() == pytest.approx(600, rel=0.03)
    assert exponential.duration.std() == pytest.approx(600, rel=0.05)


@pytest.mark.parametrize("arrivals", ["poisson", "diurnal"])
def test_jobs_and_hours_give_as_many_jobs_in_that_time(arrivals: str) -> None:
    trace = make_trace(Recipe(jobs=500, hours=48, arrivals=arrivals), 1)  # type: ignore[arg-type]
    assert len(trace) == 500 and 0 <= trace.submit[0] <= trace.submit[-1] <= 48 * 3600
    assert np.all(np.diff(trace.submit) >= 0)


def test_diurnal_arrivals_peak_in_the_afternoon() -> None:
    trace = make_trace(Recipe(jobs=24_000, hours=240, arrivals="diurnal"), 1)
    by_hour = np.bincount((trace.submit % 86400 // 3600).astype(int), minlength=24)
    assert by_hour[14:16].mean() == pytest.approx(1800, rel=0.1) and by_hour[2:4].mean() == pytest.approx(200, rel=0.2)


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (Recipe(jobs=1), "two of jobs, hours and load"),
        (Recipe(jobs=1, hours=1, load=1), "two of jobs, hours and load"),
        (Recipe(jobs=0, hours=1), "jobs must be a number above 0"),
        (Recipe(jobs=1, hours=float("nan")), "hours must be"),
        (Recipe(jobs=1, hours=1, sigma=-1), "sigma must be"),
        (Recipe(jobs=1, hours=1, queues={"a": -1}), "the weights of queues"),
        (Recipe(jobs=1, hours=1, gpus={1.5: 1}), "a part of one"),
        (Recipe(jobs=1, hours=1, pods={0: 1}), "1 to 100,000 pods"),
        (Recipe(hours=1, load=1, gpus={0: 1}), "no load"),
        (Recipe(hours=1e9, load=1), "at most 10,000,000"),
    ],
)
def test_a_recipe_that_cannot_be_made_is_refused(recipe: Recipe, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_trace(recipe)
