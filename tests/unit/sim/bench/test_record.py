"""`muster bench`: rows, limits and the calibration loop."""

from __future__ import annotations

import json

from click.testing import CliRunner

from muster.cli import main
from muster.sim.bench.calibration import calibration_s
from muster.sim.bench.cliffs import ALL_WORKS
from muster.sim.bench.record import missed


def test_every_workload_has_a_limit() -> None:
    assert [work.name for work in ALL_WORKS if not work.floors] == []


def test_names_differ() -> None:
    names = [work.name for work in ALL_WORKS]
    assert len(set(names)) == len(names)


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
