"""gpu-share: whole GPUs and parts of GPUs, each GPU of a node with its thousand parts (KAI, Volcano's deviceshare).

A pod requests whole GPUs, a fraction of a GPU, or an amount of its memory. The plugin chooses the node's GPUs
when a pod is allocated and writes their numbers with the binding. A GPU that pods share never has more than a thousand
parts in use, and a whole GPU is one that nobody uses.

`requests` reads pods, `devices` has the columns, `node_rules` the filters and the score, `scores` the rules pack,
spread and FGD, `typical` the typical pods of FGD, `findings` what `muster validate` reports, and `drawing` draws a
node's GPUs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from muster.engine.core.hooks import (
    Batch,
    BindEffects,
    DevicePicker,
    Effect,
    Floats,
    Ledger,
    NodeFilter,
    NodeNotes,
    NodeScorer,
    Picture,
    Plugin,
    SharedDevices,
    Verdict,
)
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import MoveKind, NodeView
from muster.engine.core.requirements import Requirement, waiting
from muster.engine.devices.fragmentation import Fragmentation
from muster.plugins.gpu_share.devices import Devices
from muster.plugins.gpu_share.findings import findings, too_many
from muster.plugins.gpu_share.node_rules import Free, GpuScore, Serviceable
from muster.plugins.gpu_share.requests import (
    DEVICES,
    FRACTION,
    INDEX,
    MEMORY,
    VOLCANO_INDEX,
    VOLCANO_TIME,
    GpuRequest,
    request_of,
    requests_shares,
    write_index,
)
from muster.plugins.gpu_share.scores import FGD, PACK, SCORES, Scores
from muster.plugins.gpu_share.typical import ARGUMENT, Typical

if TYPE_CHECKING:
    from muster.config.types import Arguments, PluginOption
    from muster.engine.core.session import Session
    from muster.engine.core.state import State
    from muster.engine.core.statement import Move
    from muster.model.finding import Finding

__all__ = ["GpuShare"]


class GpuShare(Plugin, NodeFilter, NodeScorer, Ledger, DevicePicker, SharedDevices, BindEffects, NodeNotes):
    name = "gpu-share"
    arguments = {
        "gpu-share.score": "how nodes and GPUs are chosen: pack (the fullest GPU that has enough free), spread (the "
        "GPU with the most free), fgd (the fragmentation of the GPUs grows least) (pack)",
        "gpu-share.weight": "the score of 0 to 100 is multiplied by it; 0: only GPUs are chosen by it, not nodes (1)",
        ARGUMENT: "the typical pods for the fragmentation: running (the pods on nodes; without them those that wait), "
        "or a list of {cpu, gpus, milli, models, weight}, as `muster trace show --typical-pods` prints it (running)",
    }

    def __init__(self, arguments: Arguments, option: PluginOption) -> None:
        super().__init__(arguments, option)
        self.weight = arguments.float("gpu-share.weight", 1.0, minimum=0.0)
        self.gpus = Devices(self.request)
        self.scores = Scores(arguments.text("gpu-share.score", PACK, SCORES), self.gpus)
        self.typical = Typical(arguments, self.request)
        self._filters = (Serviceable(self), Free(self))
        self._scorers = (GpuScore(self),)
        self._requests: dict[Hashable, GpuRequest] = {}  # by shape and annotations
        self._state: State | None = None
        self._now = 0

    @classmethod
    def required_by(cls, state: State) -> Iterator[Requirement]:
        for task in waiting(state):
            if requests_shares(task.shape, task.annotations):
                text = "requests shared GPUs or GPUs by number, which must be chosen for each pod"
                yield Requirement(f"Pod {task.key}", text, hard=True, switch="enablePredicate")

    def open(self, session: Session) -> None:
        if session.state is not self._state:
            self._state = session.state
            self._requests.clear()
        self._now = int(session.now * 1_000_000) * 1000
        changed = self.gpus.open(session.state)
        session.warnings += [f"{one.object} {one.message} ({one.fix})" for one in too_many(self.gpus)]
        table, model = None, _NO_MODELS
        if self.scores.rule == FGD:
            table, model = self.typical.table(session.state, self.gpus, changed)
        self.scores.open(session.state.nodes, table, model)

    def request(self, task: Task) -> GpuRequest:
        """Returns what the pod requests."""
        notes = task.pod.metadata.annotations
        key: Hashable = task.shape.id
        if notes and (FRACTION in notes or MEMORY in notes):
            key = key, notes.get(FRACTION), notes.get(MEMORY), notes.get(DEVICES)
        found = self._requests.get(key)
        if found is None:
            found = self._requests[key] = request_of(task.shape, notes or {})
        return found

    def signature(self, task: Task) -> Hashable | None:
        notes = task.pod.metadata.annotations
        return self.request(task) if notes and (FRACTION in notes or MEMORY in notes) else None

    # --- nodes

    def batch(self, task: Task) -> Batch:
        return max(term.batch(task) for term in (*self._filters, *self._scorers))

    def filters(self) -> Sequence[NodeFilter]:
        return self._filters

    def scorers(self) -> Sequence[NodeScorer]:
        return self._scorers

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        """Evaluates both filters: what is free counts where the node could serve the pod if it were empty."""
        first, second = (term.filter(task, nodes) for term in self._filters)
        return first.then(second)

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        return self._scorers[0].raw(task, nodes)

    # --- GPUs allocated and released

    def allocated(self, move: Move) -> None:
        if self.gpus.any and (request := self.request(move.task)).gpus:
            for task, node in zip(move.tasks, move.nodes, strict=True):
                if move.kind == MoveKind.EVICT:  # undone: the pod stays
                    self.gpus.evict(task, node, -1)
                else:
                    self._take(task, node, move.kind, request)

    def released(self, move: Move) -> None:
        if self.gpus.any and self.request(move.task).gpus:
            for task, node in zip(move.tasks, move.nodes, strict=True):
                if move.kind == MoveKind.EVICT:
                    self.gpus.evict(task, node, 1)
                else:
                    self.gpus.give_back(task, node, move.kind)

    def _take(self, task: Task, node: int, kind: MoveKind, request: GpuRequest) -> None:
        nodes = self.gpus.nodes
        cpu = task.shape.amounts.get("cpu", 0)
        account = nodes.future_idle if kind == MoveKind.PIPELINE else nodes.idle
        free_cpu = int(account[nodes.axis.rows["cpu"], node]) + cpu  # the move has taken it already
        ids = self.scores.choose(request, cpu, node, free_cpu, kind)
        if ids:
            self.gpus.take(task, node, kind, ids, request.parts(int(self.gpus.card[node])))

    # --- effects of a binding

    def wants(self, task: Task) -> bool:
        return self.request(task).gpus > 0

    def devices(self, task: Task) -> list[int] | None:
        gpus_of_pod = self.gpus.of_pods.get(task.key)
        return list(gpus_of_pod.ids) if gpus_of_pod is not None else None

    def shares(self, task: Task) -> dict[int, int] | None:
        gpus_of_pod = self.gpus.of(task)
        return None if gpus_of_pod is None else dict.fromkeys(gpus_of_pod.ids, gpus_of_pod.parts)

    def fragmentation(self) -> Fragmentation | None:
        state = self._state
        if state is None or not self._shared(state):
            return None
        nodes, everything = state.nodes, np.arange(len(state.nodes))
        table, model = self.typical.table(state, self.gpus, everything)
        free_cpu = nodes.idle[nodes.axis.rows["cpu"]]
        return table.of_cluster(self.gpus.idle, free_cpu, model, int(self.gpus.count.sum()))

    def _shared(self, state: State) -> bool:
        return self.gpus.shared() or any(self.request(task).share for task in waiting(state))

    def effects(self, task: Task, node: int) -> list[Effect]:
        gpus_of_pod = self.gpus.of_pods.get(task.key)
        if gpus_of_pod is None:
            return []
        index = write_index(list(gpus_of_pod.ids))
        if self.request(task).volcano:
            return [Effect("annotations", task.key, {VOLCANO_INDEX: index, VOLCANO_TIME: str(self._now)})]
        return [Effect("annotations", task.key, {INDEX: index})]

    # --- notes, drawings and findings

    def note(self, task: Task, node: int) -> str:
        request = self.request(task)
        if not request.gpus or not self.gpus.count[node]:
            return ""
        free = "+".join(str(max(parts, 0)) for parts in self.gpus.row(node, MoveKind.ALLOCATE))
        nodes, cpu = self.gpus.nodes, task.shape.amounts.get("cpu", 0)
        free_cpu = int(nodes.idle[nodes.axis.rows["cpu"], node])
        ids = self.scores.choose(request, cpu, node, free_cpu, MoveKind.ALLOCATE)
        return f"GPUs {free} free" + (f", GPU {write_index(ids)} for this pod" if ids else "")

    def picture(self, node: int) -> Picture | None:
        here = self.gpus.at(node)
        if here is None:
            return None
        name, gpus, card = self.gpus.nodes.names[node], int(self.gpus.count[node]), int(self.gpus.card[node])
        from muster.plugins.gpu_share.drawing import GpuPicture  # only pages and `explain` draw

        return GpuPicture(name, gpus, card, here.of_pods)

    @classmethod
    def examine(cls, session: Session) -> list[Finding]:
        mine = [plugin for plugin in session.plugins if isinstance(plugin, cls)]
        return [one for plugin in mine for one in findings(plugin.gpus)]


_NO_MODELS = np.zeros(0, np.int64)
