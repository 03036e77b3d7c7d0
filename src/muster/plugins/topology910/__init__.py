"""topology910: Ascend 910 chips by rings, each handed out once (design 4).

A pod of up to four chips gets them in one ring, a pod of eight a whole board. Boards without faults come first, then
those whose ring is left even and small (groups A to D), then those with fewer chips free elsewhere. For chip pods that
order outweighs every other plugin's score. Chips are picked when a pod is allocated, and given back exactly.

`boards` reads nodes and pods, `requests` says what a job may ask for, `states` turns a board into a number, `terms` are
the filters and scores over these numbers, `picture` draws a board. The wiring itself is `engine.devices`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from muster.engine.devices import ASCEND_910, LAYOUTS, ids_of, write_chips
from muster.engine.hooks import (
    Batch,
    BindEffects,
    DevicePicker,
    Effect,
    Floats,
    JobValid,
    Ledger,
    NodeFilter,
    NodeNotes,
    NodeScorer,
    Picture,
    Plugin,
    Reason,
    Verdict,
)
from muster.engine.jobs import Job, Shape, Task
from muster.engine.nodes import Kind, NodeView
from muster.engine.requirements import Requirement, waiting
from muster.plugins.topology910.boards import PREFIX, RESOURCE, TIME
from muster.plugins.topology910.cluster import Boards
from muster.plugins.topology910.picture import BoardPicture
from muster.plugins.topology910.requests import Ask, ask_of, objection
from muster.plugins.topology910.terms import Chips, GroupWorth, Healthy, HealthyWorth, RankWorth, Rings, note

if TYPE_CHECKING:
    from muster.config.types import Arguments, PluginOption
    from muster.engine.session import Session
    from muster.engine.state import State
    from muster.engine.statement import Move

__all__ = ["Topology910"]

WEIGHT = 1_000_000.0
_LAYOUT = "topology910.layout"
# Huawei's values of the node label accelerator-type
_TYPES = {"module": "910", "module-910b-8": "910B-8", "module-910b-16": "910B-16"}


class Topology910(Plugin, JobValid, NodeFilter, NodeScorer, Ledger, DevicePicker, BindEffects, NodeNotes):
    name = "topology910"
    arguments = {
        "topology910.weight": "what one step in the order of nodes is worth; the default outweighs all other "
        "plugins' scores together (1000000)",
        _LAYOUT: f"the layout of boards whose accelerator-type is not known: {', '.join(LAYOUTS)} (910)",
        f"{_LAYOUT}.*": "the layout of boards whose label accelerator-type has this value "
        f"({', '.join(f'{label}: {layout}' for label, layout in _TYPES.items())})",
        "topology910.eachPod": "jobs may have any number of pods, each of a size that a board serves; not given: up to "
        "8 chips are one pod's, above that every pod has 8 (false)",
    }

    def __init__(self, arguments: Arguments, option: PluginOption) -> None:
        super().__init__(arguments, option)
        self.weight = arguments.float("topology910.weight", WEIGHT, minimum=0.0)
        self.each_pod = arguments.bool("topology910.eachPod", False)
        names = dict(_TYPES)
        for key in arguments:
            if key.startswith(f"{_LAYOUT}."):
                kind = key.removeprefix(f"{_LAYOUT}.")
                names[kind] = arguments.text(key, names.get(kind, ASCEND_910.name), tuple(LAYOUTS))
        default = LAYOUTS[arguments.text(_LAYOUT, ASCEND_910.name, tuple(LAYOUTS))]
        self.boards = Boards({kind: LAYOUTS[name] for kind, name in names.items()}, default)
        self._filters = (Healthy(self), Rings(self))
        self._scorers = (HealthyWorth(self), GroupWorth(self), RankWorth(self))
        self._asks: dict[str, Ask] = {}
        self._chips: dict[tuple[str, int], Chips] = {}
        self._held: dict[str, int] = {}  # pods allocated in this cycle
        self._meant: dict[str, int] = {}  # pods that wait: chips that are kept for them, not theirs yet
        self._times: dict[str, int] = {}
        self._last: dict[str, int] = {}  # node → the last predicate-time given out here
        self._now = 0

    @classmethod
    def required_by(cls, state: State) -> Iterator[Requirement]:
        for task in waiting(state):
            if task.shape.amounts.get(RESOURCE):
                text = f"requests {RESOURCE}, which must be given as chips of one ring or whole boards"
                yield Requirement(f"Pod {task.key}", text, hard=True, switch="enablePredicate")

    def open(self, session: Session) -> None:
        for kept in (self._asks, self._chips, self._held, self._meant, self._times):
            kept.clear()
        self._now = int(session.now * 1_000_000) * 1000
        self.boards.open(session.state)

    # --- jobs

    def valid(self, job: Job) -> Reason | None:
        if not job.total.get(RESOURCE):
            return None
        against = self._objections(job)
        return None if None in against else against[0]

    def _objections(self, job: Job) -> list[Reason | None]:
        """Per layout of the cluster's boards: why it does not serve the job."""
        ask = self._ask(job)
        return [objection(ask, layout, each_pod=self.each_pod) for layout in self.boards.layouts]

    def _ask(self, job: Job) -> Ask:
        ask = self._asks.get(job.key)
        if ask is None:
            ask = self._asks[job.key] = ask_of(job)
        return ask

    # --- nodes

    def chips(self, task: Task) -> Chips | None:
        """What the pod wants, as far as filters and scores care; None: no chips, or none in this cluster."""
        amount = task.shape.amounts.get(RESOURCE, 0)
        if not amount or not self.boards.any or task.job is None:
            return None
        key = (task.job.key, amount)
        found = self._chips.get(key)
        if found is None:
            # Huawei's plugins, since 2021: a job of several pods talks over the network.
            several = self._ask(task.job).pods > 1
            served = tuple(reason is None for reason in self._objections(task.job))
            found = self._chips[key] = Chips(amount // 1000, several, served)
        return found

    def signature(self, task: Task) -> Hashable | None:
        chips = self.chips(task)
        return None if chips is None else (chips.several, chips.served)

    def batch(self, task: Task) -> Batch:
        return Batch.SKIP if self.chips(task) is None else Batch.SINGLE

    def filters(self) -> Sequence[NodeFilter]:
        return self._filters

    def scorers(self) -> Sequence[NodeScorer]:
        return self._scorers

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        """Both rules together: the rings speak where the board as such could serve the pod."""
        first, then = (term.filter(task, nodes) for term in self._filters)
        code = np.where(first.code > 0, first.code, np.where(then.code > 0, then.code + len(first.reasons), 0))
        return Verdict(code.astype(np.uint16), [*first.reasons, *then.reasons])

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        healthy, group, rank = (term.raw(task, nodes) for term in self._scorers)
        return healthy + group + rank

    # --- chips given out and taken back; each by its own bits, so the order of undoing does not matter

    def allocated(self, move: Move) -> None:
        if self.boards.any and RESOURCE in move.task.shape.amounts:
            for task, node in zip(move.tasks, move.nodes, strict=True):
                self._take(task, node, move.kind)

    def released(self, move: Move) -> None:
        if self.boards.any and RESOURCE in move.task.shape.amounts:
            for task, node in zip(move.tasks, move.nodes, strict=True):
                self._give_back(task, node, move.kind)

    def _take(self, task: Task, node: int, kind: Kind) -> None:
        board = self.boards.at(node)
        if board is None:
            return
        if kind == Kind.EVICT:  # undone: the pod stays
            board.coming &= ~board.holders.get(task.key, 0)
        else:
            chips = self.chips(task)
            usable = board.now if kind == Kind.ALLOCATE else board.later
            if chips is None or board.waits or board.listed.fault:
                return
            if chips.several:
                usable &= ~board.listed.no_network
            picked = board.layout.pick(usable, chips.count)
            if kind == Kind.ALLOCATE:
                self._held[task.key] = picked
                board.free &= ~picked
            else:
                self._meant[task.key] = picked
                board.reserved |= picked
        self.boards.renumber(node)

    def _give_back(self, task: Task, node: int, kind: Kind) -> None:
        board = self.boards.at(node)
        if board is None:
            return
        if kind == Kind.EVICT:
            board.coming |= board.holders.get(task.key, 0) & ~board.listed.faulty
        elif kind == Kind.ALLOCATE:
            board.free |= self._held.pop(task.key, 0)
        else:
            board.reserved &= ~self._meant.pop(task.key, 0)
        self.boards.renumber(node)

    # --- what is written with the binding

    def wants(self, task: Task) -> bool:
        return self.chips(task) is not None

    def devices(self, task: Task) -> list[int] | None:
        picked = self._held.get(task.key)
        return ids_of(picked) if picked else None

    def concerns(self, shape: Shape) -> bool:
        return RESOURCE in shape.amounts

    def effects(self, task: Task, node: int) -> list[Effect]:
        picked = self._held.get(task.key)
        if not picked:
            return []
        values = {RESOURCE: write_chips(picked, PREFIX), TIME: str(self._time(task, node))}
        return [Effect("annotations", task.key, values)]

    def _time(self, task: Task, node: int) -> int:
        """The device plugin serves the pods of a node by this number, so no two may have the same."""
        time = self._times.get(task.key)
        if time is None:
            board, name = self.boards.at(node), self.boards.nodes.names[node]
            last = max(self._last.get(name, 0), board.last if board is not None else 0)
            time = self._times[task.key] = self._last[name] = max(self._now, last + 1)
        return time

    # --- what people are shown

    def note(self, task: Task, node: int) -> str:
        chips = self.chips(task)
        return "" if chips is None else note(self.boards, chips, node)

    def picture(self, node: int) -> Picture | None:
        board = self.boards.at(node)
        if board is None:
            return None
        name = self.boards.nodes.names[node]
        tasks = self.boards.state.tasks
        held = {**board.holders, **{key: chips for key, chips in self._held.items() if tasks[key].node == node}}
        return BoardPicture(name, board, held)
