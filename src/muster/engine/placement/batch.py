"""Places a run of equal tasks in one vector step that gives the one-at-a-time order.

Let f_n(j) be the score of node n when j tasks of the run are on it (−inf where one more does not fit), as long as it
depends on that node alone, and g_n(j) = min(f_n(0), …, f_n(j)). Taking the best node again and again, ties by index,
visits the pairs (n, j) in the order of g descending, then n, then j: a node whose score rises after a placement is
simply taken again, so only the running minimum counts. Hence the first k picks are the k best pairs. Only the k best
heads (n, 0) can take part, and a node's next rows matter only while its g still reaches the k-th best pair.

`neighbours` then assigns the chosen nodes so that consecutive tasks share topology domains.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from muster.engine.core.values import Floats, Index

MANY_TIES = 8  # for fewer, finding out which of them are too late takes longer than their rows


def best_heads(key: Floats, count: int) -> Index:
    """The positions of the `count` largest finite entries, by (key descending, position)."""
    top = key.max() if len(key) else -np.inf
    if top == -np.inf:
        return np.empty(0, np.int64)
    first = np.flatnonzero(key == top)
    if len(first) >= count:
        return first[:count]
    # Scores are full of ties, on which a partition is slow: take the second value by hand, then sort.
    rest = key[key < top]
    second_value = rest.max() if len(rest) else -np.inf
    if second_value == -np.inf:
        return first
    second = np.flatnonzero(key == second_value)
    if len(first) + len(second) >= count:
        return np.concatenate([first, second[: count - len(first)]])
    finite = np.flatnonzero(key > -np.inf)
    if len(finite) > 4 * count:
        finite = finite[key[finite] >= np.sort(key[finite])[-count]]
    order = np.argsort(-key[finite], kind="stable")
    return finite[order[:count]]


def picks(
    key: Floats, count: int, copies: Callable[[Index, Index], Floats], most: Callable[[Index], int] | None = None
) -> Index:
    """Positions in one-at-a-time order, at most `count`; fewer when nothing more fits.

    `copies(positions, j)` scores the positions with j tasks of the run already there, −inf where one more does not fit.
    `most(positions)` is a bound of the tasks that any of them can take, if there is one.
    """
    heads = best_heads(key, count)
    limit = count if most is None or count <= 1 or not len(heads) else min(count, most(heads))
    if limit <= 1 or not len(heads):
        return heads
    found_g, found_n = [key[heads]], [heads]
    found_j = [np.zeros(len(heads), np.int64)]
    total, threshold = len(heads), (-np.inf if len(heads) < count else key[heads].min())
    # Where heads are few, each takes several: twice its part is mostly enough at once.
    live, floor, height, step = heads, key[heads], 1, min(max(4, 2 * count // len(heads)), 64)
    while len(live):
        rows = min(step, limit - height)
        if rows <= 0:
            break
        # Columns of `grid` are the live nodes, its rows are height .. height+rows−1 more tasks on each.
        j = np.repeat(np.arange(height, height + rows), len(live))
        grid = copies(np.tile(live, rows), j).reshape(rows, len(live))
        np.minimum.accumulate(np.vstack([floor, grid]), axis=0, out=(run := np.empty((rows + 1, len(live)))))
        run = run[1:]
        keep = run >= threshold if threshold > -np.inf else run > -np.inf
        r, c = np.nonzero(keep)
        found_g.append(run[r, c])
        found_n.append(live[c])
        found_j.append(r + height)
        total += len(r)
        last = run[-1]
        if total >= count:
            so_far = np.concatenate(found_g)
            threshold = np.sort(so_far)[-count]
        on = (last >= threshold) & (last > -np.inf)
        if total >= count and np.count_nonzero(tied := last == threshold) > MANY_TIES:
            # Of the nodes that only reach the k-th pair, those after its node are too late.
            at_threshold = np.concatenate(found_n)[so_far == threshold]
            nth = count - int(np.count_nonzero(so_far > threshold)) - 1
            on &= ~tied | (live < np.partition(at_threshold, nth)[nth])
        live, floor = live[on], last[on]
        height, step = height + rows, min(step * 2, 64)
    g, n, j = np.concatenate(found_g), np.concatenate(found_n), np.concatenate(found_j)
    order = np.lexsort((j, n, -g))[:count]
    return n[order]


def neighbours(chosen: list[int], near: Index) -> list[int]:
    """Reorders the chosen nodes so that the nodes of one domain are consecutive. `near`: domains, levels × nodes.

    Domains keep the order in which they were first chosen, level by level.
    """
    ranks: list[list[int]] = []
    for key in [row[chosen].tolist() for row in near] + [chosen]:
        first: dict[int, int] = {}
        ranks.append([first.setdefault(domain, len(first)) for domain in key])
    order = sorted(range(len(chosen)), key=list(zip(*ranks, strict=True)).__getitem__)
    return [chosen[i] for i in order]
