"""topology910: Ascend 910 chips by rings, each handed out once (design 4).

A pod of up to four chips gets them in one ring, a pod of eight a whole board. Boards without faults come first, then
those whose ring is left even and small (groups A to D), then those with fewer chips free elsewhere. For chip pods that
order outweighs every other plugin's score. Chips are picked when a pod is allocated, and given back exactly.

`boards` reads nodes and pods and has the findings for `muster validate`, `cluster` compares them, `requests` has the
requests that a job may make, `states` turns a board into a number, `node_rules` has the filters and scores over these
numbers and `drawing` draws a board. The layout of the rings is in `engine.devices`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

from muster.config.arguments import as_bool
from muster.engine.core.hooks import (
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
from muster.engine.core.jobs import Job, Shape, Task
from muster.engine.core.nodes import MoveKind, NodeView
from muster.engine.core.requirements import Requirement, waiting
from muster.engine.devices.boards import ASCEND_910, LAYOUTS, ids_of, write_chips
from muster.plugins.topology910.boards import LAYOUT, PREFIX, RESOURCE, TIME, findings, type_warnings
from muster.plugins.topology910.cluster import Boards
from muster.plugins.topology910.node_rules import Chips, GroupWorth, Healthy, HealthyWorth, RankWorth, Rings, note
from muster.plugins.topology910.requests import EACH_POD, ChipRequest, objection, request_of

if TYPE_CHECKING:
    from muster.config.types import Arguments, PluginOption
    from muster.engine.core.session import Session
    from muster.engine.core.state import State
    from muster.engine.core.statement import Move
    from muster.model.finding import Finding

__all__ = ["Topology910"]

WEIGHT = 1_000_000.0
# Huawei's values of the node label accelerator-type; the name of a layout is also a value
_TYPES = {
    "module": "910",
    "module-910b-8": "910B-8",
    "module-910b-16": "910B-16",
    "module-a3-16": "910C",
    "module-a3-16-super-pod": "910C",
    **{name: name for name in LAYOUTS},
}


class Topology910(Plugin, JobValid, NodeFilter, NodeScorer, Ledger, DevicePicker, BindEffects, NodeNotes):
    name = "topology910"
    arguments = {
        "topology910.weight": "what one step in the order of nodes is worth; the default outweighs all other "
        "plugins' scores together (1000000)",
        LAYOUT: "the layout of boards whose node has no label accelerator-type, or one that is not known: "
        f"{', '.join(LAYOUTS)} (910)",
        f"{LAYOUT}.*": "the layout of boards whose label accelerator-type has this value "
        f"({', '.join(f'{label}: {layout}' for label, layout in _TYPES.items() if label != layout)}, "
        "and every layout by its name)",
        EACH_POD: "true: a job may have any number of pods, each of a size that a board serves; false: up to 8 chips "
        "are one pod's, above that every pod has 8 (true for pods without a PodGroup that need no minimum, "
        "such as a Deployment's; else false)",
    }

    def __init__(self, arguments: Arguments, option: PluginOption) -> None:
        super().__init__(arguments, option)
        self.weight = arguments.float("topology910.weight", WEIGHT, minimum=0.0)
        each_pod = arguments.bool(EACH_POD, False)
        self.each_pod = each_pod if as_bool(arguments.get(EACH_POD)) is not None else None
        names = dict(_TYPES)
        for key in arguments:
            if key.startswith(f"{LAYOUT}."):
                kind = key.removeprefix(f"{LAYOUT}.")
                names[kind] = _layout(arguments, key, names.get(kind, ASCEND_910.name))
        default = LAYOUTS[_layout(arguments, LAYOUT, ASCEND_910.name)]
        self.boards = Boards({kind: LAYOUTS[name] for kind, name in names.items()}, default)
        self._filters = (Healthy(self), Rings(self))
        self._scorers = (HealthyWorth(self), GroupWorth(self), RankWorth(self))
        self._requests: dict[str, ChipRequest] = {}
        self._chips: dict[tuple[str, int], Chips] = {}
        self._same_chips: dict[tuple[tuple[int, ...], bool, int], Chips] = {}  # for jobs of equal requests
        self._held: dict[str, int] = {}  # pods allocated in this cycle
        self._reserved: dict[str, int] = {}  # pipelined pods: chips that are reserved for them
        self._times: dict[str, int] = {}
        self._last: dict[str, int] = {}  # node → the last predicate-time that this plugin wrote
        self._now = 0

    @classmethod
    def required_by(cls, state: State) -> Iterator[Requirement]:
        for task in waiting(state):
            if task.shape.amounts.get(RESOURCE):
                text = f"requests {RESOURCE}, which must be given as chips of one ring or whole boards"
                yield Requirement(f"Pod {task.key}", text, hard=True, switch="enablePredicate")

    def open(self, session: Session) -> None:
        for kept in (self._requests, self._chips, self._same_chips, self._held, self._reserved, self._times):
            kept.clear()
        self._now = int(session.now * 1_000_000) * 1000
        self.boards.open(session.state)
        session.warnings += type_warnings(self.boards.all(), self.boards.types)

    # --- jobs

    def valid(self, job: Job) -> Reason | None:
        if not job.total.get(RESOURCE):
            return None
        against = self._objections(job)
        return None if None in against else against[0]

    def _objections(self, job: Job) -> list[Reason | None]:
        """Returns per layout of the cluster's boards why it does not serve the job."""
        request = self._request(job)
        each_pod = request.independent if self.each_pod is None else self.each_pod
        return [objection(request, layout, each_pod=each_pod) for layout in self.boards.layouts]

    def _request(self, job: Job) -> ChipRequest:
        request = self._requests.get(job.key)
        if request is None:
            in_memory = self.boards.state.group_object(job) is None
            request = self._requests[job.key] = request_of(job, independent=in_memory and job.min_available <= 1)
        return request

    # --- nodes

    def chips(self, task: Task) -> Chips | None:
        """Returns the pod's request for filters and scores; None if it requests no chips or the cluster has none."""
        amount = task.shape.amounts.get(RESOURCE, 0)
        if not amount or not self.boards.any or task.job is None:
            return None
        key = (task.job.key, amount)
        found = self._chips.get(key)
        if found is None:
            request = self._request(task.job)
            same = (request.per_pod, request.independent, amount)
            known = self._same_chips.get(same)
            if known is None:
                served = tuple(reason is None for reason in self._objections(task.job))
                relaxed = tuple(
                    not ok and objection(request, layout, each_pod=True) is None
                    for ok, layout in zip(served, self.boards.layouts, strict=True)
                )
                known = self._same_chips[same] = Chips(amount // 1000, request.several, served, relaxed)
            found = self._chips[key] = known
        return found

    def signature(self, task: Task) -> Hashable | None:
        chips = self.chips(task)
        return None if chips is None else (chips.several, chips.served, chips.relaxed)

    def signs(self, shape: Shape) -> bool:
        return RESOURCE in shape.amounts

    def batch(self, task: Task) -> Batch:
        return Batch.SKIP if self.chips(task) is None else Batch.SINGLE

    def filters(self) -> Sequence[NodeFilter]:
        return self._filters

    def scorers(self) -> Sequence[NodeScorer]:
        return self._scorers

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        """Evaluates both filters: the rings count where the board as a whole could serve the pod."""
        first, second = (term.filter(task, nodes) for term in self._filters)
        return first.then(second)

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        healthy, group, rank = (term.raw(task, nodes) for term in self._scorers)
        return healthy + group + rank

    # --- chips allocated and released; each by its own bits, so the order of undoing does not matter

    def allocated(self, move: Move) -> None:
        if self.boards.any and RESOURCE in move.task.shape.amounts:
            for task, node in zip(move.tasks, move.nodes, strict=True):
                self._take(task, node, move.kind)

    def released(self, move: Move) -> None:
        if self.boards.any and RESOURCE in move.task.shape.amounts:
            for task, node in zip(move.tasks, move.nodes, strict=True):
                self._give_back(task, node, move.kind)

    def _take(self, task: Task, node: int, kind: MoveKind) -> None:
        board = self.boards.at(node)
        if board is None:
            return
        if kind == MoveKind.EVICT:  # undone: the pod stays
            board.coming &= ~board.holders.get(task.key, 0)
        else:
            chips = self.chips(task)
            usable = board.now if kind == MoveKind.ALLOCATE else board.later
            if chips is None or board.listed.fault:
                return
            if chips.several:
                usable &= ~board.listed.no_network
            picked = board.layout.pick(usable, chips.count)
            if kind == MoveKind.ALLOCATE:
                self._held[task.key] = picked
                board.free &= ~picked
            else:
                self._reserved[task.key] = picked
                board.reserved |= picked
        self.boards.renumber(node)

    def _give_back(self, task: Task, node: int, kind: MoveKind) -> None:
        board = self.boards.at(node)
        if board is None:
            return
        if kind == MoveKind.EVICT:
            board.coming |= board.holders.get(task.key, 0) & ~board.not_reusable
        elif kind == MoveKind.ALLOCATE:
            board.free |= self._held.pop(task.key, 0)
        else:
            board.reserved &= ~self._reserved.pop(task.key, 0)
        self.boards.renumber(node)

    # --- effects of a binding

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
        """Returns the pod's predicate-time, unique per node: the device plugin serves the pods in its order."""
        time = self._times.get(task.key)
        if time is None:
            board, name = self.boards.at(node), self.boards.nodes.names[node]
            last = max(self._last.get(name, 0), board.last if board is not None else 0)
            time = self._times[task.key] = self._last[name] = max(self._now, last + 1)
        return time

    # --- notes, drawings and findings

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
        from muster.plugins.topology910.drawing import BoardPicture  # only pages and `explain` draw

        return BoardPicture(name, board, held)

    @classmethod
    def examine(cls, session: Session) -> list[Finding]:
        found: list[Finding] = []
        for plugin in session.plugins:
            if isinstance(plugin, cls):
                found += findings(plugin.boards.all(), plugin.boards.types)
        return found


def _layout(arguments: Arguments, key: str, default: str) -> str:
    """Returns the name of a layout; YAML reads 910 as a number."""
    given = arguments.get(key)
    if type(given) is int and str(given) in LAYOUTS:
        return str(given)
    return arguments.text(key, default, tuple(LAYOUTS))
