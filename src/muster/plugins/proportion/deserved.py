"""What each queue deserves: the cluster divided by weight, what one queue does not want going to the others.

The rounds are Volcano's, in floats as there. Volcano walks the queues in no order; here the order is by name, so that
sums of floats are the same every time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from muster.engine.core.resources import ALWAYS, at_most, empty


@dataclass(slots=True)
class Part:
    """One queue's part in the division."""

    weight: int
    request: Mapping[str, int]
    real: Mapping[str, int]  # real capability
    guarantee: Mapping[str, int]
    deserved: dict[str, float] = field(default_factory=dict)


def divide(total: Mapping[str, int], parts: Sequence[Part]) -> None:
    """Set `deserved` of every part: rounds until nothing remains or changes."""
    remaining = {name: float(amount) for name, amount in total.items()}
    unmet = list(parts)
    while unmet:
        weights = sum(part.weight for part in unmet)
        before = dict(remaining)
        grown: dict[str, float] = {}
        shrunk: dict[str, float] = {}
        still = []
        for part in unmet:
            old = part.deserved
            part.deserved = _grow(part, remaining, part.weight / weights)
            if not at_most(part.request, part.deserved) and part.deserved != old:
                still.append(part)
            for name, amount in part.deserved.items():
                change = amount - old.get(name, 0.0)
                into = grown if change > 0 else shrunk
                into[name] = into.get(name, 0.0) + abs(change)
        for name in remaining:
            left = remaining[name] + shrunk.get(name, 0.0) - grown.get(name, 0.0)
            # Never below nothing: guarantees may add up to more than there is, and a rounding error of the last round
            # must not be taken off what somebody has been given.
            remaining[name] = max(left, 0.0)
        if empty(remaining) or remaining == before:
            return
        unmet = still


def _grow(part: Part, remaining: Mapping[str, float], fraction: float) -> dict[str, float]:
    """One more helping: at most the real capability and the request, at least the guarantee."""
    deserved = dict(part.deserved)
    for name, amount in remaining.items():
        deserved[name] = deserved.get(name, 0.0) + amount * fraction
    for name, amount in deserved.items():
        if name in part.real or name in ALWAYS:
            amount = min(amount, float(part.real.get(name, 0)))
        deserved[name] = min(amount, float(part.request.get(name, 0)))
    for name, least in part.guarantee.items():
        deserved[name] = max(deserved.get(name, 0.0), float(least))
    return deserved
