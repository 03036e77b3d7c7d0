"""`muster trace` as it is called."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from muster.cli import main
from muster.sim.traces.read import read_trace
from muster.sim.traces.table import Trace


def call(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["trace", *arguments], input=stdin)


MAKE = ("make", "--seed", "7", "--jobs", "40", "--load", "0.5", "--pods", "1:3,4", "--gpus", "0.5,1:2", "--queues",
        "a:2,b", "--priorities", "0:4,100", "--models", "any:2,A100|H100", "--estimate-error", "2")  # fmt: skip


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    first, again, other = (call(*MAKE, *more).stdout_bytes for more in ((), (), ("--seed", "8")))
    assert first == again != other
    for name in ("a.parquet", "b.parquet"):
        assert call(*MAKE, str(tmp_path / name)).exit_code == 0
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.parquet", "b.parquet"]


def test_csv_and_parquet_have_the_same_jobs(tmp_path: Path) -> None:
    shown = []
    for name in ("trace.csv", "trace.parquet"):
        call(*MAKE, str(tmp_path / name))
        shown.append(json.loads(call("show", str(tmp_path / name), "-o", "json").stdout))
    assert shown[0] == shown[1] | {"source": shown[0]["source"]}
    assert shown[0]["jobs"] == 40 and shown[0]["estimated"] == 40 and shown[0]["badRows"] == 0
    assert [one["name"] for one in shown[0]["queues"]] == ["a", "b"]
    assert [one["name"] for one in shown[0]["sizes"]] == ["<1", "1", "2-4"]


def test_make_writes_into_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[Trace] = []
    reader = threading.Thread(target=lambda: found.append(read_trace([str(pipe)])), daemon=True)
    reader.start()
    assert call(*MAKE, str(pipe)).exit_code == 0
    reader.join(20)
    assert len(found[0]) == 40 and pipe.is_fifo()


def test_show_reads_stdin_and_prints_tables() -> None:
    result = call("show", "-", stdin=call(*MAKE).stdout_bytes)
    assert result.exit_code == 0 and result.stderr == ""
    for part in ("jobs                           40", "mean offered GPUs", "Queues", "Priorities", "A100|H100"):
        assert part in result.stdout


def test_bad_rows_are_reported_and_strict_stops(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("at,h,n\n" + "0,1,1\n" * 3 + "x,1,1\n" * 12)
    columns = ("--columns", "submit=at,duration_hours=h,gpus=n")
    result = call("show", str(file), *columns, "-o", "json")
    assert result.exit_code == 0
    assert (json.loads(result.stdout)["badRows"], json.loads(result.stdout)["gpuHours"]) == (12, 3)
    assert result.stderr.splitlines()[0] == f"{file}:5: error: at is not a time: 'x'"
    assert result.stderr.splitlines()[10:] == ["left out: 12 bad rows, 10 are shown; read: 3 jobs"]
    strict = call("show", str(file), *columns, "--strict")
    assert strict.exit_code == 2 and f"{file}:5: error" in strict.stderr and strict.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "none.csv"], "none.csv: error: cannot be read: No such file"),
        (["show", "none.csv", "--columns", "submit"], "is not KEY=COLUMN"),
        (["show", "none.csv", "--format", "opnb"], "did you mean openb?"),
        (["make", "--jobs", "5", "--hours", "1", "--load", "1"], "two of jobs, hours and load"),
        (["make", "--pods", "1:x"], "is not VALUE or VALUE:WEIGHT"),
        (["make", "--mean", "soon"], "is no duration"),
        (["make", "--queues", "Big Team"], "'Big Team' is not a name that Kubernetes accepts"),
        (["make", "no/such/folder/t.csv"], "cannot be written"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], message: str) -> None:
    result = call(*arguments)
    assert result.exit_code == 2 and message in result.stderr and "Traceback" not in result.stderr
