"""Rows become jobs, or a finding with their line."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.model.finding import InputError
from muster.sim.traces.jobs import KEYS, Key, parse_columns, resolve
from muster.sim.traces.read import read_trace
from muster.sim.traces.table import Trace


def test_a_key_has_a_unit_and_says_whether_it_is_of_one_pod() -> None:
    assert KEYS["memory_gib_per_pod"] == Key("memory", 2.0**30, per_pod=True)
    assert KEYS["cpu"] == Key("cpu", 1000.0) and KEYS["submit_ms"] == Key("submit", 0.001)
    assert "submit_per_pod" not in KEYS


def test_the_option_is_read() -> None:
    assert parse_columns("submit=timestamp, gpus = num_gpus") == {"submit": "timestamp", "gpus": "num_gpus"}


@pytest.mark.parametrize(("text", "message"), [("a", "KEY=COLUMN"), ("a=b,", "KEY=COLUMN"), ("a=b,a=c", "twice")])
def test_an_option_that_is_no_map_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_columns(text)


def test_texts_of_two_columns_are_joined_and_numbers_are_not() -> None:
    assert resolve({"name": "a+b"}, ["a", "b"], required=(), file="f")["name"] == (Key("name"), ("a", "b"))
    assert resolve({"name": "a+b"}, ["a+b"], required=(), file="f")["name"] == (Key("name"), ("a+b",))
    with pytest.raises(InputError, match="has one column"):
        resolve({"gpus": "a+b"}, ["a", "b"], required=(), file="f")


def test_a_column_is_missing_only_if_it_was_asked_for() -> None:
    assert resolve({"gpus": "n"}, ["m"], required=(), file="f") == {}
    with pytest.raises(InputError, match="f has no column 'n'"):
        resolve({"gpus": "n"}, ["m"], required=("gpus",), file="f")


GOOD = "1,2,3,4,5"


HEADER = "submit,duration,pods,gpus,priority"


def read(folder: Path, rows: list[str], header: str = HEADER, strict: bool = False) -> Trace:
    file = folder / "t.csv"
    file.write_bytes("\n".join([header, *rows, ""]).encode("utf-8", "surrogateescape"))
    return read_trace([str(file)], strict=strict)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("x,2,3,4,5", "submit is not a time: 'x'"),
        (",2,3,4,5", "submit is missing"),
        ("nan,2,3,4,5", "submit is missing"),
        ("inf,2,3,4,5", "submit is too large to be true: 'inf'"),
        ("2017-13-01 00:00:00,2,3,4,5", "submit is not a time: '2017-13-01 00:00:00'"),
        ("1,,3,4,5", "duration is missing"),
        ("1,-2,3,4,5", "duration is negative: '-2'"),
        ("1,1e11,3,4,5", "duration is too large to be true: '1e11'"),
        ("1,2,1000000,4,5", "pods is too large to be true: '1000000'"),
        ("1,2,1.5,4,5", "pods is not a whole number: '1.5'"),
        ("1,2,3,1.5,5", "gpus is 1.5: a part of a GPU is possible only below 1"),
        ("1,2,3,0.5,5", "gpus is 0.5 for 3 pods"),
        ("1,2,3,99999999,5", "gpus is too large to be true: '99999999'"),
        ("1,2,3,4,urgent", "priority is not a number: 'urgent'"),
        ("1,2,3,4", "the row has 4 columns, the header has 5"),
        ('1,2,3,4,"5', "the row cannot be split into columns: unexpected end of data"),
        ("1,2,3,4,5\0", "the line has a NUL character"),
        ("1,2,3,4,\udcff", "byte 0xff is not UTF-8 text"),
        ("1,2,3,4," + "5" * (1 << 20), "the line is longer than 1 MiB"),
    ],
)
def test_a_bad_row_is_left_out_and_strict_stops_at_it(tmp_path: Path, row: str, message: str) -> None:
    trace = read(tmp_path, [GOOD, row, GOOD])
    assert (len(trace), trace.bad_rows) == (2, 1)
    assert [(one.line, one.message) for one in trace.findings] == [(3, message)]
    with pytest.raises(InputError) as stopped:
        read(tmp_path, [GOOD, row, GOOD, "also,bad"], strict=True)
    assert [one.line for one in stopped.value.findings] == [3]


def test_at_most_100_findings_are_kept_and_all_bad_rows_counted(tmp_path: Path) -> None:
    trace = read(tmp_path, [GOOD, *["x,2,3,4,5"] * 300])
    assert (trace.bad_rows, len(trace.findings), trace.findings[0].line) == (300, 100, 3)


@pytest.mark.parametrize(
    ("header", "row", "message"),
    [
        ("submit,duration,gpus,gpu_milli,pods", "1,2,2,500,1", "possible only with one GPU per pod"),
        ("submit,duration,gpus,gpu_milli,pods", "1,2,1,0,1", "gpu_milli is 0"),
        ("submit,duration,pods,minimum", "1,2,2,3", "minimum is 3, but the job has 2 pods"),
        ("submit,start,end,duration", "1,9,4,", "duration is 5 s before the start"),
        ("submit,duration,usage", "1,2,1.5", "usage is too large"),
        ("submit,duration,pods,memory_gib_per_pod", "1,2,100000,100000", "of all pods is too large"),
    ],
)
def test_values_that_contradict_each_other_are_bad_rows(
    tmp_path: Path, header: str, row: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, [row], header, strict=True)


def test_a_part_of_a_gpu_makes_one_pod(tmp_path: Path) -> None:
    trace = read(tmp_path, ["1,2,0.25"], "submit,duration,gpus")
    assert (trace.gpus.tolist(), trace.gpu_milli.tolist(), trace.pods.tolist()) == ([1], [250], [1])


def test_a_job_without_a_start_runs_from_its_submission_to_its_end(tmp_path: Path) -> None:
    trace = read(tmp_path, ["10,,25", "10,12,25"], "submit,start,end")
    assert trace.duration.tolist() == [15, 13]


def test_names_of_published_classes_are_priorities(tmp_path: Path) -> None:
    rows = [f"0,1,{name}" for name in ("HP", "Spot", "BE", "Burstable", "LS", "-4", "")]
    trace = read(tmp_path, rows, "submit,duration,priority")
    assert trace.priority.tolist() == [100, 0, 0, 50, 100, -4, 0]
