"""The status of an OverridePolicy: which pods of each application differ from their edition, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.groupctl.controllers.policy_controller import ApplicationStatus
from muster.model.core import Pod
from muster.model.groups import BoundApplication
from muster.model.meta import Condition, Object, condition
from muster.model.pod_states import is_ready

NEEDS_PROPAGATION, WEBHOOK_REQUIRED, NOT_EVICTED = "NeedsPropagationPolicy", "WebhookRequired", "NotEvicted"
METADATA_REFUSED = "MetadataRefused"
_HINTS = {
    NEEDS_PROPAGATION: "the group must be known when a pod is created: by a PropagationPolicy, or by a node selector",
    WEBHOOK_REQUIRED: "only muster webhook creates such pods: it must run, and the namespace must have opted in",
    NOT_EVICTED: "such pods are never evicted: they are right when they are next created",
}


@dataclass(slots=True)
class OutdatedPod:
    """A pod that differs from its group's edition."""

    pod: Pod
    group: str
    images: dict[str, str]  # container → its expected image
    metadata: dict[str, Any]  # labels and annotations, as a merge patch
    immutable_changes: list[str]  # fields that cannot change in a running pod
    refusal: str = ""  # why the API server does not permit its labels and annotations


@dataclass(slots=True)
class RolloutState(ApplicationStatus):
    """The roll-out of editions to one application. `placed`: its pods that have a node and are not terminating."""

    placed: list[Pod] = field(default_factory=list)
    count: int = 0
    moving: int = 0  # terminating or not ready
    unscheduled: int = 0  # without a node
    outdated: list[OutdatedPod] = field(default_factory=list)
    edition_errors: list[str] = field(default_factory=list)  # why editions cannot be computed
    blocked_by: str = ""  # why pods that need a replacement are not evicted, as a condition's reason
    failure: str = ""  # how replacements differ from their edition

    @staticmethod
    def of(app: Object, placed: list[Pod], pods: list[Pod], unreplaced: int) -> RolloutState:
        """`pods`: all that are not finished; `unreplaced`: evicted pods that have no replacement yet."""
        moving = len(pods) + unreplaced - sum(map(is_ready, placed))
        status = BoundApplication(
            api_version=app.api_version, kind=type(app).__name__, name=app.metadata.name, replicas=len(placed)
        )
        return RolloutState(status, placed, len(pods), moving, sum(1 for pod in pods if not pod.spec.node_name))

    @property
    def to_replace(self) -> list[OutdatedPod]:
        return [entry for entry in self.outdated if entry.immutable_changes]


def override_conditions(
    wrong: Sequence[str], unknown: Sequence[str], records: Sequence[RolloutState], generation: int
) -> Iterator[Condition]:
    """Resolved: the rules are valid and their groups exist (`unknown`: messages about those that do not).

    Satisfied: every pod has its group's edition.
    """
    faults = list(dict.fromkeys([*wrong, *(why for record in records for why in record.edition_errors)]))
    if faults:
        yield condition("Resolved", False, "Invalid", "; ".join(faults), generation)
    elif unknown:
        yield condition("Resolved", False, "GroupUnknown", "; ".join(dict.fromkeys(unknown)), generation)
    else:
        yield condition("Resolved", True, "RulesUsable", "", generation)
    outdated = sum(record.status.outdated for record in records)
    for record in records:
        beyond = record.to_replace
        reason = record.blocked_by or (WEBHOOK_REQUIRED if record.failure else "")
        if beyond and reason:
            groups = ", ".join(sorted({entry.group for entry in beyond}))
            fields = ", ".join(sorted({path for entry in beyond for path in entry.immutable_changes})[:3])
            hint = record.failure or _HINTS[reason]
            message = f"{record.status.kind} {record.status.name}: pods of {groups} differ in {fields}; {hint}"
            yield condition("Satisfied", False, reason, message, generation)
            return
    for record in records:
        for entry in record.outdated:
            if entry.refusal:
                message = f"{record.status.kind} {record.status.name}: pod {entry.pod.metadata.name}: {entry.refusal}"
                yield condition("Satisfied", False, METADATA_REFUSED, message, generation)
                return
    if faults:
        yield condition("Satisfied", False, "Invalid", "editions cannot be made: " + "; ".join(faults), generation)
    elif outdated:
        yield condition("Satisfied", False, "Progressing", f"{outdated} pods are outdated", generation)
    else:
        yield condition("Satisfied", True, "AsDesired", "", generation)
