"""Opens Volcano's queue-allocation gate on pods that the scheduler has marked as admitted by their queue.

Until then only muster's scheduler considers such a pod; from then on it is pending like any other, and if no node fits,
an autoscaler may act on it. The scheduler itself may not change a pod's spec, so it sets an annotation.
"""

from __future__ import annotations

from collections.abc import Callable

from muster.engine.core.reading import ADMITTED, waits_for_queue
from muster.groupctl.controllers.object_cache import ObjectCache
from muster.groupctl.controllers.retries import Retries
from muster.model.core import Pod
from muster.store import NotFound, Store


class QueueGateController:
    """Removes the gate of pods that the scheduler has annotated as admitted."""

    def __init__(self, store: Store, report: Callable[[str], None] = lambda _: None) -> None:
        self._store = store
        self._cache = ObjectCache(store, (Pod,))
        self._retries: Retries[str] = Retries(report)

    def run(self) -> bool:
        now = self._store.clock.now()
        keys = {
            change.key: None
            for change in self._cache.take_changes()
            if isinstance(change.new, Pod) and _admitted(change.new)
        }
        keys.update(dict.fromkeys(self._retries.due(now)))
        wrote = False
        for key in keys:
            with self._retries.attempt(key, now):
                wrote = self._open(key) or wrote
        return wrote

    def next_time(self) -> float | None:
        return self._retries.next_time()

    def _open(self, key: str) -> bool:
        pod = self._cache.of(Pod).get(key)
        if pod is None or not _admitted(pod):
            return False
        try:
            self._store.patch(Pod, key, {"metadata": {"uid": pod.metadata.uid}, "spec": {"schedulingGates": None}})
        except NotFound:
            return False
        return True


def _admitted(pod: Pod) -> bool:
    return waits_for_queue(pod) and pod.metadata.annotations.get(ADMITTED) == "true"
