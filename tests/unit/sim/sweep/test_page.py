"""The table and the page of a sweep."""

from __future__ import annotations

import csv
import io

import pyarrow.parquet as pq

from builders.pages import self_contained
from fakes.sweep_cells import EVIL, finished
from muster.sim.sweep.comparison import compare
from muster.sim.sweep.page import page, warnings_of
from muster.sim.sweep.result_table import HEAD, csv_table, parquet_table, plain_result, rows_of


def test_the_table_has_a_row_for_each_cell() -> None:
    rows = rows_of(finished())
    read = list(csv.DictReader(io.StringIO(csv_table(rows).decode())))
    assert [row["status"] for row in read] == ["done"] * 4 + ["failed"]
    assert read[0]["waiting_mean"] == "10.0" and read[0]["seed"] == "1" and read[2]["configuration"] == EVIL
    assert read[4]["message"] == "out of memory" and read[4]["waiting_mean"] == ""
    content = parquet_table(rows)
    assert content is not None
    table = pq.read_table(io.BytesIO(content))
    assert table.column_names == list(HEAD)
    assert table.column("waiting_mean").to_pylist() == [10.0, 20.0, 5.0, 16.0, None]


def test_the_page_marks_the_best_and_contains_nothing_of_the_input_unescaped() -> None:
    done = finished()
    rows, comparisons = rows_of(done), compare(done.cells, done.results)
    text = page(f"{EVIL} grid", rows, comparisons, warnings_of(done))
    self_contained(text)
    assert 'aria-label="best">★</span> 10.5 s ± 7.78 s' in text
    assert "is not compared here: a cell failed" in text and "out of memory" in text
    assert "seed 1 and 1 more: a &lt;b&gt;" in text


def test_the_plain_values_have_the_reasons() -> None:
    done = finished()
    answer = plain_result(rows_of(done), compare(done.cells, done.results))
    assert answer["failed"] == 1
    first = answer["comparisons"][0]
    assert first["seeds"] == [1, 2] and first["best"]["waiting_mean"]["configurations"] == [EVIL]
    assert first["best"]["waiting_mean"]["clear"] is True and first["best"]["waiting_mean"]["difference"] == 4.5
    assert answer["comparisons"][1]["incomplete"] == [EVIL]
