"""Reads a node's board: its layout, the chips the device plugin lists as free, and who holds the others.

The list on the node may lag behind the pods. A chip that a pod on the node names is not free whatever the list says:
the pod may be leaving, or bound a moment ago and not yet seen by the device plugin. If what is left does not agree with
the number that is idle, the node waits until it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from muster.engine.devices import ChipListError, Layout, ids_of, read_chips
from muster.engine.jobs import Status, Task
from muster.model.core import Node

RESOURCE = "huawei.com/Ascend910"  # also the annotation with the free chips (node) and the chips picked (pod)
MOUNTED = "huawei.com/AscendReal"  # the chips that the device plugin really mounted
FAULTY = "huawei.com/Ascend910-Unhealthy"
NO_NETWORK = "huawei.com/Ascend910-NetworkUnhealthy"
TIME = "predicate-time"
TYPE = "accelerator-type"
PREFIX = "Ascend910-"
SERVED = 2**64 - 1  # the device plugin's mark on a pod that it has served


@dataclass(frozen=True, slots=True)
class Listed:
    """What the node object says."""

    layout: Layout
    free: int = 0
    faulty: int = 0
    no_network: int = 0
    fault: str = ""  # why nothing of it can be believed
    code: str = ""


@dataclass(slots=True)
class Board:
    """A node's chips in this cycle. `free`, `coming` and `reserved` move with the cycle's placements."""

    listed: Listed
    healthy: int = 0  # how many the node offers
    free: int = 0  # listed, healthy, held by nobody
    coming: int = 0  # held by pods that are leaving
    reserved: int = 0  # meant for pods that wait for what is coming free
    last: int = 0  # the latest predicate-time on the node
    waits: str = ""
    holders: dict[str, int] = field(default_factory=dict)  # pod → its chips

    @property
    def layout(self) -> Layout:
        return self.listed.layout

    @property
    def now(self) -> int:
        """What may be given out at once."""
        return self.free & ~self.reserved

    @property
    def later(self) -> int:
        """What may be promised."""
        return (self.free | self.coming) & ~self.reserved


def read_node(node: Node, layouts: Mapping[str, Layout], otherwise: Layout) -> Listed:
    """The lists of a node that offers chips; layouts by the label accelerator-type."""
    layout = layouts.get(node.metadata.labels.get(TYPE, ""), otherwise)
    notes = node.metadata.annotations
    if RESOURCE not in notes:
        fault = f"chips but no list of them (annotation {RESOURCE})"
        return Listed(layout, fault=fault, code="no-chip-list")
    try:
        free, faulty, no_network = (_chips(notes.get(k, ""), k, layout) for k in (RESOURCE, FAULTY, NO_NETWORK))
    except ChipListError as why:
        return Listed(layout, fault=f"a list of chips that cannot be read: {why}", code="bad-chip-list")
    return Listed(layout, free, faulty, no_network)


def _chips(text: str, key: str, layout: Layout) -> int:
    try:
        return read_chips(text, PREFIX, layout.size)
    except ChipListError as why:
        raise ChipListError(f"annotation {key}: {why}") from None


def read_board(listed: Listed, healthy: int, idle: int, tasks: Iterable[Task]) -> Board:
    """The board with the pods on it. `idle` is the number that the scheduler counts as free."""
    board = Board(listed, healthy)
    held, twice = 0, ""
    for task in tasks:
        if RESOURCE not in task.shape.amounts:
            continue
        notes = task.annotations
        time = notes.get(TIME, "")
        if time.isascii() and time.isdigit() and len(time) <= 20 and int(time) < SERVED:
            board.last = max(board.last, int(time))
        chips = pod_chips(notes, listed.layout)
        if chips & held:
            other = min(k for k, theirs in board.holders.items() if theirs & chips)
            twice = twice or f"chip {ids_of(chips & held)[0]} named by two pods ({other}, {task.key})"
        held |= chips
        board.holders[task.key] = chips
        if task.status == Status.RELEASING:
            board.coming |= chips & ~listed.faulty
    board.free = listed.free & ~listed.faulty & ~held
    # A chip that failed under its pod is not among those offered, yet its pod is counted against them.
    expected = max(idle + (held & listed.faulty).bit_count(), 0)
    named = board.free.bit_count()
    if twice:
        board.waits = f"{twice}: waiting until one is gone"
    elif named != expected:
        board.waits = f"{named} chips listed as free but {expected} idle: waiting for the device plugin"
    return board


def pod_chips(notes: Mapping[str, str], layout: Layout) -> int:
    """The chips that a pod's annotations name; what cannot be read names none (the node's list is the authority)."""
    chips = 0
    for key in (RESOURCE, MOUNTED):
        text = notes.get(key)
        if text:
            try:
                chips |= read_chips(text, PREFIX, layout.size)
            except ChipListError:
                continue
    return chips
