"""Files, folders and the standard input."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from muster.cluster.manifests import read_paths
from muster.model.core import Node


def node_text(name: str) -> str:
    return f"apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\n"


def test_a_folder_is_read_with_all_below_it_but_nothing_hidden(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "b.yaml").write_text(node_text("b"))
    (tmp_path / "deep" / "er" / "a.yml").write_text(node_text("a"))
    (tmp_path / "deep" / "c.json").write_text('{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "c"}}')
    (tmp_path / ".hidden" / "d.yaml").write_text(node_text("d"))
    (tmp_path / "notes.txt").write_text("not for muster")
    manifests = read_paths([tmp_path])
    assert list(manifests.of(Node)) == ["a", "b", "c"]
    assert manifests.findings == []


def test_a_file_named_twice_is_one_file(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(node_text("a"))
    manifests = read_paths([file, tmp_path, tmp_path / "." / "a.yaml"])
    assert list(manifests.of(Node)) == ["a"]
    assert manifests.findings == []


def test_a_file_named_by_itself_is_read_whatever_its_name(tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text(node_text("a"))
    assert list(read_paths([tmp_path / "nodes"]).of(Node)) == ["a"]


def test_a_path_that_is_not_there_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(node_text("a"))
    manifests = read_paths([tmp_path / "none.yaml", tmp_path / "a.yaml"])
    assert list(manifests.of(Node)) == ["a"]
    (finding,) = manifests.findings
    assert (finding.severity, finding.code, finding.file) == ("error", "file", str(tmp_path / "none.yaml"))


def test_a_folder_without_manifests_is_reported(tmp_path: Path) -> None:
    (finding,) = read_paths([tmp_path]).findings
    assert finding.message == "no manifests in this folder"


def test_a_dash_is_the_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(node_text("a").encode())))
    manifests = read_paths(["-"])
    assert list(manifests.of(Node)) == ["a"]
    assert manifests.where["Node", "a"] == ("-", 1)
