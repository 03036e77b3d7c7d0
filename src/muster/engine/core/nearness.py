"""Which of the chosen nodes goes to which of equal tasks: those next to each other in order share domains.

The nodes are the same whoever gets them, so only the order changes: domains keep the order in which they were first
chosen, level by level, and all picks of one domain stand together.
"""

from __future__ import annotations

from muster.engine.core.values import Index


def neighbours(chosen: list[int], near: Index) -> list[int]:
    """The same nodes, those of one domain next to each other; `near` has a row of domain numbers per level."""
    ranks: list[list[int]] = []
    for key in [row[chosen].tolist() for row in near] + [chosen]:
        first: dict[int, int] = {}
        ranks.append([first.setdefault(domain, len(first)) for domain in key])
    order = sorted(range(len(chosen)), key=list(zip(*ranks, strict=True)).__getitem__)
    return [chosen[i] for i in order]
