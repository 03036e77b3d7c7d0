"""The rules of a PropagationPolicy: its node groups in order, each group's quota of the replicas, and the policy of
an application's pods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct, field

from muster.groups.applications import Application, BindingState, PolicyLabels, binding_state, unbound_reason
from muster.groups.division import Bounds, by_ranges, by_weights
from muster.groups.membership import resolve
from muster.model.groups import PropagationPolicy, PropagationPolicySpec

__all__ = [
    "PropagationRules",
    "Quota",
    "Quotas",
    "PolicyProblem",
    "parse_propagation",
    "BoundPolicy",
    "Policies",
    "PlacementRefusal",
]

WEIGHTS, RANGES = "StaticWeight", "NumRange"
# Why a group contains no node.
DOES_NOT_EXIST, HAS_NO_NODES = "does not exist", "has no nodes"


class PolicyProblem(Struct, frozen=True):
    """A problem in a policy: the field, what is wrong and how to fix it."""

    path: str
    message: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" + (f" ({self.fix})" if self.fix else "")


class Quota(Struct, frozen=True):
    """A group's quota: the desired, the minimum and the maximum number of pods (None: no limit)."""

    desired: int
    min: int
    max: int | None


class Quotas(Struct, frozen=True):
    """The quotas by group, in the policy's order. `replicas` is None if the application's kind has no replicas."""

    groups: dict[str, Quota]
    replicas: int | None
    unplaced: int = 0


class PropagationRules(Struct):
    """A policy, with its group names resolved against the existing node groups. With errors it must not be used."""

    strategy: str
    weights: dict[str, int] = field(default_factory=dict)
    ranges: dict[str, Bounds] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)  # groups that do not exist (yet): they keep their quota
    spellings: dict[str, str] = field(default_factory=dict)  # as the policy writes it → the group it means
    errors: list[PolicyProblem] = field(default_factory=list)
    warnings: list[PolicyProblem] = field(default_factory=list)

    @property
    def groups(self) -> list[str]:
        """The names in order: a node that is in several of the groups counts for the first."""
        return list(self.weights if self.strategy == WEIGHTS else self.ranges)

    def quotas(self, replicas: int | None, uid: str = "") -> Quotas:
        """Each group's quota of the replicas of the application with that uid."""
        if replicas is None:
            return Quotas({name: Quota(0, 0, None) for name in self.groups}, None)
        if self.strategy == WEIGHTS:
            given = by_weights(self.weights, replicas, uid)
            quotas = {name: Quota(n, 0, n) for name, n in given.items()}
        else:
            given = by_ranges(self.ranges, replicas)
            quotas = {name: Quota(n, *self.ranges[name]) for name, n in given.items()}
        return Quotas(quotas, replicas, replicas - sum(given.values()))


def parse_propagation(spec: PropagationPolicySpec, existing: Collection[str] | None = None) -> PropagationRules:
    """Parses a policy. `existing`: the names of the existing NodeGroups (None: not known, every name may exist)."""
    strategy = spec.propagation_strategy
    if not strategy:
        strategy = RANGES if spec.num_range and not spec.static_weight_list else WEIGHTS
    found = PropagationRules(strategy)
    if strategy not in (WEIGHTS, RANGES):
        fix = f"write {WEIGHTS} or {RANGES}"
        found.errors.append(PolicyProblem("spec.propagationStrategy", f"{strategy!r} is no strategy", fix))
        return found
    if spec.num_range and spec.static_weight_list:
        unused = "numRange" if strategy == WEIGHTS else "staticWeightList"
        found.warnings.append(
            PolicyProblem(f"spec.{unused}", f"is not read: the strategy is {strategy}", "take it out")
        )
    if strategy == WEIGHTS:
        _read_weights(found, spec, existing)
    else:
        _read_ranges(found, spec, existing)
    return found


def _read_weights(found: PropagationRules, spec: PropagationPolicySpec, existing: Collection[str] | None) -> None:
    if not spec.static_weight_list:
        found.weights = dict.fromkeys(sorted(existing or ()), 1)
        return
    for i, entry in enumerate(spec.static_weight_list):
        path = f"spec.staticWeightList[{i}]"
        if entry.weight < 0:
            found.errors.append(PolicyProblem(f"{path}.weight", f"{entry.weight} is negative", "write 0 or more"))
        for name in _names(found, entry.node_group_names, path, existing):
            # Karmada: a group named in several entries has the largest of their weights.
            found.weights[name] = max(entry.weight, found.weights.get(name, 0))
    if not any(found.weights.values()) and not found.errors:
        message = "all weights are 0: no node group would get a pod"
        found.errors.append(PolicyProblem("spec.staticWeightList", message, "give at least one group a weight above 0"))


