"""Replacements of evicted pods that landed in the wrong node group: the cause, and the state kept in the status.

An eviction helps only if the scheduler of the replacement obeys the policy. A scheduler that does not call muster's
extender, or a `nodeName` in the pod, brings the pod back to where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from zlib import crc32

from muster.groupctl.controllers.propagation_status import Distribution
from muster.groupctl.controllers.throttle import EvictionThrottle, ReplacementFailure
from muster.groups.applications import templates_of
from muster.model.core import Pod
from muster.model.groups import BoundApplication, EvictionState, OverridePolicy, PropagationPolicy
from muster.model.meta import Object, seconds, timestamp
from muster.model.meta import key as key_of

DEFAULT_SCHEDULER = "default-scheduler"

# Returns why the scheduler of that name does not place pods by policies now; empty: it does.
PlacerCheck = Callable[[str], str]


def always_alive(scheduler: str) -> str:
    """Every scheduler obeys the policies, as in the simulator."""
    return ""


@dataclass(frozen=True, slots=True)
class PodPlacer:
    """The scheduler that places the pods of an application."""

    scheduler: str
    node_name_set_by: str = ""  # the object that sets nodeName in the pods, if any

    @staticmethod
    def of(app: Object, override: OverridePolicy | None) -> PodPlacer:
        template = next(iter(templates_of(app)), None)
        spec = app.spec if isinstance(app, Pod) else None if template is None else template.spec
        scheduler = (spec.scheduler_name if spec is not None else "") or DEFAULT_SCHEDULER
        if template is not None and template.spec.node_name:
            return PodPlacer(scheduler, "the pod template")
        if override is not None and _sets_node_name(override):
            return PodPlacer(scheduler, f"OverridePolicy {override.metadata.name}")
        return PodPlacer(scheduler)

    @property
    def cause(self) -> str:
        if self.node_name_set_by:
            return (
                f"{self.node_name_set_by} sets nodeName, so that no scheduler is asked (schedulerName {self.scheduler})"
            )
        return f"the scheduler with schedulerName {self.scheduler} does not obey the policy: does it ask the extender?"

    def remedy(self, policy: PropagationPolicy) -> str:
        """A hash of what has to change before failures of replacements are reset."""
        return f"{crc32(repr((policy.metadata.generation, self)).encode()):08x}"


def _sets_node_name(policy: OverridePolicy) -> bool:
    for rule in policy.spec.override_rules:
        for part in (rule, rule.overriders):
            if part is not None and any(change.path.endswith("/spec/nodeName") for change in part.plaintext):
                return True
    return False


def misplaced_replacement(
    distribution: Distribution, excess: Iterable[str], throttle: EvictionThrottle
) -> tuple[Pod, str] | None:
    """A replacement in the wrong node group, and a text about its location; None: there is none."""
    for pod in distribution.misplaced:
        if throttle.is_replacement(seconds(pod.metadata.creation_timestamp)):
            return pod, "which is in no node group of the policy"
    for group in excess:
        for pod in distribution.current[group]:
            if throttle.is_replacement(seconds(pod.metadata.creation_timestamp)):
                return pod, f"in node group {group}, which has too many pods already"
    return None


def misplacement_message(pod: Pod, where: str, placing: PodPlacer) -> str:
    return f"replacement {key_of(pod)} landed on node {pod.spec.node_name}, {where}; {placing.cause}"


def eviction_state(throttle: EvictionThrottle) -> EvictionState | None:
    """The state of the throttle that is kept in the policy's status."""
    if throttle.batch_start is None and not throttle.failures:
        return None
    return EvictionState(
        since=None if throttle.batch_start is None else timestamp(int(throttle.batch_start)),
        failures=throttle.failures,
        reason=throttle.failure.value if throttle.failure is not None else "",
        message=throttle.message,
        not_before=timestamp(int(throttle.paused_until)) if throttle.paused_until else None,
        observed=str(throttle.remedy or ""),
    )


def restore_throttle(policy: PropagationPolicy, app: Object, settle: float) -> EvictionThrottle:
    """Restores the throttle of an application from the policy's status: a restart must not resume paused evictions."""
    throttle = EvictionThrottle(settle)
    state = next((status.evictions for status in policy.status.applications if _is(status, app)), None)
    if state is None:
        return throttle
    try:
        throttle.batch_start = seconds(state.since) if state.since else None
        throttle.paused_until = seconds(state.not_before)
        throttle.failure = ReplacementFailure(state.reason) if state.reason else None
    except ValueError:
        return EvictionThrottle(settle)  # somebody else wrote it
    throttle.last_eviction, throttle.failures, throttle.message = throttle.batch_start, state.failures, state.message
    throttle.remedy = state.observed or None
    # While the pause lasts, the batch was counted: the next eviction ends the pause.
    throttle.counted_batch = throttle.batch_start if throttle.paused_until else None
    return throttle


def _is(status: BoundApplication, app: Object) -> bool:
    return (status.kind, status.name) == (type(app).__name__, app.metadata.name)
