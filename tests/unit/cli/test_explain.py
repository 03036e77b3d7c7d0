"""`muster explain` as it is called."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from builders.files import PREEMPTING, full_cluster, write
from builders.manifests import node, pod
from muster.cli import main


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["explain", *arguments])


def test_the_json_has_the_keys_of_the_contract(tmp_path: Path) -> None:
    result = call("default/boss", *write(tmp_path, full_cluster(), PREEMPTING), "--before", "-o", "json")
    assert result.exit_code == 0
    seen = json.loads(result.stdout)["nodes"]["n1"]
    assert list(seen) == ["feasible", "reasons", "scores", "terms", "total", "candidate"]
    assert list(seen["reasons"][0]) == ["plugin", "code", "text", "resolvable"]


def test_the_table_ranks_the_nodes_and_shows_the_decision(tmp_path: Path) -> None:
    options = write(tmp_path, [node("a", cpu=1), node("b", cpu=4), pod("p", cpu="2")])
    lines = call("p", *options).stdout.splitlines()
    assert [line.split()[:2] for line in lines[-3:-1]] == [["b", "fits"], ["a", "no"]]
    assert lines[-1] == "default/p fits 1 of 2 nodes; cycle 1 binds it to b"


def test_sets_are_shown_when_asked_for(tmp_path: Path) -> None:
    options = write(tmp_path, [node("a", cpu=4), pod("p")])
    assert "No plugin divides the nodes" in call("p", *options, "--sets").stdout


def test_an_unknown_pod_ends_with_the_nearest_name(tmp_path: Path) -> None:
    result = call("default/bos", *write(tmp_path, full_cluster()))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "did you mean default/boss?" in result.stderr


def test_a_bound_pod_is_refused(tmp_path: Path) -> None:
    result = call("low-1", *write(tmp_path, full_cluster()))
    assert result.exit_code == 2
    assert "has its node already" in result.stderr
