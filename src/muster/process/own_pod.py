"""Writes conditions of the pod that this process runs in."""

from __future__ import annotations

import time

from muster.kube.client import Client
from muster.kube.writes import Writes
from muster.model.core import Pod
from muster.model.meta import condition, merge_conditions
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
            before = [one for one in pod.status.conditions if one.type == type_]
            new = condition(type_, status, reason, message)
            [merged] = merge_conditions(before, [new], float(int(time.time())))
            self.object = await self._writes.pod_condition(self.key, merged, uid=pod.metadata.uid)
        except ApiError:
            self.object = None
            raise
