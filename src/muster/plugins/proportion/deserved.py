"""What each queue deserves: the cluster divided by weight, what one queue does not want going to the others.

The rounds are Volcano's, in floats as there. Volcano walks the queues in no order; here the order is by name, so that
sums of floats are the same every time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from muster.engine.resources import ALWAYS, at_most, empty


@dataclass(slots=True)
class Claim:
    """One queue's part in the division."""

    weight: int
    request: Mapping[str, int]
    real: Mapping[str, int]  # real capability
    guarantee: Mapping[str, int]
    deserved: dict[str, float] = field(default_factory=dict)


def divide(total: Mapping[str, int], claims: Sequence[Claim]) -> None:
    """Set `deserved` of every claim: rounds until nothing remains or changes."""
    remaining = {name: float(amount) for name, amount in total.items()}
    unmet = list(claims)
    while unmet:
        weights = sum(claim.weight for claim in unmet)
        before = dict(remaining)
        grown: dict[str, float] = {}
        shrunk: dict[str, float] = {}
        still = []
        for claim in unmet:
            old = claim.deserved
            claim.deserved = _grow(claim, remaining, claim.weight / weights)
            if not at_most(claim.request, claim.deserved) and claim.deserved != old:
                still.append(claim)
            for name, amount in claim.deserved.items():
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


def _grow(claim: Claim, remaining: Mapping[str, float], part: float) -> dict[str, float]:
    """One more helping: at most the real capability and the request, at least the guarantee."""
    deserved = dict(claim.deserved)
    for name, amount in remaining.items():
        deserved[name] = deserved.get(name, 0.0) + amount * part
    for name, amount in deserved.items():
        if name in claim.real or name in ALWAYS:
            amount = min(amount, float(claim.real.get(name, 0)))
        deserved[name] = min(amount, float(claim.request.get(name, 0)))
    for name, least in claim.guarantee.items():
        deserved[name] = max(deserved.get(name, 0.0), float(least))
    return deserved
