"""The description of a workload kind: its fields, and how a table of descriptions is read.

kinds:
- kind: RayCluster
  apiVersions: [ray.io/v1]
  pods:
    ownerLabels: [ray.io/cluster]        # the label's value is the name of the owner
    roleLabels: [ray.io/group]           # names the pod set of a pod
  podSets:
  - name: workers
    template: spec.workers.template      # JMESPath
    count: spec.workers.replicas

docs/reference/workloads.md has all fields. An invalid entry is a finding and does not stop the rest of the table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from muster.model.finding import Finding
from muster.model.kinds import table_name
from muster.model.shape import steps
from muster.model.yamltext import Document, YamlError, load_all
from muster.workloads.expressions import BadExpression, Expression, TextTemplate

__all__ = ["ChildDescription", "KindDescription", "PodDescription", "PodSetDescription", "from_paths", "read_table"]

_Name = Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9]*$", max_length=63)]
_ApiVersion = Annotated[str, Meta(pattern=r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?v[a-z0-9]+$", max_length=300)]
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(.*)`")
_Plural = Annotated[str, Meta(pattern=r"^[a-z0-9]*$", max_length=63)]


class _Strict(Struct, eq=False, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """A part of a description; a field that it does not have is an error."""


class PodDescription(_Strict):
    """How a pod of the kind is found, and what its labels mean."""

    owner_labels: tuple[str, ...] = ()
    """Labels whose value is the name of the owner, in the order in which they are tried."""
    owner_path: tuple[_Name, ...] = ()
    """The kinds between a pod and the owner, upwards; empty: the owner controls its pods."""
    gang_label: str = ""
    """Divides the pods of one owner into gangs: one for each value."""
    role_labels: tuple[str, ...] = ()
    """Labels that name the pod set of a pod, in the order in which they are tried."""
    index_label: str = ""
    """The number of a pod in its pod set, by which segments are cut."""


class PodSetDescription(_Strict):
    """Pods of one template. With `each` there is one pod set for each item of a list or entry of a map."""

    template: Expression
    name: TextTemplate = TextTemplate("pods")
    each: Expression | None = None
    copies: Expression | None = None
    """How many copies of the set there are; each has `count` pods."""
    count: Expression | None = None
    min_copies: Expression | None = None
    late: Expression | None = None
    """Whether the operator creates these pods only once others run: they count for the minimum once one exists."""
    pod_name: TextTemplate | None = None
    labels: dict[str, TextTemplate] = {}
    annotations: dict[str, TextTemplate] = {}


class ChildDescription(_Strict):
    """The object that the operator creates instead of pods, as a RayJob creates its RayCluster."""

    api_version: _ApiVersion
    kind: _Name
    spec: Expression
    name: TextTemplate | None = None  # default: that of its creator
    labels: dict[str, TextTemplate] = {}


class KindDescription(_Strict):
    """One workload kind. Expressions that are not given say nothing about the kind."""

    kind: _Name
    api_versions: Annotated[tuple[_ApiVersion, ...], Meta(min_length=1)]
    plural: _Plural = ""
    pods: PodDescription = msgspec.field(default_factory=PodDescription)
    suspended: Expression | None = None
    gangs: Expression | None = None
    min_member: Expression | None = None
    queue: Expression | None = None
    priority_class_name: Expression | None = None
    pod_sets: tuple[PodSetDescription, ...] = ()
    creates: ChildDescription | None = None
    source: str = ""
    """The place of the entry, for messages; it is not written in a table."""

    @property
    def group(self) -> str:
        """The API group."""
        return self.api_versions[0].rpartition("/")[0]

    @property
    def name(self) -> str:
        """The name of the kind in object tables."""
        return table_name(self.group, self.kind)

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions without the API group; the preferred one comes first."""
        return tuple(version.rpartition("/")[2] for version in self.api_versions)

    @property
    def replicas_path(self) -> tuple[str, ...]:
        """The path of the number of pods; empty if it is no plain path, or if there are several pod sets."""
        one = self.pod_sets[0] if len(self.pod_sets) == 1 and self.pod_sets[0].each is None else None
        return (one.count.path or ()) if one is not None and one.count is not None else ()

    @property
    def template_path(self) -> tuple[str, ...]:
        """The path of the only pod template; empty if there are several, or if it is no plain path."""
        one = self.pod_sets[0] if len(self.pod_sets) == 1 and self.pod_sets[0].each is None else None
        return (one.template.path or ()) if one is not None else ()

    @property
    def template_paths(self) -> tuple[tuple[str, ...], ...]:
        """The paths of all pod templates, with * for each item of a list or entry of a map; empty if one of them is no
        plain path."""
        found: list[tuple[str, ...]] = []
        for one in self.pod_sets:
            path = one.template.path
            if one.each is not None:
                above = one.each.path
                path = (*above, "*", *path[1:]) if above and path and path[0] == "item" else None
            if path is None:
                return ()
            found.append(path)
        return tuple(found)


