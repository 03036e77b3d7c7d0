"""The objects of node group management (groupmanagement.kubeedge.io/v1alpha1)."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import UNSET, UnsetType, field

from muster.model.meta import Condition, Int, Object, Partial


class NodeGroupSpec(Partial, kw_only=True):
    """The members: nodes by name, and nodes that have all the labels."""

    nodes: list[str] = []
    match_labels: dict[str, str] = {}


class MemberStatus(Partial, kw_only=True):
    """The state of one named or matching node (KubeEdge's later form of the status)."""

    node_name: str = ""
    ready_status: str = ""
    selection_status: str = ""
    selection_status_reason: str = ""


class NodeGroupStatus(Partial, kw_only=True):
    """The nodes the group contains."""

    contained_nodes: list[str] = []
    node_statuses: list[MemberStatus] = []
    nodes: Int = 0
    ready_nodes: Int = 0
    observed_generation: Int = 0
    conditions: list[Condition] = []


class NodeGroup(Object, kw_only=True):
    """A group of nodes."""

    namespaced: ClassVar[bool] = False

    api_version: str = "groupmanagement.kubeedge.io/v1alpha1"
    kind: str = "NodeGroup"
    spec: NodeGroupSpec = field(default_factory=NodeGroupSpec)
    status: NodeGroupStatus = field(default_factory=NodeGroupStatus)


class StaticNodeGroupWeight(Partial, kw_only=True):
    """Node groups and the weight of each of them."""

    node_group_names: list[str] = []
    weight: Int = 0


class NumRange(Partial, kw_only=True):
    """Node groups and the minimum and maximum number of pods of each of them; without max there is no limit."""

    node_group_names: list[str] = []
    min: Int = 0
    max: Int | None = None


class PropagationPolicySpec(Partial, kw_only=True):
    """StaticWeight or NumRange; only the list of the chosen strategy is read."""

    propagation_strategy: str = ""
    static_weight_list: list[StaticNodeGroupWeight] = []
    num_range: list[NumRange] = []


class GroupReplicas(Partial, kw_only=True):
    """The desired, current and ready pods of an application in a node group."""

    name: str = ""
    desired: Int = 0
    current: Int = 0
    ready: Int = 0


class EvictionState(Partial, kw_only=True):
    """The state of an application's evictions, so that a restarted controller continues instead of starting again."""

    # Pods created since then are replacements of evicted pods.
    since: str | None = None
    # Replacements that failed one after the other, why the last one did, and when the next pod may be evicted.
    failures: Int = 0
    reason: str = ""
    message: str = ""
    not_before: str | None = None
    # A hash of the policy's spec, schedulerName and nodeName: if it changes, the failures are forgotten.
    observed: str = ""


class BoundApplication(Partial, kw_only=True):
    """An application bound to a policy, and its progress."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    replicas: Int = 0
    groups: list[GroupReplicas] = []
    misplaced: Int = 0
    pending: Int = 0
    outdated: Int = 0
    # The number of pods per edition, by node group.
    editions: dict[str, Int] = {}
    # The node groups that the required node affinity of a DaemonSet's pod template names.
    node_affinity: list[str] = []
    # Why no node is named, or a further message.
    node_affinity_message: str = ""
    evictions: EvictionState | None = None
    warnings: list[str] = []


class PolicyStatus(Partial, kw_only=True):
    """status of a policy."""

    observed_generation: Int = 0
    conditions: list[Condition] = []
    applications: list[BoundApplication] = []


class PropagationPolicy(Object, kw_only=True):
    """How the pods of an application are divided among node groups."""

    namespaced: ClassVar[bool] = True

    api_version: str = "groupmanagement.kubeedge.io/v1alpha1"
    kind: str = "PropagationPolicy"
    spec: PropagationPolicySpec = field(default_factory=PropagationPolicySpec)
    status: PolicyStatus = field(default_factory=PolicyStatus)


class ImagePredicate(Partial, kw_only=True):
    """Selects one image."""

    path: str = ""


class ImageOverrider(Partial, kw_only=True):
    """A change of Registry, Repository or Tag: add, replace, remove."""

    predicate: ImagePredicate | None = None
    component: str = ""
    operator: str = ""
    value: str = ""
    # Init containers are changed only if this field or the path of the predicate selects them.
    include_init_containers: bool = False


class CommandArgsOverrider(Partial, kw_only=True):
    """A change of a container's command or args: add, remove."""

    container_name: str = ""
    operator: str = ""
    value: list[str] = []


class PlaintextOverrider(Partial, kw_only=True):
    """A change at a JSON pointer: add, replace (also written update), remove."""

    path: str = ""
    operator: str = ""
    # null is a valid value; UNSET means that none was given.
    value: Any | UnsetType = UNSET


class Overriders(Partial, kw_only=True):
    """The changes of a rule, applied in the order image, command, args, plaintext."""

    image_overrider: list[ImageOverrider] = []
    command_overrider: list[CommandArgsOverrider] = []
    args_overrider: list[CommandArgsOverrider] = []
    plaintext: list[PlaintextOverrider] = []


class OverrideRule(Overriders, kw_only=True):
    """Changes for the named node groups (all, if none is named).

    The design's API puts the changes under `overriders`, its example directly into the rule: both are read.
    """

    target_node_group: list[str] = []
    overriders: Overriders | None = None


class OverridePolicySpec(Partial, kw_only=True):
    """Rules, applied in the order written."""

    override_rules: list[OverrideRule] = []


class OverridePolicy(Object, kw_only=True):
    """How the pods of an application differ between node groups."""

    namespaced: ClassVar[bool] = True

    api_version: str = "groupmanagement.kubeedge.io/v1alpha1"
    kind: str = "OverridePolicy"
    spec: OverridePolicySpec = field(default_factory=OverridePolicySpec)
    status: PolicyStatus = field(default_factory=PolicyStatus)
