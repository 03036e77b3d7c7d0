"""Assigns a new pod to a node group: chooses the group, adds the affinity and applies the edition.

If anything fails, the pod is admitted unchanged, with a warning: at the edge a pod with the wrong edition, which the
controllers correct, is better than none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

from muster.groupctl.grouping_cache import GroupingCache
from muster.groupctl.owners import OwnerResolver
from muster.groupctl.webhook.group_slots import GroupSlots
from muster.groupctl.webhook.review import AdmissionRequest, AdmissionResponse
from muster.groups.applications import (
    Application,
    BindingState,
    OwnerLoop,
    PolicyLabels,
    binding_state,
    hold_reason,
    template_path,
)
from muster.groups.assignment import (
    ADMITTED,
    EDITION,
    add_gate,
    assign,
    edition_name,
    is_admitted,
    is_job_pod,
    member_label,
    pinned_node,
    without_gate,
)
from muster.groups.override import OverrideError, edition, rules_for
from muster.groups.override.json_patch import patch_between
from muster.groups.propagation import BoundPolicy, PlacementRefusal
from muster.model.core import Node, Pod
from muster.model.groups import NodeGroup, OverridePolicy
from muster.model.kinds import decode_as
from muster.model.shape import Problem
from muster.store.errors import ApiError

Plain = dict[str, Any]
MayChoose = Callable[[], bool | None]
"""Returns whether this replica assigns groups. False: the pod is gated for the replica that does; None: the pod is
admitted unchanged."""

_OURS = ("metadata", "spec")
_CONTESTED = "the node groups are full of pods that have not appeared yet: the pod gets its node group later"
_NOT_ACTIVE = "this replica of muster webhook is not the active one: the pod gets its node group later"


def _always() -> bool:
    return True


class Mutator:
    """Answers mutating admission requests for pods."""

    def __init__(
        self,
        owners: OwnerResolver,
        grouped: GroupingCache,
        slots: GroupSlots,
        may_choose: MayChoose = _always,
        *,
        privileged: bool = False,
        ungates: bool = True,
    ) -> None:
        """With `privileged`, policies may give pods privileges that their templates do not have. With `ungates`, the
        scheduling gates of pods are removed later."""
        self._owners = owners
        self._grouping_cache = grouped
        self._slots = slots
        self._may_choose = may_choose
        self._privileged = privileged
        self._ungates = ungates

    async def review(self, request: AdmissionRequest) -> AdmissionResponse:
        """Returns the patch for a pod that is being created."""
        response = AdmissionResponse()
        if request.operation != "CREATE" or request.sub_resource or request.object is None:
            return response
        before = {part: request.object.get(part) or {} for part in _OURS}
        if is_admitted(before["metadata"]):
            return response
        after = await self.made(before, request.namespace, request.uid, response, reserve=not request.dry_run)
        response.patch = patch_between(before, after)
        return response

    async def made(
        self,
        pod: Plain,
        namespace: str,
        request: str,
        response: AdmissionResponse,
        *,
        reserve: bool,
        since: float | None = None,
    ) -> Plain:
        """Returns the pod (metadata and spec) to create; with `reserve` its slot is reserved for the request.

        `since` is the time at which the pod was first seen, if it exists already.
        """
        try:
            typed = decode_as(Pod, {**pod, "metadata": {**pod["metadata"], "namespace": namespace}})
            application = await self._owners.application_of(typed)
        except (ApiError, OwnerLoop, Problem) as fault:
            response.warnings.append(f"the pod is left as it is: {fault}")
            return pod
        why = hold_reason(application.labels)
        if why is not None:
            return self._suspended(application, typed, pod, f"the pod waits: {why}", response)
        # No await from here to the reservation, so that no other request can take the same slot.
        ruling = self._grouping_cache.grouping.policies.rule_for(application)
        node = pinned_node(typed)
        slot = ruling if isinstance(ruling, BoundPolicy) and _needs_slot(ruling, node) else None
        may_choose = True if slot is None else self._may_choose()
        if may_choose is None:
            response.warnings.append(_NOT_ACTIVE)
            return pod
        if not may_choose:
            return self._suspended(application, typed, pod, _NOT_ACTIVE, response)
        grouping = self._grouping_cache.grouping
        if slot is not None and self._ungates and self._slots.is_contested(application.unit, slot, grouping, since):
            return self._suspended(application, typed, pod, _CONTESTED, response)
        groups = self._groups(application, ruling, typed, response, since)
        exists = since is not None
        return without_gate(self._edited(application, pod, groups, request, response, reserve=reserve, exists=exists))

    def forget(self, request: str) -> None:
        """Frees the slot of a pod that will not be created."""
        self._slots.forget(request)

    def _suspended(
        self, application: Application, typed: Pod, pod: Plain, why: str, response: AdmissionResponse
    ) -> Plain:
        """Adds the scheduling gate. A Job's pod that may have to be replaced is refused: its controller retries."""
        if is_job_pod(typed) and self._may_differ(application):
            response.refusal = why
            return pod
        response.warnings.append(why)
        after = deepcopy(pod)
        add_gate(after)
        return after

    def _may_differ(self, application: Application) -> bool:
        """Returns whether the pod's edition may differ in fields that cannot change while a pod is gated."""
        name = application.labels.get(PolicyLabels.OVERRIDE.required, "")
        policy = self._grouping_cache.of(OverridePolicy).get(f"{application.namespace}/{name}")
        rules = [] if policy is None else rules_for(policy.spec, list(self._grouping_cache.of(NodeGroup)))
        return bool(name) and (policy is None or any(rule.commands or rule.args or rule.patches for rule in rules))

    # --- the group

    def _groups(
        self,
        application: Application,
        ruling: BoundPolicy | PlacementRefusal | None,
        pod: Pod,
        response: AdmissionResponse,
        since: float | None,
    ) -> list[str]:
        """Returns the group chosen for the pod; for a pod that is pinned to a node, the groups of the node.

        Without a PropagationPolicy no group is chosen, but the pod's own selector may allow only one.
        """
        grouping, node = self._grouping_cache.grouping, pinned_node(pod)
        if isinstance(ruling, PlacementRefusal):
            response.warnings.append(ruling.text)
            return []
        if not isinstance(ruling, BoundPolicy):
            if node or binding_state(application.labels, PolicyLabels.OVERRIDE) != BindingState.BOUND:
                return list(grouping.groups_by_node.get(node, ()))
            return grouping.certain_groups(pod.spec)
        if not _needs_slot(ruling, node):
            group = grouping.group_of(tuple(ruling.rules.groups)).get(node)
        else:
            group = self._slots.choose(application.unit, ruling, grouping, since)
            if group is None:
                response.warnings.append(f"no node group of PropagationPolicy {ruling.policy} lacks a pod")
        return [] if group is None else [group]

    def _edited(
        self,
        application: Application,
        pod: Plain,
        groups: list[str],
        request: str,
        response: AdmissionResponse,
        *,
        reserve: bool,
        exists: bool,
    ) -> Plain:
        after = self._edition(application, pod, groups, response) if groups else pod
        bound = binding_state(application.labels, PolicyLabels.PROPAGATION) == BindingState.BOUND
        if not groups or not (bound or after is not pod):
            return pod
        after = deepcopy(after)
        if bound:
            assign(after, groups[0], self._label(groups[0], response))
            if reserve:
                self._slots.reserve(request, application.unit, groups[0], exists=exists)
        after["metadata"].setdefault("annotations", {})[ADMITTED] = request
        return after

    def _label(self, group: str, response: AdmissionResponse) -> str | None:
        """Returns the node label for the affinity; None if no node of the group has it."""
        label = member_label(group)
        if label is None:
            response.warnings.append(f"node group {group}: its name is too long for a node label, no affinity is added")
            return None
        grouping = self._grouping_cache.grouping
        nodes = [
            node
            for name, node in self._grouping_cache.of(Node).items()
            if group in grouping.groups_by_node.get(name, ())
        ]
        if nodes and all(label not in node.metadata.labels for node in nodes):
            response.warnings.append(f"no node of {group} has the label {label}: is `muster controllers` running?")
            return None
        return label

    # --- the edition

    def _edition(
        self, application: Application, pod: Plain, groups: Sequence[str], response: AdmissionResponse
    ) -> Plain:
        labels = application.labels
        if binding_state(labels, PolicyLabels.OVERRIDE) != BindingState.BOUND:
            return pod
        name = labels[PolicyLabels.OVERRIDE.binding]
        policy = self._grouping_cache.of(OverridePolicy).get(f"{application.namespace}/{name}")
        if policy is None:
            response.warnings.append(f"OverridePolicy {name} not found")
            return pod
        try:
            base = template_path(type(application.object))
            made = edition(policy.spec, groups, pod, privileged=self._privileged, bases=(base,))
        except OverrideError as fault:
            response.warnings.append(f"OverridePolicy {name} cannot be applied: {fault}")
            return pod
        response.warnings += made.warnings
        if made.template["spec"].get("priorityClassName") != pod["spec"].get("priorityClassName"):
            # The API server has resolved the class already and would keep its old value.
            response.warnings.append(f"OverridePolicy {name} changes priorityClassName, which cannot be done to a pod")
            return pod
        made.template["metadata"].setdefault("annotations", {})[EDITION] = edition_name(policy, groups[0])
        return made.template


def _needs_slot(ruling: BoundPolicy, node: str) -> bool:
    """Returns whether the pod counts against a quota: it is not pinned to a node, and has a replica count."""
    return not node and ruling.quotas.replicas is not None
