"""The workload kinds of an input: the built-in table, the tables of --workload-kinds, and the ConfigMaps in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from muster.cluster.documents import Location
from muster.groups.custom_applications import CONFIG_KEY, CONFIG_NAME, BadConfiguration, read_custom_applications
from muster.model.core import ConfigMap
from muster.model.custom import ConfiguredApplication, CustomApplication
from muster.model.finding import Finding, Severity
from muster.model.kinds import decode_as
from muster.model.meta import Object, key
from muster.model.shape import Problem
from muster.validation.part_checks import pod_spec
from muster.workloads import FAULT_OF_OBJECT
from muster.workloads.description import read_table
from muster.workloads.table import BUILT_IN, CONFIG_MAP, CONFIG_MAP_KEY, KindTable
from muster.workloads.workload import Fault, description_of, read_workload

__all__ = ["HOW_TO_DESCRIBE", "TableText", "fault_findings", "kinds_of_input", "number_of_pods", "pod_template_path"]

TableText = tuple[str, str]  # name of the file, text
Kinds = dict[tuple[str, str], type[ConfiguredApplication]]
HOW_TO_DESCRIBE = "describe the kind in a file for --workload-kinds, or in the ConfigMap muster-workload-kinds"


def kinds_of_input(
    objects: Iterable[tuple[Object, Location]], tables: Sequence[TableText], findings: list[Finding]
) -> Kinds:
    """Returns the types of the described kinds by apiVersion and kind; what is wrong with a table becomes a finding."""
    table = KindTable()
    maps = [(obj, place) for obj, place in objects if isinstance(obj, ConfigMap)]
    texts = [(name, text, 0) for name, text in tables]
    for obj, place in maps:
        if obj.metadata.name == CONFIG_MAP:
            texts.append((place.file, obj.data.get(CONFIG_MAP_KEY, ""), place.line_of(f"data[{CONFIG_MAP_KEY}]") or 0))
    for name, text, line in texts:
        described, wrong = read_table(text, name, line)
        findings += [*wrong, *table.add(described)]
    findings += table.check()
    kinds: Kinds = table.types()
    for obj, place in maps:
        if obj.metadata.name == CONFIG_NAME:
            kinds.update(_named_by(obj, place, table, findings))
    return kinds


def _named_by(config: ConfigMap, place: Location, table: KindTable, findings: list[Finding]) -> Kinds:
    """Returns the kinds of a groupmanagement-config; one that the table describes otherwise is reported."""

    def warn(message: str, fix: str) -> None:
        about = f"ConfigMap {key(config)}"
        findings.append(Finding("warning", place.file, place.line_of(""), about, "configured-kinds", message, fix))

    try:
        entries = read_custom_applications(config.data.get(CONFIG_KEY, ""))
    except BadConfiguration as fault:
        warn(f"{fault}; only the kinds that are built in are read", "mend the entry")
        return {}
    found: Kinds = {}
    for one in entries:
        contradiction = one.contradiction(table)
        if contradiction:
            warn(contradiction, "give both the same paths, or remove the entry here")
        # Nothing is served here, so the plural is of no use.
        found[f"{one.group}/{one.version}", one.kind] = one.type(one.plural or "objects", table)
    return found


def fault_findings(obj: ConfiguredApplication, place: Location, about: str) -> Iterator[Finding]:
    """Yields what a description requires and the object does not have."""
    description = description_of(type(obj))
    if description is None:
        return
    workload = read_workload(obj, description)
    shipped = description.source.startswith(BUILT_IN)
    faults = [*workload.faults]
    for pod_set in workload.pod_sets:
        wrong = pod_spec(pod_set.template.spec, "spec")
        faults += [Fault(f"{pod_set.name}.template", problem.message) for problem in wrong]
    if workload.child is not None and type(obj).makes:
        yield from _child_findings(type(obj).makes[0], workload.child, place, about)
    for fault in faults:
        # The gang of a workload without some of its pods would be torn: such an object is left out.
        unusable = fault.path.endswith((".template", ".each", ".name")) or fault.path == "podSets"
        severity: Severity = "error" if unusable else "warning"
        message = f"{fault.path}: {fault.message}"
        fix = "correct the object" if shipped else f"correct the object, or its description at {description.source}"
        yield Finding(severity, place.file, place.line_of(""), about, FAULT_OF_OBJECT, message, fix)


def _child_findings(
    kind: type[CustomApplication], child: dict[str, Any], place: Location, about: str
) -> Iterator[Finding]:
    """Yields the faults of the object that an object creates, at the place of the latter."""
    try:
        made = decode_as(kind, child)
    except Problem as problem:
        message = f"{child['kind']}: {problem.path}: {problem.message}"
        yield Finding("error", place.file, place.line_of(""), about, FAULT_OF_OBJECT, message, "correct the object")
        return
    if isinstance(made, ConfiguredApplication):
        yield from fault_findings(made, place, about)


def number_of_pods(obj: ConfiguredApplication) -> int:
    """Returns how many pods the description makes of the object."""
    description = description_of(type(obj))
    workload = None if description is None else read_workload(obj, description)
    return 0 if workload is None or workload.suspended else workload.gangs * workload.pods_per_gang


def pod_template_path(value: Any, path: str = "", depth: int = 0) -> str:
    """Returns the path of the first pod template in an object of an unknown kind; empty if it has none."""
    if depth > 12:
        return ""
    match value:
        case dict():
            spec = value.get("spec")
            if path and isinstance(spec, dict) and isinstance(spec.get("containers"), list):
                return path
            inner = ((f"{path}.{name}" if path else str(name), below) for name, below in value.items())
        case list():
            inner = ((f"{path}[{i}]", below) for i, below in enumerate(value[:32]))
        case _:
            return ""
    return next((found for at, below in inner if (found := pod_template_path(below, at, depth + 1))), "")
