"""The node, and one place to import the core kinds from."""

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
from muster.model.meta import Condition, Int, Object, Partial, ResourceList
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
from muster.model.policy import ConfigMap, Namespace, PodDisruptionBudget, PriorityClass

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
    """An image that lies on the node already."""

    names: list[str] = []
    size_bytes: Int = 0


class AttachedVolume(Partial, kw_only=True):
    """A volume attached to the node."""

    name: str = ""
    device_path: str = ""


class NodeSpec(Partial, kw_only=True):
    """spec of a node."""

    unschedulable: bool = False
    taints: list[Taint] = []


class NodeStatus(Partial, kw_only=True):
    """status of a node: what it has and how it is."""

    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    conditions: list[Condition] = []
    images: list[ContainerImage] = []
    volumes_attached: list[AttachedVolume] = []
    volumes_in_use: list[str] = []


class Node(Object, kw_only=True):
    """A node."""

    namespaced: ClassVar[bool] = False

    api_version: str = "v1"
    kind: str = "Node"
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)
