"""Volcano's Queue and PodGroup (scheduling.volcano.sh/v1beta1), with KAI's sub-groups beside Volcano's."""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from muster.model.meta import Condition, Int, LabelSelector, Object, Partial, ResourceList

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class NodeGroupTerms(Partial, kw_only=True):
    """Names of node groups that a queue must use, or would rather use (anti-affinity: avoid)."""

    required: list[str] = field(default_factory=list, name=_REQUIRED)
    preferred: list[str] = field(default_factory=list, name=_PREFERRED)


class QueueAffinity(Partial, kw_only=True):
    """Where the pods of a queue may run."""

    node_group_affinity: NodeGroupTerms | None = None
    node_group_anti_affinity: NodeGroupTerms | None = None


class Guarantee(Partial, kw_only=True):
    """What is kept free for a queue."""

    resource: ResourceList = {}


class ExtendCluster(Partial, kw_only=True):
    """Another cluster a queue reaches into."""

    name: str = ""
    weight: Int = 0
    capacity: ResourceList = {}


class QueueSpec(Partial, kw_only=True):
    """spec of a queue."""

    weight: Int = 1
    capability: ResourceList = {}
    # Volcano: nil means true.
    reclaimable: bool | None = None
    extend_clusters: list[ExtendCluster] = []
    guarantee: Guarantee | None = None
    affinity: QueueAffinity | None = None
    type: str = ""
    parent: str = ""
    deserved: ResourceList = {}
    priority: Int = 0
    dequeue_strategy: str = "traverse"


class Reservation(Partial, kw_only=True):
    """Nodes locked for a queue."""

    nodes: list[str] = []
    resource: ResourceList = {}


class QueueStatus(Partial, kw_only=True):
    """status of a queue; an absent state is Open. The counts are of PodGroups."""

    state: str = ""
    unknown: Int = 0
    pending: Int = 0
    running: Int = 0
    inqueue: Int = 0
    completed: Int = 0
    reservation: Reservation | None = None
    allocated: ResourceList = {}


class Queue(Object, kw_only=True):
    """A queue of PodGroups with its share of the cluster."""

    namespaced: ClassVar[bool] = False

    api_version: str = "scheduling.volcano.sh/v1beta1"
    kind: str = "Queue"
    spec: QueueSpec = field(default_factory=QueueSpec)
    status: QueueStatus = field(default_factory=QueueStatus)


class NetworkTopology(Partial, kw_only=True):
    """How near to each other, in tiers of HyperNodes, the pods must be (hard) or should be (soft)."""

    mode: str = "hard"
    highest_tier_allowed: Int | None = None
    highest_tier_name: str = ""


class SubGroupPolicy(Partial, kw_only=True):
    """Volcano's sub-groups: pods divided by the values of label keys."""

    name: str = ""
    network_topology: NetworkTopology | None = None
    sub_group_size: Int = 1
    min_sub_groups: Int = 0
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] = []


class TopologyConstraint(Partial, kw_only=True):
    """KAI: which Topology, and which of its levels the pods must or should share."""

    topology: str = ""
    required_topology_level: str = ""
    preferred_topology_level: str = ""


class LabelDomain(TopologyConstraint, kw_only=True):
    """One domain of a node label, without a Topology object; `topology` is the label (native PodGroups)."""


class SubGroup(Partial, kw_only=True):
    """KAI's sub-groups: a tree by parent; pods name their leaf with the label kai.scheduler/subgroup-name."""

    name: str = ""
    min_member: Int = 1
    min_sub_group: Int | None = None  # of its own sub-groups; absent: all
    parent: str = ""
    topology_constraint: TopologyConstraint | None = None


class PodGroupSpec(Partial, kw_only=True):
    """spec of a PodGroup."""

    min_member: Int = 0
    min_task_member: dict[str, Int] = {}
    queue: str = "default"
    priority_class_name: str = ""
    min_resources: ResourceList | None = None  # Volcano: an empty list is asked about, none is not
    network_topology: NetworkTopology | None = None
    sub_group_policy: list[SubGroupPolicy] = []
    sub_groups: list[SubGroup] = []
    min_sub_group: Int | None = None  # KAI: so many sub-groups without a parent; absent: all
    topology_constraint: TopologyConstraint | None = None


class PodGroupStatus(Partial, kw_only=True):
    """status of a PodGroup; an absent phase is Pending."""

    phase: str = ""
    conditions: list[Condition] = []
    running: Int = 0
    succeeded: Int = 0
    failed: Int = 0


class PodGroup(Object, kw_only=True):
    """A gang of pods that start together or not at all."""

    namespaced: ClassVar[bool] = True

    api_version: str = "scheduling.volcano.sh/v1beta1"
    kind: str = "PodGroup"
    spec: PodGroupSpec = field(default_factory=PodGroupSpec)
    status: PodGroupStatus = field(default_factory=PodGroupStatus)
