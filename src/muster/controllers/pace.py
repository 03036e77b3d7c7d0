"""How fast pods are evicted: settled first, then a few at a time, ever more slowly where replacements find no place.

These rules are the protection against thrashing: nothing moves until 10 seconds after the last change of policy, group
or replicas; at most a tenth of the replicas (at least one) of an application is on the move; a replacement that has no
place after 5 minutes stops its application for 5 minutes, then 10, up to an hour; all together one a second, five at
once.
"""

from __future__ import annotations

from dataclasses import dataclass

SETTLE = 10.0
REPLACED = 300.0  # seconds a replacement has to become ready
LONGEST_PAUSE = 3600.0
BURST, PER_SECOND = 5.0, 1.0


@dataclass(slots=True)
class Pace:
    """Of one application."""

    settle: float = SETTLE
    inputs: object = None  # what the division was made from, when last looked at
    settled: float = 0.0
    last: float | None = None  # the last eviction
    pause: float = 0.0
    paused_until: float = 0.0
    failed: float | None = None  # the eviction whose replacement was not what it should be
    around: object = None
    wake: float | None = None

    def look(self, inputs: object, now: float, around: object = None) -> None:
        """Changed inputs begin a new wait, and forgive failures; a change around them only begins the wait."""
        self.wake = None
        if self.inputs != inputs:
            self.pause = self.paused_until = 0.0
            self.last = None
        if (self.inputs, self.around) != (inputs, around):
            self.inputs, self.around, self.settled = inputs, around, now + self.settle

    def room(self, replicas: int, moving: int, unplaced: int, now: float) -> int:
        """How many pods may be evicted now; if none, `wake` says when to look again, unless something happens first."""
        if now < self.settled:
            self.wake = self.settled
            return 0
        room = max(1, replicas // 10) - moving
        if room > 0:
            if not moving:
                self.pause = 0.0
            return room
        due = max(self.settled, self.last or 0.0) + REPLACED
        if now < due:
            self.wake = due
            return 0
        if now < self.paused_until:
            self.wake = self.paused_until
            return 0
        if unplaced and not self.paused_until:
            self.fail(now)
            return 0
        self.paused_until = 0.0
        return 1

    def came_wrong(self, now: float) -> None:
        """The replacement of the last one that went is not what it should be; said often, it counts once."""
        if self.failed != self.last:
            self.failed = self.last
            self.fail(now)

    def fail(self, now: float) -> None:
        """Replacements find no place, or are not what they should be: nothing is evicted for ever longer."""
        self.pause = min(max(2 * self.pause, REPLACED), LONGEST_PAUSE)
        self.wake = self.paused_until = now + self.pause

    @property
    def stopped(self) -> bool:
        """Replacements came to nothing."""
        return self.pause > 0


class Rate:
    """Of all applications together, by default their evictions."""

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
        return now if self._tokens >= 1 else now + (1 - self._tokens) / self._per_second

    def take(self) -> None:
        self._tokens -= 1
