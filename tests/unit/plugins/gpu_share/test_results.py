"""What `simulate` and `explain` report where pods share GPUs."""

from __future__ import annotations

from pathlib import Path

import muster

CASES = Path(__file__).parents[3] / "cases" / "gpu-share"


def test_queues_count_a_share_as_a_part_of_a_gpu() -> None:
    case = CASES / "queues-count-shares-in-the-result"
    result = muster.simulate(case / "cluster.yaml", config=case / "scheduler.yaml")
    allocated = {name: share.to_dict()["allocated"]["nvidia.com/gpu"] for name, share in result.summary.queues.items()}
    assert allocated == {"a": "0.25", "b": "1"}
    assert result.devices_of("lab/p") == "0 (250/1000)"
    assert result.devices_of("lab/w") == "1"


def test_explain_reports_the_fragmentation() -> None:
    case = CASES / "pack-uses-the-fullest-gpu-that-fits"
    answer = muster.explain("lab/p", case / "cluster.yaml", config=case / "scheduler.yaml")
    # Half of the typical pods request 400 parts, the other half 600: GPU 1 of n2 has 400 free.
    figures = {"amount": 0.2, "ratio": round(0.2 / 3, 6), "idle": 3.0, "total": 4.0}
    assert answer.to_dict()["gpu_fragmentation"] == figures
    assert answer.nodes["n1"].notes == {"gpu-share": "GPUs 1000+600 free, GPU 1 for this pod"}


def test_without_shares_no_figure_is_shown() -> None:
    case = CASES.parent / "topology910" / "cards-two-per-pod"
    result = muster.simulate(case / "cluster.yaml", config=case / "scheduler.yaml")
    assert "gpu_fragmentation" not in result.summary.to_dict()
    assert result.shares == {}
