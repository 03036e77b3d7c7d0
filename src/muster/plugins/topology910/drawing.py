"""Draws a board as text and as HTML: its rings, and which pod holds which chip. The functions are pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import Struct

from muster.engine.core.hooks import Picture
from muster.model.markup import escape
from muster.plugins.topology910.boards import Board

_MARKS = {"free": "·", "faulty": "✗", "kept": "~", "doubtful": "*", "unlisted": "?"}
_WORDS = {
    "free": "free",
    "faulty": "faulty",
    "kept": "kept for a pod that waits",
    "doubtful": "in doubt: the lists disagree",
    "unlisted": "not listed as free",
}
_COLOURS = {"free": "#e8f5e9", "faulty": "#ffcdd2", "kept": "#fff3c4", "doubtful": "#ffe0b2", "unlisted": "#e0e0e0"}
_HOLDERS = ("#90caf9", "#ce93d8", "#a5d6a7", "#ffcc80", "#80cbc4", "#ef9a9a", "#b0bec5", "#e6ee9c")


class Chip(Struct, frozen=True):
    """One chip: free, faulty, kept, doubtful, unlisted, or held by a pod."""

    id: int
    state: str
    pod: str = ""
    network: bool = True

    @property
    def words(self) -> str:
        what = f"held by {self.pod}" if self.pod else _WORDS[self.state]
        return what if self.network else f"{what}, network faulty"


@dataclass(frozen=True, slots=True)
class BoardPicture(Picture):
    node: str
    board: Board
    held: dict[str, int]  # pod → its chips

    def text(self) -> str:
        return ascii(self.node, self.board, self.held)

    def html(self) -> str:
        return html(self.node, self.board, self.held)


def chips_of(board: Board, held: Mapping[str, int]) -> list[list[Chip]]:
    """Returns the chips of the board ring by ring. `held`: pod → its chips."""
    return [[_chip(board, held, i) for i in ring] for ring in board.layout.rings]


def _chip(board: Board, held: Mapping[str, int], number: int) -> Chip:
    bit = 1 << number
    network = not board.listed.no_network & bit
    pod = min((key for key, chips in held.items() if chips & bit), default="")
    if pod:
        return Chip(number, "held", pod, network)
    if board.listed.faulty & bit:
        return Chip(number, "faulty", "", network)
    if board.reserved & bit:
        return Chip(number, "kept", "", network)
    if board.doubtful & bit:
        return Chip(number, "doubtful", "", network)
    return Chip(number, "free" if board.free & bit else "unlisted", "", network)


def ascii(name: str, board: Board, held: Mapping[str, int]) -> str:
    """Draws a node in a few lines, for a terminal:

    n1  910, 8 healthy
      ring 0-3  [a][a][·][·]
      ring 4-7  [b][b][b][b]
      a d/train-0, b d/train-1; · free
    """
    rings = chips_of(board, held)
    letters = _letters(rings)
    lines = [f"{name}  {board.layout.name}, {board.healthy} healthy{_remark(board)}"]
    width = max(len(_ring(ring)) for ring in rings)
    for ring in rings:
        cells = "".join(f"[{letters.get(c.pod) or _MARKS[c.state]}{'' if c.network else '!'}]" for c in ring)
        lines.append(f"  {board.layout.part} {_ring(ring):<{width}}  {cells}")
    legend = [f"{letter} {pod}" for pod, letter in letters.items()]
    if any(c.state == "free" for ring in rings for c in ring):
        legend.append(f"{_MARKS['free']} {_WORDS['free']}")
    legend += [f"{mark} {text}" for mark, text in _legend(rings)]
    lines.append("  " + "; ".join(legend))
    return "\n".join(lines)


def _legend(rings: list[list[Chip]]) -> list[tuple[str, str]]:
    """Returns the marks of the states that occur, with their meaning; a free chip needs none."""
    flat = [chip for ring in rings for chip in ring]
    states = [state for state in _MARKS if state != "free" and any(c.state == state for c in flat)]
    found = [(_MARKS[state], _WORDS[state]) for state in states]
    return found if all(c.network for c in flat) else [*found, ("!", "network faulty")]


def html(name: str, board: Board, held: Mapping[str, int]) -> str:
    """Draws a node as a figure with a title per chip, for a report."""
    rings = chips_of(board, held)
    letters = _letters(rings)
    step, wide = 34, max(len(ring) for ring in rings)
    cells: list[str] = []
    for y, ring in enumerate(rings):
        cells.append(f'<text x="0" y="{y * step + 21}" fill="currentColor">{_ring(ring)}</text>')
        for x, chip in enumerate(ring):
            cells.append(_cell(chip, 44 + x * step, y * step, letters))
    size = f"{48 + wide * step} {len(rings) * step}"
    title = escape(f"{name}: {board.layout.name}, {board.healthy} healthy{_remark(board)}")
    pods = "".join(f"<li><b>{letter}</b> {escape(pod)}</li>" for pod, letter in letters.items())
    pods += "".join(f"<li><b>{mark}</b> {text}</li>" for mark, text in _legend(rings))
    return (
        f'<figure class="board"><figcaption>{title}</figcaption>'
        f'<svg viewBox="0 0 {size}" width="{48 + wide * step}" role="img" aria-label="{title}" '
        f'font-family="sans-serif" font-size="12">{"".join(cells)}</svg><ul>{pods}</ul></figure>'
    )


def _cell(chip: Chip, x: int, y: int, letters: Mapping[str, str]) -> str:
    at = list(letters).index(chip.pod) if chip.pod else 0
    colour = _HOLDERS[at % len(_HOLDERS)] if chip.pod else _COLOURS[chip.state]
    edge = "#616161" if chip.network else "#c62828"
    title = escape(f"chip {chip.id}: {chip.words}")
    # Not by colour alone: a free chip shows its number, every other state has its mark.
    label = letters.get(chip.pod) or f"{'' if chip.state == 'free' else _MARKS[chip.state]}{chip.id}"
    label += "" if chip.network else "!"
    return (
        f'<g><title>{title}</title><rect x="{x}" y="{y + 2}" width="30" height="30" rx="4" fill="{colour}" '
        f'stroke="{edge}"/><text x="{x + 15}" y="{y + 21}" text-anchor="middle" fill="#111">{escape(label)}</text></g>'
    )


def _letters(rings: list[list[Chip]]) -> dict[str, str]:
    """Names the pods a, b, c … in the order of their first chip."""
    pods = dict.fromkeys(chip.pod for ring in rings for chip in ring if chip.pod)
    return {pod: chr(ord("a") + i) for i, pod in enumerate(pods)}


def _ring(ring: list[Chip]) -> str:
    return f"{ring[0].id}-{ring[-1].id}"


def _remark(board: Board) -> str:
    remark = board.listed.fault or board.waits
    return f" ({remark})" if remark else ""
