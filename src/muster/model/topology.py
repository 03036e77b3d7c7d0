"""The topology of the nodes: Topology (Kueue's, and KAI's copy of it) and Volcano's HyperNode."""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from muster.model.meta import Condition, Int, LabelSelector, Object, Partial


class TopologyLevel(Partial, kw_only=True):
    """A level, by the node label whose values are its domains."""

    node_label: str = ""


class TopologySpec(Partial, kw_only=True):
    """Levels from the widest to the narrowest."""

    levels: list[TopologyLevel] = []


class Topology(Object, kw_only=True):
    """A tree of domains made from node labels (kueue.x-k8s.io/v1alpha1 or kai.scheduler/v1alpha1)."""

    namespaced: ClassVar[bool] = False

    api_version: str = "kueue.x-k8s.io/v1alpha1"
    kind: str = "Topology"
    spec: TopologySpec = field(default_factory=TopologySpec)


class ExactMatch(Partial, kw_only=True):
    """A member by its name."""

    name: str = ""


class RegexMatch(Partial, kw_only=True):
    """Members whose names match a pattern."""

    pattern: str = ""


class MemberSelector(Partial, kw_only=True):
    """Selects nodes or HyperNodes; one of the three is given."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class HyperNodeMember(Partial, kw_only=True):
    """Members of one type, Node or HyperNode."""

    type: str = ""
    selector: MemberSelector = field(default_factory=MemberSelector)


class HyperNodeSpec(Partial, kw_only=True):
    """A tier (1 is the nearest) and its members."""

    tier: Int = 0
    tier_name: str = ""
    members: list[HyperNodeMember] = []


class HyperNodeStatus(Partial, kw_only=True):
    """The status that Volcano's controller writes."""

    conditions: list[Condition] = []
    node_count: Int = 0


class HyperNode(Object, kw_only=True):
    """A switch domain of a network (topology.volcano.sh/v1alpha1)."""

    namespaced: ClassVar[bool] = False

    api_version: str = "topology.volcano.sh/v1alpha1"
    kind: str = "HyperNode"
    spec: HyperNodeSpec = field(default_factory=HyperNodeSpec)
    status: HyperNodeStatus = field(default_factory=HyperNodeStatus)
