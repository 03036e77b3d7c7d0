"""The application of a pod: the top-most owner that can be found, and the labels that bind it to its policies.

The chain follows the controlling owner: Pod → ReplicaSet → Deployment, → StatefulSet, → DaemonSet, → Job → CronJob,
→ ReplicationController, → custom kinds that are configured. It ends below an owner of another kind and below an owner
that does not exist. Pods are counted per *unit*, which is their direct owner: the pods of a Deployment by their
ReplicaSet, so that during a roll-out the old pods do not use up the quota of the new pods; the pods of a CronJob by
their Job.

An application requires a policy with the required label. The controller sets the binding label to the same value once
the policy exists and is valid. The extender reads the labels for PropagationPolicies, the edge gate both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum, IntEnum
from typing import Any

from msgspec import Struct

from muster.model.batch import (
    APPLICATION_KINDS,
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from muster.model.core import Pod, PodTemplateSpec
from muster.model.custom import ConfiguredApplication, CustomApplication
from muster.model.kinds import table_name
from muster.model.meta import Object, ObjectMeta, OwnerReference, controller, key

__all__ = [
    "Application",
    "Lookup",
    "OwnerLoop",
    "Unit",
    "application_of",
    "owner_chain",
    "owner_ref",
    "unit_of",
    "owner_kind",
    "replicas_of",
    "template_index",
    "template_path",
    "template_values",
    "templates_of",
    "DOMAIN",
    "PolicyLabels",
    "BindingState",
    "hold_reason",
    "binding_state",
    "unusable_name",
    "unbound_reason",
]

Lookup = Callable[[str, str], Object | None]  # kind, ns/name → the object, if it exists
Unit = tuple[str, str]  # kind, ns/name of the object that the pods are counted by

_API_GROUPS = {kind.__name__: group for kind, group in APPLICATION_KINDS.items()}


class OwnerLoop(Exception):
    """Raised if owners own each other, so that there is no top-most owner."""


class Application(Struct, frozen=True):
    """The application that a pod belongs to, and the unit that the pod is counted in."""

    object: Object
    unit: Unit

    @property
    def kind(self) -> str:
        return type(self.object).__name__

    @property
    def key(self) -> str:
        return key(self.object)

    @property
    def namespace(self) -> str:
        return self.object.metadata.namespace or "default"

    @property
    def labels(self) -> dict[str, str]:
        return self.object.metadata.labels

    @property
    def replicas(self) -> int | None:
        """How many pods are divided among node groups; None: the kind has no replicas, only membership counts."""
        return replicas_of(self.object)

    @property
    def uid(self) -> str:
        """The uid; empty for an object from a manifest without a uid, whose uid field holds its key."""
        uid = self.object.metadata.uid
        return "" if uid == self.key else uid

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


def application_of(pod: Pod, lookup: Lookup, custom: Collection[str] = ()) -> Application:
    """Returns the pod's application. Raises OwnerLoop. `custom`: the names of the configured custom kinds."""
    chain = owner_chain(pod, lookup, custom)
    counted = chain[1] if len(chain) > 1 else pod
    return Application(chain[-1], (type(counted).__name__, key(counted)))


def unit_of(name: str, pod: Pod) -> Unit:
    """The unit of a pod with that key, found without reading its owners: the direct owner, or the pod itself."""
    return owner_ref(pod) or ("Pod", name)


def owner_ref(obj: Object) -> Unit | None:
    """Kind and key of the owner that controls the object; None if it has none."""
    owner = controller(obj.metadata) if obj.metadata.owner_references else None
    return None if owner is None else (owner_kind(owner), f"{obj.metadata.namespace or 'default'}/{owner.name}")


def owner_chain(obj: Object, lookup: Lookup, custom: Collection[str] = ()) -> list[Object]:
    """The object, its owner, the owner's owner and so on, as far as they exist. Raises OwnerLoop."""
    chain = [obj]
    seen = {(type(obj).__name__, key(obj))}
    while (owner := _owner(chain[-1].metadata, lookup, custom)) is not None:
        at = (type(owner).__name__, key(owner))
        chain.append(owner)
        if at in seen:
            raise OwnerLoop(f"owners in a circle: {' → '.join(f'{type(o).__name__} {key(o)}' for o in chain)}")
        seen.add(at)
    return chain


def _owner(meta: ObjectMeta, lookup: Lookup, custom: Collection[str]) -> Object | None:
    reference = controller(meta)
    if reference is None:
        return None
    kind = owner_kind(reference)
    if kind not in _API_GROUPS and kind not in custom:
        return None
    found = lookup(kind, f"{meta.namespace or 'default'}/{reference.name}")
    if found is None:
        return None
    # A reference without a uid means the owner of that name; an owner from a manifest without a uid has its key there.
    uid = found.metadata.uid
    return found if reference.uid in ("", uid) or uid in ("", key(found)) else None


