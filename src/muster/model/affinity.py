"""The placement rules of a pod: affinity, tolerations, spread; and the taints of nodes."""

from __future__ import annotations

from msgspec import field

from muster.model.meta import Int, LabelSelector, Partial

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class NodeSelectorRequirement(Partial, kw_only=True):
    """One expression on a node: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str = ""
    operator: str = ""
    values: list[str] = []


class NodeSelectorTerm(Partial, kw_only=True):
    """Expressions that must all match; an empty term selects no node."""

    match_expressions: list[NodeSelectorRequirement] = []
    match_fields: list[NodeSelectorRequirement] = []


class NodeSelector(Partial, kw_only=True):
    """Terms of which at least one must match."""

    node_selector_terms: list[NodeSelectorTerm] = []


class PreferredSchedulingTerm(Partial, kw_only=True):
    """A node term and the weight that it adds to the score."""

    weight: Int = 0
    preference: NodeSelectorTerm = field(default_factory=NodeSelectorTerm)


class NodeAffinity(Partial, kw_only=True):
    """The nodes that a pod requires and prefers."""

    required: NodeSelector | None = field(default=None, name=_REQUIRED)
    preferred: list[PreferredSchedulingTerm] = field(default_factory=list, name=_PREFERRED)


class PodAffinityTerm(Partial, kw_only=True):
    """A selector of pods, and the node label whose values are the topology domains."""

    label_selector: LabelSelector | None = None
    namespaces: list[str] = []
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: list[str] = []
    mismatch_label_keys: list[str] = []


class WeightedPodAffinityTerm(Partial, kw_only=True):
    """A pod term and the weight that it adds to the score."""

    weight: Int = 0
    pod_affinity_term: PodAffinityTerm = field(default_factory=PodAffinityTerm)


class PodAffinity(Partial, kw_only=True):
    """Pods to share a topology domain with; as podAntiAffinity, pods to be separated from."""

    required: list[PodAffinityTerm] = field(default_factory=list, name=_REQUIRED)
    preferred: list[WeightedPodAffinityTerm] = field(default_factory=list, name=_PREFERRED)


class Affinity(Partial, kw_only=True):
    """spec.affinity of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Taint(Partial, kw_only=True):
    """A taint: keeps pods without a matching toleration off the node."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class Toleration(Partial, kw_only=True):
    """A taint that a pod tolerates; an absent operator is Equal."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int | None = None


class TopologySpreadConstraint(Partial, kw_only=True):
    """How evenly matching pods must be spread over the values of a node label."""

    max_skew: Int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: Int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: list[str] = []
