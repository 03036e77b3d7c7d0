"""`muster plugins` as it is called."""

from __future__ import annotations

import json

from click.testing import CliRunner

from muster.cli import main
from muster.cli.plugins import matrix
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
