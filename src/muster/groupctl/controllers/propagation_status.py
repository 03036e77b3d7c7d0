"""The status of a PropagationPolicy: the pods of each application by node group, and whether they are as desired."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from muster.groupctl.controllers.policy_controller import ApplicationStatus
from muster.groupctl.controllers.throttle import EvictionThrottle, ReplacementFailure
from muster.groups.propagation import DOES_NOT_EXIST, PropagationRules, Quotas
from muster.groups.quota_usage import QuotaUsage
from muster.model.core import Pod
from muster.model.groups import BoundApplication, GroupReplicas
from muster.model.meta import Condition, Object, condition, timestamp
from muster.model.pod_states import is_ready


@dataclass(slots=True)
class Distribution:
    """The active pods of an application by node group, compared with the quotas of its policy."""

    app: Object
    policy: str  # its name
    rules: PropagationRules
    quotas: Quotas
    current: dict[str, list[Pod]] = field(default_factory=dict)
    misplaced: list[Pod] = field(default_factory=list)
    pending: list[Pod] = field(default_factory=list)
    terminating: int = 0  # and evicted pods that are gone and have no replacement yet
    eviction_blockers: dict[str, str] = field(
        default_factory=dict
    )  # pods that should be evicted and must not be, and why
    groups_without_nodes: dict[str, str] = field(default_factory=dict)  # and why
    blocked_by: str = ""  # why nothing is evicted for now

    @property
    def counts(self) -> dict[str, int]:
        return {group: len(pods) for group, pods in self.current.items()}

    @property
    def moving(self) -> int:
        """How many pods are terminating or not ready yet."""
        return self.terminating + sum(1 for pod in self.pods if not is_ready(pod))

    @property
    def pods(self) -> list[Pod]:
        """All active pods."""
        return [*(pod for pods in self.current.values() for pod in pods), *self.misplaced, *self.pending]


Unmet = tuple[str, str]  # a condition's reason and message

NO_EXTENDER = "NoExtender"
# In the order of importance for an operator.
_RANKS = (ReplacementFailure.WRONG.value, NO_EXTENDER, ReplacementFailure.UNPLACED.value, "GroupUnknown", "GroupEmpty",
          "BeyondMax", "Pending", "Progressing")  # fmt: skip


@dataclass(slots=True)
class PlacementState(ApplicationStatus):
    """The status of one application, and why it is not as desired."""

    unmet: Unmet | None
    throttle: EvictionThrottle


def status_entry(distribution: Distribution) -> BoundApplication:
    """The status entry of one application: desired, current and ready pods of each group."""
    groups = []
    for name, quota in distribution.quotas.groups.items():
        pods = distribution.current.get(name, [])
        ready = sum(1 for pod in pods if is_ready(pod))
        groups.append(GroupReplicas(name=name, desired=quota.desired, current=len(pods), ready=ready))
    warnings = []
    if distribution.quotas.unplaced:
        warnings.append(f"{distribution.quotas.unplaced} replicas are beyond the groups' max")
    for key, why in list(distribution.eviction_blockers.items())[:1]:
        others = (
            f", and {len(distribution.eviction_blockers) - 1} others" if len(distribution.eviction_blockers) > 1 else ""
        )
        warnings.append(f"pod {key} is not evicted: {why}{others}")
    if distribution.blocked_by:
        warnings.append(f"nothing is evicted: {distribution.blocked_by}")
    app = distribution.app
    return BoundApplication(
        api_version=app.api_version,
        kind=type(app).__name__,
        name=app.metadata.name,
        replicas=distribution.quotas.replicas or 0,
        groups=groups,
        misplaced=len(distribution.misplaced),
        pending=len(distribution.pending),
        warnings=warnings,
    )


def unmet(distribution: Distribution, throttle: EvictionThrottle) -> Unmet | None:
    """Why the application is not as its policy wants it; None: it is. Pending pods are not as desired."""
    counts = distribution.counts
    off = distribution.quotas.replicas is not None and not all(
        _within(distribution, group) for group in distribution.quotas.groups
    )
    if not off and not distribution.misplaced and not distribution.pending:
        return None
    numbers = [f"{name} {counts.get(name, 0)}/{quota.desired}" for name, quota in distribution.quotas.groups.items()]
    if distribution.quotas.replicas is None:
        numbers = [f"{name} {counts.get(name, 0)}" for name in distribution.quotas.groups]
    app = distribution.app
    summary = f"{', '.join(numbers)}, {len(distribution.misplaced)} misplaced, {len(distribution.pending)} pending"
    reason, more = _why(distribution, throttle, off)
    return reason, f"{type(app).__name__} {app.metadata.name}: {summary}{f'; {more}' if more else ''}"


def _why(distribution: Distribution, throttle: EvictionThrottle, off: bool) -> Unmet:
    waits = QuotaUsage(
        distribution.quotas, distribution.counts, groups_without_nodes=distribution.groups_without_nodes
    ).waits_for
    if throttle.failure is not None:
        until = f"; no pod is evicted before {timestamp(int(throttle.paused_until))}" if throttle.paused_until else ""
        more = f"; {waits}" if waits and throttle.failure is ReplacementFailure.UNPLACED else ""
        return throttle.failure.value, f"{throttle.message}{more}{until}"
    if distribution.blocked_by:
        return NO_EXTENDER, f"nothing is evicted: {distribution.blocked_by}"
    if waits:
        unknown = any(why == DOES_NOT_EXIST for why in distribution.groups_without_nodes.values())
        return "GroupUnknown" if unknown else "GroupEmpty", waits
    if off or distribution.misplaced:
        return "Progressing", ""
    if distribution.quotas.unplaced:
        return "BeyondMax", f"{distribution.quotas.unplaced} replicas are beyond the groups' max"
    return "Pending", _pending(distribution)


def _pending(distribution: Distribution) -> str:
    """The scheduler's message about the first pending pod."""
    pod = min(distribution.pending, key=lambda pod: pod.metadata.name)
    message = next((c.message for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "False"), "")
    return f"pod {pod.metadata.name} has no node" + (f": {message}" if message else "")


