"""The PropagationPolicy of an application's pods, with the quotas of its node groups."""

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
    """Why no node can take the application's pods for now. The code is stable, the text is for people."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class BoundPolicy:
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
