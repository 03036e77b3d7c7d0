"""`muster validate` as it is called."""

from __future__ import annotations

import json
from pathlib import Path

import yaml
from click.testing import CliRunner, Result

from builders.files import PREEMPTING, write
from builders.manifests import node, pod
from muster.cli import main
from muster.config import load
from muster.cycle.registry import known


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["validate", *arguments])


def test_findings_have_the_keys_of_the_contract(tmp_path: Path) -> None:
    result = call(*write(tmp_path, [node("n1", cpu=4), pod("p", cpu="9")], PREEMPTING), "-o", "json")
    assert result.exit_code == 1
    (finding,) = json.loads(result.stdout)["findings"]
    assert list(finding) == ["severity", "file", "line", "object", "code", "message", "fix"]
    assert (finding["severity"], finding["object"], finding["code"]) == ("error", "Pod default/p", "too-large")


def test_warnings_alone_are_no_failure(tmp_path: Path) -> None:
    text = PREEMPTING.replace("preempt, ", "preempt, preempt, ")
    result = call(*write(tmp_path, [node("n1", cpu=4), pod("p")], text))
    assert result.exit_code == 0
    assert "scheduler.yaml:1: warning: actions: preempt is listed 2 times" in result.stdout


def test_nothing_to_say_is_said(tmp_path: Path) -> None:
    result = call(*write(tmp_path, [node("n1", cpu=4), pod("p")], PREEMPTING))
    assert (result.exit_code, result.stdout) == (0, "no findings\n")


def test_a_broken_manifest_is_a_finding_and_the_rest_is_looked_at(tmp_path: Path) -> None:
    options = write(tmp_path, [node("n1", cpu=4), pod("bad", cpu="x"), pod("p", cpu="9")])
    codes = [finding["code"] for finding in json.loads(call(*options, "-o", "json").stdout)["findings"]]
    assert codes == ["value", "too-large"]


def test_design_1_s_spec_under_metadata_is_reported_clearly(tmp_path: Path) -> None:
    (tmp_path / "queue.yaml").write_text(
        "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata:\n  name: default\n  spec:\n    weight: 1\n"
    )
    result = call("-f", str(tmp_path / "queue.yaml"))
    assert "queue.yaml:5: error: Queue default" in result.stdout
    assert "spec is indented too far: it stands beside metadata, not inside it" in result.stdout


def test_the_effective_configuration_loads_again(tmp_path: Path) -> None:
    options = write(tmp_path, [], PREEMPTING)[2:]
    result = call(*options, "--effective")
    config, findings = load(result.stdout, "again", known())
    assert findings == []
    assert [option.name for option in config.plugins()][:2] == ["priority", "gang"]
    answer = json.loads(call(*options, "--effective", "-o", "json").stdout)
    assert answer["effective"] == yaml.safe_load(result.stdout)
    assert "findings" in answer


def test_a_file_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    assert call("-f", str(tmp_path / "none.yaml")).exit_code == 2
    assert call("-c", str(tmp_path / "none.yaml")).exit_code == 2
