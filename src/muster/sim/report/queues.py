"""The queues as a tree, with what each has per resource: allocated, deserved, guaranteed, borrowed, and its limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from muster.engine.core.jobs import Queue
from muster.model.natural_order import natural
from muster.model.quantity import display
from muster.sim.report.elements import Piece, QueueMarks, attribute, bar, empty, html_table, shown
from muster.sim.result import Result
from muster.sim.summary import QueueShare

MAX_LEVEL = 6  # deeper queues are indented no further
MAX_QUEUES = 200
HEAD = ("queue", "resource", "", "allocated", "deserved", "guaranteed", "borrowed", "limit")


def render(result: Result) -> str:
    """Returns the tree as a table. A parent's allocated amounts are those of the queues below it, too.

    Borrowed is what is allocated above the deserved amount: other queues may reclaim it.
    """
    tree = Tree(result)
    marks = QueueMarks(result)
    rows = [row for name, level in tree.walk() for row in _rows(tree, name, level, marks)]
    if not rows:
        return ""
    legend = '<p class="soft">In a bar of the whole cluster: D deserved, G guaranteed, L limit.</p>'
    more = len(tree.shares) - MAX_QUEUES
    return (
        legend
        + html_table(HEAD, rows, "Queues and their shares", "queues")
        + (empty(f"and {more:,} queues more; -o json has all") if more > 0 else "")
    )


class Tree:
    """The queues of a run with their children, and what is allocated in each and below it."""

    def __init__(self, result: Result) -> None:
        self.shares: Mapping[str, QueueShare] = result.summary.queues
        self.queues: Mapping[str, Queue] = result.state.queues
        self.totals = result.state.nodes.sums(result.state.nodes.offered)
        self.children: dict[str, list[str]] = {}
        self.allocated: dict[str, dict[str, float]] = {name: dict(s.allocated) for name, s in self.shares.items()}
        for name in sorted(self.shares, key=natural):
            self.children.setdefault(self.parent(name), []).append(name)
        for name in self.shares:
            for above in self.above(name):
                for resource, amount in self.shares[name].allocated.items():
                    whole = self.allocated[above]
                    whole[resource] = whole.get(resource, 0) + amount

    def parent(self, name: str) -> str:
        """Returns the parent, "" if there is none or if the queue would be below itself."""
        parent = self.queues[name].parent if name in self.queues else ""
        return parent if parent in self.shares and name not in self._chain(parent) else ""

    def above(self, name: str) -> list[str]:
        """Returns the ancestors, nearest first."""
        parent = self.parent(name)
        return self._chain(parent) if parent else []

    def _chain(self, name: str) -> list[str]:
        found: list[str] = []
        while name in self.shares and name not in found:
            found.append(name)
            name = self.queues[name].parent if name in self.queues else ""
        return found

    def walk(self) -> Iterator[tuple[str, int]]:
        """Yields the queues with their levels, each before its children."""
        open_ = [(name, 0) for name in reversed(self.children.get("", []))]
        for _ in range(MAX_QUEUES):
            if not open_:
                return
            name, level = open_.pop()
            yield name, level
            open_ += [(child, level + 1) for child in reversed(self.children.get(name, []))]


def _rows(tree: Tree, name: str, level: int, marks: QueueMarks) -> Iterator[str]:
    share, queue = tree.shares[name], tree.queues.get(name)
    guaranteed = queue.guarantee if queue is not None else {}
    allocated = tree.allocated[name]
    resources = sorted({*allocated, *share.deserved, *share.capability, *guaranteed} - {"pods"}) or [""]
    for i, resource in enumerate(resources):
        parts = (allocated, share.deserved, guaranteed, share.capability)
        has, deserved, kept, limit = (part.get(resource) for part in parts)
        total = max(tree.totals.get(resource, 0), 1)
        ticks = {letter: n / total for letter, n in (("D", deserved), ("G", kept), ("L", limit)) if n is not None}
        over = max((has or 0) - deserved, 0) if deserved is not None else None
        drawn = bar([Piece((has or 0) / total, f"q {marks.kind(name)}")], ticks) if resource else ""
        numbers = "".join(f'<td class="n">{_amount(resource, n)}</td>' for n in (has or 0, deserved, kept, over, limit))
        head = f"<td>{shown(resource or '–')}</td><td>{drawn}</td>{numbers}"
        yield (_name(marks.letter_box(name), name, level, len(resources), queue) if i == 0 else "") + head


def _name(letter: str, name: str, level: int, rows: int, queue: Queue | None) -> str:
    branch = '<span aria-hidden="true">└ </span>' if level else ""
    notes = [] if queue is None else [f"weight {queue.weight}"] * (queue.weight != 1) + ["closed"] * (not queue.open)
    note = f' <span class="soft">{", ".join(notes)}</span>' if notes else ""
    kind = f'class="level{min(level, MAX_LEVEL)}"'
    cell = f'<th scope="rowgroup" rowspan="{rows}" {kind}{attribute("queue", name)}>'
    return f"{cell}{branch}{letter} {shown(name)}{note}</th>"


def _amount(resource: str, amount: float | None) -> str:
    return "–" if amount is None or not resource else shown(display(resource, amount))
