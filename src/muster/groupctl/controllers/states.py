"""How pods and nodes are, as far as controllers ask: here or leaving, ready or not, open to pods."""

from __future__ import annotations

from muster.model.core import Node, Pod

_FINISHED = ("Succeeded", "Failed")


def finished(pod: Pod) -> bool:
    return pod.status.phase in _FINISHED


def active(pod: Pod) -> bool:
    """Neither finished nor on its way out."""
    return pod.metadata.deletion_timestamp is None and not finished(pod)


def is_ready(pod: Pod) -> bool:
    conditions = [c for c in pod.status.conditions if c.type == "Ready"]
    return pod.status.phase == "Running" and all(c.status == "True" for c in conditions)


def usable(node: Node) -> bool:
    """Ready (or silent about it) and open to pods."""
    return not node.spec.unschedulable and ready(node)


def ready(node: Node) -> bool:
    return all(c.status == "True" for c in node.status.conditions if c.type == "Ready")
