"""The rules of the repository that a test can check."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import muster

ROOT = Path(__file__).parents[2]
PACKAGE = Path(muster.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
OTHERS = sorted(path for folder in ("tests", "bench", "deploy") for path in (ROOT / folder).rglob("*.py"))
MAX_LINES = 400


@pytest.mark.parametrize("source", [*SOURCES, *OTHERS], ids=lambda path: "/".join(path.parts[-3:]))
def test_every_file_is_short_and_has_a_docstring(source: Path) -> None:
    text = source.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MAX_LINES
    assert ast.get_docstring(ast.parse(text))


def test_every_package_has_an_init_file() -> None:
    packages = {path.parent for path in SOURCES}
    assert [str(package) for package in sorted(packages) if not (package / "__init__.py").exists()] == []


def test_every_package_and_file_that_the_tour_names_exists() -> None:
    tour = (ROOT / "docs" / "concepts" / "tour.md").read_text("utf-8")
    files = re.findall(r"`((?:\w+/)+\w+\.py)`", tour)
    assert files and [file for file in files if not (PACKAGE / file).exists()] == []
    packages = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    table = tour.partition("## The packages")[2]
    assert sorted(packages - set(re.findall(r"`(\w+)`", table))) == []
