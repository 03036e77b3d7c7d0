"""The boards of a cluster in one cycle, and the columns of numbers that stand for their states."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from muster.engine.devices import Layout
from muster.engine.nodes import Kind, Nodes
from muster.engine.state import State
from muster.model.core import Node
from muster.plugins.topology910.boards import RESOURCE, Board, Listed, read_board, read_node
from muster.plugins.topology910.states import NO_BOARD, WAITS, States

Numbers = NDArray[np.int64]
_NOTHING: Numbers = np.zeros(0, np.int64)


class Boards:
    """Lives as long as the plugin: what node objects say is read again only where they changed."""

    def __init__(self, layouts: Mapping[str, Layout], default: Layout) -> None:
        self.default = default
        self.layouts: list[Layout] = [default]  # those of the cluster's boards; without any, the default
        self.states = States()
        self.any = False
        self._layouts = layouts
        self._read: dict[str, tuple[Node, Listed]] = {}
        self._at: dict[int, Board] = {}
        self._columns: dict[tuple[Kind, bool], Numbers] = {}

    def open(self, state: State) -> None:
        self.state = state
        self.nodes: Nodes = state.nodes
        self._at.clear()
        row = state.axis.rows.get(RESOURCE)
        offered = state.nodes.alloc[row] if row is not None and row < len(state.nodes.alloc) else _NOTHING
        self.any = bool(offered.any())
        self.layouts = [self.default]
        if not self.any or row is None:
            self._read.clear()
            return
        idle = self.nodes.everything().idle[row] // 1000
        self.offered: NDArray[np.bool_] = offered > 0
        for node in np.flatnonzero(self.offered).tolist():
            listed = self._listed(self.nodes.objects[node])
            tasks = self.nodes.on[node].values()
            self._at[node] = read_board(listed, int(offered[node]) // 1000, int(idle[node]), tasks)
        sound = {board.layout for board in self._at.values() if not board.listed.fault}
        self.layouts = sorted(sound or {self.default}, key=lambda layout: layout.name)
        self._number()

    def _number(self) -> None:
        count = len(self.nodes)
        self.layout_of: Numbers = np.full(count, -1)  # −1: no board that can be believed
        self.healthy: dict[bool, Numbers] = {several: np.full(count, NO_BOARD) for several in (False, True)}
        self._columns = {
            (kind, several): np.full(count, NO_BOARD)
            for kind in (Kind.ALLOCATE, Kind.PIPELINE)
            for several in (False, True)
        }
        number = self.states.number
        for node, board in self._at.items():
            listed, layout = board.listed, board.layout
            if listed.fault:
                continue
            self.layout_of[node] = self.layouts.index(layout)
            sound = layout.everything & ~listed.faulty
            self.healthy[False][node] = number(layout, board.healthy, sound)
            self.healthy[True][node] = number(layout, board.healthy, sound & ~listed.no_network)
            if board.waits:
                for column in self._columns.values():
                    column[node] = WAITS
            else:
                self.renumber(node)

    def _listed(self, node: Node) -> Listed:
        known = self._read.get(node.metadata.name)
        if known is None or known[0] is not node:
            known = self._read[node.metadata.name] = node, read_node(node, self._layouts, self.default)
        return known[1]

    def at(self, node: int) -> Board | None:
        return self._at.get(node)

    def numbers(self, kind: Kind, several: bool) -> Numbers:
        """Per node the state of its board, for pods placed now (ALLOCATE) or promised what comes free (PIPELINE)."""
        return self._columns[kind, several]

    def renumber(self, node: int) -> None:
        """The node's chips have changed."""
        board = self._at[node]
        if board.waits or board.listed.fault:
            return
        layout, healthy, network = board.layout, board.healthy, ~board.listed.no_network
        number, columns = self.states.number, self._columns
        for kind, chips in ((Kind.ALLOCATE, board.now), (Kind.PIPELINE, board.later)):
            columns[kind, False][node] = one = number(layout, healthy, chips)
            columns[kind, True][node] = one if network == -1 else number(layout, healthy, chips & network)
