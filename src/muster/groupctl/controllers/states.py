"""The states of a node that the controllers ask about."""

from __future__ import annotations

from muster.model.core import Node


def usable(node: Node) -> bool:
    """Whether the node is ready and schedulable."""
    return not node.spec.unschedulable and ready(node)


def ready(node: Node) -> bool:
    """Whether the Ready condition of the node, if it has one, is true."""
    return all(c.status == "True" for c in node.status.conditions if c.type == "Ready")
