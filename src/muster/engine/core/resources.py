"""Arithmetic over amounts by resource name.

Volcano's rules apply to what is absent and to how exact "at most" is. Amounts are in internal units (milli-cpu, bytes,
whole pods, milli-units of the rest). Ledgers use integers; only the result of a division (a deserved share, a factor)
is a float.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from muster.model.quantity import display

if TYPE_CHECKING:
    from muster.engine.core.nodes import Nodes

Amounts = Mapping[str, float]

# Volcano: amounts that are closer than this are equal; a dimension below it does not count as there.
SLACK = 0.1
ALWAYS = ("cpu", "memory")  # dimensions that every resource list has, if only as 0
CPU, MEMORY, PODS = 0, 1, 2

Vector = NDArray[np.int64]


def exact_sum(amounts: Vector) -> int:
    """The sum over nodes: ten thousand disks of a tebibyte, in thousandths of a byte, do not fit 64 bits."""
    return (int((amounts >> 32).sum()) << 32) + int((amounts & 0xFFFFFFFF).sum())


def exact_sums(rows: Vector) -> list[int]:
    """The same for each row of a matrix."""
    high, low = (rows >> 32).sum(axis=1).tolist(), (rows & 0xFFFFFFFF).sum(axis=1).tolist()
    return [(top << 32) + rest for top, rest in zip(high, low, strict=True)]


def total_of(nodes: Nodes) -> dict[str, int]:
    """Returns the allocatable amounts of all nodes together."""
    at = (nodes.version, nodes.axis.version)
    if nodes.totals is None or nodes.totals[0] != at:
        nodes.totals = at, nodes.sums(nodes.offered)
    return {name: amount for name, amount in nodes.totals[1].items() if amount or name in ALWAYS}


def used_of(nodes: Nodes) -> dict[str, int]:
    """What is in use on all nodes together; pods that are being evicted still count."""
    size = nodes.axis.size
    return nodes.sums(nodes.rows[2 * size : 3 * size])


def add(into: dict[str, int], amounts: Mapping[str, int], times: int = 1) -> None:
    for name, amount in amounts.items():
        into[name] = into.get(name, 0) + times * amount


def at_most(left: Amounts, right: Amounts) -> bool:
    """left ≤ right in every dimension of the left side, with slack; what the right side lacks is 0 there."""
    for name, amount in left.items():
        limit = right.get(name, 0)
        if amount > limit and amount - limit >= SLACK:
            return False
    return True


def empty(amounts: Amounts) -> bool:
    """Volcano: pods alone do not make a resource list non-empty."""
    return not any(amount >= SLACK for name, amount in amounts.items() if name != "pods")


def asked(request: Mapping[str, int]) -> list[tuple[str, int]]:
    """Returns the dimensions in which a request is compared with a limit: those that it requests. Volcano: never
    `pods`.
    """
    return [(name, amount) for name, amount in request.items() if amount > 0 and name != "pods"]


def over(use: Amounts, limit: Amounts, request: Mapping[str, int]) -> list[str]:
    """The requested dimensions in which `use` is above `limit`: exact, without slack."""
    return [name for name, _ in asked(request) if use.get(name, 0) > limit.get(name, 0)]


def count_within(allocated: Mapping[str, int], limit: Amounts, request: Mapping[str, int], count: int) -> int:
    """How many of `count` equal requests, one after the other, keep allocated + request ≤ limit where they ask."""
    for name, amount in request.items():
        have, most = allocated.get(name, 0), limit.get(name, 0)
        if amount <= 0 or name == "pods" or have + count * amount <= most:
            continue
        fits = max(0, min(count, int((most - have) // amount)))
        # The limit may be a float: arithmetic finds the number, the inequality itself decides.
        while fits < count and have + (fits + 1) * amount <= most:
            fits += 1
        while fits > 0 and have + fits * amount > most:
            fits -= 1
        count = fits
        if not count:
            break
    return count


def share(part: float, whole: float) -> float:
    """Volcano: nothing of nothing is 0, something of nothing is 1."""
    return part / whole if whole else float(part != 0)


def largest_share(allocated: Mapping[str, int], of: Amounts) -> float:
    """The largest part of `of` that is allocated, over the dimensions that `of` has."""
    return max((allocated.get(name, 0) / whole for name, whole in of.items() if whole >= SLACK), default=0.0)


def inequality(names: Iterable[str], limit: Callable[[str], str], **parts: Amounts) -> str:
    """`cpu requested 6 + allocated 3 + inqueue 2 > spec.capability 10`; a part called `less_x` is taken off as `x`.

    `limit` describes the limit of a resource.
    """
    lines = []
    for name in names:
        terms = ""
        for part, amounts in parts.items():
            amount = amounts.get(name, 0)
            minus = part.startswith("less_")
            if not terms:
                terms = f"{part} {display(name, amount)}"
            elif amount or part == "allocated":
                terms += f" {'-' if minus else '+'} {part.removeprefix('less_')} {display(name, amount)}"
        lines.append(f"{name} {terms} > {limit(name)}")
    return ", ".join(lines)
