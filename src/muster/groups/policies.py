"""Which PropagationPolicy rules an application's pods, and what it says of them: the filter's first question."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from muster.groups.applications import Application
from muster.groups.gate import Pair, Situation, situation, waiting
from muster.groups.propagation import Propagation, Quotas, read_propagation
from muster.model.groups import PropagationPolicy

__all__ = ["Bound", "Policies", "Refused"]


@dataclass(frozen=True, slots=True)
class Refused:
    """No node takes the application's pods for now; the code is stable, the text for people."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Bound:
    """The application follows a policy."""

    policy: str  # its name
    propagation: Propagation
    quotas: Quotas


class Policies:
    """The policies and node groups of a cluster; each policy is read once."""

    def __init__(self, policies: Mapping[str, PropagationPolicy], groups: Collection[str]) -> None:
        self._policies = policies
        self._groups = groups
        self._read: dict[str, tuple[PropagationPolicy, Propagation]] = {}
        self._quotas: dict[tuple[str, ...], tuple[Propagation, int | None, Quotas]] = {}  # by application

    def read(self, key: str) -> Propagation | None:
        """What the policy `ns/name` says; None if there is none."""
        policy = self._policies.get(key)
        if policy is None:
            return None
        known = self._read.get(key)
        if known is None or known[0] is not policy:
            # A status is written often, and changes nothing that the policy says.
            same = known is not None and known[0].spec == policy.spec
            meant = known[1] if known is not None and same else read_propagation(policy.spec, self._groups)
            known = self._read[key] = (policy, meant)
        return known[1]

    def ruling(self, application: Application) -> Bound | Refused | None:
        """What holds for the application's pods; None: they go where they like."""
        labels = application.labels
        why = waiting(labels, Pair.PROPAGATION)
        if why is not None:
            return Refused("unbound", f"{application}: {why}")
        if situation(labels, Pair.PROPAGATION) != Situation.BOUND:
            return None
        name = labels[Pair.PROPAGATION.binding]
        meant = self.read(f"{application.namespace}/{name}")
        if meant is None:
            return Refused("no-policy", f"PropagationPolicy {name} not found")
        if meant.errors:
            return Refused("bad-policy", f"PropagationPolicy {name} cannot be used: {meant.errors[0]}")
        return Bound(name, meant, self._divided(name, meant, application))

    def _divided(self, name: str, meant: Propagation, application: Application) -> Quotas:
        """The quotas, which are the same as long as the policy and the number are."""
        at = (name, application.kind, application.key, application.uid)
        replicas, uid = application.replicas, application.uid
        known = self._quotas.get(at)
        if known is None or known[0] is not meant or known[1] != replicas:
            known = self._quotas[at] = (meant, replicas, meant.quotas(replicas, uid))
        return known[2]
