"""From a pod to its application: the top-most owner that can be found, whose labels decide.

The chain follows the owner that controls: Pod → ReplicaSet → Deployment, → StatefulSet, → DaemonSet, → Job → CronJob,
→ ReplicationController, → kinds that are configured. It ends below an owner of another kind and below one that is not
there. Pods are counted per *unit*, which is their direct owner: the pods of a Deployment by their ReplicaSet, so that
during a roll-out old pods do not keep new ones out; the pods of a CronJob by their Job.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

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
from muster.model.custom import CustomApplication
from muster.model.meta import Object, ObjectMeta, OwnerReference, controller, key

__all__ = ["Application", "Lookup", "OwnerLoop", "Unit", "application_of",
           "owner_chain", "owner_ref", "unit_of", "owner_kind", "replicas_of", "template_of", "template_path",
           "template_value"]  # fmt: skip

Lookup = Callable[[str, str], Object | None]  # kind, ns/name → the object, if it is there
Unit = tuple[str, str]  # kind, ns/name of what the pods are counted by

_API_GROUPS = {kind.__name__: group for kind, group in APPLICATION_KINDS.items()}


class OwnerLoop(Exception):
    """Owners that own each other: nobody is at the top."""


@dataclass(frozen=True, slots=True)
class Application:
    """What a pod belongs to, and the unit it is counted in."""

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
        """How many pods are divided; None: it has no number, only membership is asked."""
        return replicas_of(self.object)

    @property
    def uid(self) -> str:
        """The uid, if it is one: an object that was written without any has its name there."""
        uid = self.object.metadata.uid
        return "" if uid == self.key else uid

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


def application_of(pod: Pod, lookup: Lookup, custom: Collection[str] = ()) -> Application:
    """The pod's application. OwnerLoop if its owners go round in circles. `custom`: the configured kinds' names."""
    chain = owner_chain(pod, lookup, custom)
    counted = chain[1] if len(chain) > 1 else pod
    return Application(chain[-1], (type(counted).__name__, key(counted)))


def unit_of(name: str, pod: Pod) -> Unit:
    """The unit of a pod (`ns/name`) that follows a policy, told without its owners: the direct owner, or the pod."""
    return owner_ref(pod) or ("Pod", name)


def owner_ref(obj: Object) -> Unit | None:
    """Kind and key of the owner that controls the object; None if it has none."""
    owner = controller(obj.metadata) if obj.metadata.owner_references else None
    return None if owner is None else (owner_kind(owner), f"{obj.metadata.namespace or 'default'}/{owner.name}")


def owner_chain(obj: Object, lookup: Lookup, custom: Collection[str] = ()) -> list[Object]:
    """The object, its owner, the owner's owner and so on, as far as they are there. OwnerLoop if there is no end."""
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
    # A reference without uid means the owner of that name; an owner written without one has its name for a uid.
    uid = found.metadata.uid
    return found if reference.uid in ("", uid) or uid in ("", key(found)) else None


def owner_kind(reference: OwnerReference) -> str:
    """What an owner's kind is called in tables: Kubernetes' own by their name, others with their API group."""
    group = reference.api_version.rpartition("/")[0]
    return reference.kind if _API_GROUPS.get(reference.kind, "") == group else f"{reference.kind}.{group}"


def replicas_of(obj: Object) -> int | None:
    """The number that is divided among node groups."""
    match obj:
        case Deployment() | ReplicaSet() | StatefulSet() | ReplicationController():
            number = obj.spec.replicas
        case Job():
            number = obj.spec.parallelism
        case CronJob():
            number = obj.spec.job_template.spec.parallelism
        case DaemonSet():
            return None
        case CustomApplication():
            return obj.replicas
        case _:
            number = 1
    return 1 if number is None else max(number, 0)


def template_path(kind: type[Object]) -> tuple[str, ...]:
    """Where the template stands in the application."""
    if issubclass(kind, CustomApplication):
        return kind.template_path
    return ("spec", "jobTemplate", "spec", "template") if kind is CronJob else ("spec", "template")


def template_value(kind: type[Object], whole: Mapping[str, Any]) -> dict[str, Any] | None:
    """The template in the plain value of an application, with all its fields; None if there is none at its place."""
    found: Any = whole
    for step in template_path(kind):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found if isinstance(found, dict) else None


def template_of(obj: Object) -> PodTemplateSpec | None:
    """What the application makes its pods from; None for a pod."""
    match obj:
        case Deployment() | ReplicaSet() | StatefulSet() | ReplicationController() | DaemonSet() | Job():
            return obj.spec.template
        case CronJob():
            return obj.spec.job_template.spec.template
        case CustomApplication():
            return obj.template
    return None
