"""`muster plugins` as it is called."""

from __future__ import annotations

import json

from click.testing import CliRunner

from muster.cli import main


def test_the_matrix_as_json() -> None:
    answer = json.loads(CliRunner().invoke(main, ["plugins", "-o", "json"]).stdout)
    rows = {row["name"]: row for row in answer["plugins"]}
    assert "NodeSets" in rows["nodegroup"]["hooks"]
    assert answer["extension_points"]["NodeFilter"] == "enablePredicate"


def test_the_matrix_as_tables() -> None:
    text = CliRunner().invoke(main, ["plugins"]).stdout
    for said in ("Which plugin does what", "resource-strategy-fit", "binpack.weight", "NodeScorer"):
        assert said in text
