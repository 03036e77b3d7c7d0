"""Compares what a node and its pods say about the chips, and sets aside the chips about which they disagree.

There are four sources: how many chips the node offers, the chips it lists as free, those it lists as unhealthy, and
those that its pods name. A chip is given out only if no source speaks against it. The other chips of the board are.
"""

from __future__ import annotations

from muster.engine.devices.boards import ids_of
from muster.plugins.topology910.boards import Board


def settle(board: Board) -> None:
    """Finds the board's disputes and what they make doubtful. Changes `free`, `coming` and what explains them."""
    listed, held = board.listed, board.held
    if both := listed.free & listed.faulty:
        board.disputes.append(f"{in_words(both)} listed as free and as unhealthy")
    if twice := _named_twice(board):
        board.not_reusable |= twice
    healthy_held = held & ~listed.faulty
    free = board.free.bit_count()
    # Chips that nobody lists or names: pods that name none hold them, or they have failed, or the list lags.
    unlisted = board.layout.everything & ~(board.free | held | listed.faulty)
    hiding = unlisted.bit_count() + (listed.faulty & ~held).bit_count()
    expected = board.healthy - healthy_held.bit_count() - board.unnamed
    said = f"{free} chips listed as free but {max(expected, 0)} idle"
    if free and (board.unnamed > hiding or free > board.healthy):
        # Some chips of the list are held or faulty, and nobody says which.
        board.doubtful, board.free = board.free, 0
        board.not_reusable |= held
        board.waits = f"{said}: waiting for the device plugin"
    elif board.unnamed > hiding:
        asked = healthy_held.bit_count() + board.unnamed
        board.disputes.append(f"pods that ask for {asked} chips where {board.healthy} are healthy")
    elif free > expected:
        # A chip that failed under its pod is not among those offered, yet its pod is counted against them. Nobody says
        # which chip it is, so no chip that pods hold here is promised to others.
        board.not_reusable |= held
        asked = free + healthy_held.bit_count() + board.unnamed
        board.disputes.append(
            f"{board.healthy} healthy chips but {asked} listed as free or held by pods: "
            "a chip failed under its pod and is not listed as unhealthy"
        )
    elif free < expected and unlisted:
        board.doubtful = unlisted
        board.waits = f"{said}: waiting for the device plugin to list {in_words(unlisted)}"
    elif free < expected:
        board.disputes.append(said)
    if board.waits:
        board.disputes.append(board.waits)
    board.coming &= ~board.not_reusable


def _named_twice(board: Board) -> int:
    """Chips that two pods name: they stay held, even when one of the two ends."""
    seen = twice = 0
    for pod, chips in sorted(board.holders.items()):
        if again := chips & seen & ~twice:
            other = min(key for key, theirs in board.holders.items() if theirs & again and key != pod)
            board.disputes.append(f"{in_words(again)} named by two pods ({other}, {pod})")
        twice |= chips & seen
        seen |= chips
    return twice


def in_words(chips: int) -> str:
    """`chip 3`, `chips 0-3,7`"""
    ids = ids_of(chips)
    spans: list[list[int]] = []
    for i in ids:
        if spans and spans[-1][1] == i - 1:
            spans[-1][1] = i
        else:
            spans.append([i, i])
    text = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
    return f"chip{'s' if len(ids) > 1 else ''} {text}"
