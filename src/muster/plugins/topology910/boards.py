"""Reads a node's board: its layout, the chips that the device plugin lists as free, and the pods that hold the others.

The list on the node may lag behind the pods. A chip that a pod on the node names is not free, even if the list has it:
the pod may be terminating, or just bound and not yet seen by the device plugin. `cluster.settle` compares the lists;
only the chips on which they disagree are withheld. `findings` reports such boards to `muster validate`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from muster.config.names import nearest
from muster.engine.core.jobs import Status, Task
from muster.engine.devices.boards import ChipListError, Layout, read_chips
from muster.model.core import Node
from muster.model.finding import Finding

RESOURCE = "huawei.com/Ascend910"  # also the annotation with the free chips (node) and the chips picked (pod)
MOUNTED = "huawei.com/AscendReal"  # the chips that the device plugin really mounted
FAULTY = "huawei.com/Ascend910-Unhealthy"
NO_NETWORK = "huawei.com/Ascend910-NetworkUnhealthy"
TIME = "predicate-time"
TYPE = "accelerator-type"
PREFIX = "Ascend910-"
SERVED = 2**64 - 1  # the value that the device plugin writes on a pod that it has served
LAYOUT = "topology910.layout"
Named = tuple[str, "Board"]  # a node's name and its board


class Listed(Struct, frozen=True):
    """The chips as the node object lists them."""

    layout: Layout
    free: int = 0
    faulty: int = 0
    no_network: int = 0
    fault: str = ""  # why the lists cannot be used
    code: str = ""
    unknown_type: str = ""  # an accelerator-type without a layout


class Board(Struct):
    """A node's chips in this cycle. `free`, `coming` and `reserved` change with the cycle's placements."""

    listed: Listed
    healthy: int = 0  # how many chips the node offers
    free: int = 0  # listed, healthy, and held by no pod
    doubtful: int = 0  # may be free; withheld until the lists agree
    not_reusable: int = 0  # chips that may not be usable when their pod ends: faulty, or disputed
    coming: int = 0  # held by terminating pods
    reserved: int = 0  # promised to pods that wait for terminating pods
    last: int = 0  # the latest predicate-time on the node
    waits: str = ""  # why the doubtful chips are withheld
    disputes: list[str] = field(default_factory=list)  # how the lists disagree, for `muster validate`
    holders: dict[str, int] = field(default_factory=dict)  # pod → its chips
    unnamed: int = 0  # chips of pods that do not name them

    @property
    def layout(self) -> Layout:
        return self.listed.layout

    @property
    def held(self) -> int:
        chips = 0
        for theirs in self.holders.values():
            chips |= theirs
        return chips

    @property
    def now(self) -> int:
        """Returns the chips that may be allocated at once."""
        return self.free & ~self.reserved

    @property
    def later(self) -> int:
        """Returns the chips that may be promised."""
        return (self.free | self.coming) & ~self.reserved


def read_node(node: Node, layouts: Mapping[str, Layout], otherwise: Layout) -> Listed:
    """Reads the lists of a node that offers chips; the layout is chosen by the label accelerator-type."""
    kind = node.metadata.labels.get(TYPE, "")
    layout = layouts.get(kind, otherwise)
    unknown = "" if kind in layouts else kind
    notes = node.metadata.annotations
    if RESOURCE not in notes:
        fault = f"chips but no list of them (annotation {RESOURCE})"
        return Listed(layout, fault=fault, code="no-chip-list", unknown_type=unknown)
    try:
        free, faulty, no_network = (_chips(notes.get(k, ""), k, layout) for k in (RESOURCE, FAULTY, NO_NETWORK))
    except ChipListError as why:
        fault = f"a list of chips that cannot be read: {why}"
        return Listed(layout, fault=fault, code="bad-chip-list", unknown_type=unknown)
    return Listed(layout, free, faulty, no_network, unknown_type=unknown)


def _chips(text: str, key: str, layout: Layout) -> int:
    try:
        return read_chips(text, PREFIX, layout.size)
    except ChipListError as why:
        raise ChipListError(f"annotation {key}: {why}") from None


def read_board(listed: Listed, healthy: int, tasks: Iterable[Task]) -> Board:
    """Reads the lists of the node and of the pods on it, without comparing them."""
    board = Board(listed, healthy, not_reusable=listed.faulty)
    releasing = 0
    for task in tasks:
        if RESOURCE not in task.shape.amounts:
            continue
        notes = task.annotations
        time = notes.get(TIME, "")
        if time.isascii() and time.isdigit() and len(time) <= 20 and int(time) < SERVED:
            board.last = max(board.last, int(time))
        chips = board.holders[task.key] = pod_chips(notes, listed.layout.size)
        board.unnamed += max(task.shape.amounts[RESOURCE] // 1000 - chips.bit_count(), 0)
        if task.status == Status.RELEASING:
            releasing |= chips
    board.coming = releasing & ~listed.faulty
    board.free = listed.free & ~listed.faulty & ~board.held
    return board


def pod_chips(notes: Mapping[str, str], size: int) -> int:
    """Returns the chips in a pod's annotations: the mounted chips, or else the requested chips.

    A list that cannot be read names none (the node's list decides).
    """
    for key in (MOUNTED, RESOURCE):
        try:
            if chips := read_chips(notes.get(key, ""), PREFIX, size):
                return chips
        except ChipListError:
            continue
    return 0


def findings(boards: Sequence[Named], types: Iterable[str]) -> list[Finding]:
    """Returns the findings for `muster validate`, which adds file and line."""
    fix = "compare the node's annotations with its pods'; the device plugin writes them again when it starts"
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
