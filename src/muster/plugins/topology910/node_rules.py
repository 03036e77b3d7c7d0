"""The filters and scores over the states of boards, and their messages."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from msgspec import Struct

from muster.engine.core.hooks import Batch, Floats, NodeFilter, NodeScorer, Reason, Scope, Verdict
from muster.engine.core.jobs import Task
from muster.engine.core.node_hooks import OneNodeFilter, OneNodeScore
from muster.engine.core.nodes import MoveKind, Nodes, NodeView
from muster.plugins.topology910.cluster import Boards
from muster.plugins.topology910.requests import REMEDY, either
from muster.plugins.topology910.states import NO_BOARD, in_words, needed


class Chips(Struct, frozen=True, eq=False):
    """A pod's request: how many chips, whether its job has several pods, and which layouts serve its job."""

    count: int
    several: bool
    served: tuple[bool, ...]  # by `Boards.layouts`
    relaxed: tuple[bool, ...]  # not served, but would be if each pod were checked separately


class Owner(Protocol):
    """The part of the plugin that its filters and scores use."""

    boards: Boards
    weight: float

    def chips(self, task: Task) -> Chips | None: ...


class Term:
    def __init__(self, owner: Owner) -> None:
        self.owner = owner

    def wanted(self, task: Task) -> Chips:
        chips = self.owner.chips(task)
        assert chips is not None  # batch() returns SKIP for pods without chips
        return chips

    def batch(self, task: Task) -> Batch:
        return Batch.SKIP if self.owner.chips(task) is None else Batch.SINGLE


class Healthy(Term, NodeFilter):
    """Filters nodes that could serve the pod if they were empty, by the node object alone."""

    term = "chips"
    scope = Scope.STATIC

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        chips, boards = self.wanted(task), self.owner.boards
        reasons = [
            Reason("no-chips", "node(s) had no Ascend 910 chips", resolvable=False),
            Reason("chip-list", lambda node: f"node(s) had {_fault(boards, node)}", resolvable=False),
            Reason("chip-faults", lambda node: f"node(s) had {_sound(boards, chips, node)}", resolvable=False),
            Reason("chip-layout", lambda node: f"node(s) had {_layout(boards, chips, node)}", resolvable=False),
        ]
        index = nodes.index
        state = boards.healthy[chips.several][index]
        code = np.where(boards.states.table(chips.count).code[state] == 0, 0, 3)
        served = np.array([*chips.served, True])[boards.layout_of[index]]  # no layout is −1, the last
        code = np.where(served, code, 4)
        code = np.where(state == NO_BOARD, np.where(boards.offered[index], 2, 1), code)
        return Verdict(code.astype(np.uint16), reasons)


class Rings(Term, NodeFilter):
    """Filters nodes with enough chips in one ring; the reason states if there would be enough once the lists of chips
    agree.
    """

    term = "rings"
    scope = Scope.NODE

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        chips, boards = self.wanted(task), self.owner.boards
        state = boards.numbers(nodes.kind, chips.several)[nodes.index]
        table = boards.states.table(chips.count)
        code = table.code[state]
        if boards.any_doubtful:
            once_agreed = boards.once_agreed(nodes.kind, chips.several)[nodes.index]
            code = np.where((code > 0) & (once_agreed != NO_BOARD) & (table.code[once_agreed] == 0), 1, code).astype(
                np.uint16
            )
        waits = Reason("chip-list-wait", lambda node: f"node(s) had {_waits(boards, node)}", resolvable=False)
        return Verdict(code, [waits, *table.reasons[1:]])

    def one_node_filter(self, task: Task, nodes: Nodes) -> OneNodeFilter:
        chips, boards = self.wanted(task), self.owner.boards

        def passes(node: int, rows: list[int], alloc: list[int], kind: MoveKind) -> bool:
            code = boards.states.table(chips.count).code
            return not code.item(boards.numbers(kind, chips.several).item(node))

        return passes


class Worth(Term, NodeScorer):
    """Scores one part of a node's place in the order; `term` is also the column of the table."""

    scope = Scope.NODE

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        chips, boards = self.wanted(task), self.owner.boards
        state = boards.numbers(nodes.kind, chips.several)[nodes.index]
        part: Floats = getattr(boards.states.table(chips.count), self.term)
        return part[state] * self.owner.weight

    def one_node_score(self, task: Task, nodes: Nodes) -> OneNodeScore:
        chips, boards, weight, term = self.wanted(task), self.owner.boards, self.owner.weight, self.term

        def score(node: int, rows: list[int], alloc: list[int], kind: MoveKind) -> float:
            part: Floats = getattr(boards.states.table(chips.count), term)
            return part.item(boards.numbers(kind, chips.several).item(node)) * weight

        return score


class HealthyWorth(Worth):
    term = "healthy"


class GroupWorth(Worth):
    term = "group"


class RankWorth(Worth):
    term = "rank"


# --- messages


def _sound(boards: Boards, chips: Chips, node: int) -> str:
    state = boards.states.known[int(boards.healthy[chips.several][node])]
    if state is None:
        return "no healthy chips"
    layout = state.layout
    if chips.count not in layout.sizes:
        return f"boards {layout.name}, which serve pods of {either(layout.sizes)} chips, not {chips.count}"
    fit_for = " for a job of several pods" if chips.several else ""
    return f"{in_words(layout, state.counts)} healthy{fit_for}, {needed(layout, chips.count)}"


def _fault(boards: Boards, node: int) -> str:
    board = boards.at(node)
    return board.listed.fault if board is not None else "no chips"


def _layout(boards: Boards, chips: Chips, node: int) -> str:
    board = boards.at(node)
    if board is None:
        return "no chips"
    remedy = f"; {REMEDY}" if chips.relaxed[boards.layout_of[node]] else ""
    return f"boards {board.layout.name}, which do not serve such a job{remedy}"


def _waits(boards: Boards, node: int) -> str:
    board = boards.at(node)
    return board.waits if board is not None else "no chips"


def note(boards: Boards, chips: Chips, node: int) -> str:
    """Returns group, rank and ring of a node for a request, or why it has none."""
    board = boards.at(node)
    if board is None:
        return "no chips"
    if board.listed.fault:
        return board.listed.fault
    layout, usable = board.layout, board.now
    if chips.several:
        usable &= ~board.listed.no_network
    counts = layout.counts(usable)
    fit = layout.fit(counts, layout.pairs(usable), chips.count)
    waits = f"; {board.waits}" if board.waits else ""
    if fit is None:
        return f"{in_words(layout, counts)} free, {needed(layout, chips.count)}{waits}"
    ring = layout.rings[fit.ring] if fit.ring >= 0 else ()
    where = f"{layout.part} {ring[0]}-{ring[-1]}" if ring else f"several {layout.part}s"
    if chips.count == layout.size:
        where = "all chips"
    free = f"{in_words(layout, counts)} free, {board.healthy} healthy"
    return f"group {fit.letter}, rank {fit.rank}, {where} ({free}{waits})"
