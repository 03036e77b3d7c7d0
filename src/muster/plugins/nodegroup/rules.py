"""The node group affinity of a queue, and the verdict and score that follow for a node in certain groups.

There are two readings. In the design's prose only the listed groups matter. In Volcano's flow charts, which the
argument `strict` selects, a group in no list is refused, and soft lists allow groups that the hard lists do not name.
The points are the same in both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from muster.engine.core.hooks import Reason
from muster.engine.core.jobs import Queue
from muster.model.scheduling import NodeGroupTerms

Groups = tuple[str, ...]  # the groups of a node; nearly always one, or none
Reading = Callable[["QueueRule", Groups], Reason | None]

REQUIRED_POINTS = 100.0
PREFERRED_POINTS = 50.0
AVOIDED_POINTS = -1.0
ROOT = "root"


class QueueRule(Struct, frozen=True):
    """The node group affinity that applies to one queue: its own, or the nearest ancestor's."""

    queue: str
    source: str  # the queue that has the affinity
    required: Groups = ()
    preferred: Groups = ()
    forbidden: Groups = ()  # required anti-affinity
    avoided: Groups = ()  # preferred anti-affinity
    preferences: Mapping[str, float] = field(default_factory=dict)  # preferred group → points

    @property
    def named(self) -> Groups:
        return tuple(dict.fromkeys(self.required + self.preferred + self.forbidden + self.avoided))

    @property
    def is_empty(self) -> bool:
        return not self.named

    @property
    def who(self) -> str:
        return f"queue {self.queue}" if self.source == self.queue else f"queue {self.queue} (as queue {self.source})"

    def score(self, groups: Groups) -> float:
        """Returns Volcano's points: 100 in a required group, 50 in a preferred one; −1 in total in an avoided group."""
        if _any(self.avoided, groups):
            return AVOIDED_POINTS
        required = REQUIRED_POINTS if _any(self.required, groups) else 0.0
        return required + max((self.preferences[g] for g in groups if g in self.preferences), default=0.0)

    def by_prose(self, groups: Groups) -> Reason | None:
        """Evaluates the design's rules 1 and 3; soft lists refuse nothing."""
        if self.required and not _any(self.required, groups):
            text = f"{self.who} requires node group {either(self.required)}, {_node_is_in(groups)}"
            return Reason("node-group-required", text, resolvable=False)
        banned = _any(self.forbidden, groups)
        if banned:
            text = f"{self.who} must not use node group {either(self.forbidden)}, node is in {banned}"
            return Reason("node-group-forbidden", text, resolvable=False)
        return None

    def by_chart(self, groups: Groups, strict: bool) -> Reason | None:
        """Evaluates steps 2 to 4 of Volcano's predicate, which the design's flow chart shows."""
        if not groups:
            if self.is_empty and not strict:
                return None
            text = f"{self.who} takes nodes of node groups only (strict: {str(strict).lower()}), node is in no group"
            return Reason("node-group-none", text, resolvable=False)
        if self.is_empty:
            text = f"{self.who} names no node group and `strict` is set, {_node_is_in(groups)}"
            return Reason("node-group-unnamed", text, resolvable=False)
        open_ = _any(self.required + self.preferred, groups) and not _any(self.forbidden, groups)
        if open_ or _any(self.avoided, groups):
            return None
        named = tuple(dict.fromkeys(self.required + self.preferred + self.avoided))
        allows = f"allows node group {either(named)}" if named else f"must not use node group {either(self.forbidden)}"
        return Reason("node-group-affinity", f"{self.who} {allows}, {_node_is_in(groups)}", resolvable=False)


def reading(strict: bool | None) -> Reading:
    """Returns the reading of rules: by the prose if `strict` is not given, else by the chart."""
    if strict is None:
        return QueueRule.by_prose
    return lambda rule, groups: rule.by_chart(groups, strict)


def rule_of(queue: Queue, queues: Mapping[str, Queue], *, inherits: bool, ordered: bool) -> QueueRule:
    """Returns the rule of a queue. With `inherits` a queue without affinity has its nearest ancestor's rule."""
    source = with_affinity(queue, queues) if inherits else queue
    affinity = source.object.spec.affinity
    if affinity is None:
        return QueueRule(queue.name, queue.name)
    for_ = affinity.node_group_affinity or NodeGroupTerms()
    against = affinity.node_group_anti_affinity or NodeGroupTerms()
    return QueueRule(
        queue.name,
        source.name,
        tuple(for_.required),
        tuple(for_.preferred),
        tuple(against.required),
        tuple(against.preferred),
        points(for_.preferred, ordered=ordered),
    )


def points(preferred: Sequence[str], *, ordered: bool) -> dict[str, float]:
    """Returns the points of each preferred group. Volcano: with enablePreferredOrder the i-th of n has 50·(n−i)/n."""
    preferences: dict[str, float] = {}
    for i, group in enumerate(preferred):
        n = len(preferred)
        preferences.setdefault(group, PREFERRED_POINTS * (n - i) / n if ordered else PREFERRED_POINTS)
    return preferences


def either(groups: Sequence[str], word: str = "or") -> str:
    """`a`, `a or b`, `a, b or c`."""
    return groups[0] if len(groups) == 1 else f"{', '.join(groups[:-1])} {word} {groups[-1]}"


def with_affinity(queue: Queue, queues: Mapping[str, Queue]) -> Queue:
    """Returns the queue or its nearest ancestor with an affinity; the queue itself if none has one (or on a cycle)."""
    seen: set[str] = set()
    at: Queue | None = queue
    while at is not None and at.name not in seen:
        if at.object.spec.affinity is not None:
            return at
        seen.add(at.name)
        # Volcano: a queue without spec.parent is a child of the root.
        at = queues.get(at.parent or ROOT)
    return queue


def _any(wanted: Groups, groups: Groups) -> str:
    """Returns the first of the node's groups that is wanted; empty if none is."""
    return next((group for group in groups if group in wanted), "")


def _node_is_in(groups: Groups) -> str:
    return f"node is in {either(groups, 'and')}" if groups else "node is in no group"
