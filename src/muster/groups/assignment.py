"""A pod that is given its node group when it is created: the label, the affinity and the notes it then carries.

All of it is written into the pod as plain values, so fields that muster does not know stay as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from muster.groups.applications import owner_kind
from muster.groups.binding import DOMAIN
from muster.model.core import Pod
from muster.model.groups import OverridePolicy
from muster.model.meta import controller

__all__ = ["ADMITTED", "ASSIGNED", "EDITION", "MEMBER", "OPT_IN", "UNBOUND", "assign", "edition_name", "is_job_pod",
           "is_admitted", "member_label", "pinned_node", "without_gate", "add_gate"]  # fmt: skip

ASSIGNED = f"{DOMAIN}/nodegroup"
"""The label of a pod that says which group it was made for."""
EDITION = f"{DOMAIN}/edition"
"""The annotation that says which edition was applied: never twice, since adding is not idempotent."""
ADMITTED = f"{DOMAIN}/admission"
"""The annotation with the request that a place in the group was kept for."""
UNBOUND = f"{DOMAIN}/unbound"
"""The scheduling gate of a pod whose application is not bound to its policies yet."""

RETRY = f"{DOMAIN}/retry"
"""The label that the extender changes so that kube-scheduler tries a pending pod again."""
OPT_IN = f"{DOMAIN}/webhook"
"""A namespace with this label (`enabled`) has its pods and workloads admitted by muster."""

MEMBER = f"nodegroup.{DOMAIN}/"
"""What a node's label begins with that says it is in a group; the group's name follows."""
LONGEST_NAME = 63  # of what follows the slash in a label's key
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def member_label(group: str) -> str | None:
    """The label that nodes of a group carry; None: the group's name is too long to be part of one."""
    return f"{MEMBER}{group}" if len(group) <= LONGEST_NAME else None


def is_admitted(metadata: Mapping[str, Any]) -> bool:
    """Was the pod dealt with already? Other webhooks may make the API server ask a second time."""
    return bool((metadata.get("annotations") or {}).get(ADMITTED))


def assign(pod: dict[str, Any], group: str, label: str | None) -> None:
    """Make it the group's pod: its label, and (with a node label given) only nodes that have it."""
    pod.setdefault("metadata", {}).setdefault("labels", {})[ASSIGNED] = group
    if label is None:
        return
    spec = pod.setdefault("spec", {})
    affinity = spec["affinity"] = dict(spec.get("affinity") or {})
    on_nodes = affinity["nodeAffinity"] = dict(affinity.get("nodeAffinity") or {})
    required = on_nodes[_REQUIRED] = dict(on_nodes.get(_REQUIRED) or {})
    wanted = {"key": label, "operator": "Exists"}
    # A pod may go where any of the terms holds, so each of them must ask for the group.
    terms = required.get("nodeSelectorTerms") or []
    required["nodeSelectorTerms"] = [_asking(term, wanted) for term in terms] or [{"matchExpressions": [wanted]}]


def _asking(term: dict[str, Any], wanted: dict[str, str]) -> dict[str, Any]:
    expressions = term.get("matchExpressions") or []
    if wanted in expressions or not (expressions or term.get("matchFields")):
        return term  # an empty term selects no node, and must not begin to
    return {**term, "matchExpressions": [*expressions, wanted]}


def add_gate(pod: dict[str, Any]) -> None:
    """Nobody schedules the pod until its gate is taken away."""
    spec = pod.setdefault("spec", {})
    gates = spec.get("schedulingGates") or []
    if all(gate.get("name") != UNBOUND for gate in gates):
        spec["schedulingGates"] = [*gates, {"name": UNBOUND}]


def without_gate(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod without that gate; the pod itself if it has none."""
    gates = pod.get("spec", {}).get("schedulingGates") or []
    kept = [gate for gate in gates if gate.get("name") != UNBOUND]
    return pod if len(kept) == len(gates) else {**pod, "spec": {**pod["spec"], "schedulingGates": kept}}


def edition_name(policy: OverridePolicy, group: str) -> str:
    """What an edition is called: the policy, its generation, the group, and what the rules are."""
    rules = hashlib.sha256(msgspec.json.encode(policy.spec)).hexdigest()[:10]
    meta = policy.metadata
    return f"{meta.name}@{meta.generation}/{group}/{rules}"


def is_job_pod(pod: Pod) -> bool:
    """Is it never to be deleted to be made anew? Kubernetes: a Job takes a pod that was deleted for one that failed."""
    owner = controller(pod.metadata)
    return owner is not None and owner_kind(owner) == "Job"


def pinned_node(pod: Pod) -> str:
    """The one node that the pod is made for; a DaemonSet's pods name it in their affinity."""
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
