"""Compares the pods of a unit with its quotas: which groups accept one more, how many each misses or has too many.

The extender, the webhook, the plugin and the controllers all use these rules. The counts are the pods that are certain
to be in a group. Pods that may still be placed in one of several groups are undecided; where the answer depends on
them, it is UNDECIDED.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cached_property, lru_cache

from msgspec import Struct, field

from muster.groups.propagation import Quotas

__all__ = ["TOP_SCORE", "Acceptance", "UndecidedPods", "QuotaUsage", "score"]

TOP_SCORE = 10  # kube-scheduler: extenders score from 0 to 10


class Acceptance(Enum):
    """Whether a group accepts one more pod."""

    YES = "yes"
    NO = "no"
    UNDECIDED = "open"  # it depends on where the undecided pods go


class UndecidedPods(Struct):
    """Pods that may be placed in one of several groups: their number, and how many could be placed in each group."""

    counts: dict[str, int] = field(default_factory=dict)
    pods: int = 0

    def add(self, groups: Iterable[str]) -> None:
        self.pods += 1
        for group in groups:
            self.counts[group] = self.counts.get(group, 0) + 1


_NONE = UndecidedPods()
_ALL_OPEN: Mapping[str, str] = {}


class QuotaUsage:
    """The pods of a unit by group, compared with its quotas. Every group passed to a method must have a quota.

    The counts must not change while it is used.
    """

    def __init__(
        self,
        quotas: Quotas,
        counts: Mapping[str, int],
        undecided: UndecidedPods = _NONE,
        groups_without_nodes: Mapping[str, str] = _ALL_OPEN,
    ) -> None:
        """`closed`: groups that contain no node, and why."""
        self.groups_without_nodes = groups_without_nodes
        self.quotas = quotas
        self.counts = counts
        self.undecided = undecided
        self._placed = sum(counts.values())
        # NumRange: how many pods groups below their min still need, before and after the undecided pods come to them.
        self._short = self._best = 0
        for name, quota in quotas.groups.items():
            if quota.min:
                missing = quota.min - counts.get(name, 0)
                self._short += max(missing, 0)
                self._best += max(missing - undecided.counts.get(name, 0), 0)

    def accepts(self, group: str) -> Acceptance:
        """Whether the group accepts one more pod, wherever the undecided pods go."""
        quota, current = self.quotas.groups[group], self.counts.get(group, 0)
        if quota.max is not None and current >= quota.max:
            return Acceptance.NO
        coming = self.undecided.counts.get(group, 0)
        if self._short <= 0:  # no group is below its min: only the max counts
            return Acceptance.UNDECIDED if quota.max is not None and current + coming >= quota.max else Acceptance.YES
        placed = self._placed + self.undecided.pods
        if self._reserved_for_minima(group, current, self._best, placed):
            return Acceptance.NO
        full = quota.max is not None and current + coming >= quota.max
        if (
            full
            or self._reserved_for_minima(group, current + coming, self._short, placed)
            or self.refusal(group) is not None
        ):
            return Acceptance.UNDECIDED
        return Acceptance.YES

    def refusal(self, group: str) -> str | None:
        """Why the group accepts no more pods of the unit, without the undecided pods; None: it accepts one."""
        quota, current = self.quotas.groups[group], self.counts.get(group, 0)
        if quota.max is not None and current >= quota.max:
            return self.with_waiting(_full(group, current, quota.max))
        if self._reserved_for_minima(group, current, self._short, self._placed):
            why = f"node group {group} has its min of {quota.min}: the rest is kept for node groups below their min"
            return self.with_waiting(why)
        return None

    def acceptances(self, groups: Iterable[str]) -> dict[str, Acceptance]:
        """What `accepts` returns for each of the groups."""
        if self._short > 0:
            return {group: self.accepts(group) for group in groups}
        # Most policies have no group below its min, and several hundred groups: a call for each would take longer.
        quotas, counts, coming = self.quotas.groups, self.counts, self.undecided.counts
        yes, no, undecided = Acceptance.YES, Acceptance.NO, Acceptance.UNDECIDED
        found = {}
        for group in groups:
            most, current = quotas[group].max, counts.get(group, 0)
            if most is None or current + coming.get(group, 0) < most:
                found[group] = yes
            else:
                found[group] = no if current >= most else undecided
        return found

    def refusals(self, groups: Iterable[str]) -> dict[str, str]:
        """What `refusal` returns for each of the groups that accept no more pods."""
        if self._short > 0:
            return {group: why for group in groups if (why := self.refusal(group)) is not None}
        quotas, counts = self.quotas.groups, self.counts
        found = {
            group: _full(group, current, most)
            for group in groups
            if (most := quotas[group].max) is not None and (current := counts.get(group, 0)) >= most
        }
        return {group: self.with_waiting(why) for group, why in found.items()} if self.waits_for else found

    def with_waiting(self, why: str) -> str:
        """The reason of a refusal, followed by the groups that replicas wait for."""
        return f"{why}; {self.waits_for}" if self.waits_for else why

    @cached_property
    def waits_for(self) -> str:
        """The groups that should have more pods and contain no node, as a text; empty if there are none."""
        lacks = [(group, why, self.missing(group)) for group, why in self.groups_without_nodes.items()]
        verbs = ("replica waits", "replicas wait")
        return ", ".join(f"{n} {verbs[n > 1]} for node group {group}, which {why}" for group, why, n in lacks if n)

    def _reserved_for_minima(self, group: str, current: int, short: int, placed: int) -> bool:
        """Whether groups below their min need all remaining replicas, and this group is not below its min."""
        replicas = self.quotas.replicas
        if replicas is None or short <= 0 or current < self.quotas.groups[group].min:
            return False
        return replicas - placed <= short

    def missing(self, group: str) -> int:
        """How many pods the group is short of its desired number."""
        return max(self.quotas.groups[group].desired - self.counts.get(group, 0), 0)

    def excess(self) -> dict[str, int]:
        """How many pods each group has too many: above its max, or above its min while others are below their min."""
        groups, counts = self.quotas.groups, self.counts
        over = {}
        for name, quota in groups.items():
            over[name] = 0 if quota.max is None else max(counts.get(name, 0) - quota.max, 0)
        short = self._short - sum(over.values())
        # The groups with the most pods above their min give first; ties go to the group that the policy names first.
        for name in sorted(over, key=lambda g: groups[g].min - counts.get(g, 0)):
            if short <= 0:
                break
            spare = min(max(counts.get(name, 0) - over[name] - groups[name].min, 0), short)
            over[name] += spare
            short -= spare
        return {name: n for name, n in over.items() if n}


@lru_cache(maxsize=16384)
def _full(group: str, current: int, most: int) -> str:
    return f"node group {group} already has {current} of {most} replicas"


def score(missing: int, most: int) -> int:
    """The score of a node whose group misses that many pods, if no group misses more than `most`."""
    return TOP_SCORE * min(missing, most) // most if most > 0 else 0
