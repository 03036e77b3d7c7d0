"""`muster demo` on the command line: printed on stdout, reported in a file, exit 1 if a design does not come out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from muster.cli import main
from muster.sim import demo
from muster.sim.demo.chapter import Chapter, Check, Step


def test_the_demo_is_printed_and_reported(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    result = CliRunner().invoke(main, ["demo", "--report", str(report)])
    assert result.exit_code == 0, result.stdout
    assert "as designed: nlp uses nodegroup1 first" in result.stdout
    assert "NOT AS DESIGNED" not in result.stdout
    page = report.read_text()
    assert page.startswith("<!doctype html>")
    assert "<script" not in page and "http" not in page.replace("http-equiv", "")
    assert "demo/nlp-4" in page


def test_json_has_every_step_with_its_checks(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["demo", "-o", "json", "--report", str(tmp_path / "r.html")])
    answer = json.loads(result.stdout)
    assert answer["holds"] is True
    assert all(step["checks"] for chapter in answer["chapters"] for step in chapter["steps"])


def test_a_demo_that_does_not_come_out_exits_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Step("What is asked.", [], "", checks=[Check("a rule", 1, 2)])
    monkeypatch.setattr(demo, "CHAPTERS", (lambda: Chapter("x", "A title", "", [step]),))
    result = CliRunner().invoke(main, ["demo", "--report", str(tmp_path / "r.html")])
    assert result.exit_code == 1
    assert "NOT AS DESIGNED: a rule" in result.stdout
    assert "wanted 1, found 2" in result.stdout


def test_an_error_of_writing_the_report_is_reported(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["demo", "--report", str(tmp_path / "no" / "r.html")])
    assert result.exit_code == 2
    assert "give another place with --report" in result.stderr
