"""Replacements of evicted pods that landed in the wrong place: who put them there, and what is kept of it.

An eviction helps only if whoever places the replacement obeys the policy. A scheduler that does not ask muster's
extender, or a `nodeName` that is written into the pod, brings the pod back to where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from zlib import crc32

from muster.groupctl.controllers.divided import Division
from muster.groupctl.controllers.pace import Failure, Pace
from muster.groups.applications import template_of
from muster.model.core import Pod
from muster.model.groups import BoundApplication, EvictionState, OverridePolicy, PropagationPolicy
from muster.model.meta import Object, seconds
from muster.model.meta import key as key_of
from muster.store.clock import timestamp

DEFAULT_SCHEDULER = "default-scheduler"

# Says why the scheduler of that name places no pods by policies at the moment; empty: it does.
Placer = Callable[[str], str]


def always(scheduler: str) -> str:
    """Every scheduler obeys the policies, as in the simulator."""
    return ""


@dataclass(frozen=True, slots=True)
class Placing:
    """Who places the pods of an application."""

    scheduler: str
    fixed: str = ""  # what writes a nodeName into the pods, if anything does

    @staticmethod
    def of(app: Object, override: OverridePolicy | None) -> Placing:
        template = template_of(app)
        spec = app.spec if isinstance(app, Pod) else None if template is None else template.spec
        scheduler = (spec.scheduler_name if spec is not None else "") or DEFAULT_SCHEDULER
        if template is not None and template.spec.node_name:
            return Placing(scheduler, "the pod template")
        if override is not None and _sets_node_name(override):
            return Placing(scheduler, f"OverridePolicy {override.metadata.name}")
        return Placing(scheduler)

    @property
    def cause(self) -> str:
        if self.fixed:
            return f"{self.fixed} sets nodeName, so that no scheduler is asked (schedulerName {self.scheduler})"
        return f"the scheduler with schedulerName {self.scheduler} does not obey the policy: does it ask the extender?"

    def remedy(self, policy: PropagationPolicy) -> str:
        """A hash of what has to change before failed replacements are forgiven."""
        return f"{crc32(repr((policy.metadata.generation, self)).encode()):08x}"


def _sets_node_name(policy: OverridePolicy) -> bool:
    for rule in policy.spec.override_rules:
        for part in (rule, rule.overriders):
            if part is not None and any(change.path.endswith("/spec/nodeName") for change in part.plaintext):
                return True
    return False


def landed_wrong(divided: Division, excess: Iterable[str], pace: Pace) -> tuple[Pod, str] | None:
    """A replacement that was bound where it does not belong, and where that is."""
    for pod in divided.misplaced:
        if pace.is_replacement(seconds(pod.metadata.creation_timestamp)):
            return pod, "which is in no node group of the policy"
    for group in excess:
        for pod in divided.current[group]:
            if pace.is_replacement(seconds(pod.metadata.creation_timestamp)):
                return pod, f"in node group {group}, which has too many pods already"
    return None


def wrong_text(pod: Pod, where: str, placing: Placing) -> str:
    return f"replacement {key_of(pod)} landed on node {pod.spec.node_name}, {where}; {placing.cause}"


def kept(pace: Pace) -> EvictionState | None:
    """What the policy's status keeps of the pace."""
    if pace.since is None and not pace.failures:
        return None
    return EvictionState(
        since=None if pace.since is None else timestamp(int(pace.since)),
        failures=pace.failures,
        reason=pace.failure.value if pace.failure is not None else "",
        message=pace.text,
        not_before=timestamp(int(pace.paused_until)) if pace.paused_until else None,
        observed=str(pace.remedy or ""),
    )


def recovered(policy: PropagationPolicy, app: Object, settle: float) -> Pace:
    """The pace of an application as the policy's status has kept it: a restart must not begin evictions anew."""
    pace = Pace(settle)
    state = next((told.evictions for told in policy.status.applications if _is(told, app)), None)
    if state is None:
        return pace
    try:
        pace.since = seconds(state.since) if state.since else None
        pace.paused_until = seconds(state.not_before)
        pace.failure = Failure(state.reason) if state.reason else None
    except ValueError:
        return Pace(settle)  # somebody else wrote it
    pace.last, pace.failures, pace.text = pace.since, state.failures, state.message
    pace.remedy = state.observed or None
    # A batch that was counted is still paused for: the next eviction ends the pause.
    pace.judged = pace.since if pace.paused_until else None
    return pace


def _is(told: BoundApplication, app: Object) -> bool:
    return (told.kind, told.name) == (type(app).__name__, app.metadata.name)
