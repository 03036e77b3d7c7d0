"""Conditions of an object's status: a new word in the place of the old one, its time kept while it stays the same."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from muster.model.meta import Condition
from muster.store.clock import timestamp

__all__ = ["merge_conditions", "condition"]


def condition(type_: str, holds: bool, reason: str, message: str = "", generation: int = 0) -> Condition:
    """A condition as it is to be; the time comes when it is merged."""
    return Condition(
        type=type_, status="True" if holds else "False", reason=reason, message=message, observed_generation=generation
    )


def merge_conditions(old: Iterable[Condition], new: Iterable[Condition], now: float) -> list[Condition]:
    """The old conditions with the new ones in their places, sorted by type."""
    found = {condition.type: condition for condition in old}
    for condition in new:
        before = found.get(condition.type)
        since = timestamp(now)
        if before is not None and before.status == condition.status and before.last_transition_time is not None:
            since = before.last_transition_time
        found[condition.type] = replace(condition, last_transition_time=since)
    return [found[type_] for type_ in sorted(found)]
