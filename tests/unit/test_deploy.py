"""The files in deploy/ are what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml

from muster.cycle.configure import configure
from muster.model.finding import Severity

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_the_files_are_up_to_date(tmp_path: Path) -> None:
    subprocess.run([sys.executable, DEPLOY / "write.py", tmp_path], check=True)
    fresh = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*.yaml")}
    stale = [str(name) for name, text in sorted(fresh.items()) if (DEPLOY / name).read_text() != text]
    assert stale == [], "run: python deploy/write.py"
    here = {path.relative_to(DEPLOY) for folder in ("crds", "helm") for path in (DEPLOY / folder).rglob("*.yaml")}
    assert sorted(str(name) for name in here - set(fresh) if "helm/muster/crds" not in str(name)) == []


def test_the_chart_has_the_definitions_by_a_link() -> None:
    assert (DEPLOY / "helm/muster/crds").resolve() == (DEPLOY / "crds").resolve()


def test_the_configuration_with_evictions_is_valid_and_the_one_that_the_documentation_shows() -> None:
    text = (DEPLOY / "scheduler-with-evictions.yaml").read_text()
    config, message = configure(text, "scheduler-with-evictions.yaml")
    assert [str(finding) for finding in message if finding.severity is Severity.ERROR] == []
    assert {"reclaim", "preempt"} <= set(config.actions)
    page = (DEPLOY.parent / "docs" / "tasks" / "live.md").read_text()
    shown = page.partition("## Evictions\n")[2].partition("```yaml\n")[2].partition("```")[0]
    assert yaml.safe_load(shown) == yaml.safe_load(text)
