"""docs/reference/json.md: the keys of every command's `-o json`, from json.yaml."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from muster.cli import main
from reference_pages.tables import paragraph, table

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("json.yaml")
FOLDERS = {
    "FIRST": ROOT / "docs" / "examples" / "first",
    "NODEGROUP": ROOT / "src" / "muster" / "sim" / "demo" / "manifests" / "nodegroup",
    "CASES": ROOT / "tests" / "cases",
    "GROUPS": ROOT / "src" / "muster" / "sim" / "demo" / "manifests" / "group-management",
}
SHAPE = re.compile(r"@(\w+) ?(.*)")
Keys = dict[str, str]


def known() -> dict[str, dict[str, Any]]:
    """The shapes and the answers."""
    text: dict[str, dict[str, Any]] = yaml.safe_load(TABLE.read_text("utf-8"))
    return text


def page() -> str:
    """The page."""
    lines = [
        "# JSON answers", "",
        *paragraph(
            "The keys of every command's `-o json`. Existing keys keep their meaning; new keys may be added. `{name}` "
            "stands for any key, `[]` for the elements of a list. A key without a value may be missing. Quantities "
            "are texts, as in Kubernetes. Written from `tests/reference_pages/json.yaml`; a test compares it with "
            "real answers."
        ),
    ]  # fmt: skip
    parts = known()
    for command, answer in parts["answers"].items():
        lines += ["", f"## {command}", "", *table(["key", "meaning"], _rows(answer["keys"]))]
    lines += ["", "## Shapes", "", "Parts that several answers have."]
    for shape, keys in parts["shapes"].items():
        lines += ["", f"### {shape}", "", *table(["key", "meaning"], _rows(keys))]
    return "\n".join(lines) + "\n"


def _rows(keys: Keys) -> Iterator[list[str]]:
    for path, meaning in keys.items():
        shown = path.removesuffix("**").removesuffix(".")
        name = f"`{shown}`" if shown else "the answer"
        if match := SHAPE.fullmatch(meaning):
            meaning = f"{match[2]} Keys: [{match[1]}](#{match[1].lower()})."
        yield [name, meaning.strip()]


def patterns(keys: Keys, shapes: dict[str, Keys], before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of an answer as parts, with those of its shapes."""
    for path, meaning in keys.items():
        parts = (*before, *filter(None, path.replace("[]", ".[]").split(".")))
        yield parts
        if match := SHAPE.fullmatch(meaning):
            yield from patterns(shapes[match[1]], shapes, parts)


def undescribed(arguments: list[str], keys: Keys) -> set[str]:
    """Runs a command and returns the paths of its answer that are not listed."""
    listed = list(patterns(keys, known()["shapes"]))
    places = [re.sub(r"^([A-Z]+)/", lambda match: f"{FOLDERS[match[1]]}/", one) for one in arguments]
    answer = json.loads(CliRunner().invoke(main, [*places, "-o", "json"]).stdout)
    return {".".join(path) for path in _leaves(answer) if not any(_matches(path, one) for one in listed)}


def _leaves(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths to plain values and to empty lists; an empty mapping has no keys to describe."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list) and any(isinstance(inner, dict | list) for inner in value):
        for inner in value:
            yield from _leaves(inner, (*path, "[]"))
    elif value is not None or path:
        yield path


def _matches(path: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """An empty list or null may stand where the pattern goes on."""
    for have, want in zip(path, pattern, strict=False):
        if want == "**":
            return True
        if want != have and not want.startswith("{"):
            return False
    return len(path) <= len(pattern)
