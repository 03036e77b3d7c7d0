"""How many pods of an application may be evicted or restarted at a time, and when its evictions pause.

These rules prevent thrashing. Nothing is evicted until 10 seconds after the last change of policy, group or replicas.
At most a tenth of an application's replicas (at least one) is disrupted at a time. A replacement that has no node after
5 minutes, or that lands in the wrong node group, is a failure: the application pauses for 5 minutes, then 10, up to an
hour, and then one pod is tried. `TokenBucket` limits all applications together.

No PodDisruptionBudget guards an image that changes in place, so `RestartThrottle` keeps pods available by itself. A pod
stays Ready until its kubelet has seen the change. It has restarted when the restart count of a container has grown; a
fixed time has to do where the kubelet does not count restarts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from muster.groupctl.controllers.object_cache import Ref
from muster.model.core import Pod
from muster.model.pod_states import is_ready

STABLE_BEFORE_EVICTION_S = 10.0
REPLACEMENT_READY_S = 300.0  # within which a replacement must become ready
FIRST_PAUSE_S, LONGEST_PAUSE_S = 300.0, 3600.0
EVICTION_BURST, EVICTIONS_PER_SECOND = 5.0, 1.0
# More doublings than this exceed the longest pause.
_DOUBLINGS = 8


class ReplacementFailure(Enum):
    """How a replacement failed; the value is the reason of a condition."""

    UNPLACED = "Unplaceable"  # it gets no node
    WRONG = "WrongGroup"  # it was bound, or created, where it does not belong


@dataclass(slots=True)
class EvictionThrottle:
    """Limits the evictions of one application."""

    settle: float = STABLE_BEFORE_EVICTION_S
    inputs: object = None  # of the division, when last observed
    stable_at: float = 0.0
    last_eviction: float | None = None
    batch_start: float | None = None  # the first eviction of a batch: pods created since then are replacements
    failures: int = 0
    failure: ReplacementFailure | None = None  # the latest
    message: str = ""  # about the latest failure
    paused_until: float = 0.0
    counted_batch: float | None = None  # the batch whose failure was counted
    surroundings: object = None
    remedy: object = None  # a change of it resets all failures
    check_at: float | None = None

    def observe(self, inputs: object, now: float, surroundings: object = None, remedy: object = None) -> None:
        """Evictions wait again after a change of the inputs or the surroundings.

        Changed inputs reset failures of replacements without a node: there may be a node now. Failures of replacements
        in the wrong group are reset when the `remedy` changes (by default the inputs): otherwise a new node or another
        number of replicas would start the evictions again.
        """
        self.check_at = None
        remedy = inputs if remedy is None else remedy
        if self.inputs is not None and self.inputs != inputs:
            self.last_eviction = self.batch_start = None
            if self.failure is ReplacementFailure.UNPLACED:
                self.reset_failures()
        if self.remedy is not None and self.remedy != remedy:
            self.reset_failures()
        self.remedy = remedy
        if (self.inputs, self.surroundings) != (inputs, surroundings):
            self.inputs, self.surroundings, self.stable_at = inputs, surroundings, now + self.settle

    def allowance(self, replicas: int, moving: int, unplaced: int, now: float) -> int:
        """How many pods may be evicted now; if none, `check_at` is set to the time of the next check."""
        if now < self.stable_at:
            self.check_at = self.stable_at
            return 0
        if self.failure is ReplacementFailure.UNPLACED and not moving:
            self.reset_failures()
        if now < self.paused_until:
            self.check_at = self.paused_until
            return 0
        allowed = max_disrupted(replicas) - moving
        if allowed > 0:
            return 1 if self.failures else allowed
        due = max(self.stable_at, self.last_eviction or 0.0) + REPLACEMENT_READY_S
        if now < due:
            self.check_at = due
            return 0
        if unplaced and not self.paused_until:
            self.record_failure(ReplacementFailure.UNPLACED, "replacements find no place", now)
            return 0
        self.paused_until = 0.0
        return 1

    def record_eviction(self, now: float, moving: int) -> None:
        """Records an eviction while `moving` other pods are terminating or not ready."""
        if self.batch_start is None or not moving:
            self.batch_start = now
        self.last_eviction = now
        self.paused_until = 0.0

    def is_replacement(self, created: float) -> bool:
        """Whether a pod created then replaces an evicted pod. Kubernetes writes creation times in whole seconds."""
        return self.batch_start is not None and created >= int(self.batch_start)

    def record_misplacement(self, text: str, now: float) -> bool:
        """Records a replacement in the wrong group or edition. A batch counts once: whether it counted now."""
        if self.counted_batch is not None and self.counted_batch == self.batch_start:
            return False
        self.counted_batch = self.batch_start
        self.record_failure(ReplacementFailure.WRONG, text, now)
        return True

    def record_failure(self, failure: ReplacementFailure, text: str, now: float) -> None:
        """Pauses evictions for twice as long as the last time."""
        self.failures += 1
        self.failure, self.message = failure, text
        pause = min(FIRST_PAUSE_S * 2 ** min(self.failures - 1, _DOUBLINGS), LONGEST_PAUSE_S)
        self.check_at = self.paused_until = now + pause

    def reset_failures(self) -> None:
        self.failures, self.failure, self.message, self.paused_until = 0, None, "", 0.0


def max_disrupted(replicas: int) -> int:
    """How many pods of an application may be disrupted at a time: a tenth, at least one."""
    return max(1, replicas // 10)


class TokenBucket:
    """A token bucket, by default for the evictions of all applications together."""

    def __init__(self, burst: float = EVICTION_BURST, per_second: float = EVICTIONS_PER_SECOND) -> None:
        self._burst = burst
        self._per_second = per_second
        self._tokens = burst
        self._at = 0.0

    def ready(self, now: float) -> float:
        """When the next token is available: now, or later."""
        if now > self._at:
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_second)
            self._at = now
        # The rounding error of an hour of additions is less than this.
        return now if self._tokens >= 1 - 1e-9 else now + (1 - self._tokens) / self._per_second

    def take(self) -> None:
        self._tokens -= 1


class RestartThrottle:
    """Limits the restarts of pods whose image was changed in place, for all applications."""

    def __init__(self, rest: float) -> None:
        self._rest = rest
        # application → uid of a pod → its restarts before, and when it is assumed to have restarted
        self._begun: dict[Ref, dict[str, tuple[int, float]]] = {}

    def allowance(self, ref: Ref, pods: Sequence[Pod], replicas: int, now: float) -> tuple[int, float | None]:
        """How many ready pods may be restarted now, and when to check again without a change."""
        begun = self._begun.get(ref, {})
        there = {pod.metadata.uid: pod for pod in pods}
        waiting = {
            uid: (count, until)
            for uid, (count, until) in begun.items()
            if uid in there and _restarts(there[uid]) <= count and now < until
        }
        self._begun[ref] = waiting
        away = sum(1 for pod in pods if pod.metadata.uid in waiting or not is_ready(pod))
        return max_disrupted(replicas) - away, min((until for _, until in waiting.values()), default=None)

    def begin(self, ref: Ref, pod: Pod, now: float) -> float:
        """Records that the pod's image is changed now; returns when to check again without a change."""
        self._begun.setdefault(ref, {})[pod.metadata.uid] = (_restarts(pod), now + self._rest)
        return now + self._rest

    def forget(self, ref: Ref) -> None:
        self._begun.pop(ref, None)


def _restarts(pod: Pod) -> int:
    return sum(status.restart_count for status in pod.status.container_statuses)
