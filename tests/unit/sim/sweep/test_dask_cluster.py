"""Cells on a Dask cluster of real processes, of which one is killed."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from distributed import Client

import muster.sim.sweep.dask_cluster as dask_cluster
from fakes.sweep_cells import failing_with, made, slow_with
from muster.cli import main
from muster.model.finding import InputError
from muster.sim.sweep.dask_cluster import run_on_dask
from muster.sim.sweep.processes import Failure

TESTS = Path(__file__).parents[3]
WAIT_S = 60


@contextmanager
def dask(kind: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A scheduler or worker as a process of its own."""
    path = os.pathsep.join([*(os.environ.get("PYTHONPATH", "").split(os.pathsep)), str(TESTS)])
    environment = {**os.environ, "PYTHONPATH": path, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", f"distributed.cli.dask_{kind}", *arguments], env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A scheduler with two workers."""
    folder = tmp_path_factory.mktemp("dask")
    file = folder / "scheduler.json"
    common = ("--scheduler-file", str(file))
    local = ("--host", "127.0.0.1")
    with dask("scheduler", *common, *local, "--port", "0", "--no-dashboard"):
        worker = (*common, *local, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(folder))
        with dask("worker", *worker), dask("worker", *worker):
            end = time.monotonic() + WAIT_S
            while not (file.exists() and file.read_bytes().strip().endswith(b"}")) and time.monotonic() < end:
                time.sleep(0.05)
            yield json.loads(file.read_bytes())["address"]


def test_a_cluster_that_cannot_be_used_is_reported(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "CONNECT_TIMEOUT_S", 0.5)
    for wrong in ("tcp://127.0.0.1:1", "nonsense://x", "127.0.0.1:port"):
        with pytest.raises(InputError, match="cannot be reached"):
            list(run_on_dask(wrong, [], {}, slow_with, {}))
    clients = [one for one in gc.get_objects() if isinstance(one, Client)]
    assert {one.status for one in clients} <= {"closed"}, "the garbage collector must not have to close one"
    with pytest.raises(InputError, match=r"worker.*Python 3\.11\.0, but the sweep runs 2\.7\.0"):
        dask_cluster.compare_versions({"python": "2.7.0.final.0"}, {"tcp://w": {"python": "3.11.0.final.0"}})
    with pytest.raises(InputError, match=r"muster is missing, but the sweep runs 0\.1\.0"):
        dask_cluster.compare_versions({"muster": "0.1.0"}, {"tcp://w": {"muster": None}})


def test_a_worker_with_other_code_refuses_the_cell(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "code_version", lambda: "0.0.1+other")
    [outcome] = run_on_dask(address, [(made(5)[4], "other", ("folder",))], {"folder": 0}, failing_with, {})
    assert isinstance(outcome.result, Failure) and "but the sweep runs 0.0.1+other" in outcome.result.message


@pytest.mark.long
def test_a_sweep_on_the_cluster_writes_the_same_bytes_as_one_on_this_machine(address: str, tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text("""\
configurations: [{name: default}]
traces: [{make: {jobs: 3, hours: 0.1}}]
seeds: [1, 2]
clusters: [{template: {allocatable: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 4}}, counts: [1]}]
""")
    for name, flags in (("dask", ["--dask", address]), ("here", ["--processes", "1"])):
        command = ["sweep", str(tmp_path / "grid.yaml"), "--save", str(tmp_path / name), *flags]
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 0 and result.stderr == "", result.output
    for file in ("results.csv", "results.parquet", "sweep.html"):
        assert (tmp_path / "dask" / file).read_bytes() == (tmp_path / "here" / file).read_bytes()


def test_no_result_is_lost_or_duplicated_when_a_worker_is_killed(address: str, tmp_path: Path) -> None:
    cells = made(9)
    killed = 0
    found = []
    tasks = [(cell, cell.key, ("folder",)) for cell in cells]
    for outcome in run_on_dask(address, tasks, {"folder": str(tmp_path)}, slow_with, {}):
        found.append(outcome)
        if not killed:
            done = {one.task.seed for one in found}
            started = {int(file.stem): int(file.suffix[1:]) for file in tmp_path.iterdir()}
            killed = next(pid for seed, pid in started.items() if seed not in done)
            os.kill(killed, signal.SIGKILL)
    assert Counter(one.task.seed for one in found) == Counter(range(9))
    results = {one.task.seed: one.result for one in found}
    assert results == {n: {"metrics": {"value": n * n, "by": "drf"}} for n in range(9)}
    ran = Counter(int(file.stem) for file in tmp_path.iterdir())
    assert max(ran.values()) == 2, "the cell of the killed worker ran again"


def test_a_cell_that_fails_on_the_cluster_fails_alone(address: str) -> None:
    tasks = [(cell, f"failing-{cell.key}", ("shared",)) for cell in made(2)]
    found = {one.task.seed: one.result for one in run_on_dask(address, tasks, {"shared": 1}, failing_with, {})}
    assert found[0] == {"metrics": {"value": 1, "by": "drf"}}
    assert found[1] == Failure("ValueError: an odd mistake", found[1].trace)  # type: ignore[union-attr]
