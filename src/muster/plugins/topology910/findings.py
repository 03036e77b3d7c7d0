"""Findings about boards: lists that disagree or cannot be read, and an accelerator-type without a layout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from muster.config.names import nearest
from muster.model.finding import Finding
from muster.plugins.topology910.boards import TYPE, Board

LAYOUT = "topology910.layout"
Named = tuple[str, Board]  # a node's name and its board


def findings(boards: Sequence[Named], types: Iterable[str]) -> list[Finding]:
    """Returns the findings for `muster validate`, which adds file and line."""
    fix = "compare the node's annotations with its pods'; the device plugin writes them anew when it starts"
    found = [_finding(name, "chip-lists", text, fix) for name, board in boards for text in board.disputes]
    for name, board in boards:
        if board.listed.fault:
            text = f"{board.listed.fault}; no pod gets a chip of it"
            found.append(_finding(name, board.listed.code, text, "is the device plugin running on the node?"))
    return found + [_finding(names[0], "accelerator-type", text, fix) for names, text, fix in _unknown(boards, types)]


def type_warnings(boards: Sequence[Named], types: Iterable[str]) -> list[str]:
    """Returns warnings for boards whose accelerator-type has no known layout, for every run."""
    return [f"Node {names[0]} {text} ({fix})" for names, text, fix in _unknown(boards, types)]


def _unknown(boards: Sequence[Named], types: Iterable[str]) -> list[tuple[list[str], str, str]]:
    """Returns per unknown type the nodes, what is wrong, and what to do."""
    nodes: dict[str, list[str]] = {}
    layouts: dict[str, str] = {}
    for name, board in sorted(boards, key=lambda named: named[0]):
        if kind := board.listed.unknown_type:
            nodes.setdefault(kind, []).append(name)
            layouts[kind] = board.layout.name
    known = sorted(types)
    found = []
    for kind, names in sorted(nodes.items()):
        more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
        text = (
            f"has the unknown {TYPE} {kind}{more}: its chips are used as a board {layouts[kind]}; "
            f"known are {', '.join(known)}"
        )
        near = nearest(kind, known)
        fix = f"did you mean {near}? " if near else ""
        found.append((names, text, f"{fix}correct the label, or set {LAYOUT}.{kind} in the configuration"))
    return found


def _finding(node: str, code: str, text: str, fix: str) -> Finding:
    has = "" if code == "accelerator-type" else "has "
    return Finding("warning", "", None, f"Node {node}", code, f"{has}{text}", fix)
