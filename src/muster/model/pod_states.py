"""The states of a pod that several packages check, and the annotations of an evicted pod."""

from __future__ import annotations

from muster.model.meta import Object
from muster.model.pod import Pod

FINISHED_PHASES = ("Succeeded", "Failed")

EVICTED_BY = "muster.io/evicted-by"
EVICTED_RULE = "muster.io/evicted-rule"


def is_finished(pod: Pod) -> bool:
    """Returns whether the pod has succeeded or failed: it uses no resources any more."""
    return pod.status.phase in FINISHED_PHASES


def is_rejected(pod: Pod) -> bool:
    """Returns whether the kubelet's admission rejected the pod."""
    status = pod.status
    if status.phase != "Failed":
        return False
    return status.reason.startswith("OutOf") or status.reason in ("UnexpectedAdmissionError", "NodeAffinity")


def is_terminating(obj: Object) -> bool:
    """Returns whether the object (a pod, a node, …) is being deleted."""
    return obj.metadata.deletion_timestamp is not None


def is_active(pod: Pod) -> bool:
    """Returns whether the pod counts as a replica of its owner: neither finished nor terminating."""
    return not is_terminating(pod) and not is_finished(pod)


def is_ready(pod: Pod) -> bool:
    """Returns whether the pod runs and its Ready condition, if it has one, is true."""
    return pod.status.phase == "Running" and all(c.status == "True" for c in pod.status.conditions if c.type == "Ready")


def is_healthy(pod: Pod) -> bool:
    """Returns whether a PodDisruptionBudget counts the pod as healthy: ready and not terminating."""
    return is_ready(pod) and not is_terminating(pod)


def eviction_annotations(by: str, rule: str) -> dict[str, str]:
    """Returns the annotations of an evicted pod: for which pod or job, and by which action."""
    return {EVICTED_BY: by, EVICTED_RULE: rule}
