"""`muster plugins` as it is called."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from muster.cli import main
from muster.cli.plugins import PluginRow, matrix
from muster.cycle.configure import configure
from muster.cycle.registry import PLUGINS, extension_points


def test_the_matrix_as_json() -> None:
    answer = json.loads(CliRunner().invoke(main, ["plugins", "-o", "json"]).stdout)
    rows = {row["name"]: row for row in answer["plugins"]}
    assert "NodeSets" in rows["nodegroup"]["hooks"]
    assert answer["extension_points"]["NodeFilter"] == "enablePredicate"


def test_the_matrix_as_tables() -> None:
    text = CliRunner().invoke(main, ["plugins"]).stdout
    for message in ("Which plugin does what", "resource-strategy-fit", "binpack.weight", "NodeScorer"):
        assert message in text


def test_every_built_in_plugin_has_its_row() -> None:
    assert {row.name for row in matrix()} >= PLUGINS.keys()


def test_the_rows_say_what_the_classes_say() -> None:
    rows = {row.name: row for row in matrix()}
    assert rows["binpack"].hooks == ("NodeScorer",)
    assert "Reclaimable" in rows["proportion"].hooks
    assert "binpack.weight" in rows["binpack"].arguments


def test_every_row_has_a_hook_and_a_sentence() -> None:
    assert [row.name for row in matrix() if not row.hooks or not row.about] == []


def test_extension_points_are_those_one_can_answer() -> None:
    points = extension_points()
    assert "NodeFilter" in points
    assert not {"Hook", "VictimHints"} & points.keys()


@pytest.mark.parametrize("row", matrix(), ids=lambda row: str(row.name))
def test_one_plugin_is_shown_with_an_example_that_loads(row: PluginRow) -> None:
    answer = json.loads(CliRunner().invoke(main, ["plugins", row.name, "-o", "json"]).stdout)
    assert answer["hooks"] == list(row.hooks)
    config, findings = configure(f"actions: allocate\n{answer['example']}", "example")
    assert [finding for finding in findings if finding.severity == "error"] == []
    assert [option.name for option in config.plugins()] == [row.name]
    text = CliRunner().invoke(main, ["plugins", row.name]).stdout
    assert all(word in text for word in (*row.hooks, *row.arguments, "Example"))


def test_the_default_of_an_argument_has_a_column_of_its_own() -> None:
    lines = CliRunner().invoke(main, ["plugins", "nodeorder"]).stdout.splitlines()
    shown = next(line for line in lines if "tainttoleration.weight" in line)
    assert shown.split()[:2] == ["tainttoleration.weight", "3"]
    assert "(3)" not in shown


def test_an_unknown_plugin_is_refused_with_the_nearest() -> None:
    result = CliRunner().invoke(main, ["plugins", "bin-pack"])
    assert result.exit_code == 2
    assert "there is no plugin 'bin-pack': did you mean binpack?" in result.stderr


def test_every_extension_point_says_what_it_is_for() -> None:
    assert [name for name, kind in extension_points().items() if not kind.__dict__.get("__doc__")] == []
