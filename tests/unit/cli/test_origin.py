"""The origin of a page: the command, the files, the configuration, the version, and the time if it was given."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from builders.files import PACKING, write
from builders.manifests import node, pod
from muster import __version__
from muster.cli import main

EPOCH = "SOURCE_DATE_EPOCH"


def page(folder: Path, *more: str) -> str:
    options = write(folder, [node("n1", cpu=4), pod("p")], PACKING)
    result = CliRunner().invoke(main, ["simulate", *options, "-o", "html", *more])
    assert result.exit_code == 0
    return result.stdout.partition('id="origin"')[2]


def test_the_page_says_how_it_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(EPOCH, raising=False)
    text = page(tmp_path, "--feature-gates", "WorkloadWithJob=true")
    command = f"muster simulate -c {tmp_path}/scheduler.yaml -f {tmp_path}/cluster.yaml"
    assert command in text and "WorkloadWithJob=true" in text and "-o html" not in text
    assert f"{tmp_path}/cluster.yaml (sha256 " in text
    assert f"<td>configuration</td><td>{tmp_path}/scheduler.yaml</td>" in text
    assert f"muster {__version__}" in text
    assert "<td>time</td>" not in text


def test_a_filter_is_named_on_the_page(tmp_path: Path) -> None:
    options = write(tmp_path, [node("n1", cpu=4), pod("p"), pod("q", namespace="other")])
    text = CliRunner().invoke(main, ["simulate", *options, "-n", "other", "-o", "html"]).stdout
    assert "only namespace other" in text
    assert text.count('class="pod h0 new"') == 2, "the picture of the nodes is that of the whole cluster"
    assert 'data-pod="default/p"' not in text.partition('id="placements"')[2]


def test_the_time_is_the_one_that_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EPOCH, "1767225600")
    assert "<td>time</td><td>2026-01-01T00:00:00Z</td>" in page(tmp_path)
    assert "<td>time</td><td>2026-02-01T08:00:00Z</td>" in page(tmp_path, "--now", "2026-02-01T08:00:00Z")
    monkeypatch.setenv(EPOCH, "yesterday")
    assert "<td>time</td>" not in page(tmp_path)
