"""Rejects objects that could never work: invalid policies, queues in a cycle, jobs that no board can serve.

The rules are those of `groups`, of `validation` and of the plugins. Only what no later object can correct is rejected;
the rest is returned as warnings, because objects may be created in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any

from muster.cycle.scheduler import Scheduler
from muster.engine.core.hooks import JobValid
from muster.engine.core.podgroups import GROUP
from muster.engine.core.state import State
from muster.groupctl.owners import ObjectTables
from muster.groupctl.webhook.review import AdmissionRequest, AdmissionResponse
from muster.groups.applications import replicas_of, template_path, templates_of, unusable_name
from muster.groups.override import faults
from muster.groups.override.policy import warnings as override_warnings
from muster.groups.propagation import parse_propagation
from muster.model.batch import APPLICATION_KINDS
from muster.model.core import Node, Pod
from muster.model.custom import CustomApplication
from muster.model.finding import Finding
from muster.model.groups import NodeGroup, OverridePolicy, PropagationPolicy
from muster.model.kinds import decode_as, find
from muster.model.meta import Object, controller, key
from muster.model.scheduling import PodGroup, Queue
from muster.model.shape import Problem
from muster.plugins.topology910.boards import RESOURCE
from muster.validation.locator import Locator
from muster.validation.object_checks import check
from muster.validation.pod_groups import pod_group_findings
from muster.validation.queues import queue_findings
from muster.workloads import MIN_MEMBER_ANNOTATIONS

_REJECTED = ("queue-cycle",)
# These always hold for an object that was just created.
_EXPECTED_AT_CREATION = ("too-few-pods", "over-cluster", "priority-class")
_MAX_PODS = 10_000
CHIPS = "topology910"


class Validator:
    """Answers validating admission requests."""

    def __init__(
        self,
        tables: ObjectTables,
        scheduler: Scheduler,
        names: tuple[str, ...] = ("muster", "volcano"),
        kinds: Callable[[], Sequence[type[CustomApplication]]] = tuple,
    ) -> None:
        """Takes the scheduler whose plugins validate, the names of the schedulers whose jobs are checked, and the
        configured application kinds."""
        self._tables = tables
        self._scheduler = scheduler
        self._names = names
        self._kinds = kinds

    def review(self, request: AdmissionRequest) -> AdmissionResponse:
        response = AdmissionResponse()
        if request.operation not in ("CREATE", "UPDATE") or request.sub_resource or request.object is None:
            return response
        kind = request.kind
        cls = find(f"{kind.group}/{kind.version}" if kind.group else kind.version, kind.kind)
        if cls is None:
            return response
        meta = {**(request.object.get("metadata") or {}), "namespace": request.namespace}
        if meta.get("deletionTimestamp"):
            return response  # finalizers must always be removable
        try:
            obj = decode_as(cls, {**request.object, "metadata": meta})
        except Problem as problem:
            response.refusal = str(problem)
            return response
        if type(obj) not in APPLICATION_KINDS:
            wrong = [str(problem) for problem in check(obj)]
            if wrong:
                response.refusal = "; ".join(wrong)
                return response
        self._validate(obj, response)
        return response

    def _validate(self, obj: Object, response: AdmissionResponse) -> None:
        if isinstance(obj, PropagationPolicy):
            plan = parse_propagation(obj.spec, self._tables.get("NodeGroup", {}))
            response.refusal = "; ".join(map(str, plan.errors))
            response.warnings += [*map(str, plan.warnings), *_name_warnings(obj)]
        elif isinstance(obj, OverridePolicy):
            response.refusal = "; ".join(map(str, faults(obj.spec, [template_path(kind) for kind in self._kinds()])))
            response.warnings += [*map(str, override_warnings(obj.spec)), *_name_warnings(obj)]
        elif isinstance(obj, NodeGroup):
            if not obj.spec.nodes and not obj.spec.match_labels:
                response.warnings.append(f"NodeGroup {obj.metadata.name} names neither nodes nor labels: it is empty")
        elif isinstance(obj, Queue | PodGroup):
            self._scheduling(obj, response)
        elif type(obj) in APPLICATION_KINDS:
            response.refusal = self._chips(obj)

    # --- queues and groups

    def _scheduling(self, obj: Queue | PodGroup, response: AdmissionResponse) -> None:
        queues = dict(self._tables.get("Queue", {}))
        objects: dict[str, dict[str, Object]] = {"Queue": queues, "PodGroup": {}}
        objects[type(obj).__name__][key(obj)] = obj
        # The rules check amounts only if there are nodes. One is enough: the total is not used here.
        nodes = self._tables.get("Node", {})
        objects["Node"] = {name: nodes[name] for name in sorted(nodes)[:1]}
        state = State(self._names)
        state.load(objects)
        session = self._scheduler.session(state, 0.0)
        try:
            locator = Locator({}, objects)
            found = [*queue_findings(session, locator), *pod_group_findings(session, locator)]
        finally:
            session.close()
        for finding in found:
            if finding.object == f"{type(obj).__name__} {key(obj)}" and finding.code not in _EXPECTED_AT_CREATION:
                _add_finding(finding, response)

    # --- chips

    def _chips(self, obj: Object) -> str:
        """Returns why no board of the cluster can serve a workload, by the rules of the plugin topology910."""
        template = next(iter(templates_of(obj)), None)
        if template is None or controller(obj.metadata) is not None or template.metadata.annotations.get(GROUP):
            return ""  # its owner was checked, or several workloads form one job
        spec = template.spec
        replicas = min(replicas_of(obj) or 0, _MAX_PODS)
        requests_chips = any(c.resources is not None and _requests_chips(c.resources) for c in spec.containers)
        if not requests_chips or not replicas or spec.scheduler_name not in self._names:
            return ""
        meta = obj.metadata
        owner = {"apiVersion": obj.api_version, "kind": obj.kind, "name": meta.name, "uid": "new", "controller": True}
        one = decode_as(Pod, {"metadata": {"namespace": meta.namespace, "ownerReferences": [owner]}})
        notes = {**template.metadata.annotations, **meta.annotations}
        one.metadata.annotations = {name: notes[name] for name in MIN_MEMBER_ANNOTATIONS if name in notes}
        one.spec = spec
        pods: dict[str, Object] = {}
        for i in range(replicas):
            pod = deepcopy(one)
            pod.metadata.name = pod.metadata.uid = f"{meta.name}-{i}"
            pods[key(pod)] = pod
        nodes = {name: node for name, node in self._tables.get("Node", {}).items() if _has_chips(node)}
        state = State(self._names)
        state.load({"Node": nodes, "Pod": pods})
        session = self._scheduler.session(state, 0.0)
        try:
            for plugin in session.plugins:
                if plugin.name == CHIPS and isinstance(plugin, JobValid):
                    reasons = [plugin.valid(job) for job in state.jobs.values()]
                    return next((reason.message() for reason in reasons if reason is not None), "")
        finally:
            session.close()
        return ""


def _requests_chips(resources: Any) -> bool:
    return RESOURCE in resources.requests or RESOURCE in resources.limits


def _has_chips(node: Object) -> bool:
    return isinstance(node, Node) and RESOURCE in node.status.allocatable


def _add_finding(finding: Finding, response: AdmissionResponse) -> None:
    text = f"{finding.object}: {finding.message}" + (f" ({finding.fix})" if finding.fix else "")
    if finding.code in _REJECTED and not response.refusal:
        response.refusal = text
    else:
        response.warnings.append(text)


def _name_warnings(policy: Object) -> Iterator[str]:
    name = policy.metadata.name
    if name and (why := unusable_name(name)) is not None:
        yield f"{policy.kind} {name}: {why}"
