"""`muster replay` as it is called."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from builders.files import PACKING, SPREADING, text
from builders.manifests import node
from muster.cli import main

GPU = "nvidia.com/gpu"
TRACE = """submit,duration,gpus,queue
0,100,8,a
10,50,8,b
20,30,4,a
"""


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["replay", *arguments])


@pytest.fixture
def given(tmp_path: Path) -> tuple[str, ...]:
    """A trace of three jobs on a node with eight GPUs, and two configurations."""
    (tmp_path / "trace.csv").write_text(TRACE)
    (tmp_path / "nodes.yaml").write_text(text(node("n1", resources={GPU: 8})))
    (tmp_path / "pack.yaml").write_text(PACKING)
    (tmp_path / "spread.yaml").write_text(SPREADING)
    paths = ("trace.csv", "--nodes", "nodes.yaml", "-c", "pack.yaml", "-c", "spread.yaml")
    return tuple(str(tmp_path / name) if "." in name else name for name in paths)


def test_the_same_bytes_with_one_process_or_two(given: tuple[str, ...]) -> None:
    one, two = (call(*given, "-o", "json", "--processes", n) for n in ("1", "2"))
    assert one.exit_code == 0, one.stderr
    assert one.stdout == two.stdout
    replays = json.loads(one.stdout)["replays"]
    assert [found["name"] for found in replays] == ["pack.yaml", "spread.yaml"]
    assert [found["jobs"]["completed"] for found in replays] == [3, 3]


def test_measured_times_are_not_in_the_result(given: tuple[str, ...], tmp_path: Path) -> None:
    result = call(*given, "-o", "json", "--timings", str(tmp_path / "timings.json"))
    assert "pack.yaml: " in result.stderr and "ms on average" in result.stderr
    timings = json.loads((tmp_path / "timings.json").read_text())
    assert timings["pack.yaml"]["cycles"] > 0 and timings["pack.yaml"]["total"] > 0
    assert str(timings["pack.yaml"]["total"]) not in result.stdout


def test_the_files_have_a_row_for_each_job_and_interval(given: tuple[str, ...], tmp_path: Path) -> None:
    jobs, samples, html = (tmp_path / name for name in ("jobs.csv", "samples.parquet", "page.html"))
    result = call(*given, "--jobs", str(jobs), "--samples", str(samples), "--html", str(html), "--sample", "1m")
    assert result.exit_code == 0, result.stderr
    with jobs.open() as rows:
        assert len(list(csv.DictReader(rows))) == 2 * 3
    assert samples.read_bytes()[:4] == b"PAR1"
    assert html.read_text().startswith("<!doctype html>") and "<script" not in html.read_text()


def test_a_job_that_never_starts_is_counted_with_its_reason(given: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(TRACE + "30,10,9,b\n")
    result = call(*given, "-o", "json", "--gpu-resource", "example.com/gpu")
    assert result.exit_code == 0, result.stderr
    jobs = json.loads(result.stdout)["replays"][0]["jobs"]
    assert jobs["never_started"] == 4 and "example.com/gpu" in json.dumps(jobs)


@pytest.mark.parametrize(
    ("events", "fault"),
    [
        ("- {at: 1h, leave: n2}", "events.yaml:1: error: events[0]: there is no node n2"),
        ("- {at: 0, join: n1}\n- {at: 1h}", "events.yaml:2: error: events[1]: must have `at` and either `join` or"),
        ("{at: 1h}", "events.yaml:1: error: is not a list"),
        ("- {at: soon, leave: n1}", "no duration"),
        ("- [1", "events.yaml:2: error: while parsing"),
    ],
)
def test_bad_node_events_stop_the_command_with_their_line(
    given: tuple[str, ...], tmp_path: Path, events: str, fault: str
) -> None:
    (tmp_path / "events.yaml").write_text(events)
    result = call(*given, "--node-events", str(tmp_path / "events.yaml"))
    assert result.exit_code == 2
    assert fault in result.stderr
    assert "Traceback" not in result.output


def test_a_node_leaves_and_comes_back(given: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "events.yaml").write_text("- {at: 40, leave: n1}\n- {at: 1m, join: n1}\n")
    result = call(*given, "--node-events", str(tmp_path / "events.yaml"), "-o", "json")
    assert json.loads(result.stdout)["replays"][0]["evictions"]["node_losses"] == 1


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ((), "--nodes"),
        (("--nodes", "missing.yaml"), "missing.yaml"),
        (("--nodes", "NODES", "--cycle", "0s"), "more than 0"),
        (("--nodes", "NODES", "--jobs", "jobs.txt"), ".parquet"),
        (("--nodes", "NODES", "-c", "missing.yaml"), "missing.yaml"),
        (("--nodes", "NODES", "--format", "opnb"), "openb"),
    ],
)
def test_a_mistake_is_one_clear_message(
    given: tuple[str, ...], tmp_path: Path, arguments: tuple[str, ...], fault: str
) -> None:
    words = [str(tmp_path / "nodes.yaml") if word == "NODES" else word for word in arguments]
    result = call(given[0], *words)
    assert result.exit_code == 2
    assert fault in result.output and "Traceback" not in result.output and "unexpected" not in result.output


def test_bad_rows_are_counted_and_strict_stops(given: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(TRACE + "x,10,1,a\n")
    lenient = call(*given, "-o", "json")
    assert json.loads(lenient.stdout)["bad_rows"] == 1 and "trace.csv:5" in lenient.stderr
    strict = call(*given, "--strict")
    assert strict.exit_code == 2 and "trace.csv:5" in strict.stderr