def _read_ranges(found: PropagationRules, spec: PropagationPolicySpec, existing: Collection[str] | None) -> None:
    if not spec.num_range:
        found.ranges = dict.fromkeys(sorted(existing or ()), (0, None))
        return
    for i, entry in enumerate(spec.num_range):
        path = f"spec.numRange[{i}]"
        for field_, number in (("min", entry.min), ("max", entry.max)):
            if number is not None and number < 0:
                found.errors.append(PolicyProblem(f"{path}.{field_}", f"{number} is negative", "write 0 or more"))
        for name in _names(found, entry.node_group_names, path, existing):
            least, most = found.ranges.get(name, (0, None))
            tops = [n for n in (most, entry.max) if n is not None]
            found.ranges[name] = (max(least, entry.min), min(tops) if tops else None)
    for name, (least, most) in found.ranges.items():
        if most is not None and least > most:
            message = f"node group {name}: min {least} is more than max {most}"
            found.errors.append(PolicyProblem("spec.numRange", message, "lower min or raise max"))


def _names(found: PropagationRules, names: list[str], path: str, existing: Collection[str] | None) -> Iterator[str]:
    if not names:
        found.warnings.append(
            PolicyProblem(f"{path}.nodeGroupNames", "names no node group", "name one, or take it out")
        )
    for name in names:
        group = name.lower() if existing is None else resolve(name, existing)
        if group is None:
            # Names of objects are lower case, so this is the name that the group will have once it exists.
            group = name.lower()
            if group not in found.unknown:
                found.unknown.append(group)
                message = f"there is no node group {group}: its share waits"
                found.warnings.append(
                    PolicyProblem(f"{path}.nodeGroupNames", message, "create it, or take the name out")
                )
        if group != name and name not in found.spellings:
            message = f"names node group {name!r}; using {group!r}"
            found.warnings.append(PolicyProblem(f"{path}.nodeGroupNames", message, "write it in lower case"))
        found.spellings[name] = group
        yield group


class PlacementRefusal(Struct, frozen=True):
    """Why no node can take the application's pods for now. The code is stable, the text is for people."""

    code: str
    text: str


class BoundPolicy(Struct, frozen=True):
    """The policy that an application is bound to, and its quotas for this application."""

    policy: str  # its name
    rules: PropagationRules
    quotas: Quotas


class Policies:
    """The PropagationPolicies of a cluster; each policy is parsed once."""

    def __init__(self, policies: Mapping[str, PropagationPolicy], groups: Collection[str]) -> None:
        self._policies = policies
        self._groups = groups
        self._read: dict[str, tuple[PropagationPolicy, PropagationRules]] = {}
        self._quotas: dict[tuple[str, ...], tuple[PropagationRules, int | None, Quotas]] = {}  # by application

    def read(self, key: str) -> PropagationRules | None:
        """The parsed policy `ns/name`; None if it does not exist."""
        policy = self._policies.get(key)
        if policy is None:
            return None
        known = self._read.get(key)
        if known is None or known[0] is not policy:
            # A status is written often and does not change the rules.
            same = known is not None and known[0].spec == policy.spec
            rules = known[1] if known is not None and same else parse_propagation(policy.spec, self._groups)
            known = self._read[key] = (policy, rules)
        return known[1]

    def rule_for(self, application: Application) -> BoundPolicy | PlacementRefusal | None:
        """The rule for the placement of the application's pods; None: no policy restricts them."""
        labels = application.labels
        why = unbound_reason(labels, PolicyLabels.PROPAGATION)
        if why is not None:
            return PlacementRefusal("unbound", f"{application}: {why}")
        if binding_state(labels, PolicyLabels.PROPAGATION) != BindingState.BOUND:
            return None
        name = labels[PolicyLabels.PROPAGATION.binding]
        rules = self.read(f"{application.namespace}/{name}")
        if rules is None:
            return PlacementRefusal("no-policy", f"PropagationPolicy {name} not found")
        if rules.errors:
            return PlacementRefusal("bad-policy", f"PropagationPolicy {name} cannot be used: {rules.errors[0]}")
        return BoundPolicy(name, rules, self._quotas_of(name, rules, application))

    def _quotas_of(self, name: str, rules: PropagationRules, application: Application) -> Quotas:
        """The quotas, cached for as long as the policy and the number of replicas stay the same."""
        at = (name, application.kind, application.key, application.uid)
        replicas, uid = application.replicas, application.uid
        known = self._quotas.get(at)
        if known is None or known[0] is not rules or known[1] != replicas:
            known = self._quotas[at] = (rules, replicas, rules.quotas(replicas, uid))
        return known[2]
