"""Back-off for nodes whose kubelet rejected a pod: the node gets no pod of that shape for a while.

A kubelet rejects a pod that is bound to it (OutOfcpu, OutOfnvidia.com/gpu, UnexpectedAdmissionError …) when its own
view of the node differs from the node's status. It would reject the next such pod as well.
"""

from __future__ import annotations

import numpy as np

from muster.config.types import Arguments, PluginOption
from muster.engine.core.hooks import Batch, NodeFilter, Plugin, Reason, Scope, Verdict
from muster.engine.core.jobs import Shape, Task
from muster.engine.core.nodes import NodeView
from muster.engine.core.session import Session
from muster.model.core import Pod

BACKOFF_FIRST_S, BACKOFF_MAX_S = 10.0, 600.0
_REJECTED = Reason("kubelet-rejected", "node(s) had rejected such a pod a moment ago")


def rejected(pod: Pod) -> bool:
    """Returns whether the kubelet's admission rejected the pod."""
    status = pod.status
    if status.phase != "Failed":
        return False
    return status.reason.startswith("OutOf") or status.reason in ("UnexpectedAdmissionError", "NodeAffinity")


class KubeletRejections(Plugin, NodeFilter):
    """A node filter that every live scheduler has after the configured plugins."""

    name = "kubelet-rejections"
    scope = Scope.NODE

    def __init__(self) -> None:
        super().__init__(Arguments({}), PluginOption(self.name))
        self._until: dict[tuple[int, str], tuple[float, float]] = {}  # shape, node → when it ends, how long it lasts
        self._seen: set[str] = set()  # uids
        self._now = 0.0
        self._refusing: dict[int, list[str]] = {}

    def add(self, shape: Shape, pod: Pod, now: float) -> bool:
        """Records a rejection; returns False if it is known already."""
        if pod.metadata.uid in self._seen:
            return False
        self._seen.add(pod.metadata.uid)
        key = (shape.id, pod.spec.node_name)
        before = self._until.get(key)
        lasts = BACKOFF_FIRST_S if before is None else min(before[1] * 2, BACKOFF_MAX_S)
        self._until[key] = (now + lasts, lasts)
        return True

    def forget(self, uid: str) -> None:
        self._seen.discard(uid)

    def next_expiry(self, now: float) -> float | None:
        return min((end for end, _ in self._until.values() if end > now), default=None)

    def open(self, session: Session) -> None:
        self._now = session.now
        # An expired back-off is kept for as long again, so that the next rejection doubles it.
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
