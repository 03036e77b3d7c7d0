"""What a PropagationPolicy's status says: each application's pods group by group, and whether all is as wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster.groupctl.controllers.bound import Told
from muster.groupctl.controllers.conditions import said
from muster.groupctl.controllers.divided import Division
from muster.groupctl.controllers.pace import Failure, Pace
from muster.groupctl.controllers.states import is_ready
from muster.groups.propagation import DOES_NOT_EXIST, Propagation
from muster.groups.standing import Standing
from muster.model.groups import BoundApplication, GroupReplicas
from muster.model.meta import Condition
from muster.store.clock import timestamp

Unmet = tuple[str, str]  # a condition's reason and message

NO_EXTENDER = "NoExtender"
# What an operator should know first.
_RANKS = (Failure.WRONG.value, NO_EXTENDER, Failure.UNPLACED.value, "GroupUnknown", "GroupEmpty", "BeyondMax",
          "Pending", "Progressing")  # fmt: skip


@dataclass(slots=True)
class Placed(Told):
    """One application: its entry in the status, and why it is not as its policy wants it."""

    unmet: Unmet | None
    pace: Pace


def application_status(divided: Division) -> BoundApplication:
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
    if divided.hold:
        warnings.append(f"nothing is evicted: {divided.hold}")
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


def unmet(divided: Division, pace: Pace) -> Unmet | None:
    """Why the application is not as its policy wants it; None: it is. Pods that are pending are not."""
    counts = divided.counts
    off = divided.quotas.replicas is not None and not all(_within(divided, group) for group in divided.quotas.groups)
    if not off and not divided.misplaced and not divided.pending:
        return None
    numbers = [f"{name} {counts.get(name, 0)}/{quota.desired}" for name, quota in divided.quotas.groups.items()]
    if divided.quotas.replicas is None:
        numbers = [f"{name} {counts.get(name, 0)}" for name in divided.quotas.groups]
    app = divided.app
    stands = f"{', '.join(numbers)}, {len(divided.misplaced)} misplaced, {len(divided.pending)} pending"
    reason, more = _why(divided, pace, off)
    return reason, f"{type(app).__name__} {app.metadata.name}: {stands}{f'; {more}' if more else ''}"


def _why(divided: Division, pace: Pace, off: bool) -> Unmet:
    waits = Standing(divided.quotas, divided.counts, closed=divided.closed).waits_for()
    if pace.failure is not None:
        until = f"; no pod is evicted before {timestamp(int(pace.paused_until))}" if pace.paused_until else ""
        more = f"; {waits}" if waits and pace.failure is Failure.UNPLACED else ""
        return pace.failure.value, f"{pace.text}{more}{until}"
    if divided.hold:
        return NO_EXTENDER, f"nothing is evicted: {divided.hold}"
    if waits:
        unknown = any(why == DOES_NOT_EXIST for why in divided.closed.values())
        return "GroupUnknown" if unknown else "GroupEmpty", waits
    if off or divided.misplaced:
        return "Progressing", ""
    if divided.quotas.unplaced:
        return "BeyondMax", f"{divided.quotas.unplaced} replicas are beyond the groups' max"
    return "Pending", _pending(divided)


def _pending(divided: Division) -> str:
    """What is said of the first pod that is pending."""
    pod = min(divided.pending, key=lambda pod: pod.metadata.name)
    told = next((c.message for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "False"), "")
    return f"pod {pod.metadata.name} has no node" + (f": {told}" if told else "")


def policy_conditions(
    meant: Propagation, empty: Sequence[str], records: Sequence[Placed], generation: int
) -> list[Condition]:
    """Resolved: every group the policy names is there and has nodes (`empty`: which have none, in words).

    Satisfied: every pod is where it should be.
    """
    return [_resolved(meant, empty, generation), _satisfied(meant, records, generation)]


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


def _satisfied(meant: Propagation, records: Sequence[Placed], generation: int) -> Condition:
    if meant.errors:
        return said("Satisfied", False, "Invalid", "the policy cannot be used", generation)
    found = [record.unmet for record in records if record.unmet is not None]
    if not found:
        return said("Satisfied", True, "AsDesired", "", generation)
    reason, message = min(found, key=lambda one: _RANKS.index(one[0]))
    others = f" (and {len(found) - 1} other applications)" if len(found) > 1 else ""
    return said("Satisfied", False, reason, message + others, generation)


def _within(divided: Division, group: str) -> bool:
    """A range is a range: any number in it will do."""
    quota, current, ranges = divided.quotas.groups[group], len(divided.current.get(group, ())), divided.meant.ranges
    if group not in ranges:
        return current == quota.desired
    least, most = ranges[group]
    return current >= min(least, quota.desired) and (most is None or current <= most)
