"""Is a pod sent to its edge node, or held? The design's four situations, asked of its application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from muster.groups.applications import OwnerLoop
from muster.groups.gate import held
from muster.model.core import Pod
from muster.model.kinds import decode_json
from muster.model.meta import controller, key
from muster.server.edge_gate.editions import Editions
from muster.server.owners import Owners

Whole = Callable[[str], Awaitable[bytes | None]]
"""ns/name → the pod with all its fields in JSON, None if it is gone."""


class Verdicts:
    def __init__(self, owners: Owners, editions: Editions | None = None, whole: Whole | None = None) -> None:
        """`editions`: pods that are not in their group's edition are held, too; `whole` gets what is to be compared."""
        self._owners = owners
        self._editions = editions
        self._whole = whole

    async def held(self, pod: Pod, text: bytes | None = None) -> str | None:
        """Why the pod is held; None: it is sent. An ApiError if the API server cannot be asked for its owners.

        `text`: all of the pod in JSON, if it is at hand.
        """
        if controller(pod.metadata) is None and self._editions is None:
            return held(pod.metadata.labels)
        try:
            application = await self._owners.application_of(pod)
        except OwnerLoop:
            return None  # it belongs to no application, so nobody asked for a policy
        why = held(application.labels)
        if why is not None:
            return f"{application}: {why}"
        if self._editions is None or not self._editions.bear_on(application):
            return None
        if text is None and self._whole is not None:
            text = await self._whole(key(pod))
            found = None if text is None else decode_json(Pod, text)
            if found is None or found.metadata.uid != pod.metadata.uid:
                return None
            pod = found
        return None if text is None else await self._editions.outdated(application, pod, text)
