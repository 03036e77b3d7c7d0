"""Conditions of a status: the transition time is kept while the status of a condition stays the same."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from muster.model.meta import Condition
from muster.store.clock import timestamp

__all__ = ["merge_conditions", "condition"]


def condition(type_: str, holds: bool, reason: str, message: str = "", generation: int = 0) -> Condition:
    """Creates a condition without its transition time, which `merge_conditions` sets."""
    return Condition(
        type=type_, status="True" if holds else "False", reason=reason, message=message, observed_generation=generation
    )


def merge_conditions(old: Iterable[Condition], new: Iterable[Condition], now: float) -> list[Condition]:
    """Replaces the old conditions by the new conditions of the same type; sorted by type."""
    found = {condition.type: condition for condition in old}
    for condition in new:
        before = found.get(condition.type)
        since = timestamp(now)
        if before is not None and before.status == condition.status and before.last_transition_time is not None:
            since = before.last_transition_time
        found[condition.type] = replace(condition, last_transition_time=since)
    return [found[type_] for type_ in sorted(found)]
