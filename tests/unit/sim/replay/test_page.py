"""The tables and the page of replays."""

from __future__ import annotations

import numpy as np
import pytest

from builders.pages import Checker, self_contained
from builders.replays import BAD, NAN, replayed, trace
from builders.replays import example as run
from muster.sim.replay.page import page
from muster.sim.replay.tables import HIGHER, LOWER, best_of, summary_tables


def checked(text: str) -> Checker:
    found = self_contained(text)
    assert ">nan" not in text and " nan" not in text
    return found


def test_the_page_is_whole_and_needs_nothing_from_outside() -> None:
    text = page([run(), run("b.yaml", 3.0)], "two", [("command", "muster replay trace.csv")])
    assert {"svg", "figure", "details", "table"} <= checked(text).seen
    for message in (
        "Waiting time of all jobs", "Mean waiting time by queue", "Waiting time by queue and hour: b.yaml",
        "Allocated nvidia.com/gpu by queue: a.yaml", "Waiting jobs", "Fragmentation amount", "Jain", "5-8 GPUs",
        "Share minus deserved share", "muster replay trace.csv", "trace.csv: 40 jobs", "★", "1 job did not start",
    ):  # fmt: skip
        assert message in text


def test_the_same_replays_give_the_same_page() -> None:
    assert page([run(timings=np.array([0.1]))], "x") == page([run(timings=np.array([0.7]))], "x")


def test_seeds_of_one_configuration_are_bars_with_a_spread() -> None:
    text = page([run(seed=1), run(slow=2.0, seed=2), run("b.yaml", 3.0, seed=1)], "seeds")
    checked(text)
    assert "The lines show the lowest and the highest of 2 seeds." in text and 'class="whisker"' in text


def test_names_from_the_input_are_escaped() -> None:
    text = page([run(BAD, queues=(BAD, 'q" onload="x')), run("b", warnings=(BAD,))], BAD, [(BAD, BAD)])
    checked(text)
    assert "<script" not in text and 'onload="x' not in text


@pytest.mark.parametrize("jobs", [0, 1, 2])
def test_few_jobs_give_a_page(jobs: int) -> None:
    made = trace([0.0] * jobs, [1.0] * jobs)
    checked(page([replayed(made, [NAN] * jobs, [NAN] * jobs)], "few"))
    checked(page([], "none"))


def test_many_queues_give_a_page_of_bounded_size() -> None:
    queues = tuple(f"queue-{i}" for i in range(100))
    text = page([run(name, slow, 3000, queues) for name, slow in (("a", 1.0), ("b", 2.0), ("c", 3.0))], "many")
    checked(text)
    assert len(text) < 2_000_000
    assert "The 16 queues with the most jobs of 100." in text and "92 other queues" in text


def test_the_best_value_of_a_row_is_marked() -> None:
    summary = summary_tables([run(), run("b.yaml", 3.0)])[0]
    cells = {row[0]: row[1:] for row in summary.rows}
    assert cells["waiting time, mean"][0].endswith("★") and not cells["waiting time, mean"][1].endswith("★")
    assert cells["jobs completed"] == ("39", "39")
    assert best_of([1.0, 2.0, NAN, 1.0], LOWER) == [0, 3]
    assert best_of([1.0, 2.0], HIGHER) == [1]
    assert best_of([1.0, 1.0], LOWER) == [] and best_of([1.0, NAN], LOWER) == [] and best_of([1.0, 2.0], 0) == []


def test_a_configuration_that_completed_few_jobs_is_not_the_best_in_times() -> None:
    few = run("few.yaml", 0.0)
    few.end[:30] = NAN
    summary = summary_tables([run(), few])[0]
    cells = {row[0]: row[1:] for row in summary.rows}
    assert not any(cell.endswith("★") for cell in cells["completion time, mean"])
    assert cells["jobs completed"][0] == "39 ★"
    assert any("too few jobs completed: few.yaml" in note for note in summary.notes)


def test_the_tables_have_queues_sizes_and_reasons() -> None:
    tables = {made.title: made for made in summary_tables([run(), run("b.yaml", 3.0)])}
    assert list(tables) == ["Summary", "By queue", "By size", "Not completed"]
    assert [row[:3] for row in tables["By queue"].rows][:2] == [("blue", "a.yaml", "19"), ("blue", "b.yaml", "19")]
    assert all(len(row) == len(made.head) for made in tables.values() for row in made.rows)
    assert tables["Not completed"].rows[0] == ("1", "a.yaml", f"{BAD} Insufficient cpu")
