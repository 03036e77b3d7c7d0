"""How fast pods of one application are evicted, and when evictions of it pause.

These rules are the protection against thrashing. Nothing is evicted until 10 seconds after the last change of policy,
group or replicas. At most a tenth of the replicas (at least one) of an application is on the move. A replacement that
has no node after 5 minutes, or that lands in the wrong place, is a failure: the application pauses for 5 minutes, then
10, up to an hour, and then one pod is tried. `Rate` limits all applications together.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

SETTLE = 10.0
REPLACED = 300.0  # seconds a replacement has to become ready
FIRST_PAUSE, LONGEST_PAUSE = 300.0, 3600.0
BURST, PER_SECOND = 5.0, 1.0
# More doublings than this exceed the longest pause.
_DOUBLINGS = 8


class Failure(Enum):
    """What became of a replacement; the value is the reason in a condition."""

    UNPLACED = "Unplaceable"  # no node takes it
    WRONG = "WrongGroup"  # it was bound, or created, where it does not belong


@dataclass(slots=True)
class Pace:
    """Of one application."""

    settle: float = SETTLE
    inputs: object = None  # what the division was made from, when last looked at
    settled: float = 0.0
    last: float | None = None  # the last eviction
    since: float | None = None  # the first eviction of a batch: pods created since then are replacements
    failures: int = 0
    failure: Failure | None = None  # the last one
    text: str = ""  # the last one in words
    paused_until: float = 0.0
    judged: float | None = None  # the batch whose failure was counted
    around: object = None
    remedy: object = None  # a change of it forgives all failures
    wake: float | None = None

    def look(self, inputs: object, now: float, around: object = None, remedy: object = None) -> None:
        """Changed inputs begin a new wait; a change around them does so, too.

        Changed inputs forgive replacements without a node: there may be a node now. Replacements in the wrong place are
        forgiven when the `remedy` changes (by default the inputs): otherwise a node that comes or a changed number
        would start the evictions again.
        """
        self.wake = None
        remedy = inputs if remedy is None else remedy
        if self.inputs is not None and self.inputs != inputs:
            self.last = self.since = None
            if self.failure is Failure.UNPLACED:
                self.forgive()
        if self.remedy is not None and self.remedy != remedy:
            self.forgive()
        self.remedy = remedy
        if (self.inputs, self.around) != (inputs, around):
            self.inputs, self.around, self.settled = inputs, around, now + self.settle

    def room(self, replicas: int, moving: int, unplaced: int, now: float) -> int:
        """How many pods may be evicted now; if none, `wake` says when to look again, unless something happens first."""
        if now < self.settled:
            self.wake = self.settled
            return 0
        if self.failure is Failure.UNPLACED and not moving:
            self.forgive()
        if now < self.paused_until:
            self.wake = self.paused_until
            return 0
        room = share_of(replicas) - moving
        if room > 0:
            return 1 if self.failures else room
        due = max(self.settled, self.last or 0.0) + REPLACED
        if now < due:
            self.wake = due
            return 0
        if unplaced and not self.paused_until:
            self.fail(Failure.UNPLACED, "replacements find no place", now)
            return 0
        self.paused_until = 0.0
        return 1

    def evicted(self, now: float, moving: int) -> None:
        """A pod was evicted while so many others were on the move."""
        if self.since is None or not moving:
            self.since = now
        self.last = now
        self.paused_until = 0.0

    def is_replacement(self, created: float) -> bool:
        """Was a pod of that creation time made for one that was evicted? Kubernetes writes whole seconds."""
        return self.since is not None and created >= int(self.since)

    def came_wrong(self, text: str, now: float) -> bool:
        """A replacement of this batch is not what or where it should be. A batch counts once: was it counted now?"""
        if self.judged is not None and self.judged == self.since:
            return False
        self.judged = self.since
        self.fail(Failure.WRONG, text, now)
        return True

    def fail(self, failure: Failure, text: str, now: float) -> None:
        """Nothing is evicted for twice as long as the last time."""
        self.failures += 1
        self.failure, self.text = failure, text
        pause = min(FIRST_PAUSE * 2 ** min(self.failures - 1, _DOUBLINGS), LONGEST_PAUSE)
        self.wake = self.paused_until = now + pause

    def forgive(self) -> None:
        self.failures, self.failure, self.text, self.paused_until = 0, None, "", 0.0


def share_of(replicas: int) -> int:
    """How many pods of an application may be on the move, or restart, at a time: a tenth, at least one."""
    return max(1, replicas // 10)


class Rate:
    """A token bucket, by default for the evictions of all applications together."""

    def __init__(self, burst: float = BURST, per_second: float = PER_SECOND) -> None:
        self._burst = burst
        self._per_second = per_second
        self._tokens = burst
        self._at = 0.0

    def ready(self, now: float) -> float:
        """When the next one may be: now, or later."""
        if now > self._at:
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_second)
            self._at = now
        # An hour of additions loses less than this; a token that is all but there is there.
        return now if self._tokens >= 1 - 1e-9 else now + (1 - self._tokens) / self._per_second

    def take(self) -> None:
        self._tokens -= 1
