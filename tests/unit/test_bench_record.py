"""`python bench/record.py` writes the tables of docs/concepts/speed.md from records."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def _load() -> ModuleType:
    """Loads bench/record.py, which is not a part of the package."""
    spec = importlib.util.spec_from_file_location("bench_record", ROOT / "bench" / "record.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


record = _load()


ORIGIN = {"machine": "a machine", "commit": "abc", "runs": 3, "calibration_s": 0.2}
ROW = ORIGIN | {
    "work": "W0", "seconds": 0.5, "decide_s": 0.25, "pods_per_s": 20, "peak_rss_mib": 64.2,
    "times_calibration": {"seconds": 2.5}, "floor": {"seconds": 0.4},
}  # fmt: skip
CASE = ORIGIN | {
    "work": "scheduler-perf/5", "about": "PodAntiAffinity", "decide_s": 0.2, "deciding_pods_per_s": 10_000,
    "pods_per_s": 5000, "published_pods_per_s": {"1.37": 180}, "required_times": 50,
    "times_published": {"1.37": {"deciding": 55.6, "total": 27.8}}, "floor": {"decide_s": 0.22},
}  # fmt: skip


def test_the_page_gets_the_tables_of_both_records_and_a_missed_limit_is_marked(tmp_path: Path) -> None:
    (tmp_path / "scheduler-perf").mkdir()
    (tmp_path / "record.json").write_text(json.dumps([ROW]))
    (tmp_path / "scheduler-perf" / "record.json").write_text(json.dumps([CASE]))
    page = (ROOT / "docs" / "concepts" / "speed.md").read_text("utf-8")
    lines = record.with_tables(page, tmp_path).splitlines()
    assert "| W0 | 0.500 | 2.5 | 0.250 | 20 | 64 | seconds 0.5 (at most 0.4) **missed** |" in lines
    assert "| 5 | PodAntiAffinity | 10000 | 5000 | – | 180 | 55.6 | 27.8 | 50 |" in lines
    assert sum("a machine, commit abc, best of 3" in line for line in lines) == 2
