"""The house rules that a machine can hold."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import muster

ROOT = Path(__file__).parents[2]
HOUSE = Path(muster.__file__).parent
SOURCES = sorted(HOUSE.rglob("*.py"))
BESIDE = sorted(path for room in ("tests", "bench", "deploy") for path in (ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("source", [*SOURCES, *BESIDE], ids=lambda path: "/".join(path.parts[-3:]))
def test_every_file_says_one_thing_and_says_what_it_is(source: Path) -> None:
    text = source.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 400
    assert ast.get_docstring(ast.parse(text))


def test_every_room_has_a_door() -> None:
    rooms = {path.parent for path in SOURCES}
    assert [str(room) for room in sorted(rooms) if not (room / "__init__.py").exists()] == []
