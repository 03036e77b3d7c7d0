"""The boards of a cluster in one cycle, the comparison of their lists, and the columns with the numbers of states."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from muster.engine.core.nodes import MoveKind, Nodes
from muster.engine.core.state import State
from muster.engine.devices.boards import Layout, ids_of
from muster.model.core import Node
from muster.plugins.topology910.boards import RESOURCE, Board, Listed, read_board, read_node
from muster.plugins.topology910.states import NO_BOARD, States

Numbers = NDArray[np.int64]
_NOTHING: Numbers = np.zeros(0, np.int64)


class Boards:
    """The boards of a cluster. It lives as long as the plugin, and reads node objects again only if they changed."""

    def __init__(self, layouts: Mapping[str, Layout], default: Layout) -> None:
        self.default = default
        self.layouts: list[Layout] = [default]  # the layouts of the cluster's boards; without boards, the default
        self.states = States()
        self.any = False
        self.types = layouts  # by the label accelerator-type
        self._read: dict[str, tuple[Node, Listed]] = {}
        self._at: dict[int, Board] = {}
        self._columns: dict[tuple[MoveKind, bool], Numbers] = {}
        self._once_agreed: dict[tuple[MoveKind, bool], Numbers] = {}
        self.any_doubtful = False  # whether chips of any board are withheld until the lists agree

    def open(self, state: State) -> None:
        self.state = state
        self.nodes: Nodes = state.nodes
        self._at.clear()
        row = state.axis.rows.get(RESOURCE)
        offered = state.nodes.alloc[row] if row is not None else _NOTHING
        self.any = bool(offered.any())
        self.any_doubtful = False
        self.layouts = [self.default]
        if not self.any or row is None:
            self._read.clear()
            return
        self.offered: NDArray[np.bool_] = offered > 0
        for node in np.flatnonzero(self.offered).tolist():
            listed = self._listed(self.nodes.objects[node])
            board = read_board(listed, int(offered[node]) // 1000, self.nodes.on[node].values())
            self._at[node] = board
            if not listed.fault:
                settle(board)
                self.any_doubtful |= board.doubtful > 0
        sound = {board.layout for board in self._at.values() if not board.listed.fault}
        self.layouts = sorted(sound or {self.default}, key=lambda layout: layout.name)
        self._number()

    def _number(self) -> None:
        count = len(self.nodes)
        self.layout_of: Numbers = np.full(count, -1)  # −1: no board, or its lists cannot be used
        self.healthy: dict[bool, Numbers] = {several: np.full(count, NO_BOARD) for several in (False, True)}
        uses = [(kind, several) for kind in (MoveKind.ALLOCATE, MoveKind.PIPELINE) for several in (False, True)]
        self._columns, self._once_agreed = ({use: np.full(count, NO_BOARD) for use in uses} for _ in range(2))
        number = self.states.number
        for node, board in self._at.items():
            listed, layout = board.listed, board.layout
            if listed.fault:
                continue
            self.layout_of[node] = self.layouts.index(layout)
            sound = layout.everything & ~listed.faulty
            self.healthy[False][node] = number(layout, board.healthy, sound)
            self.healthy[True][node] = number(layout, board.healthy, sound & ~listed.no_network)
            self.renumber(node)

    def _listed(self, node: Node) -> Listed:
        known = self._read.get(node.metadata.name)
        if known is None or known[0] is not node:
            known = self._read[node.metadata.name] = node, read_node(node, self.types, self.default)
        return known[1]

    def all(self) -> list[tuple[str, Board]]:
        """Returns every board with the name of its node."""
        return [(self.nodes.names[node], board) for node, board in self._at.items()]

    def at(self, node: int) -> Board | None:
        return self._at.get(node)

    def numbers(self, kind: MoveKind, several: bool) -> Numbers:
        """Returns per node the state of its board, for pods placed now (ALLOCATE) or promised later (PIPELINE)."""
        return self._columns[kind, several]

    def once_agreed(self, kind: MoveKind, several: bool) -> Numbers:
        """Returns the states with the doubtful chips, once the lists agree; NO_BOARD where no chip is doubtful."""
        return self._once_agreed[kind, several]

    def renumber(self, node: int) -> None:
        """Updates the numbers after a change of the node's chips."""
        board = self._at[node]
        if board.listed.fault:
            return
        layout, healthy, network = board.layout, board.healthy, ~board.listed.no_network
        number = self.states.number
        for kind, chips in ((MoveKind.ALLOCATE, board.now), (MoveKind.PIPELINE, board.later)):
            self._columns[kind, False][node] = one = number(layout, healthy, chips)
            self._columns[kind, True][node] = one if network == -1 else number(layout, healthy, chips & network)
            if board.doubtful:
                chips |= board.doubtful
                self._once_agreed[kind, False][node] = number(layout, healthy, chips)
                self._once_agreed[kind, True][node] = number(layout, healthy, chips & network)


