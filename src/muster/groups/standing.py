"""Where a unit of pods stands against its quotas: which groups take one more, what each lacks, what each has too many.

The extender, the plugin and the controller all count by this. `Counts` says for sure how many pods are in each group;
pods that may be in one of several groups are *maybes*, and a question they leave open is answered so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from muster.groups.propagation import Quotas

__all__ = ["Answer", "Maybe", "excess", "lack", "may_take", "refusal", "score"]

Counts = Mapping[str, int]
TOP_SCORE = 10  # kube-scheduler: extenders score from 0 to 10


class Answer(Enum):
    """May a group take one more pod?"""

    YES = "yes"
    NO = "no"
    OPEN = "open"  # it depends on where pods go that are on their way


@dataclass(slots=True)
class Maybe:
    """Pods on their way to one of several groups: how many could come to each, and how many they are."""

    counts: dict[str, int] = field(default_factory=dict)
    pods: int = 0

    def add(self, groups: Iterable[str]) -> None:
        self.pods += 1
        for group in groups:
            self.counts[group] = self.counts.get(group, 0) + 1


_NONE = Maybe()


def may_take(quotas: Quotas, group: str, counts: Counts, maybe: Maybe = _NONE) -> Answer:
    """Whether the group may have one more pod, whatever becomes of the maybes."""
    if refusal(quotas, group, counts) is not None and not _could_still(quotas, group, counts, maybe):
        return Answer.NO
    coming = {name: n + maybe.counts.get(name, 0) for name, n in _all(quotas, counts).items()}
    quota = quotas.groups[group]
    if quota.most is not None and coming[group] >= quota.most:
        return Answer.OPEN
    if maybe.pods and _kept(quotas, group, coming[group], _deficit(quotas, counts), sum(counts.values()) + maybe.pods):
        return Answer.OPEN
    return Answer.YES if refusal(quotas, group, counts) is None else Answer.OPEN


def refusal(quotas: Quotas, group: str, counts: Counts) -> str | None:
    """Why the group takes no more pods of the unit; None: it does."""
    quota = quotas.groups.get(group)
    if quota is None:
        return f"node group {group} is not one of the policy's"
    current = counts.get(group, 0)
    if quota.most is not None and current >= quota.most:
        return f"node group {group} already has {current} of {quota.most} replicas"
    if _kept(quotas, group, current, _deficit(quotas, counts), sum(counts.values())):
        return f"node group {group} has its min of {quota.least}: the rest is kept for node groups below their min"
    return None


def _kept(quotas: Quotas, group: str, current: int, deficit: int, placed: int) -> bool:
    """NumRange: are the replicas still to come all needed by groups below their min, of which this is none?"""
    if quotas.replicas is None or deficit <= 0 or current < quotas.groups[group].least:
        return False
    return quotas.replicas - placed <= deficit


def _could_still(quotas: Quotas, group: str, counts: Counts, maybe: Maybe) -> bool:
    """A group that is kept out by others' minima may be let in once pods on their way have filled those."""
    quota, current = quotas.groups[group], counts.get(group, 0)
    if not maybe.pods or (quota.most is not None and current >= quota.most):
        return False
    coming = {name: n + maybe.counts.get(name, 0) for name, n in _all(quotas, counts).items()}
    return not _kept(quotas, group, current, _deficit(quotas, coming), sum(counts.values()) + maybe.pods)


def _deficit(quotas: Quotas, counts: Counts) -> int:
    return sum(max(quota.least - counts.get(name, 0), 0) for name, quota in quotas.groups.items())


def _all(quotas: Quotas, counts: Counts) -> dict[str, int]:
    return {name: counts.get(name, 0) for name in quotas.groups}


def lack(quotas: Quotas, group: str, counts: Counts) -> int:
    """How many pods the group should still get."""
    quota = quotas.groups.get(group)
    return 0 if quota is None else max(quota.desired - counts.get(group, 0), 0)


def score(lacking: int, most: int) -> int:
    """What a node of a group is worth that lacks so many, when the group that lacks most lacks `most`."""
    return TOP_SCORE * min(lacking, most) // most if most > 0 else 0


def excess(quotas: Quotas, counts: Counts) -> dict[str, int]:
    """How many pods each group has too many: above its most, or above its least while others are below theirs."""
    over = {}
    for name, quota in quotas.groups.items():
        over[name] = 0 if quota.most is None else max(counts.get(name, 0) - quota.most, 0)
    short = _deficit(quotas, counts) - sum(over.values())
    # Those that have most above their min give first; ties as the policy writes them.
    for name in sorted(over, key=lambda g: quotas.groups[g].least - counts.get(g, 0)):
        if short <= 0:
            break
        spare = min(max(counts.get(name, 0) - over[name] - quotas.groups[name].least, 0), short)
        over[name] += spare
        short -= spare
    return {name: n for name, n in over.items() if n}
