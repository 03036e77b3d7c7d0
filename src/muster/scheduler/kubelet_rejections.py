"""A kubelet's rejection is a signal: that node does not take pods of that shape for a while, whatever the accounts say.

A kubelet rejects a pod that is bound to it (OutOfcpu, OutOfnvidia.com/gpu, UnexpectedAdmissionError …) when what it
knows differs from what the API server was told. Binding the next such pod to the same node at once would be rejected
just the same.
"""

from __future__ import annotations

import numpy as np

from muster.config.types import Arguments, PluginOption
from muster.engine.core.hooks import Batch, NodeFilter, Plugin, Reason, Scope, Verdict
from muster.engine.core.jobs import Shape, Task
from muster.engine.core.nodes import NodeView
from muster.engine.core.session import Session
from muster.model.core import Pod

FIRST, MOST = 10.0, 600.0
_REJECTED = Reason("kubelet-rejected", "node(s) had rejected such a pod a moment ago")


def rejected(pod: Pod) -> bool:
    """Was the pod turned away by its kubelet's admission?"""
    status = pod.status
    if status.phase != "Failed":
        return False
    return status.reason.startswith("OutOf") or status.reason in ("UnexpectedAdmissionError", "NodeAffinity")


class KubeletRejections(Plugin, NodeFilter):
    """In every live scheduler, after the configured plugins; refuses nothing unless a kubelet did."""

    name = "kubelet-rejections"
    scope = Scope.NODE

    def __init__(self) -> None:
        super().__init__(Arguments({}), PluginOption(self.name))
        self._until: dict[tuple[int, str], tuple[float, float]] = {}  # shape, node → when it ends, how long it lasts
        self._seen: set[str] = set()  # uids
        self._now = 0.0
        self._refusing: dict[int, list[str]] = {}

    def note(self, shape: Shape, pod: Pod, now: float) -> bool:
        """Remember a rejection; False if it was known."""
        if pod.metadata.uid in self._seen:
            return False
        self._seen.add(pod.metadata.uid)
        key = (shape.id, pod.spec.node_name)
        before = self._until.get(key)
        lasts = FIRST if before is None else min(before[1] * 2, MOST)
        self._until[key] = (now + lasts, lasts)
        return True

    def forget(self, uid: str) -> None:
        self._seen.discard(uid)

    def wake(self, now: float) -> float | None:
        return min((end for end, _ in self._until.values() if end > now), default=None)

    def open(self, session: Session) -> None:
        self._now = session.now
        # Remembered for as long again, so that a node that goes on rejecting is left alone for longer.
        self._until = {k: (end, lasts) for k, (end, lasts) in self._until.items() if end + lasts > self._now}
        self._refusing = {}
        for (shape, node), (end, _) in self._until.items():
            if end > self._now:
                self._refusing.setdefault(shape, []).append(node)

    def batch(self, task: Task) -> Batch:
        return Batch.COLUMNS if task.shape.id in self._refusing else Batch.SKIP

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        refused = np.zeros(len(nodes.nodes), np.bool_)
        for name in self._refusing.get(task.shape.id, ()):
            node = nodes.nodes.rank.get(name, -1)
            if node >= 0:
                refused[node] = True
        return Verdict.of(refused[nodes.index], _REJECTED)
