"""The figures of a replay, computed by hand for a few jobs."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from builders.replays import GPU, NAN, replayed, sampled, trace
from muster.sim.replay.cluster_use import jain
from muster.sim.replay.metrics import by_size, job_figures, metrics, timing_summary
from muster.sim.replay.records import Replay

QUEUES = ("blue", "red")


def four_jobs(**more: Any) -> Replay:
    """Waiting 0, 10 and 30 s, completion 20, 50 and 70 s; the last job never starts."""
    jobs = trace([0, 10, 10, 20], [20, 40, 40, 5], queue=[0, 0, 1, 1], queues=QUEUES, gpus=[1, 2, 4, 16])
    return replayed(jobs, [0, 20, 40, NAN], [20, 60, 80, NAN], **more)


def figures(replay: Replay) -> dict[str, Any]:
    found = metrics(replay)
    json.dumps(found, allow_nan=False)
    return found


def test_times_are_counted_from_the_submission() -> None:
    found = figures(four_jobs())
    waiting = found["waiting"]["all"]
    assert (waiting["count"], waiting["p50"], waiting["max"]) == (3, 10.0, 30.0)
    assert waiting["mean"] == pytest.approx(40 / 3, abs=1e-6)
    assert waiting["p90"] == pytest.approx(26.0) and waiting["p99"] == pytest.approx(29.6)
    assert found["completion"]["all"]["mean"] == pytest.approx(140 / 3, abs=1e-6)
    assert found["time"] == {"first_submission": 0.0, "last_event": 80.0, "makespan": 80.0}


def test_figures_are_grouped_by_queue_size_and_priority() -> None:
    waiting = figures(four_jobs())["waiting"]
    assert {name: part["mean"] for name, part in waiting["queues"].items()} == {"blue": 5.0, "red": 30.0}
    assert {name: part["count"] for name, part in waiting["sizes"].items()} == {"1": 1, "2-4": 2, ">8": 0}
    assert waiting["sizes"][">8"] == dict.fromkeys(("mean", "p50", "p90", "p99", "max")) | {"count": 0, "cdf": []}
    assert list(waiting["priorities"]) == ["0"]


def test_the_cdf_has_a_value_for_each_documented_share() -> None:
    found = figures(four_jobs())
    cdf = dict(zip(found["cdf_shares"], found["waiting"]["all"]["cdf"], strict=True))
    assert (cdf[0.0], cdf[0.25], cdf[0.5], cdf[0.75], cdf[1.0]) == (0.0, 5.0, 10.0, 20.0, 30.0)


def test_the_bounded_slowdown_counts_short_jobs_as_ten_seconds_and_lost_time_as_waiting() -> None:
    jobs = trace([0, 0, 0], [1, 20, 20])
    run = replayed(jobs, [0, 0, 20], [1, 60, 40], run=[1.0, 50.0, 20.0], lost=[0.0, 30.0, 0.0])
    assert job_figures(run).slowdown.tolist() == [1.0, 3.0, 2.0]


def test_the_finish_time_ratio_compares_with_an_equally_shared_cluster() -> None:
    jobs = trace([0, 0, 0], [10, 10, 0])
    run = replayed(jobs, [0, 10, 0], [10, 40, 0], contention=[2.0, 2.0, 1.0])
    assert figures(run)["finish_time_ratio"]["all"] == {
        "count": 2, "mean": 1.25, "p50": 1.25, "p90": 1.85, "p99": 1.985, "max": 2.0, "above_1": 0.5,
    }  # fmt: skip


def test_size_classes_are_by_gpus_and_by_pods_where_no_job_has_gpus() -> None:
    some = trace([0] * 7, [1] * 7, gpus=[0, 1, 1, 2, 5, 8, 9], gpu_milli=[1000, 460, 1000, 1000, 1000, 1000, 1000])
    assert {name: int(mask.sum()) for name, mask in by_size(some).items()} == {
        "0": 1, "<1": 1, "1": 1, "2-4": 1, "5-8": 2, ">8": 1,
    }  # fmt: skip
    none = trace([0] * 3, [1] * 3, gpus=[0, 0, 0], pods=[0, 4, 12])
    assert list(by_size(none)) == ["1", "2-4", ">8"]
    assert figures(replayed(none, [0] * 3, [1] * 3))["size_by"] == "pods"


def test_allocation_is_the_mean_over_the_replay_also_with_a_shorter_last_interval() -> None:
    # 4 GPUs for 25 seconds: blue has 2, 4 and 0 of them, red has 1 in the last five seconds.
    samples = sampled(10.0, 3, QUEUES, allocated=[[2, 0], [4, 0], [0, 1]], used=[[1, 0], [2, 0], [0, 1]])
    found = figures(four_jobs(samples=samples, last=25.0))["resources"][GPU]
    assert found["allocated"] == pytest.approx((20 + 40 + 5) / 25)
    assert found["allocation"] == pytest.approx(65 / 100)
    assert found["utilisation"] == pytest.approx(35 / 100)
    assert found["queues"]["blue"] == {"allocated": 2.4, "used": 1.2, "share": 0.6}
    assert sum(queue["allocated"] for queue in found["queues"].values()) == pytest.approx(found["allocated"])


def test_fragmentation_is_a_share_of_all_gpus_and_of_the_idle_ones() -> None:
    samples = sampled(10.0, 2, QUEUES, allocated=[[2, 0], [2, 1]], fragment=[1.0, 0.5])
    found = figures(four_jobs(samples=samples, last=20.0))["fragmentation"]
    assert found["gpus"] == {"mean": 0.75, "end": 0.5}
    assert found["amount"] == {"mean": 0.1875, "end": 0.125}
    assert found["ratio"] == {"mean": 0.5, "end": 0.5}
    assert figures(four_jobs())["fragmentation"] is None


def test_fairness_compares_shares_while_a_queue_has_jobs() -> None:
    samples = sampled(
        10.0, 2, QUEUES,
        allocated=[[3, 1], [2, 0]], deserved=[[2, 2], [2, 2]], waiting=[[0, 1], [0, 0]], running=[[1, 1], [1, 0]],
    )  # fmt: skip
    found = figures(four_jobs(samples=samples, last=20.0))["fairness"]
    assert found["resource"] == GPU
    assert found["queues"]["blue"] == {"share": 0.625, "deserved": 0.5, "gap": 0.125, "shortfall": None}
    assert found["queues"]["red"] == {"share": 0.25, "deserved": 0.5, "gap": 0.25, "shortfall": 0.25}
    # Only the first interval has two queues with demand: allocated / deserved is 1.5 and 0.5.
    assert found["jain"]["deserved"] == pytest.approx(2**2 / (2 * (1.5**2 + 0.5**2)))


def test_jains_index_is_one_for_equals_and_one_nth_for_a_single_winner() -> None:
    assert jain(np.array([2.0, 2.0, NAN])) == 1.0
    assert jain(np.array([4.0, 0.0, 0.0, 0.0])) == 0.25
    assert math.isnan(jain(np.array([1.0]))) and math.isnan(jain(np.zeros(3)))


def test_evictions_are_counted_with_the_gpu_hours_that_they_cost() -> None:
    run = four_jobs(
        lost=[0.0, 1800.0, 0.0, 0.0], evictions=[0, 2, 0, 0], node_losses=[0, 0, 1, 0], pods_evicted=3,
        run=[20.0, 1840.0, 40.0, 0.0],
    )  # fmt: skip
    assert figures(run)["evictions"] == {
        "evictions": 2, "node_losses": 1, "restarts": 3, "jobs": 2, "pods": 3, "lost_hours": 0.5,
        "lost_gpu_hours": 1.0, "gpu_hours": round((20 + 3680 + 160) / 3600, 6),
    }  # fmt: skip


def test_jobs_that_did_not_complete_are_counted_by_reason() -> None:
    jobs = trace([0] * 4, [1] * 4)
    run = replayed(
        jobs, [0, NAN, NAN, 0], [NAN] * 4, reasons={0: "is running", 1: "Insufficient cpu", 2: "Insufficient cpu"}
    )
    found = figures(run)
    assert found["jobs"] == {
        "submitted": 4, "bad_rows": 0, "started": 2, "completed": 0, "never_started": 2, "not_completed": 4,
        "reasons": [
            {"reason": "Insufficient cpu", "jobs": 2},
            {"reason": "is running", "jobs": 1},
            {"reason": "not recorded", "jobs": 1},
        ],
    }  # fmt: skip
    assert found["time"]["makespan"] is None


def test_an_empty_trace_has_figures_without_values() -> None:
    found = figures(replayed(trace([], []), [], []))
    assert found["waiting"]["all"]["mean"] is None and found["time"]["makespan"] is None
    assert found["resources"][GPU]["allocation"] is None
    assert found["fairness"]["jain"] == {"deserved": None, "finish_time": None}


def test_measured_times_are_only_in_their_own_summary() -> None:
    one, two = four_jobs(timings=[0.5, 1.5]), four_jobs(timings=[9.0])
    assert metrics(one) == metrics(two)
    assert timing_summary(one) == {"cycles": 2, "mean": 1.0, "p50": 1.0, "p99": 1.49, "max": 1.5, "total": 2.0}
    assert timing_summary(four_jobs())["mean"] is None
