"""docs/reference/events.md: the reasons of all Events, from `store/event_reasons.py`."""

from __future__ import annotations

import re

from muster.store.event_reasons import EventReason
from reference_pages.sources import SOURCE
from reference_pages.tables import paragraph, table


def page() -> str:
    """The page."""
    rows = [[f"`{one.value}`", _type(one), one.objects, one.part, one.about] for one in EventReason]
    return "\n".join([
        "# Events", "",
        *paragraph(
            "Every Event that muster records. *Applications* are the workloads that follow a node group policy. Equal "
            "Events of one object are merged, as Kubernetes' own recorder merges them. `kubectl get events` shows the "
            "Events of the live parts; `muster simulate` and `muster demo` record the same ones on the embedded "
            "cluster."
        ), "",
        *table(["reason", "type", "on", "recorded by", "message"], rows),
    ]) + "\n"  # fmt: skip


def _type(reason: EventReason) -> str:
    """The type with which the sources record it; reasons that are chosen before the call are warnings."""
    if reason is EventReason.CONFIGURATION_USED:
        return "Normal; Warning if there are warnings"
    call = re.compile(rf"Severity\.(\w+), EventReason\.{reason.name}\b")
    found = {name for path in SOURCE.rglob("*.py") for name in call.findall(path.read_text("utf-8"))}
    return ", ".join(sorted(name.capitalize() for name in found)) or "Warning"


def unused() -> list[str]:
    """The reasons that no source names."""
    text = "".join(path.read_text("utf-8") for path in SOURCE.rglob("*.py"))
    return [one.name for one in EventReason if f"EventReason.{one.name}" not in text]
