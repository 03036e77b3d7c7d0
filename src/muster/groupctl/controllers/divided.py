"""An application's pods as they are divided among node groups, beside what its policy wants."""

from __future__ import annotations

from dataclasses import dataclass, field

from muster.groups.propagation import PropagationRules, Quotas
from muster.model.core import Pod
from muster.model.meta import Object
from muster.model.pod_states import is_ready


@dataclass(slots=True)
class Distribution:
    """Pods that count, by where they are; `leaving` are those on their way out."""

    app: Object
    policy: str  # its name
    rules: PropagationRules
    quotas: Quotas
    current: dict[str, list[Pod]] = field(default_factory=dict)
    misplaced: list[Pod] = field(default_factory=list)
    pending: list[Pod] = field(default_factory=list)
    terminating: int = 0  # and evicted pods that are gone and have no replacement yet
    eviction_blockers: dict[str, str] = field(default_factory=dict)  # pods that should go and must not, and why
    groups_without_nodes: dict[str, str] = field(default_factory=dict)  # groups without nodes, and why
    blocked_by: str = ""  # why nothing is evicted for now

    @property
    def counts(self) -> dict[str, int]:
        return {group: len(pods) for group, pods in self.current.items()}

    @property
    def moving(self) -> int:
        """How many are on their way out, or not ready yet."""
        return self.terminating + sum(1 for pod in self.pods if not is_ready(pod))

    @property
    def pods(self) -> list[Pod]:
        """All that count."""
        return [*(pod for pods in self.current.values() for pod in pods), *self.misplaced, *self.pending]
