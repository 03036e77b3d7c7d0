"""The recorded run of the live scheduler in bench/records, replayed."""

from __future__ import annotations

import json
from pathlib import Path

from live.recorded_load import CONFIG, cluster
from live.recording import read_recording
from live.start_order import compared, replayed

RECORD = Path(__file__).parents[4] / "bench" / "records" / "2026-11-16"


def test_the_recorded_run_of_the_live_scheduler_starts_jobs_in_the_same_order() -> None:
    facts = json.loads((RECORD / "replay.json").read_text(encoding="utf-8"))["recorded"]
    recording = read_recording(RECORD, facts["seconds"])
    found = compared(recording, replayed(recording, cluster(facts["nodes"], recording.trace), CONFIG))
    assert found.equal, found
    assert len(recording.starts) == facts["jobs started"]
