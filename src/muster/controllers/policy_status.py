"""What a PropagationPolicy's status says: each application's pods group by group, and whether all is as wanted."""

from __future__ import annotations

from collections.abc import Sequence

from muster.controllers.conditions import said
from muster.controllers.divided import Division
from muster.controllers.states import is_ready
from muster.groups.propagation import Propagation
from muster.model.groups import BoundApplication, GroupReplicas
from muster.model.meta import Condition


def application_status(divided: Division, stopped: bool) -> BoundApplication:
    """One application: what each group should have, has, and has ready."""
    groups = []
    for name, quota in divided.quotas.groups.items():
        pods = divided.current.get(name, [])
        ready = sum(1 for pod in pods if is_ready(pod))
        groups.append(GroupReplicas(name=name, desired=quota.desired, current=len(pods), ready=ready))
    warnings = []
    if divided.quotas.unplaced:
        warnings.append(f"{divided.quotas.unplaced} replicas are beyond the groups' max")
    for key, why in list(divided.spared.items())[:1]:
        others = f", and {len(divided.spared) - 1} others" if len(divided.spared) > 1 else ""
        warnings.append(f"pod {key} is not evicted: {why}{others}")
    if stopped:
        warnings.append("evictions have stopped: replacements find no place")
    app = divided.app
    return BoundApplication(
        api_version=app.api_version,
        kind=type(app).__name__,
        name=app.metadata.name,
        replicas=divided.quotas.replicas or 0,
        groups=groups,
        misplaced=len(divided.misplaced),
        pending=len(divided.pending),
        warnings=warnings,
    )


def policy_conditions(
    meant: Propagation, empty: Sequence[str], applications: Sequence[BoundApplication], generation: int
) -> list[Condition]:
    """Resolved: every group the policy names is there and has nodes (`empty`: which have none, in words).

    Satisfied: every pod is where it should be.
    """
    return [_resolved(meant, empty, generation), _satisfied(meant, applications, generation)]


def _resolved(meant: Propagation, empty: Sequence[str], generation: int) -> Condition:
    if meant.errors:
        return said("Resolved", False, "Invalid", "; ".join(map(str, meant.errors)), generation)
    if meant.unknown:
        message = f"no such node group: {', '.join(meant.unknown)}; their share waits"
        return said("Resolved", False, "GroupUnknown", message, generation)
    if empty:
        return said("Resolved", False, "GroupEmpty", "; ".join(empty), generation)
    renamed = [f"{name} means {group}" for name, group in meant.spellings.items() if name != group]
    return said("Resolved", True, "GroupsFound", ", ".join(renamed), generation)


def _satisfied(meant: Propagation, applications: Sequence[BoundApplication], generation: int) -> Condition:
    if meant.errors:
        return said("Satisfied", False, "Invalid", "the policy cannot be used", generation)
    for app in applications:
        off = [g for g in app.groups if app.replicas and not _within(meant, g)]
        if off or app.misplaced:
            stopped = any("stopped" in warning for warning in app.warnings)
            numbers = ", ".join(f"{g.name} {g.current}/{g.desired}" for g in app.groups)
            message = f"{app.kind} {app.name}: {numbers}, {app.misplaced} misplaced, {app.pending} pending"
            return said("Satisfied", False, "Unplaceable" if stopped else "Progressing", message, generation)
    return said("Satisfied", True, "AsDesired", "", generation)


def _within(meant: Propagation, group: GroupReplicas) -> bool:
    """A range is a range: any number in it will do."""
    if group.name not in meant.ranges:
        return group.current == group.desired
    least, most = meant.ranges[group.name]
    return group.current >= min(least, group.desired) and (most is None or group.current <= most)
