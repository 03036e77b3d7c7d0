"""Elements that the views share: tables, bars, lists of names, and the classes of colours.

A colour never carries information alone: beside it there is a letter, a sign or a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase, ascii_uppercase

from muster.model.markup import escape
from muster.model.natural_order import natural
from muster.model.quantity import display
from muster.sim.result import Result

HUES = 24  # classes h0 to h23 of the style sheet
LETTERS = ascii_uppercase + ascii_lowercase
OTHER_LETTER = "*"  # of everything after the last letter
MAX_TEXT_CHARS = 400  # of a name or a reason on a page
MAX_NAMES = 40
_NUMBER = re.compile(r"\d[\d.,]*[A-Za-z]{0,2}\b")
LETTER_PERCENT = 9.0  # a piece of a bar that is narrower has no letter


def hue(number: int) -> str:
    """Returns the class of a colour; neighbours are far from each other."""
    return f"h{number % HUES}"


def letters(names: Iterable[str]) -> dict[str, str]:
    """Returns a letter for each name, in order; after z every further name has a star."""
    return {name: LETTERS[i] if i < len(LETTERS) else OTHER_LETTER for i, name in enumerate(names)}


def shown(text: str, most: int = MAX_TEXT_CHARS) -> str:
    """Returns a text as HTML; a text that is longer than every valid name is cut, and its length is shown."""
    if len(text) > most:
        return f"{escape(text[:most])}… <span class=\"soft\">({len(text):,} characters)</span>"
    return escape(text)


def without_numbers(text: str) -> str:
    """Returns what texts that differ only in numbers and quantities have in common."""
    return _NUMBER.sub("#", text)


def attribute(name: str, value: str) -> str:
    """Returns an attribute for scripts, such as ` data-pod="default/p"`."""
    return f' data-{name}="{escape(value, exact=True)}"'


def empty(text: str) -> str:
    return f'<p class="soft">{escape(text)}</p>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """Returns a table of texts."""
    return html_table(head, ("".join(f"<td>{shown(cell)}</td>" for cell in cells) for cells in rows), caption)


def html_table(head: Sequence[str], rows: Iterable[str], caption: str = "", kind: str = "") -> str:
    """Returns a table whose rows are cells in HTML. A wide table scrolls, also with the keyboard."""
    top = "".join(f'<th scope="col">{shown(cell)}</th>' if cell else "<td></td>" for cell in head)
    named = f"<caption>{escape(caption)}</caption>" if caption else ""
    label = escape(caption or f"Table: {', '.join(cell for cell in head if cell)}")
    of = f' class="{kind}"' if kind else ""
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return (
        f'<div class="wide" role="group" tabindex="0" aria-label="{label}"><table{of}>{named}'
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def pod_link(pod: str) -> str:
    """Returns the name of a pod, to which the dashboard attaches its explanation."""
    return f'<span class="name"{attribute("pod", pod)}>{shown(pod)}</span>'


def node_link(node: str) -> str:
    return f'<span class="name"{attribute("node", node)}>{shown(node)}</span>'


def names(items: Sequence[str], kind: str = "pod", few: int = 3) -> str:
    """Returns names with an attribute for scripts; more than a few are behind a summary, and at most `MAX_NAMES`."""
    marked = [f'<span class="name"{attribute(kind, item)}>{shown(item)}</span>' for item in items[:MAX_NAMES]]
    if len(items) > MAX_NAMES:
        marked.append(f'<span class="soft">and {len(items) - MAX_NAMES:,} more</span>')
    if len(items) <= few:
        return ", ".join(marked)
    return f"<details><summary>{shown(items[0])} and {len(items) - 1:,} more</summary>{', '.join(marked)}</details>"


def counted(counts: Mapping[str, int], few: int = 8) -> str:
    """Returns names with their numbers as HTML: `n1 × 3, n2`."""
    found = [shown(name) + (f" × {counts[name]:,}" if counts[name] > 1 else "") for name in sorted(counts, key=natural)]
    more = f' <span class="soft">and {len(found) - few:,} more</span>' if len(found) > few else ""
    return ", ".join(found[:few]) + more


def amounts(values: Mapping[str, float], most: int = 8) -> str:
    """Returns resources with their amounts as text: `cpu 2, memory 4Gi`."""
    found = [f"{name} {display(name, n)}" for name, n in sorted(values.items()) if name != "pods"]
    return ", ".join(found[:most]) + (f" and {len(found) - most} more" if len(found) > most else "")


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a bar: its share of the whole, its classes, and the letter of what it stands for."""

    share: float
    kind: str
    letter: str = ""


def bar(pieces: Iterable[Piece], marks: Mapping[str, float] | None = None) -> str:
    """Draws a bar; the numbers are to be written beside it. `marks`: letters at a share of the whole."""
    drawn, at = [], 0.0
    for piece in pieces:
        width = max(min(100 * piece.share, 100 - at), 0.0)
        drawn.append(f'<rect class="{piece.kind}" x="{at:.4g}%" width="{width:.4g}%" height="100%"/>')
        if piece.letter and width >= LETTER_PERCENT:
            drawn.append(f'<text x="{at + width / 2:.4g}%" y="75%">{escape(piece.letter)}</text>')
        at += width
    for letter, share in (marks or {}).items():
        place = min(max(100 * share, 0.0), 99.0)
        drawn.append(f'<rect class="mark" x="{place:.4g}%" width="2" height="100%"/>')
        side = f'x="{place - 1:.4g}%" text-anchor="end"' if place > 50 else f'x="{place + 1.5:.4g}%"'
        drawn.append(f'<text class="marked" {side} y="75%">{escape(letter)}</text>')
    return f'<svg class="track" aria-hidden="true" focusable="false">{"".join(drawn)}</svg>'


class QueueMarks:
    """A letter and a colour for each queue of a run, the same in all views."""

    def __init__(self, result: Result) -> None:
        jobs = result.state.jobs.values()
        self.queues: Sequence[str] = sorted(
            {*result.summary.queues, *(job.queue_name for job in jobs if job.tasks)}, key=natural
        )
        self._letters = letters(self.queues)
        self._hues = {name: hue(i) for i, name in enumerate(self.queues)}

    def kind(self, queue: str) -> str:
        """Returns the class of the queue's colour."""
        return self._hues.get(queue, "other")

    def letter(self, queue: str) -> str:
        """Returns the letter of the queue; a dot for pods of other schedulers."""
        return self._letters.get(queue, "·")

    def letter_box(self, queue: str) -> str:
        return f'<b class="letter {self.kind(queue)}">{self.letter(queue)}</b>'
