"""What the dashboard shows without a live cluster: a replay while it runs and at its end, and its earlier cycles."""

from __future__ import annotations

from pathlib import Path

from builders.manifests import node, tables
from fakes.dashboard_site import Site, until
from muster.sim.dashboard.inputs import ReplayInput
from muster.sim.dashboard.sources import ReplaySource
from muster.sim.inputs import default_config
from muster.sim.replay.run import ReplayOptions
from muster.sim.traces.read import read_trace

TRACE = "name,submit,duration,pods,cpu_milli\na,0,100,1,4000\nb,1,50,1,4000\nc,2,50,1,4000\n"


def test_a_replay_is_shown_and_can_be_scrubbed_explained_and_decided_again(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(TRACE)
    given = ReplayInput(read_trace([str(tmp_path / "trace.csv")]), tables([node(cpu=4)]), ReplayOptions())
    with Site(ReplaySource("replay of trace.csv", given, (default_config(),))) as site:
        until("the end", lambda: bool(site.get("/api/v1/status")["settled"]))
        cycles = site.get("/api/v1/timeline")["cycles"]
        assert sum(one["binds"] for one in cycles) == 3
        third = next(one["number"] for one in cycles if one["pending"] == 2)
        (waits, *_) = site.get(f"/api/v1/waiting?at={third}")["causes"]
        assert waits["pods"][0].startswith("replay/")
        explained = site.get(f"/api/v1/explain?pod={waits['pods'][0]}&at={third}")
        assert explained["decision"]["reason"]
        status, found = site.post("/api/v1/redecide", {"configuration": "built-in default", "cycle": third})
        assert (status, found["comparison"]["differences"]["placements"]) == (200, {})
