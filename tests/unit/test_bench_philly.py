"""`python bench/studies/philly` on a small trace of the same columns."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]


def test_the_study_replays_three_policies_and_writes_its_record(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = ["timestamp,duration,num_gpus,gpu_time,cluster"]
    for minute in range(30):
        gpus, seconds = int(rng.choice([1, 2, 4])), int(rng.integers(60, 1200))
        rows.append(f"2017-10-09 07:{minute:02d}:00,{seconds},{gpus},{gpus * seconds},vc{minute % 3}")
    (tmp_path / "philly.csv").write_text("\n".join(rows) + "\n")
    command = [sys.executable, str(ROOT / "bench/studies/philly"), "--data", str(tmp_path), "--nodes", "2"]
    done = subprocess.run([*command, "--save", str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "philly.json").read_text())
    assert list(record["replays"]) == ["drf", "proportion", "capacity"]
    for one in record["replays"].values():
        assert one["jobs"]["completed"] == 30 and len(one["rss_mib_at_each_tenth"]) == 10
        assert one["cpu_seconds"] > 0
    assert "Philly: 30 jobs on 2 nodes" in (tmp_path / "philly.html").read_text()