@lru_cache(maxsize=64)  # the same text gives the same descriptions, hence the same types of objects
def read_table(text: str, name: str, lines_before: int = 0) -> tuple[list[KindDescription], list[Finding]]:
    """Reads a table of descriptions; `name` is its file, in which so many lines come before the text."""
    found: list[KindDescription] = []
    findings: list[Finding] = []

    def fault(line: int, message: str, fix: str, about: str = "") -> None:
        findings.append(Finding("error", name, line + lines_before, about, "workload-kinds", message, fix))

    try:
        documents = load_all(text, name)
    except YamlError as error:
        fault(error.line, error.message, "correct the YAML")
        return [], findings
    for document in documents:
        entries = document.value.get("kinds") if isinstance(document.value, dict) else None
        unknown = sorted(set(document.value) - {"kinds"}) if isinstance(document.value, dict) else []
        if not isinstance(entries, list) or unknown:
            message = f"unknown field {unknown[0]}" if unknown else "there is no list `kinds`"
            fault(document.line_of(unknown[:1]), message, "write the descriptions as a list under kinds")
            continue
        for i, entry in enumerate(entries):
            one = _read(entry, document, i, fault)
            if one is not None:
                source = f"{name}:{document.line_of(['kinds', i]) + lines_before}"
                found.append(msgspec.structs.replace(one, source=source))
    return found, findings


def _read(entry: Any, document: Document, i: int, fault: Callable[..., None]) -> KindDescription | None:
    at = document.line_of(["kinds", i])
    about = str(entry.get("kind", "")) if isinstance(entry, dict) else ""
    try:
        one = msgspec.convert(entry, KindDescription, dec_hook=_expression, str_keys=True)
    except msgspec.ValidationError as error:
        path, message, fix = _explained(error)
        line = document.line_of(["kinds", i, *steps(path.split("[...]")[0])])
        fault(line, f"{path}: {message}" if path else message, fix, about)
        return None
    groups = {version.rpartition("/")[0] for version in one.api_versions}
    wrong = ""
    if len(groups) > 1:
        wrong = f"apiVersions of several API groups: {', '.join(sorted(groups))} (write one entry for each)"
    elif one.source:
        wrong = "source is not a field of a table"
    elif one.creates is not None and one.pod_sets:
        wrong = "has both podSets and creates: an operator creates pods or another object (write one of them)"
    if wrong:
        fault(at, wrong, "see docs/reference/workloads.md", about)
        return None
    return one


def _explained(error: msgspec.ValidationError) -> tuple[str, str, str]:
    """Returns the path, the message and the fix of what msgspec refuses."""
    message, _, path = str(error).partition(" - at `$")
    path = path.rstrip("`").lstrip(".")
    unknown = _UNKNOWN_FIELD.fullmatch(message)
    if unknown is None:
        return path, message, "see docs/reference/workloads.md"
    parts = {"podSets": PodSetDescription, "creates": ChildDescription, "pods": PodDescription}
    fields = parts.get(path.partition("[")[0], KindDescription).__struct_encode_fields__
    known = ", ".join(field for field in fields if field != "source")
    return f"{path}.{unknown[1]}".lstrip("."), "there is no such field", f"the fields are {known}"


def _expression(cls: type, value: Any) -> Any:
    """Converts a text or number to an expression. msgspec adds the path of the field to the message."""
    try:
        if cls is Expression:
            return Expression(f"`{json.dumps(value)}`" if isinstance(value, int) else _text(value))
        if cls is TextTemplate:
            return TextTemplate(_text(value))
    except BadExpression as fault:
        raise ValueError(str(fault)) from None
    raise NotImplementedError(cls)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("Expected an expression")
    return value


@lru_cache(maxsize=256)
def from_paths(
    api_version: str, kind: str, plural: str, template: tuple[str, ...], replicas: tuple[str, ...], source: str
) -> KindDescription:
    """Returns the description of a kind of which only the paths of its pod template and its replicas are known."""
    one = PodSetDescription(
        template=Expression(_quoted(template)),
        count=Expression(f"{_quoted(replicas)} || `1`") if replicas else None,
        pod_name=None,
    )
    return KindDescription(
        kind=kind, api_versions=(api_version,), plural=plural, min_member=Expression("`1`"), pod_sets=(one,),
        source=source,
    )  # fmt: skip


def _quoted(path: tuple[str, ...]) -> str:
    return ".".join(f'"{step}"' if not step.isidentifier() else step for step in path)
