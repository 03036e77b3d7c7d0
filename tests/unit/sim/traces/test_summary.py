"""The summary of a trace."""

from __future__ import annotations

from pathlib import Path

import yaml
from click.testing import CliRunner

from muster.cli import main
from muster.config.types import Arguments, PluginOption
from muster.plugins.gpu_share import GpuShare
from muster.sim.traces.read import read_trace
from muster.sim.traces.summary import summary

JOBS = """submit,duration,pods,gpus,cpu,queue,gpu_milli
2026-01-05T00:00:00Z,3600,1,1,1,a,500
2026-01-05T01:00:00Z,7200,2,16,32,a,1000
2026-01-05T02:00:00Z,60,1,0,1,b,1000
2026-01-05T04:00:00Z,inf,1,1,1,b,1000
"""


def test_a_summary_counts_jobs_hours_and_sizes(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(JOBS)
    found = summary(read_trace([str(tmp_path / "t.csv")]))
    assert (found["jobs"], found["gangs"], found["sharedGPUs"], found["endless"]) == (4, 1, 1, 1)
    assert (found["firstSubmission"], found["hours"]) == ("2026-01-05T00:00:00Z", 4)
    assert (found["gpuHours"], found["meanOfferedGPUs"], found["jobsPerHour"]) == (32.5, 8.125, 1)
    assert found["durations"] == {"mean": 3620, "p50": 3600, "p90": 7200, "p99": 7200}
    assert [(one["name"], one["jobs"], one["gpuHours"]) for one in found["queues"]] == [("a", 2, 32.5), ("b", 2, 0)]
    assert [one["name"] for one in found["sizes"]] == ["0", "<1", "1", ">8"]


def test_one_job_has_no_rate(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("submit,duration\n5,inf\n")
    found = summary(read_trace([str(tmp_path / "t.csv")]))
    assert found["jobsPerHour"] is found["meanOfferedGPUs"] is found["durations"] is None
    assert (found["sizedBy"], [one["name"] for one in found["sizes"]]) == ("pods", ["1"])


HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
ROWS = ["4000,1,1,460,A|B"] * 3 + ["8500,1,2,1000,"] * 2 + ["1000,1,0,0,"]


def test_the_command_prints_an_argument_that_the_plugin_reads(tmp_path: Path) -> None:
    trace = tmp_path / "pods.csv"
    trace.write_text("\n".join([HEADER, *(f"p{i},{row},LS,Running,{i},{i + 9},{i}" for i, row in enumerate(ROWS))]))
    result = CliRunner().invoke(main, ["trace", "show", str(trace), "--typical-pods"])
    assert result.exit_code == 0, result.stderr
    read = yaml.safe_load(result.stdout)
    assert read == {
        "gpu-share.typicalPods": [
            {"cpu": 4, "gpus": 1, "milli": 460, "models": ["A", "B"], "weight": 3},
            {"cpu": "8500m", "gpus": 2, "weight": 2},
            {"cpu": 1, "weight": 1},
        ]
    }
    given = Arguments(read)
    GpuShare(given, PluginOption("gpu-share", arguments=given))
    assert not given.findings
