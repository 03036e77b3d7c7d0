"""The states of a node that the controllers check."""

from __future__ import annotations

from muster.model.core import Node


def readiness(node: Node) -> str:
    """Ready, NotReady or Unknown; a node without a Ready condition counts as ready."""
    for condition in node.status.conditions:
        if condition.type == "Ready":
            return {"True": "Ready", "False": "NotReady"}.get(condition.status, "Unknown")
    return "Ready"


def is_usable(node: Node) -> bool:
    """Whether the node is ready and schedulable."""
    return not node.spec.unschedulable and readiness(node) == "Ready"
