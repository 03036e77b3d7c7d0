"""Is a pod in the edition of its node group? What it should be comes from the template it was made of."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins

from muster.groups.applications import Application, owner_kind, template_of, template_path
from muster.groups.gate import Pair, Situation, situation
from muster.groups.override import OverrideError, edition
from muster.model.batch import DaemonSet, StatefulSet
from muster.model.core import Pod
from muster.model.groups import OverridePolicy
from muster.model.meta import Object, controller
from muster.server.grouped import Grouped
from muster.server.owners import Tables

_REVISION = "controller-revision-hash"
_GENERATION = "pod-template-generation"
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_FIELDS = ("image", "command", "args")


class Editions:
    def __init__(self, tables: Tables, grouped: Grouped, *, privileged: bool = False) -> None:
        self._tables = tables
        self._grouped = grouped
        self._privileged = privileged

    def outdated(self, application: Application, pod: Pod) -> str | None:
        """What is not as the pod's group wants it; None: all is, or nobody can say."""
        labels = application.labels
        if situation(labels, Pair.OVERRIDE) != Situation.BOUND or not pod.spec.node_name:
            return None
        name = labels[Pair.OVERRIDE.binding]
        policy = self._grouped.of(OverridePolicy).get(f"{application.namespace}/{name}")
        groups = self._grouped.grouping.editions_of(labels, application.namespace)(pod.spec.node_name)
        template = self._template(application, pod)
        if policy is None or not groups or template is None:
            return None
        try:
            base = template_path(type(application.object))
            made = edition(policy.spec, groups, template, privileged=self._privileged, bases=(base,)).template
        except OverrideError:
            return None  # the policy's status says so; there is no edition to wait for
        wrong = _different(pod, template, made)
        return f"{wrong} is not that of node group {groups[0]} by OverridePolicy {name}" if wrong else None

    def _template(self, application: Application, pod: Pod) -> dict[str, Any] | None:
        owner = controller(pod.metadata)
        if owner is None:
            return None
        maker = self._tables.get(owner_kind(owner), {}).get(f"{application.namespace}/{owner.name}")
        maker = application.object if maker is None else maker
        template = template_of(maker)
        if template is None or not _is_of_this_revision(maker, pod):
            return None
        found: dict[str, Any] = to_builtins(template)
        return found


def _is_of_this_revision(maker: Object, pod: Pod) -> bool:
    """These two change their template in place: pods of the old one are the roll-out's business."""
    labels = pod.metadata.labels
    if isinstance(maker, StatefulSet):
        return labels.get(_REVISION, "") == maker.status.update_revision
    if isinstance(maker, DaemonSet):
        return labels.get(_GENERATION) == maker.metadata.annotations.get(_TEMPLATE_GENERATION)
    return True


def _different(pod: Pod, template: dict[str, Any], made: dict[str, Any]) -> str:
    """The first field that the rules touch and the pod has otherwise."""
    has = {c.name: c for c in (*pod.spec.containers, *pod.spec.init_containers)}
    before, after = _containers(template), _containers(made)
    for name, wanted in after.items():
        for field in _FIELDS:
            should = wanted.get(field)
            touched = should != before.get(name, {}).get(field)
            if touched and name in has and (getattr(has[name], field) or None) != (should or None):
                return f"{field} of container {name}"
    for field in ("labels", "annotations"):
        old, new = (side.get("metadata", {}).get(field, {}) for side in (template, made))
        for name in (*old, *new):
            if old.get(name) != new.get(name) and getattr(pod.metadata, field).get(name) != new.get(name):
                return f"{field[:-1]} {name}"
    return ""


def _containers(template: dict[str, Any]) -> dict[str, dict[str, Any]]:
    spec = template.get("spec", {})
    return {c.get("name", ""): c for field in ("containers", "initContainers") for c in spec.get(field, [])}
