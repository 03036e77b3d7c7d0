"""`muster bench`: rows, limits and the calibration loop."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from muster.cli import main
from muster.sim.bench import catalogue
from muster.sim.bench.catalogue import ALL_WORKS, UnknownWork, select
from muster.sim.bench.measurement import calibration_s
from muster.sim.bench.record import missed
from muster.sim.bench.scheduler_perf.cases import CASES


def test_every_workload_has_a_limit() -> None:
    assert [work.name for work in ALL_WORKS if not work.floors] == []


def test_names_differ() -> None:
    names = [work.name for work in ALL_WORKS]
    assert len(set(names)) == len(names)


def test_every_case_with_a_published_floor_has_a_limit() -> None:
    """50 times 680 pods per second: 10,000 pods within 0.294 s."""
    cases = {case.number: case for case in CASES}
    assert cases["1"].floors == {"decide_s": 0.29412}
    assert [case.number for case in CASES if bool(case.published) != bool(case.floors)] == []


def test_cases_are_chosen_by_number_with_their_variants() -> None:
    chosen = [one.name for one in select(["scheduler-perf", "7", "11-20k"])]
    assert chosen == ["scheduler-perf/7", "scheduler-perf/7-anti", "scheduler-perf/11-20k"]
    assert len(select(["scheduler-perf"])) == len(CASES)


def test_an_unknown_case_is_refused() -> None:
    with pytest.raises(UnknownWork, match="no case 99"):
        select(["scheduler-perf", "99"])


def test_without_the_live_extra_the_extender_is_left_out_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "find_spec", lambda _: None)
    assert [one.name for one in ALL_WORKS if one not in select([])] == ["extender"]
    found = CliRunner().invoke(main, ["bench", "extender"])
    assert (found.exit_code, "extender needs the extra `live`: pip install 'muster[live]'" in found.stderr) == (2, True)


def test_the_extender_answers_with_the_groups_that_need_pods() -> None:
    found = CliRunner().invoke(main, ["bench", "extender", "--runs", "1", "-o", "json"])
    (row,) = json.loads(found.stdout)
    assert row["filter_p50_ms"] <= row["filter_p99_ms"] and row["pods_per_s"] > 0


def test_a_case_is_compared_with_the_published_floors() -> None:
    found = CliRunner().invoke(main, ["bench", "scheduler-perf", "23-groups", "--runs", "1", "-o", "json"])
    (row,) = json.loads(found.stdout)
    assert (row["bound"], row["evicted"], row["published_pods_per_s"]) == (100, 500, {})
    (case,) = (case for case in CASES if case.number == "5")
    derived = case.derived({"decide_s": 0.2, "seconds": 0.4})
    assert derived["times_published"] == {
        "1.36": {"deciding": 166.7, "total": 83.3}, "1.37": {"deciding": 55.6, "total": 27.8}
    }  # fmt: skip


def test_a_limit_is_missed_by_a_larger_figure_only() -> None:
    row = {"floor": {"seconds": 0.5, "peak_rss_mib": 100}, "seconds": 0.5, "peak_rss_mib": 100.1}
    assert missed(row) == ["peak_rss_mib 100.1 > 100"]


def test_the_calibration_loop_takes_time() -> None:
    assert calibration_s() > 0


def test_a_record_compares_with_other_machines() -> None:
    """The times are there as multiples of the calibration loop, too."""
    found = CliRunner().invoke(main, ["bench", "W4", "--runs", "1", "-o", "json"])
    (row,) = json.loads(found.stdout)
    assert row["bound"] == 800
    assert abs(row["times_calibration"]["seconds"] - row["seconds"] / row["calibration_s"]) < 0.01
