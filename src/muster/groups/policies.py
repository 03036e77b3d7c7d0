"""Which PropagationPolicy rules an application's pods, and what it says of them: the filter's first question."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from muster.groups.applications import Application
from muster.groups.binding import BindingState, PolicyLabels, binding_state, unbound_reason
from muster.groups.propagation import PropagationRules, Quotas, parse_propagation
from muster.model.groups import PropagationPolicy

__all__ = ["BoundPolicy", "Policies", "PlacementRefusal"]


@dataclass(frozen=True, slots=True)
class PlacementRefusal:
    """No node takes the application's pods for now; the code is stable, the text for people."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class BoundPolicy:
    """The application follows a policy."""

    policy: str  # its name
    rules: PropagationRules
    quotas: Quotas


class Policies:
    """The policies and node groups of a cluster; each policy is read once."""

    def __init__(self, policies: Mapping[str, PropagationPolicy], groups: Collection[str]) -> None:
        self._policies = policies
        self._groups = groups
        self._read: dict[str, tuple[PropagationPolicy, PropagationRules]] = {}
        self._quotas: dict[tuple[str, ...], tuple[PropagationRules, int | None, Quotas]] = {}  # by application

    def read(self, key: str) -> PropagationRules | None:
        """What the policy `ns/name` says; None if there is none."""
        policy = self._policies.get(key)
        if policy is None:
            return None
        known = self._read.get(key)
        if known is None or known[0] is not policy:
            # A status is written often, and changes nothing that the policy says.
            same = known is not None and known[0].spec == policy.spec
            rules = known[1] if known is not None and same else parse_propagation(policy.spec, self._groups)
            known = self._read[key] = (policy, rules)
        return known[1]

    def rule_for(self, application: Application) -> BoundPolicy | PlacementRefusal | None:
        """What holds for the application's pods; None: they go where they like."""
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
        return BoundPolicy(name, rules, self._divided(name, rules, application))

    def _divided(self, name: str, rules: PropagationRules, application: Application) -> Quotas:
        """The quotas, which are the same as long as the policy and the number are."""
        at = (name, application.kind, application.key, application.uid)
        replicas, uid = application.replicas, application.uid
        known = self._quotas.get(at)
        if known is None or known[0] is not rules or known[1] != replicas:
            known = self._quotas[at] = (rules, replicas, rules.quotas(replicas, uid))
        return known[2]
