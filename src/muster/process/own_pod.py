"""Writes conditions of the pod that this process runs in."""

from __future__ import annotations

import time

from muster.kube.client import Client
from muster.kube.writes import Writes
from muster.model.core import Pod
from muster.model.meta import Condition
from muster.store.clock import timestamp
from muster.store.errors import ApiError


class OwnPod:
    """The pod of this process. `key` is NAMESPACE/NAME, or empty outside a cluster: then nothing is written."""

    def __init__(self, client: Client, key: str) -> None:
        self.key = key
        self.object: Pod | None = None
        """The pod as it was last seen, once a condition has been written."""
        self._writes = Writes(client)

    async def set_condition(self, type_: str, *, status: bool, reason: str, message: str) -> None:
        """Writes a condition; one that keeps its status keeps its transition time. ApiError if it cannot be written."""
        if not self.key:
            return
        try:
            pod = self.object or await self._writes.get(Pod, self.key)
            condition = _condition(pod, type_, "True" if status else "False", reason, message)
            self.object = await self._writes.pod_condition(self.key, condition, uid=pod.metadata.uid)
        except ApiError:
            self.object = None
            raise


def _condition(pod: Pod, type_: str, status: str, reason: str, message: str) -> Condition:
    before = next((one for one in pod.status.conditions if one.type == type_), None)
    now = timestamp(float(int(time.time())))
    since = before.last_transition_time if before is not None and before.status == status else now
    return Condition(type=type_, status=status, reason=reason, message=message, last_transition_time=since)