def owner_kind(reference: OwnerReference) -> str:
    """The name of an owner's kind in object tables: the kind for Kubernetes' kinds, with the API group for others."""
    return table_name(reference.api_version.rpartition("/")[0], reference.kind)


def replicas_of(obj: Object) -> int | None:
    """The number of replicas that is divided among node groups; None: the kind has none."""
    match obj:
        case Deployment() | ReplicaSet() | StatefulSet() | ReplicationController():
            number = obj.spec.replicas
        case Job():
            number = obj.spec.parallelism
        case CronJob():
            number = obj.spec.job_template.spec.parallelism
        case DaemonSet():
            return None
        case ConfiguredApplication() if not obj.replicas_path and obj.description is not None:
            from muster.workloads.workload import description_of, read_workload  # few clusters need it

            described = description_of(type(obj))
            if described is None or not (len(described.pod_sets) > 1 or any(one.each for one in described.pod_sets)):
                return None
            workload = read_workload(obj, described)
            return workload.gangs * workload.pods_per_gang
        case CustomApplication():
            return obj.replicas
        case _:
            number = 1
    return 1 if number is None else max(number, 0)


def template_path(kind: type[Object]) -> tuple[str, ...]:
    """The path of the pod templates in an application of that kind; "*" stands for each item of a list."""
    if issubclass(kind, CustomApplication):
        return kind.template_path
    return ("spec", "jobTemplate", "spec", "template") if kind is CronJob else ("spec", "template")


def template_values(path: Sequence[str], whole: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The pod templates at the path, with all their fields, in an application given as a plain value."""
    found: list[Any] = [whole]
    for step in path:
        if step == "*":
            found = [item for value in found for item in _items(value)]
        else:
            found = [value.get(step) if isinstance(value, Mapping) else None for value in found]
    if "*" in path:
        return [value if isinstance(value, dict) else {} for value in found]  # positions count
    return [value for value in found if isinstance(value, dict)]


def _items(value: object) -> Iterable[Any]:
    """The items of a list, or the values of a map."""
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def templates_of(obj: Object) -> Sequence[PodTemplateSpec]:
    """The pod templates of the application; a pod has none."""
    match obj:
        case Deployment() | ReplicaSet() | StatefulSet() | ReplicationController() | DaemonSet() | Job():
            return (obj.spec.template,)
        case CronJob():
            return (obj.spec.job_template.spec.template,)
        case CustomApplication():
            return obj.templates
    return ()


def template_index(obj: Object, pod: Pod) -> int | None:
    """The position in `templates_of` of the template that the pod was made from; None: it is not known."""
    return obj.template_index(pod) if isinstance(obj, CustomApplication) else 0


DOMAIN = "groupmanagement.kubeedge.io"
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


class PolicyLabels(Enum):
    """The two labels of an application for one kind of policy: the required policy and the bound policy."""

    PROPAGATION = "PropagationPolicy"
    OVERRIDE = "OverridePolicy"

    def __init__(self, kind: str) -> None:
        self.required = f"{DOMAIN}/required-{kind.lower()}"
        self.binding = f"{DOMAIN}/binding-{kind.lower()}"


_PROPAGATION = PolicyLabels.PROPAGATION.required


def requires_policy(labels: Mapping[str, str]) -> bool:
    """Returns whether a pod without an owner is an application of its own, for which a policy divides nodes."""
    return _PROPAGATION in labels


class BindingState(IntEnum):
    """The design's four situations, and STALE: a binding label without a required label."""

    UNBOUND = 1
    REBINDING = 2
    BOUND = 3
    FREE = 4
    STALE = 5


def binding_state(labels: Mapping[str, str], pair: PolicyLabels) -> BindingState:
    """The binding state of an application with these labels."""
    required, binding = labels.get(pair.required), labels.get(pair.binding)
    if not required:
        return BindingState.STALE if binding else BindingState.FREE
    if not binding:
        return BindingState.UNBOUND
    return BindingState.BOUND if required == binding else BindingState.REBINDING


def unbound_reason(labels: Mapping[str, str], pair: PolicyLabels) -> str | None:
    """Why pods of the application must wait for its policy; None: they need not wait."""
    state = binding_state(labels, pair)
    required, binding = labels.get(pair.required, ""), labels.get(pair.binding, "")
    if state == BindingState.UNBOUND:
        return f"{pair.value} {required} is required and not bound yet"
    if state == BindingState.REBINDING:
        return f"{pair.value} {required} is required, but {binding} is still bound"
    return None


def hold_reason(labels: Mapping[str, str]) -> str | None:
    """Why the edge gate does not send pods of the application to edge nodes; None: it sends them."""
    return unbound_reason(labels, PolicyLabels.PROPAGATION) or unbound_reason(labels, PolicyLabels.OVERRIDE)


def unusable_name(policy: str) -> str | None:
    """Why no application can require a policy of that name; None: one can."""
    if _LABEL_VALUE.fullmatch(policy):
        return None
    return "the name is no label value, so no application can ask for it (63 characters)"
