"""docs/README.md and docs/decisions/README.md: the lists of pages, for readers of the plain Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
WRITTEN = "<!-- Written by `python tests/documents.py`; do not edit. -->"


class _Loader(yaml.SafeLoader):
    """Reads mkdocs.yml, whose `slugify` names a Python function."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def navigation() -> list[dict[str, Any]]:
    """The navigation of the site: titles with a page or with a list of the same form."""
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    nav: list[dict[str, Any]] = yaml.load(text, _Loader)["nav"]
    return nav


def home() -> str:
    """docs/README.md, from the navigation in mkdocs.yml."""
    lines = ["# muster's documentation", "", WRITTEN]
    for part in navigation()[1:]:
        for title, entries in part.items():
            lines += ["", f"## {title}", "", *_entries(entries, "")]
    return "\n".join(lines) + "\n"


def _entries(entries: list[Any], indent: str) -> Iterator[str]:
    for entry in entries:
        for title, target in entry.items():
            if isinstance(target, str):
                yield f"{indent}- [{title}]({target})"
            else:
                yield f"{indent}- {title}"
                yield from _entries(target, indent + "  ")


def decisions() -> str:
    """docs/decisions/README.md, from the first line of each decision."""
    lines = ["# Decisions", "", WRITTEN, "", "Each page gives the reasons for one choice in muster's design.", ""]
    for page in sorted((ROOT / "docs" / "decisions").glob("0*.md")):
        title = re.sub(r"^# \d+[:.]? *", "", page.read_text("utf-8").partition("\n")[0])
        lines.append(f"- [{page.name[:4]}]({page.name}) {title[0].upper()}{title[1:]}")
    return "\n".join(lines) + "\n"
