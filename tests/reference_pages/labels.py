"""docs/reference/labels.md: labels, annotations and similar keys, from labels.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from reference_pages.tables import paragraph, table

TABLE = Path(__file__).with_name("labels.yaml")


def known() -> dict[str, dict[str, Any]]:
    """The parts of the page, with their keys."""
    parts: dict[str, dict[str, Any]] = yaml.safe_load(TABLE.read_text("utf-8"))
    return parts


def differences(used: set[str], literals: frozenset[str]) -> tuple[set[str], set[str]]:
    """Returns the used keys that the page does not list, and the listed ones that nothing uses.

    A key may be composed: the sources then have only its beginning, such as `volcano.sh/`.
    """
    listed = {key for part in known().values() for key in part["keys"]}
    unlisted = {key for key in used - listed if not (key[-1] in "/-" and any(one.startswith(key) for one in listed))}
    beginnings = tuple(key for key in used if key[-1] in "/-")
    return unlisted, {key for key in listed - literals if not key.startswith(beginnings)}


def page() -> str:
    """The page."""
    lines = [
        "# Labels and annotations", "",
        *paragraph(
            "All keys that muster reads or writes on objects: labels, annotations, taints, scheduling gates, "
            "conditions and resources. Written from `tests/reference_pages/labels.yaml`; a test compares it with the "
            "sources."
        ),
    ]  # fmt: skip
    for name, part in known().items():
        rows = [[f"`{key}`", *cells] for key, cells in part["keys"].items()]
        lines += ["", f"## {name[0].upper()}{name[1:]}", "", part["about"], ""]
        lines += table(["key", "what", "on", "set by", "meaning"], rows)
    return "\n".join(lines) + "\n"
