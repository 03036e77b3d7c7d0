"""What the sources of muster use: the string literals of all modules, without docstrings and comments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from muster.groups.applications import DOMAIN

SOURCE = Path(__file__).resolve().parents[2] / "src" / "muster"
# Random clusters for checks, the demo's and the benchmarks' objects: their labels mean nothing to muster.
EXAMPLES = ("plugin_checks", "sim/demo", "sim/bench")
KEY = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9-]+)+/[A-Za-z0-9_.-]*")
VERSION = re.compile(r"/v\d+(?:(?:alpha|beta)\d+)?$")


@cache
def literals() -> frozenset[str]:
    """All string literals; in formatted ones DOMAIN is replaced, and other values end the text."""
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        if not path.relative_to(SOURCE).as_posix().startswith(EXAMPLES):
            found.update(_literals(ast.parse(path.read_text("utf-8"))))
    return frozenset(found)


def _literals(tree: ast.AST) -> Iterator[str]:
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            skipped.update(map(id, node.values))
            yield _formatted(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


def _formatted(node: ast.JoinedStr) -> str:
    text = ""
    for value in node.values:
        if isinstance(value, ast.Constant):
            text += str(value.value)
        elif isinstance(value, ast.FormattedValue) and isinstance(value.value, ast.Name) and value.value.id == "DOMAIN":
            text += DOMAIN
        else:
            return text
    return text


RESOURCES = {f"{DOMAIN}/nodegroups"}
"""Names of resources in rules of access; no keys of objects."""


def keys() -> set[str]:
    """The keys with a domain: labels, annotations, taints, resources and the like. API versions are none."""
    return {text for text in literals() if KEY.fullmatch(text) and not VERSION.search(text)} - RESOURCES
