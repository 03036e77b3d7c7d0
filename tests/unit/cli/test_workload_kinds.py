"""`muster workload-kinds`."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from muster.cli import main


def test_the_kinds_are_listed_with_those_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "k.yaml"
    file.write_text("kinds:\n- {kind: Farm, apiVersions: [f.io/v1], podSets: [{template: spec.t}]}\n")
    result = CliRunner().invoke(main, ["workload-kinds", str(file), "-o", "json"])
    assert result.exit_code == 0, result.stderr
    found = {one["kind"]: one for one in json.loads(result.stdout)["kinds"]}
    assert found["Farm"]["source"] == f"{file}:2"
    assert found["RayJob"]["pods"] == "through RayCluster"
    assert "label ray.io/cluster" in CliRunner().invoke(main, ["workload-kinds"]).stdout


def test_a_bad_entry_ends_with_1_and_a_file_that_is_not_there_with_2(tmp_path: Path) -> None:
    file = tmp_path / "k.yaml"
    file.write_text("kinds:\n- {kind: Farm}\n")
    result = CliRunner().invoke(main, ["workload-kinds", str(file)])
    assert result.exit_code == 1
    assert f"{file}:2: error" in result.stderr
    assert CliRunner().invoke(main, ["workload-kinds", str(tmp_path / "none")]).exit_code == 2
