"""Reads a pod's rules about other pods (affinity, anti-affinity, spread) from its spec into selections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from muster.engine.pod_rules.selections import Selection, Selections, with_label_keys
from muster.model.core import PodAffinity, PodAffinityTerm, PodSpec, TopologySpreadConstraint
from muster.model.meta import LabelSelector
from muster.model.selectors import check_label_selector

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

Term = tuple[Selection, str]  # which pods, and the node label within whose value they are near


class SpreadConstraint(Struct, frozen=True):
    """A spread constraint. `selection` None: its selector is absent and matches no pod."""

    key: str
    selection: Selection | None
    counted: bool  # kube-scheduler: an empty selector counts no pod, though it matches the incoming pod
    max_skew: int
    min_domains: int
    honours_affinity: bool
    honours_taints: bool


class PodRules(Struct):
    """The terms of one spec in one namespace."""

    id: int = -1
    affinity: list[Term] = field(default_factory=list)
    together: Selection | None = None  # kube-scheduler: a pod counts only if it matches all the affinity terms
    anti: list[Term] = field(default_factory=list)
    preferred: list[tuple[Selection, str, int]] = field(default_factory=list)  # anti-affinity: negative weights
    hard: list[SpreadConstraint] = field(default_factory=list)
    soft: list[SpreadConstraint] = field(default_factory=list)
    by_default: bool = False  # `soft` are kube-scheduler's defaults, not the pod's
    fault: str = ""  # the affinity terms cannot be read
    spread_fault: str = ""

    def anti_affinity_terms(self) -> dict[tuple[int, str], int]:
        """The required anti-affinity terms, which once the pod is on a node hold against others, and how often."""
        found: dict[tuple[int, str], int] = {}
        for selection, key in self.anti:
            found[selection.id, key] = found.get((selection.id, key), 0) + 1
        return found

    def preference_weights(self) -> dict[tuple[int, str], int]:
        """How much the pod's preferred terms, once it is on a node, attract matching pods (or, below zero, repel)."""
        found: dict[tuple[int, str], int] = {}
        for selection, key, weight in self.preferred:
            found[selection.id, key] = found.get((selection.id, key), 0) + weight
        return found

    def affinity_terms(self) -> dict[tuple[int, str], int]:
        """The required affinity terms, which kube-scheduler's hardPodAffinityWeight makes attract matching pods."""
        found: dict[tuple[int, str], int] = {}
        for selection, key in self.affinity:
            found[selection.id, key] = found.get((selection.id, key), 0) + 1
        return found


def has_pod_rules(spec: PodSpec) -> bool:
    """Whether the spec has rules about other pods."""
    affinity = spec.affinity
    return bool(spec.topology_spread_constraints) or (
        affinity is not None and (_has_terms(affinity.pod_affinity) or _has_terms(affinity.pod_anti_affinity))
    )


def _has_terms(affinity: PodAffinity | None) -> bool:
    return affinity is not None and bool(affinity.required or affinity.preferred)


def label_keys(spec: PodSpec) -> tuple[str, ...]:
    """The keys of the pod's labels whose values its terms use."""
    keys: dict[str, None] = {}
    for constraint in spec.topology_spread_constraints:
        keys.update(dict.fromkeys(constraint.match_label_keys))
    affinity = spec.affinity
    for part in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else ():
        if part is not None:
            for term in [*part.required, *(p.pod_affinity_term for p in part.preferred)]:
                keys.update(dict.fromkeys([*term.match_label_keys, *term.mismatch_label_keys]))
    return tuple(keys)


def read_rules(
    spec: PodSpec,
    namespace: str,
    labels: Mapping[str, str],
    selections: Selections,
    owners: LabelSelector | None = None,
) -> PodRules:
    """`owners`: the selector of the controller that the pod belongs to, for kube-scheduler's default spreading."""
    rules = PodRules()
    try:
        _read_affinity(rules, spec, namespace, labels, selections)
    except ValueError as fault:
        # kube-scheduler: a pod whose terms cannot be read is refused everywhere and requires nothing of others.
        rules.affinity, rules.anti, rules.preferred, rules.together = [], [], [], None
        rules.fault = str(fault)
    try:
        _read_spread(rules, spec.topology_spread_constraints, namespace, labels, selections)
    except ValueError as fault:
        rules.hard, rules.soft = [], []
        rules.spread_fault = str(fault)
    if owners is not None and not spec.topology_spread_constraints:
        selection = selections.of(owners, (namespace,), live_only=True)
        rules.by_default = True
        rules.soft = [
            SpreadConstraint(key, selection, True, max_skew, 1, True, False)
            for key, max_skew in ((HOSTNAME, 3), (ZONE, 5))
        ]
    return rules


def _read_affinity(
    rules: PodRules, spec: PodSpec, namespace: str, labels: Mapping[str, str], selections: Selections
) -> None:
    if spec.affinity is None:
        return

    def term(t: PodAffinityTerm, path: str) -> Term:
        check_label_selector(t.label_selector, f"{path}.labelSelector")
        check_label_selector(t.namespace_selector, f"{path}.namespaceSelector")
        selector = with_label_keys(t.label_selector, labels, t.match_label_keys, t.mismatch_label_keys)
        own = (namespace,) if not t.namespaces and t.namespace_selector is None else t.namespaces
        return selections.of(selector, own, t.namespace_selector), t.topology_key

    for part, sign, path in (
        (spec.affinity.pod_affinity, 1, "spec.affinity.podAffinity"),
        (spec.affinity.pod_anti_affinity, -1, "spec.affinity.podAntiAffinity"),
    ):
        if part is None:
            continue
        required = [term(t, f"{path}.required[{i}]") for i, t in enumerate(part.required)]
        if sign > 0:
            rules.affinity = required
            rules.together = selections.joint(s for s, _ in required) if required else None
        else:
            rules.anti = required
        for i, p in enumerate(part.preferred):
            selection, key = term(p.pod_affinity_term, f"{path}.preferred[{i}]")
            rules.preferred.append((selection, key, sign * p.weight))


def _read_spread(
    rules: PodRules,
    constraints: Sequence[TopologySpreadConstraint],
    namespace: str,
    labels: Mapping[str, str],
    selections: Selections,
) -> None:
    for i, c in enumerate(constraints):
        check_label_selector(c.label_selector, f"spec.topologySpreadConstraints[{i}].labelSelector")
        selector = with_label_keys(c.label_selector, labels, c.match_label_keys)
        constraint = SpreadConstraint(
            key=c.topology_key,
            selection=None if selector is None else selections.of(selector, (namespace,), live_only=True),
            counted=selector is not None and bool(selector.match_labels or selector.match_expressions),
            max_skew=c.max_skew,
            min_domains=1 if c.min_domains is None else c.min_domains,
            honours_affinity=c.node_affinity_policy != "Ignore",
            honours_taints=c.node_taints_policy == "Honor",
        )
        if c.when_unsatisfiable == "DoNotSchedule":
            rules.hard.append(constraint)
        elif c.when_unsatisfiable == "ScheduleAnyway":
            rules.soft.append(constraint)
