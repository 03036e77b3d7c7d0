"""Pods whose image was changed in place: a tenth of an application restarts at a time, the next when these are ready.

No PodDisruptionBudget is asked for an image that changes in place, so the controller keeps pods available by itself. A
pod stays Ready until its kubelet has seen the change. It has restarted when the restart count of a container has grown;
if a kubelet does not count, `rest` seconds have to do.
"""

from __future__ import annotations

from collections.abc import Sequence

from muster.groupctl.controllers.object_cache import Ref
from muster.groupctl.controllers.throttle import max_disrupted
from muster.model.core import Pod
from muster.model.pod_states import is_ready


class RestartThrottle:
    """Of all applications."""

    def __init__(self, rest: float) -> None:
        self._rest = rest
        # application → uid of a pod → its restarts before, and when it is believed to have restarted
        self._begun: dict[Ref, dict[str, tuple[int, float]]] = {}

    def allowance(self, ref: Ref, pods: Sequence[Pod], replicas: int, now: float) -> tuple[int, float | None]:
        """How many ready pods may be restarted now; and when to look again if nothing happens before."""
        begun = self._begun.get(ref, {})
        there = {pod.metadata.uid: pod for pod in pods}
        waiting = {
            uid: (count, until)
            for uid, (count, until) in begun.items()
            if uid in there and _restarts(there[uid]) <= count and now < until
        }
        self._begun[ref] = waiting
        away = sum(1 for pod in pods if pod.metadata.uid in waiting or not is_ready(pod))
        return max_disrupted(replicas) - away, min((until for _, until in waiting.values()), default=None)

    def begin(self, ref: Ref, pod: Pod, now: float) -> float:
        """The pod's image is changed now; when to look again if nothing happens before."""
        self._begun.setdefault(ref, {})[pod.metadata.uid] = (_restarts(pod), now + self._rest)
        return now + self._rest

    def forget(self, ref: Ref) -> None:
        self._begun.pop(ref, None)


def _restarts(pod: Pod) -> int:
    return sum(status.restart_count for status in pod.status.container_statuses)
