"""`muster sweep`."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fakes.sweep_cells import failing_replay
from muster.cli import main

GRID = """\
configurations: [{name: default}, {name: fifo, file: fifo.yaml}]
traces: [{name: busy, make: {jobs: 6, hours: 0.2, queues: {a: 1, b: 1}, gpus: {1: 1, 4: 1}}}]
seeds: [1, 2, 3]
clusters: [{template: {allocatable: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 4}}, counts: [1, 2]}]
"""
FILES = ("results.csv", "results.parquet", "sweep.html")


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    (tmp_path / "grid.yaml").write_text(GRID)
    (tmp_path / "fifo.yaml").write_text("actions: allocate\ntiers:\n- plugins: [{name: gang}, {name: predicates}]\n")
    return tmp_path / "grid.yaml"


def sweep(grid: Path, folder: Path, *flags: str) -> Result:
    return CliRunner().invoke(main, ["sweep", str(grid), "--save", str(folder), *flags])


def test_a_killed_sweep_continues_and_ends_with_the_same_bytes(grid: Path, tmp_path: Path) -> None:
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    command = [str(Path(sys.executable).parent / "muster"), "sweep", str(grid), "--save", str(pieces)]
    process = subprocess.Popen([*command, "--processes", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 60
        while not list(pieces.glob("cells/*.json")) and time.monotonic() < end and process.poll() is None:
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    kept = {file.name: file.stat().st_mtime_ns for file in pieces.glob("cells/*.json")}
    assert 0 < len(kept) < 12, "it was killed in the middle"
    assert not (pieces / "results.csv").exists()
    resumed, uninterrupted = sweep(grid, pieces, "--processes", "2"), sweep(grid, whole, "--processes", "2")
    assert resumed.exit_code == uninterrupted.exit_code == 0, resumed.stderr
    assert resumed.stdout.replace("pieces", "whole") == uninterrupted.stdout
    for name in (*FILES, *(f"cells/{file.name}" for file in whole.glob("cells/*"))):
        assert (whole / name).read_bytes() == (pieces / name).read_bytes(), name
    assert kept == {name: (pieces / "cells" / name).stat().st_mtime_ns for name in kept}, "finished cells ran again"
    assert len(list(pieces.glob("cells/*"))) == 12

    answer = json.loads(sweep(grid, whole, "-o", "json").stdout)
    with open(whole / "results.csv") as stream:
        assert [row["status"] for row in csv.DictReader(stream)] == ["done"] * 12 == [
            cell["status"] for cell in answer["cells"]
        ]
    assert len(answer["comparisons"]) == 2 and answer["failed"] == 0


def test_a_cell_that_fails_is_reported_and_the_others_go_on(
    grid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.sim.sweep.cells.run_cell", failing_replay)
    result = sweep(grid, tmp_path / "out", "--processes", "1")
    assert result.exit_code == 1
    assert "failed: fifo, busy, 2 nodes, seed 2: ValueError: seed 2 fails" in result.stderr
    assert "12 cells: 8 with results, 4 failed" in result.stdout
    assert "default is not compared: a cell failed" in result.stdout
    assert "Traceback" not in result.stderr
    assert len(list((tmp_path / "out" / "cells").iterdir())) == 8


def test_an_interruption_says_how_to_continue(grid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr("muster.sim.sweep.processes.run_in_processes", interrupted)
    result = sweep(grid, tmp_path / "out")
    assert result.exit_code == 130
    assert result.stderr == f"interrupted: 0 of 12 cells have results in {tmp_path}/out; the same command continues\n"


def test_nothing_runs_with_a_bad_grid(grid: Path, tmp_path: Path) -> None:
    grid.write_text(GRID.replace("jobs: 6", "jbos: 6").replace("seeds: [", "seeds: [x, "))
    result = sweep(grid, tmp_path / "out")
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        f"{grid}:2: error: unknown parameter 'jbos' of a generated trace (did you mean jobs?)",
        f"{grid}:3: error: 'x' in seeds is no whole number from 0 to 4294967295",
        f"muster: {grid} cannot be used",
    ]
    assert not (tmp_path / "out").exists()


def test_flags_that_do_not_belong_together_are_refused(grid: Path, tmp_path: Path) -> None:
    assert "belong to --dask tls://" in sweep(grid, tmp_path / "out", "--tls-ca", str(grid)).stderr
    unknown = sweep(grid, tmp_path / "out", "--dask", "tls://127.0.0.1:1")
    assert unknown.exit_code == 2 and "it needs --tls-ca, --tls-cert and --tls-key" in unknown.stderr
    wrong = sweep(grid, tmp_path / "out", "--dask", "nonsense://x")
    assert wrong.exit_code == 2 and "cannot be reached" in wrong.stderr
    assert "GRID.yaml" in CliRunner().invoke(main, ["sweep"]).stderr
