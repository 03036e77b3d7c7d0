"""The typical pods of a trace, and the argument that is made of them."""

from __future__ import annotations

from pathlib import Path

import yaml
from click.testing import CliRunner

from muster.cli import main
from muster.config.types import Arguments, PluginOption
from muster.plugins.gpu_share import GpuShare

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
