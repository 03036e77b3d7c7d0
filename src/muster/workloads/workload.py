"""Applies a description to an object: its pod sets with their minima, its gangs, queue and priority.

What a description requires and does not find is a fault with the field and the reason; the rest of the object is read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from muster.model.custom import ConfiguredApplication
from muster.model.pod import PodTemplateSpec
from muster.model.quantity import whole
from muster.model.shape import without_nulls
from muster.workloads import MIN_MEMBER_ANNOTATIONS
from muster.workloads.description import KindDescription, PodSetDescription
from muster.workloads.expressions import BadExpression, Expression, TextTemplate

__all__ = ["Fault", "NewPod", "PodSet", "Workload", "description_of", "read_workload"]

# Kubernetes is made for 150,000 pods in a cluster: more in one workload is a mistake in a number.
MAX_PODS = 200_000


class Fault(NamedTuple):
    """Something that a description requires and the object does not have."""

    path: str  # the field of the description
    message: str


class NewPod(NamedTuple):
    """The name, labels and annotations of a pod that the simulator creates."""

    name: str
    labels: dict[str, str]
    annotations: dict[str, str]


@dataclass(slots=True)
class PodSet:
    """The pods of one template in each gang of a workload."""

    name: str
    template: PodTemplateSpec
    copies: int
    size: int  # pods of one copy
    minimum: int
    late: bool
    _described: PodSetDescription
    _variables: dict[str, Any]

    @property
    def count(self) -> int:
        return self.copies * self.size

    def pods(self, gang: int, gangs: int) -> Iterator[NewPod]:
        """Yields the pods of one gang. Raises BadExpression."""
        described, variables = self._described, self._variables
        owner = variables["metadata"]["name"]
        prefix = f"{owner}-{gang}" if gangs > 1 else owner
        for copy in range(self.copies):
            for index in range(self.size):
                number = copy * self.size + index
                here = {**variables, "gang": gang, "copy": copy, "index": index, "number": number}
                default = f"{prefix}-{self.name}-{number}"
                name = described.pod_name.fill(here) if described.pod_name is not None else default
                yield NewPod(name, _filled(described.labels, here), _filled(described.annotations, here))


@dataclass(slots=True)
class Workload:
    """What a description says about one object."""

    description: KindDescription
    suspended: bool = False
    gangs: int = 1
    pod_sets: list[PodSet] = field(default_factory=list)
    min_member: int = 1  # of one gang
    queue: str = ""
    priority_class_name: str = ""
    child: dict[str, Any] | None = None  # the object that is created instead of pods, as a plain value
    faults: list[Fault] = field(default_factory=list)

    @property
    def pods_per_gang(self) -> int:
        return sum(pod_set.count for pod_set in self.pod_sets)


def description_of(kind: type) -> KindDescription | None:
    """Returns the description of a kind that is read by description; None for every other kind."""
    found = kind.description if issubclass(kind, ConfiguredApplication) else None
    return found if isinstance(found, KindDescription) else None


# Objects are never changed in place. The entry keeps its object, so that no other object gets the same id.
_read: OrderedDict[tuple[int, int], tuple[ConfiguredApplication, KindDescription, Workload]] = OrderedDict()
_MAX_READ = 4096


def read_workload(obj: ConfiguredApplication, description: KindDescription) -> Workload:
    """Applies the description to the object. The result is shared and must not be changed."""
    at = id(obj), id(description)
    known = _read.get(at)
    if known is None:
        known = _read[at] = obj, description, _Reader(obj, description).read()
        if len(_read) > _MAX_READ:
            _read.popitem(last=False)
    return known[2]


class _Reader:
    def __init__(self, obj: ConfiguredApplication, description: KindDescription) -> None:
        self.obj = obj
        self.workload = Workload(description)
        metadata = msgspec.to_builtins(obj.metadata)
        self.variables: dict[str, Any] = {
            "apiVersion": obj.api_version,
            "kind": description.kind,
            "metadata": {"labels": {}, "annotations": {}, **metadata},
            "spec": obj.spec,
        }

    def read(self) -> Workload:
        workload, described = self.workload, self.workload.description
        workload.suspended = self.find(described.suspended, "suspended") is True
        workload.gangs = self.number(described.gangs, "gangs", 1)
        workload.queue = self.text(described.queue, "queue")
        workload.priority_class_name = self.text(described.priority_class_name, "priorityClassName")
        for i, pod_set in enumerate(described.pod_sets):
            self.pod_sets(pod_set, f"podSets[{i}]")
        if workload.gangs * workload.pods_per_gang > MAX_PODS:
            message = f"{workload.gangs * workload.pods_per_gang:,} pods, which is more than {MAX_PODS:,}"
            self.fault("podSets", message)
            workload.pod_sets.clear()
        self.minimum()
        workload.child = self.child()
        return workload

    def child(self) -> dict[str, Any] | None:
        creates = self.workload.description.creates
        spec = self.find(creates.spec, "creates.spec") if creates is not None else None
        if creates is None or spec is None:
            return None
        if not isinstance(spec, dict):
            self.fault("creates.spec", f"{creates.spec.text!r} finds no spec")
            return None
        meta = self.obj.metadata
        try:
            name = creates.name.fill(self.variables) if creates.name is not None else meta.name
            labels = _filled(creates.labels, self.variables)
        except BadExpression as fault:
            self.fault("creates", str(fault))
            return None
        # Operators pass labels and annotations on: the queue may be named there.
        metadata = {"name": name, "namespace": meta.namespace, "labels": {**meta.labels, **labels}}
        return {
            "apiVersion": creates.api_version, "kind": creates.kind, "spec": spec,
            "metadata": {**metadata, "annotations": meta.annotations},
        }  # fmt: skip

    def minimum(self) -> None:
        workload, described = self.workload, self.workload.description
        total, least = workload.pods_per_gang, sum(pod_set.minimum for pod_set in workload.pod_sets)
        given = self.annotated()
        if given is None and described.min_member is not None:
            found = self.find(described.min_member, "minMember")
            given = found if found is None or self.is_count(found, described.min_member, "minMember") else None
        workload.min_member = least if given is None else given
        if given is not None and given < least:
            # Volcano: where the minimum of the job is below the sum, the minima of its tasks do not count.
            for pod_set in workload.pod_sets:
                pod_set.minimum = 0
        if described.pod_sets and workload.min_member > total and not workload.suspended:
            self.fault("minMember", f"the minimum is {workload.min_member}, above the number of its pods, {total}")

    def annotated(self) -> int | None:
        for name in MIN_MEMBER_ANNOTATIONS:
            text = self.obj.metadata.annotations.get(name)
            if text is None:
                continue
            number = whole(text)
            if number is not None and 0 < number < 2**31:
                return number
            self.fault("minMember", f"the annotation {name} is {text!r}, which is not a number of pods")
        return None

    def pod_sets(self, described: PodSetDescription, path: str) -> None:
        if described.each is None:
            self.pod_set(described, path, self.variables)
            return
        items = self.find(described.each, f"{path}.each")
        match items:
            case None:
                return
            case Mapping():
                entries = [{"key": key, "item": item} for key, item in items.items()]
            case list():
                entries = [{"key": str(i), "item": item} for i, item in enumerate(items)]
            case _:
                return self.fault(f"{path}.each", f"{described.each.text!r} finds neither a list nor a map")
        for entry in entries:
            self.pod_set(described, path, {**self.variables, **entry})

    def pod_set(self, described: PodSetDescription, path: str, variables: dict[str, Any]) -> None:
        try:
            name = described.name.fill(variables)
        except BadExpression as fault:
            return self.fault(f"{path}.name", str(fault))
        found = self.find(described.template, f"{path}.template", variables)
        if found is None:
            return
        try:
            template = msgspec.convert(without_nulls(PodTemplateSpec, found), PodTemplateSpec)
        except msgspec.ValidationError as error:
            return self.fault(f"{path}.template", f"{described.template.text!r} finds no pod template: {error}")
        template.keep(found)
        copies = self.number(described.copies, f"{path}.copies", 1, variables)
        size = self.number(described.count, f"{path}.count", 1, variables)
        minimum = self.number(described.min_copies, f"{path}.minCopies", copies, variables)
        if minimum > copies:
            self.fault(f"{path}.minCopies", f"the minimum of {name} is {minimum}, above its number, {copies}")
        late = self.find(described.late, f"{path}.late", variables) is True
        made = PodSet(name, template, copies, size, minimum * size, late, described, variables)
        self.workload.pod_sets.append(made)

    # --- values

    def find(self, expression: Expression | None, path: str, variables: dict[str, Any] | None = None) -> Any:
        """Returns what the expression finds; nothing is a fault unless the expression is optional."""
        if expression is None:
            return None
        try:
            found = expression.find(self.variables if variables is None else variables)
        except BadExpression as fault:
            self.fault(path, str(fault))
            return None
        if found is None and not expression.optional:
            self.fault(path, f"{expression.text!r} finds nothing")
        return found

    def number(
        self, expression: Expression | None, path: str, default: int, variables: dict[str, Any] | None = None
    ) -> int:
        found = self.find(expression, path, variables)
        if expression is None or found is None:
            return default
        return int(found) if self.is_count(found, expression, path) else default

    def is_count(self, found: Any, expression: Expression, path: str) -> bool:
        if isinstance(found, int | float) and not isinstance(found, bool) and 0 <= found < 2**31 and found % 1 == 0:
            return True
        self.fault(path, f"{expression.text!r} finds {found!r}, which is not a number of pods")
        return False

    def text(self, expression: Expression | None, path: str) -> str:
        found = self.find(expression, path)
        if found is None or isinstance(found, str):
            return found or ""
        self.fault(path, f"{expression.text if expression else ''!r} finds {found!r}, which is not a name")
        return ""

    def fault(self, path: str, message: str) -> None:
        self.workload.faults.append(Fault(path, message))


def _filled(texts: Mapping[str, TextTemplate], variables: dict[str, Any]) -> dict[str, str]:
    return {name: text.fill(variables) for name, text in texts.items()}
