"""Assigns a pod to its node group when it is created: the label, the affinity and the annotations that it gets.

The pod is changed as a plain value, so that fields unknown to muster are kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from muster.groups.applications import DOMAIN, owner_kind
from muster.model.core import Pod
from muster.model.groups import OverridePolicy
from muster.model.meta import controller

__all__ = ["ADMITTED", "ASSIGNED", "EDITION", "MEMBER", "OPT_IN", "UNBOUND", "assign", "edition_name", "is_job_pod",
           "is_admitted", "member_label", "pinned_node", "without_gate", "add_gate"]  # fmt: skip

ASSIGNED = f"{DOMAIN}/nodegroup"
"""The label of a pod with the group that it was created for."""
EDITION = f"{DOMAIN}/edition"
"""The annotation with the applied edition: it is never applied twice, since adding is not idempotent."""
ADMITTED = f"{DOMAIN}/admission"
"""The annotation with the uid of the admission request that a slot in the group was reserved for."""
UNBOUND = f"{DOMAIN}/unbound"
"""The scheduling gate of a pod whose application is not bound to its policies yet."""

RETRY = f"{DOMAIN}/retry"
"""The label that the extender changes so that kube-scheduler tries a pending pod again."""
OPT_IN = f"{DOMAIN}/webhook"
"""A namespace with this label (`enabled`) has its pods and workloads admitted by muster."""

MEMBER = f"nodegroup.{DOMAIN}/"
"""The prefix of the label that nodes of a group carry; the group's name follows."""
MAX_LABEL_NAME_LENGTH = 63  # of the part of a label's key after the slash
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def member_label(group: str) -> str | None:
    """The label that nodes of a group carry; None: the group's name is too long for a label."""
    return f"{MEMBER}{group}" if len(group) <= MAX_LABEL_NAME_LENGTH else None


def is_admitted(metadata: Mapping[str, Any]) -> bool:
    """Whether the pod was admitted before: other webhooks may make the API server call a second time."""
    return bool((metadata.get("annotations") or {}).get(ADMITTED))


def assign(pod: dict[str, Any], group: str, label: str | None) -> None:
    """Assigns the pod to the group: sets its label and, if a node label is given, requires nodes with that label."""
    pod.setdefault("metadata", {}).setdefault("labels", {})[ASSIGNED] = group
    if label is None:
        return
    spec = pod.setdefault("spec", {})
    affinity = spec["affinity"] = dict(spec.get("affinity") or {})
    on_nodes = affinity["nodeAffinity"] = dict(affinity.get("nodeAffinity") or {})
    required = on_nodes[_REQUIRED] = dict(on_nodes.get(_REQUIRED) or {})
    wanted = {"key": label, "operator": "Exists"}
    # The terms are ORed, so each of them must require the group.
    terms = required.get("nodeSelectorTerms") or []
    required["nodeSelectorTerms"] = [_with_expression(term, wanted) for term in terms] or [
        {"matchExpressions": [wanted]}
    ]


def _with_expression(term: dict[str, Any], wanted: dict[str, str]) -> dict[str, Any]:
    expressions = term.get("matchExpressions") or []
    if wanted in expressions or not (expressions or term.get("matchFields")):
        return term  # an empty term selects no node, and must still select none
    return {**term, "matchExpressions": [*expressions, wanted]}


def add_gate(pod: dict[str, Any]) -> None:
    """Adds the scheduling gate: no scheduler places the pod until it is removed."""
    spec = pod.setdefault("spec", {})
    gates = spec.get("schedulingGates") or []
    if all(gate.get("name") != UNBOUND for gate in gates):
        spec["schedulingGates"] = [*gates, {"name": UNBOUND}]


def without_gate(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod without muster's scheduling gate; the same object if it has none."""
    gates = pod.get("spec", {}).get("schedulingGates") or []
    kept = [gate for gate in gates if gate.get("name") != UNBOUND]
    return pod if len(kept) == len(gates) else {**pod, "spec": {**pod["spec"], "schedulingGates": kept}}


def edition_name(policy: OverridePolicy, group: str) -> str:
    """The name of an edition: the policy, its generation, the group, and a hash of the rules."""
    rules = hashlib.sha256(msgspec.json.encode(policy.spec)).hexdigest()[:10]
    meta = policy.metadata
    return f"{meta.name}@{meta.generation}/{group}/{rules}"


def is_job_pod(pod: Pod) -> bool:
    """Whether a Job owns the pod. Such pods are not replaced: Kubernetes counts a deleted pod of a Job as failed."""
    owner = controller(pod.metadata)
    return owner is not None and owner_kind(owner) == "Job"


def pinned_node(pod: Pod) -> str:
    """The only node that the pod can run on; pods of a DaemonSet name it in their affinity."""
    if pod.spec.node_name:
        return pod.spec.node_name
    names = set(_named(pod))
    return names.pop() if len(names) == 1 else ""


def _named(pod: Pod) -> Iterator[str]:
    affinity = pod.spec.affinity
    required = affinity.node_affinity.required if affinity is not None and affinity.node_affinity is not None else None
    for term in required.node_selector_terms if required is not None else ():
        fields = [f for f in term.match_fields if f.key == "metadata.name" and f.operator == "In"]
        yield fields[0].values[0] if fields and len(fields[0].values) == 1 else ""
