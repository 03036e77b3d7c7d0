"""The node, and the kinds around pods: priority classes, disruption budgets, namespaces and ConfigMaps. Re-exports the
other core kinds.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from muster.model.affinity import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from muster.model.meta import NO_ENTRIES, NO_ITEMS, Condition, Int, LabelSelector, Object, Partial, ResourceList
from muster.model.pod import (
    Container,
    ContainerPort,
    Pod,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
    ResourceRequirements,
    Volume,
)

__all__ = [
    "Affinity",
    "ConfigMap",
    "Container",
    "ContainerImage",
    "ContainerPort",
    "Namespace",
    "Node",
    "NodeAffinity",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "NodeSpec",
    "NodeStatus",
    "Pod",
    "PodAffinity",
    "PodAffinityTerm",
    "PodDisruptionBudget",
    "PodSchedulingGate",
    "PodSpec",
    "PodStatus",
    "PodTemplateSpec",
    "PreferredSchedulingTerm",
    "PriorityClass",
    "ResourceRequirements",
    "Taint",
    "Toleration",
    "TopologySpreadConstraint",
    "Volume",
    "WeightedPodAffinityTerm",
]


class ContainerImage(Partial, kw_only=True):
    """An image that is already on the node."""

    names: list[str] = []
    size_bytes: Int = 0


class AttachedVolume(Partial, kw_only=True):
    """A volume attached to the node."""

    name: str = ""
    device_path: str = ""


class NodeSpec(Partial, kw_only=True):
    """spec of a node."""

    unschedulable: bool = False
    taints: list[Taint] = NO_ITEMS


class NodeStatus(Partial, kw_only=True):
    """status of a node: its resources, conditions, images and volumes."""

    capacity: ResourceList = NO_ENTRIES
    allocatable: ResourceList = NO_ENTRIES
    conditions: list[Condition] = NO_ITEMS
    images: list[ContainerImage] = NO_ITEMS
    volumes_attached: list[AttachedVolume] = NO_ITEMS
    volumes_in_use: list[str] = NO_ITEMS


class Node(Object, kw_only=True):
    """A node."""

    namespaced: ClassVar[bool] = False

    api_version: str = "v1"
    kind: str = "Node"
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)


class PriorityClass(Object, kw_only=True):
    """A priority with a name."""

    namespaced: ClassVar[bool] = False

    api_version: str = "scheduling.k8s.io/v1"
    kind: str = "PriorityClass"
    value: Int = 0
    global_default: bool = False
    preemption_policy: str = ""
    description: str = ""


class PodDisruptionBudgetSpec(Partial, kw_only=True):
    """Numbers or percentages; a budget with only a selector is valid."""

    min_available: Int | str | None = None
    max_unavailable: Int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str = ""


class PodDisruptionBudgetStatus(Partial, kw_only=True):
    """The counts of the disruption controller; None as long as it has not counted."""

    disruptions_allowed: Int | None = None
    current_healthy: Int | None = None
    desired_healthy: Int | None = None
    expected_pods: Int | None = None
    disrupted_pods: dict[str, str] = {}
    observed_generation: Int = 0
    conditions: list[Condition] = []


class PodDisruptionBudget(Object, kw_only=True):
    """Limits how many of the selected pods may be unavailable at the same time."""

    namespaced: ClassVar[bool] = True

    api_version: str = "policy/v1"
    kind: str = "PodDisruptionBudget"
    spec: PodDisruptionBudgetSpec = field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = field(default_factory=PodDisruptionBudgetStatus)


class Namespace(Object, kw_only=True):
    """A namespace; a namespaceSelector matches its labels."""

    namespaced: ClassVar[bool] = False

    api_version: str = "v1"
    kind: str = "Namespace"


class ConfigMap(Object, kw_only=True):
    """A ConfigMap."""

    namespaced: ClassVar[bool] = True

    api_version: str = "v1"
    kind: str = "ConfigMap"
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}


def readiness(node: Node) -> str:
    """Returns Ready, NotReady or Unknown; a node without a Ready condition counts as ready."""
    for condition in node.status.conditions:
        if condition.type == "Ready":
            return {"True": "Ready", "False": "NotReady"}.get(condition.status, "Unknown")
    return "Ready"


def is_usable(node: Node) -> bool:
    """Returns whether the node is ready and schedulable."""
    return not node.spec.unschedulable and readiness(node) == "Ready"
