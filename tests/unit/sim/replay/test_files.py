"""Jobs and samples as CSV and Parquet."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest

from builders.replays import GPU, NAN, replayed, sampled, trace
from muster.model.finding import InputError
from muster.sim.replay.files import write_jobs, write_samples
from muster.sim.replay.records import Replay


def run(name: str = "a.yaml", seed: int | None = 3) -> Replay:
    jobs = trace([0, 0.5], [10, float("inf")], queue=[0, 1], queues=("blue", 'red, "dark"'))
    samples = sampled(10.0, 2, jobs.queues, allocated=[[1, 0], [0, 2]], waiting=[[0, 1], [0, 0]])
    return replayed(jobs, [1, NAN], [11, NAN], samples, name=name, seed=seed, reasons={1: "Insufficient cpu"})


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_each_job_of_each_replay_is_a_row(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    write_jobs(str(path), [run(), run("b.yaml", None)])
    found = rows(path)
    assert [(r["configuration"], r["seed"], r["job"]) for r in found] == [
        ("a.yaml", "3", "job-0"), ("a.yaml", "3", "job-1"), ("b.yaml", "", "job-0"), ("b.yaml", "", "job-1"),
    ]  # fmt: skip
    done, waits = found[:2]
    assert (done["waiting"], done["completion"], done["slowdown"], done["end"]) == ("1", "11", "1.1", "11")
    assert (waits["submit"], waits["duration"], waits["start"], waits["waiting"]) == ("0.5", "inf", "", "")
    assert (waits["queue"], waits["reason"]) == ('red, "dark"', "Insufficient cpu")


def test_each_interval_queue_and_resource_is_a_row(tmp_path: Path) -> None:
    path = tmp_path / "samples.csv"
    write_samples(str(path), [run()])
    found = rows(path)
    assert len(found) == 4
    last = found[3]
    assert (last["time"], last["queue"], last["resource"]) == ("10", 'red, "dark"', GPU)
    assert (last["capacity"], last["allocated"], last["deserved"], found[1]["waiting"]) == ("4", "2", "", "1")


def test_parquet_has_the_same_rows_with_types_and_nulls(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    write_jobs(str(tmp_path / "jobs.parquet"), [run(), run("b.yaml", None)])
    write_samples(str(tmp_path / "samples.parquet"), [run()])
    jobs = pq.read_table(tmp_path / "jobs.parquet").to_pylist()
    assert len(jobs) == 4
    assert (jobs[0]["waiting"], jobs[1]["waiting"], jobs[0]["seed"], jobs[2]["seed"]) == (1.0, None, 3, None)
    assert pq.read_table(tmp_path / "samples.parquet").to_pylist()[3]["allocated"] == 2.0


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_same_replays_give_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    paths = [tmp_path / f"{i}.{suffix}" for i in range(2)]
    for path in paths:
        write_jobs(str(path), [run()])
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_name_that_cannot_be_written_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"unknown suffix '.xls'; use .csv or .parquet"):
        write_jobs("jobs.xls", [run()])
    with pytest.raises(InputError, match="the folder does not exist"):
        write_jobs(str(tmp_path / "none" / "jobs.csv"), [run()])
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(InputError, match=r"pip install 'muster\[replay\]'"):
        write_jobs(str(tmp_path / "jobs.parquet"), [run()])
