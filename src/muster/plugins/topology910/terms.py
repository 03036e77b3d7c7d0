"""The filters and scores over the states of boards, and what they say in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from muster.engine.hooks import Batch, Floats, NodeFilter, NodeScorer, Reason, Scope, Verdict
from muster.engine.jobs import Task
from muster.engine.nodes import Kind, NodeView
from muster.plugins.topology910.cluster import Boards
from muster.plugins.topology910.states import NO_BOARD, in_words, needed


@dataclass(frozen=True, slots=True, eq=False)
class Chips:
    """What a pod wants: how many chips, for a job of several pods or not, and which layouts serve its job."""

    count: int
    several: bool
    served: tuple[bool, ...]  # by `Boards.layouts`


class Owner(Protocol):
    """The plugin, as its terms see it."""

    boards: Boards
    weight: float

    def chips(self, task: Task) -> Chips | None: ...


class Term:
    def __init__(self, owner: Owner) -> None:
        self.owner = owner

    def wanted(self, task: Task) -> Chips:
        chips = self.owner.chips(task)
        assert chips is not None  # batch() says SKIP for pods without
        return chips

    def batch(self, task: Task) -> Batch:
        return Batch.SKIP if self.owner.chips(task) is None else Batch.SINGLE


class Healthy(Term, NodeFilter):
    """Could the node serve the pod if nobody else were there? What the node object says, no more."""

    term = "chips"
    scope = Scope.STATIC

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        chips, boards = self.wanted(task), self.owner.boards
        reasons = [
            Reason("no-chips", "node(s) had no Ascend 910 chips", resolvable=False),
            Reason("chip-list", lambda node: f"node(s) had {_fault(boards, node)}", resolvable=False),
            Reason("chip-faults", lambda node: f"node(s) had {_sound(boards, chips, node)}", resolvable=False),
            Reason("chip-layout", lambda node: f"node(s) had {_layout(boards, node)}", resolvable=False),
        ]
        index = nodes.index
        state = boards.healthy[chips.several][index]
        code = np.where(boards.states.table(chips.count).code[state] == 0, 0, 3)
        served = np.array([*chips.served, True])[boards.layout_of[index]]  # no layout is −1, the last
        code = np.where(served, code, 4)
        code = np.where(state == NO_BOARD, np.where(boards.offered[index], 2, 1), code)
        return Verdict(code.astype(np.uint16), reasons)


class Rings(Term, NodeFilter):
    """Are there chips enough in one ring, and can the list of chips be believed?"""

    term = "rings"
    scope = Scope.NODE

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        chips, boards = self.wanted(task), self.owner.boards
        state = boards.numbers(nodes.kind, chips.several)[nodes.index]
        table = boards.states.table(chips.count)
        waits = Reason("chip-list-wait", lambda node: f"node(s) had {_waits(boards, node)}", resolvable=False)
        return Verdict(table.code[state], [waits, *table.reasons[1:]])


class Worth(Term, NodeScorer):
    """One part of a node's place in the order; `term` is also the table's column."""

    scope = Scope.NODE

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        chips, boards = self.wanted(task), self.owner.boards
        state = boards.numbers(nodes.kind, chips.several)[nodes.index]
        part: Floats = getattr(boards.states.table(chips.count), self.term)
        return part[state] * self.owner.weight


class HealthyWorth(Worth):
    term = "healthy"


class GroupWorth(Worth):
    term = "group"


class RankWorth(Worth):
    term = "rank"


# --- in words


def _sound(boards: Boards, chips: Chips, node: int) -> str:
    state = boards.states.known[int(boards.healthy[chips.several][node])]
    if state is None:
        return "no healthy chips"
    fit_for = " for a job of several pods" if chips.several else ""
    return f"{in_words(state.counts)} healthy{fit_for}, {needed(state.layout, chips.count)}"


def _fault(boards: Boards, node: int) -> str:
    board = boards.at(node)
    return board.listed.fault if board is not None else "no chips"


def _layout(boards: Boards, node: int) -> str:
    board = boards.at(node)
    return f"boards {board.layout.name}, which do not serve such a job" if board is not None else "no chips"


def _waits(boards: Boards, node: int) -> str:
    board = boards.at(node)
    return board.waits if board is not None else "no chips"


def note(boards: Boards, chips: Chips, node: int) -> str:
    """Group, rank and ring of a node for a request, or why it has none."""
    board = boards.at(node)
    if board is None:
        return "no chips"
    if board.listed.fault or board.waits:
        return board.listed.fault or board.waits
    state = boards.states.known[int(boards.numbers(Kind.ALLOCATE, chips.several)[node])]
    assert state is not None
    fit = state.fit(chips.count)
    if fit is None:
        return state.needs(chips.count)
    ring = state.layout.rings[fit.ring] if fit.ring >= 0 else ()
    where = f"ring {ring[0]}-{ring[-1]}" if ring else "all rings"
    return f"group {fit.letter}, rank {fit.rank}, {where} ({in_words(state.counts)} free, {board.healthy} healthy)"