def settle(board: Board) -> None:
    """Finds the board's disputes and what they make doubtful. Changes `free`, `coming` and what explains them."""
    listed, held = board.listed, board.held
    if both := listed.free & listed.faulty:
        board.disputes.append(f"{in_words(both)} listed as free and as unhealthy")
    if twice := _named_twice(board):
        board.not_reusable |= twice
    healthy_held = held & ~listed.faulty
    free = board.free.bit_count()
    # Chips that no list names: pods without a list hold them, or they have failed, or the node's list lags.
    unlisted = board.layout.everything & ~(board.free | held | listed.faulty)
    hiding = unlisted.bit_count() + (listed.faulty & ~held).bit_count()
    expected = board.healthy - healthy_held.bit_count() - board.unnamed
    difference = f"{free} chips listed as free but {max(expected, 0)} idle"
    if free and (board.unnamed > hiding or free > board.healthy):
        # Some chips of the list are held or faulty, and it is unknown which.
        board.doubtful, board.free = board.free, 0
        board.not_reusable |= held
        board.waits = f"{difference}: waiting for the device plugin"
    elif board.unnamed > hiding:
        asked = healthy_held.bit_count() + board.unnamed
        board.disputes.append(f"pods that request {asked} chips where {board.healthy} are healthy")
    elif free > expected:
        # A chip that failed under its pod is not offered any more, but its pod still counts. It is unknown which chip
        # it is, so no chip that pods hold here is promised to others.
        board.not_reusable |= held
        asked = free + healthy_held.bit_count() + board.unnamed
        board.disputes.append(
            f"{board.healthy} healthy chips but {asked} listed as free or held by pods: "
            "a chip failed under its pod and is not listed as unhealthy"
        )
    elif free < expected and unlisted:
        board.doubtful = unlisted
        board.waits = f"{difference}: waiting for the device plugin to list {in_words(unlisted)}"
    elif free < expected:
        board.disputes.append(difference)
    if board.waits:
        board.disputes.append(board.waits)
    board.coming &= ~board.not_reusable


def _named_twice(board: Board) -> int:
    """Returns chips that two pods name: they stay held, even after one of the two ends."""
    seen = twice = 0
    for pod, chips in sorted(board.holders.items()):
        if again := chips & seen & ~twice:
            other = min(key for key, theirs in board.holders.items() if theirs & again and key != pod)
            board.disputes.append(f"{in_words(again)} named by two pods ({other}, {pod})")
        twice |= chips & seen
        seen |= chips
    return twice


def in_words(chips: int) -> str:
    """Formats chips as `chip 3` or `chips 0-3,7`."""
    ids = ids_of(chips)
    spans: list[list[int]] = []
    for i in ids:
        if spans and spans[-1][1] == i - 1:
            spans[-1][1] = i
        else:
            spans.append([i, i])
    text = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
    return f"chip{'s' if len(ids) > 1 else ''} {text}"
