"""The generated pages of docs/: one module for each; `GENERATED` maps each page to the function that writes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from reference_pages import (
    commands,
    configuration,
    events,
    exit_codes,
    json_answers,
    labels,
    lists,
    metrics,
    plugins,
)

DOCS = Path(__file__).resolve().parents[2] / "docs"
GENERATED: dict[Path, Callable[[], str]] = {
    DOCS / "README.md": lists.home,
    DOCS / "decisions" / "README.md": lists.decisions,
    DOCS / "reference" / "commands.md": commands.page,
    DOCS / "reference" / "configuration-keys.md": configuration.page,
    DOCS / "reference" / "plugins.md": plugins.page,
    DOCS / "reference" / "labels.md": labels.page,
    DOCS / "reference" / "metrics.md": metrics.page,
    DOCS / "reference" / "events.md": events.page,
    DOCS / "reference" / "exit-codes.md": exit_codes.page,
    DOCS / "reference" / "json.md": json_answers.page,
}
