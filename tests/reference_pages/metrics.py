"""docs/reference/metrics.md: the metrics of all parts, from the registries of their Prometheus clients."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry

from muster.groupctl.controllers.service import ControllersService
from muster.groupctl.controllers.settings import ControllerSettings
from muster.groupctl.edge_gate.metrics import Metrics as GateMetrics
from muster.groupctl.extender.server import Metrics as ExtenderMetrics
from muster.groupctl.webhook.metrics import Metrics as WebhookMetrics
from muster.process.logs import Log
from muster.process.settings import ClusterSettings, LeaseSettings
from muster.scheduler.metrics import Metrics as SchedulerMetrics
from reference_pages.sources import literals
from reference_pages.tables import paragraph, table

PARTS = "all parts that are elected"
NAME = re.compile(r"(?:muster|volcano)_[a-z0-9_]+")


class MetricRow(NamedTuple):
    """One metric family."""

    name: str
    type: str
    labels: tuple[str, ...]
    about: str


def registries() -> dict[str, CollectorRegistry]:
    """The registry of each part."""
    settings = ControllerSettings(ClusterSettings(), LeaseSettings(part="controllers"), applications="")
    numbers: dict[str, Any] = dict.fromkeys(
        ("reservations", "waits", "connections", "closed", "body_bytes"), lambda: 0.0
    )
    return {
        "scheduler": SchedulerMetrics().registry,
        "controllers": ControllersService(settings, Log(0)).registry,
        "webhook": WebhookMetrics().registry,
        "extender": ExtenderMetrics(CollectorRegistry(), **numbers).registry,
        "edge gate": GateMetrics().registry,
    }


def rows(registry: CollectorRegistry) -> Iterator[MetricRow]:
    """The metric families of a registry, in the order of their names."""
    found = []
    for collector in list(registry._collector_to_names):
        if hasattr(collector, "_labelnames"):  # a Counter, Gauge or Histogram
            name = collector._name + "_total" * (collector._type == "counter")
            found.append(MetricRow(name, collector._type, collector._labelnames, collector._documentation))
            continue
        for family in collector.collect():
            name = family.name + "_total" * (family.type == "counter")
            found.append(MetricRow(name, family.type, tuple(family._labelnames), family.documentation))
    yield from sorted(found)


def by_part() -> dict[str, list[MetricRow]]:
    """The metrics of each part; those of the controllers that every elected part has are apart."""
    parts = {part: list(rows(registry)) for part, registry in registries().items()}
    shared = [row for row in parts["controllers"] if not row.name.startswith("muster_controllers_")]
    parts["controllers"] = [row for row in parts["controllers"] if row not in shared]
    return {**parts, PARTS: shared}


def missing() -> list[str]:
    """The names of metrics in the sources that are not a metric of the page, nor the beginning of one."""
    names = [row.name for part in by_part().values() for row in part]
    used = {text for text in literals() if NAME.fullmatch(text)}
    return sorted(one for one in used if not any(name.startswith(one.rstrip("_")) for name in names))


def page() -> str:
    """The page."""
    lines = [
        "# Metrics", "",
        *paragraph(
            "Every part serves its metrics in Prometheus' text format under `/metrics`, on the port of its probes "
            "([command line](commands.md)). A histogram has the series `_bucket`, `_sum` and `_count`. Names that "
            "begin with `volcano_` are Volcano's, with its units, so that its dashboards can be used. This page is "
            "written from the code."
        ),
    ]  # fmt: skip
    for part, found in by_part().items():
        lines += ["", f"## {part[0].upper()}{part[1:]}", ""]
        cells = [[f"`{r.name}`", r.type, ", ".join(f"`{label}`" for label in r.labels) or "–", r.about] for r in found]
        lines += table(["metric", "type", "labels", "meaning"], cells)
    return "\n".join(lines) + "\n"