def policy_conditions(
    rules: PropagationRules, empty: Sequence[str], records: Sequence[PlacementState], generation: int
) -> list[Condition]:
    """Resolved: every group that the policy names exists and has nodes (`empty`: messages about those without).

    Satisfied: every pod is where it should be.
    """
    return [_resolved(rules, empty, generation), _satisfied(rules, records, generation)]


def _resolved(rules: PropagationRules, empty: Sequence[str], generation: int) -> Condition:
    if rules.errors:
        return condition("Resolved", False, "Invalid", "; ".join(map(str, rules.errors)), generation)
    if rules.unknown:
        message = f"no such node group: {', '.join(rules.unknown)}; their share waits"
        return condition("Resolved", False, "GroupUnknown", message, generation)
    if empty:
        return condition("Resolved", False, "GroupEmpty", "; ".join(empty), generation)
    renamed = [f"{name} means {group}" for name, group in rules.spellings.items() if name != group]
    return condition("Resolved", True, "GroupsFound", ", ".join(renamed), generation)


def _satisfied(rules: PropagationRules, records: Sequence[PlacementState], generation: int) -> Condition:
    if rules.errors:
        return condition("Satisfied", False, "Invalid", "the policy cannot be used", generation)
    found = [record.unmet for record in records if record.unmet is not None]
    if not found:
        return condition("Satisfied", True, "AsDesired", "", generation)
    reason, message = min(found, key=lambda one: _RANKS.index(one[0]))
    others = f" (and {len(found) - 1} other applications)" if len(found) > 1 else ""
    return condition("Satisfied", False, reason, message + others, generation)


def _within(distribution: Distribution, group: str) -> bool:
    """Whether the number of pods is as desired; for a range, whether it is in the range."""
    quota, current, ranges = (
        distribution.quotas.groups[group],
        len(distribution.current.get(group, ())),
        distribution.rules.ranges,
    )
    if group not in ranges:
        return current == quota.desired
    least, most = ranges[group]
    return current >= min(least, quota.desired) and (most is None or current <= most)
