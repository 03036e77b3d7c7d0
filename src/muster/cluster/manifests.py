"""Reads manifests and snapshots into objects, findings and the location of each object.

One bad document never stops the rest: it is left out and a finding says where it is and how to fix it. The result does
not depend on the order of the documents.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from muster.cluster.documents import Location, Locations, contents, values
from muster.cluster.typed_objects import ObjectDecoder
from muster.cluster.unknown_names import missing_kind, unknown_fields, unknown_kind
from muster.groups.applications import template_path, template_values, templates_of
from muster.model import kinds, shape, volcano_job
from muster.model.collector import collector_paused
from muster.model.core import ConfigMap
from muster.model.custom import ConfiguredApplication
from muster.model.finding import Finding, Severity, in_order
from muster.model.groups import OverridePolicy, PropagationPolicy
from muster.model.meta import Object, key
from muster.model.native import VERSIONS, CompositePodGroup, NativeObject, NativePodGroup
from muster.model.scheduling import PodGroup
from muster.model.shape import Problem
from muster.model.timestamps import latest
from muster.validation.object_checks import check, pods_at_once
from muster.workloads import UNDESCRIBED

if TYPE_CHECKING:
    from muster.cluster.workload_kinds import TableText

T = TypeVar("T", bound=Object)

# Of workloads, together. Kubernetes itself is made for 150,000 pods in a cluster.
MAX_PODS = 200_000
# Findings about these name a field of the object and its line.
_CHECKED_BY_FIELD = (PropagationPolicy, OverridePolicy, NativePodGroup, CompositePodGroup, volcano_job.Job, ConfigMap)


@dataclass(slots=True)
class Manifests:
    """The result of reading: objects by kind and key, findings, ignored kinds, and the location of each object."""

    objects: dict[str, dict[str, Object]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    where: Locations = field(default_factory=Locations)

    def of(self, cls: type[T]) -> dict[str, T]:
        """Returns the objects of one kind by key (`namespace/name`, cluster-scoped: `name`), sorted by key."""
        return cast("dict[str, T]", self.objects.get(cls.__name__, {}))

    def __iter__(self) -> Iterator[Object]:
        """Yields all objects, sorted by kind and key."""
        return (obj for of_kind in self.objects.values() for obj in of_kind.values())

    @property
    def errors(self) -> list[Finding]:
        """Returns the findings about objects that were left out or are not read as intended (an unknown field)."""
        return [finding for finding in self.findings if finding.severity == "error"]

    @property
    def unusable(self) -> dict[str, str]:
        """Returns the objects that were left out (`PodGroup namespace/name`), each with its first error."""
        found: dict[str, str] = {}
        for finding in self.errors:
            kind, _, key = finding.object.partition(" ")
            if key and key not in self.objects.get(kind, {}):
                found.setdefault(finding.object, finding.message)
        return found

    @property
    def latest(self) -> float:
        """The latest timestamp in the input, in seconds since the epoch: where a simulated clock starts."""
        return latest(self)


def read(
    sources: Iterable[tuple[str, bytes | Mapping[str, Any]]],
    workload_kinds: Sequence[TableText] = (),
    progress: Callable[[int, int], None] | None = None,
) -> Manifests:
    """Reads the objects in named texts, and plain objects under the name that messages give them. `workload_kinds` are
    tables of descriptions beside the built-in table. `progress` is called with the documents that are read, and how
    many there are."""
    reader = _Reader(workload_kinds)
    done, expected = count(1), [0]

    def expect(documents: int) -> None:
        expected[0] += documents

    with collector_paused():
        for name, data in sources:
            one = () if isinstance(data, bytes) else ((dict(data), Location(name, None)),)
            for found in values(name, data, expect, reader.decode) if isinstance(data, bytes) else one:
                if progress is not None:
                    progress(next(done), expected[0])
                if isinstance(found, Finding):
                    reader.manifests.findings.append(found)
                else:
                    reader.value(*found)
        return reader.finish()


def read_paths(paths: Iterable[str | os.PathLike[str]]) -> Manifests:
    """Reads the objects in files and folders (`-` is the standard input); a path that cannot be read is an error
    finding."""
    unreadable: list[Finding] = []
    manifests = read(contents(paths, unreadable))
    manifests.findings = in_order([*unreadable, *manifests.findings])
    return manifests


class _Reader:
    def __init__(self, workload_kinds: Sequence[TableText] = ()) -> None:
        self.manifests = Manifests()
        self.workload_kinds = workload_kinds
        self.found: dict[tuple[str, str], list[tuple[Object, Location]]] = {}
        self.unread: list[tuple[dict[str, Any], Location]] = []  # of kinds that a ConfigMap may name
        self.decode = ObjectDecoder().decode

    def report(
        self, severity: Severity, place: Location, path: str, about: str, code: str, message: str, fix: str = ""
    ) -> None:
        self.manifests.findings.append(Finding(severity, place.file, place.line_of(path), about, code, message, fix))

    def value(self, value: Any, place: Location) -> None:
        if isinstance(value, Object):  # decoded, named and found valid before
            _complete(value)
            return self.keep(value, place)
        if value is None:
            return None
        if not isinstance(value, dict):
            message = "the document is not a Kubernetes object: it has no apiVersion and kind"
            return self.report("error", place, "", "", "kind", message, "give it both, or take it out")
        api_version, kind = value.get("apiVersion"), value.get("kind")
        if api_version is None and kind is None:
            if not {"metadata", "spec"} & value.keys() and place.line is not None:
                # A folder may hold other files too: a scheduler's configuration, values of a chart.
                message = "passed over: no apiVersion and kind, so it is not a Kubernetes object"
                return self.report("notice", place, "", "", "kind", message)
            return self.report("error", place, "", "", "kind", "apiVersion and kind are missing", missing_kind(value))
        if not isinstance(api_version, str) or not isinstance(kind, str) or not api_version or not kind:
            missing = "kind" if isinstance(api_version, str) and api_version else "apiVersion"
            about = kind if isinstance(kind, str) else ""
            return self.report(
                "error", place, missing, about, "kind", f"{missing} is missing or not a text", missing_kind(value)
            )
        if kind.endswith("List") and "items" in value:
            return self.items(value, api_version, kind, place)
        cls = kinds.find(api_version, kind)
        if cls is not None:
            return self.object(cls, value, place)
        if "/" in api_version:
            # A table or a ConfigMap further on may describe the kind, or a third-party plugin may read it.
            return self.unread.append((value, place))
        return self.skip(value, place)

    def items(self, value: dict[str, Any], api_version: str, kind: str, place: Location) -> None:
        items = value["items"] if value["items"] is not None else []
        if not isinstance(items, list):
            return self.report("error", place, "items", kind, "type", "items: must be a list", "write a list there")
        for item, at in zip(items, place.items(len(items)), strict=True):
            if kind != "List" and isinstance(item, dict):
                # The API server leaves both out of the items of a typed list.
                item = {"apiVersion": api_version, "kind": kind.removesuffix("List"), **item}
            self.value(item, at)
        return None

    def skip(self, value: dict[str, Any], place: Location) -> None:
        api_version, kind = value["apiVersion"], value["kind"]
        self.manifests.skipped[f"{kind} ({api_version})"] += 1
        wrong = unknown_kind(api_version, kind)
        if wrong is not None:
            code = "version" if (wrong.severity, wrong.path) == ("warning", "apiVersion") else "unknown-kind"
            self.report(wrong.severity, place, wrong.path, _about(kind, value), code, wrong.message, wrong.fix)
            return
        from muster.cluster.workload_kinds import HOW_TO_DESCRIBE, pod_template_path

        if template := pod_template_path(value):
            message = f"has a pod template ({template}), but muster does not know {kind} of {api_version}: no pods"
            self.report("warning", place, template, _about(kind, value), UNDESCRIBED, message, HOW_TO_DESCRIBE)

    def object(self, cls: type[Object], value: dict[str, Any], place: Location) -> None:
        about = _about(cls.__name__, value, cls.namespaced)
        try:
            obj = kinds.decode_as(cls, value)
        except Problem as first:
            for problem in shape.problems(cls, value) or [first]:
                self.report("error", place, problem.path, about, "type", problem.message, problem.fix)
            return
        if not self.named(obj, place, about):
            return
        if templates := templates_of(obj):
            for template, written in zip(templates, template_values(template_path(cls), value), strict=False):
                template.keep(written)  # overrides are made from it
        _complete(obj)
        for unknown in unknown_fields(cls, value):
            self.report(unknown.severity, place, unknown.path, about, "unknown-field", unknown.message, unknown.fix)
        faults = list(check(obj))
        for problem in faults:
            self.report("error", place, problem.path, about, "value", problem.message, problem.fix)
        usable = not faults
        if isinstance(obj, ConfiguredApplication):
            from muster.cluster.workload_kinds import fault_findings  # few inputs need it

            found = list(fault_findings(obj, place, about))
            self.manifests.findings += found
            usable = usable and all(finding.severity != "error" for finding in found)
        if usable:
            self.keep(obj, place)

    def keep(self, obj: Object, place: Location) -> None:
        # Policies and sub-groups are checked later, field by field.
        by_field = obj.spec.sub_groups if isinstance(obj, PodGroup) else type(obj) in _CHECKED_BY_FIELD
        kept = place if by_field else place.without_document()
        self.found.setdefault((type(obj).__name__, key(obj)), []).append((obj, kept))

    def named(self, obj: Object, place: Location, about: str) -> bool:
        meta = obj.metadata
        if not meta.name:
            self.report("error", place, "metadata", about, "name", "metadata.name is missing", "give the object a name")
        elif "/" in meta.name or "/" in meta.namespace:
            self.report("error", place, "metadata.name", about, "name", "a name cannot have a / in it", "rename it")
        else:
            return True
        return False

    def configured(self) -> None:
        found = (entry for entries in self.found.values() for entry in entries)
        named: dict[tuple[str, str], type[Object]] = {}
        if self.unread or self.workload_kinds:
            from muster.cluster.workload_kinds import kinds_of_input
            from muster.cycle.registry import third_party_kinds  # imports the plugins that other packages provide

            described = kinds_of_input(found, self.workload_kinds, self.manifests.findings)
            named = {**described, **third_party_kinds()}
        for value, place in self.unread:
            api_version, kind = value["apiVersion"], value["kind"]
            if (api_version, kind) in named:
                self.object(named[api_version, kind], value, place)
            else:
                self.skip(value, place)

    def finish(self) -> Manifests:
        manifests = self.manifests
        self.configured()
        for (kind, name), candidates in sorted(self.found.items(), key=lambda entry: entry[0]):
            kept, place = candidates[0] if len(candidates) == 1 else self.one_of(kind, name, candidates)
            manifests.objects.setdefault(kind, {})[name] = kept
            manifests.where.put(kind, name, place)
        self.refuse_borrowed_uids(manifests)
        self.refuse_too_many_pods(manifests)
        manifests.findings = in_order(manifests.findings)
        return manifests

    def one_of(self, kind: str, name: str, candidates: list[tuple[Object, Location]]) -> tuple[Object, Location]:
        """Chooses one of several objects with the same name, by their content and not by their order.

        A native group in two versions is one object in a cluster: the newer version is used.
        """
        kept = min(candidates, key=lambda candidate: (_age(candidate[0]), msgspec.json.encode(candidate[0])))
        for other in candidates:
            if other is not kept:
                line = kept[1].line_of("")
                at = f"{kept[1].file}{'' if line is None else f':{line}'}"
                severity: Severity = "error"
                code, message = "duplicate", f"is there twice, also at {at}"
                if _age(other[0]) != _age(kept[0]):
                    severity, code = "warning", "two-versions"
                    message = f"is there in two versions: {kept[0].api_version} at {at} is used, this one is not"
                fix = "take one out, or give it another name"
                self.report(severity, other[1], "", f"{kind} {name}", code, message, fix)
        return kept

    def refuse_borrowed_uids(self, manifests: Manifests) -> None:
        """Removes pods whose uid another pod has: pods are identified by their uid."""
        pods = manifests.objects.get("Pod", {})
        owner: dict[str, str] = {}
        for name, pod in list(pods.items()):
            first = owner.setdefault(pod.metadata.uid, name)
            if first != name:
                message = f"metadata.uid {pod.metadata.uid} is that of pod {first} too"
                fix = "take the uid out of one of them"
                place = manifests.where.place("Pod", name)
                self.report("error", place, "metadata.uid", f"Pod {name}", "duplicate", message, fix)
                del pods[name]
                manifests.where.forget("Pod", name)

    def refuse_too_many_pods(self, manifests: Manifests) -> None:
        """Refuses workloads with too many pods: a typing error in `replicas` must not fill the memory."""
        made = 0
        for kind, of_kind in manifests.objects.items():
            for name, workload in list(of_kind.items()):
                path, number = pods_at_once(workload)
                if isinstance(workload, ConfiguredApplication):
                    from muster.cluster.workload_kinds import number_of_pods

                    path, number = "spec", number_of_pods(workload)
                made += number
                if made > MAX_PODS:
                    made -= number
                    message = f"{path}: with {number:,} pods more there are over {MAX_PODS:,}, which is too many"
                    place = manifests.where.place(kind, name)
                    self.report("error", place, path, f"{kind} {name}", "too-many-pods", message, "request fewer")
                    del of_kind[name]
                    manifests.where.forget(kind, name)


def _age(obj: Object) -> int:
    """The place of a native group's version, the newest first; 0 for objects of other kinds."""
    return VERSIONS.index(obj.version) if isinstance(obj, NativeObject) else 0


def _about(kind: str, value: dict[str, Any], namespaced: bool = False) -> str:
    meta = value.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    if not isinstance(name, str) or not name:
        return kind
    namespace = meta.get("namespace") if isinstance(meta, dict) else None
    return f"{kind} {namespace or 'default'}/{name}" if namespaced else f"{kind} {name}"


def _complete(obj: Object) -> None:
    """Sets the defaults of the API server."""
    meta = obj.metadata
    meta.namespace = (meta.namespace or "default") if obj.namespaced else ""
    if not meta.uid:
        meta.uid = key(obj)
