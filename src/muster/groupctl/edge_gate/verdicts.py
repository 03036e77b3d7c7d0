"""Whether a pod is sent to its edge node or held: the design's four situations, asked of its application.

Only pods that were never sent are held, so that a running pod is not deleted at the edge because a label or a policy
changed. With `strict` a pod is held whenever its application is not bound.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from muster.groupctl.edge_gate.editions import Editions
from muster.groupctl.edge_gate.sent_pods import SentPods, has_started
from muster.groupctl.owners import OwnerResolver
from muster.groups.applications import OwnerLoop
from muster.groups.binding import hold_reason
from muster.model.core import Pod
from muster.model.kinds import decode_json
from muster.model.meta import controller, key

Whole = Callable[[str], Awaitable[bytes | None]]
"""ns/name → the pod with all its fields in JSON, None if it is gone."""


class Verdicts:
    def __init__(
        self,
        owners: OwnerResolver,
        editions: Editions | None = None,
        whole: Whole | None = None,
        *,
        strict: bool = False,
    ) -> None:
        """`editions`: pods that are not in their group's edition are held, too; `whole` gets what is to be compared."""
        self._owners = owners
        self._editions = editions
        self._whole = whole
        self._sent = None if strict else SentPods()

    async def held(self, pod: Pod, text: bytes | None = None) -> str | None:
        """Why the pod is held; None: it is sent. An ApiError if the API server cannot be asked for its owners.

        `text`: all of the pod in JSON, if it is at hand.
        """
        if self._sent is not None and pod.metadata.uid in self._sent:
            return None
        why = await self._waits_for(pod, text)
        return None if why is not None and await self._was_sent(pod, text) else why

    def send(self, pod: Pod, text: bytes | None) -> None:
        """The pod is about to be shown to a client. One that has started needs not be remembered."""
        status = pod.status
        started = text is not None and (status.start_time or status.phase not in ("", "Pending"))
        if self._sent is not None and not started:
            self._sent.add(pod.metadata.uid)

    async def _waits_for(self, pod: Pod, text: bytes | None) -> str | None:
        if controller(pod.metadata) is None and self._editions is None:
            return hold_reason(pod.metadata.labels)
        try:
            application = await self._owners.application_of(pod)
        except OwnerLoop:
            return None  # it belongs to no application, so nobody asked for a policy
        why = hold_reason(application.labels)
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

    async def _was_sent(self, pod: Pod, text: bytes | None) -> bool:
        """By its status; where only metadata is at hand, the status of this version is asked for once."""
        if self._sent is None:
            return False
        uid, version = pod.metadata.uid, pod.metadata.resource_version
        if text is not None:
            return has_started(text, uid)  # not remembered: whoever asks POST /gate writes what they like
        if self._whole is None or self._sent.is_waiting(uid, version):
            return False
        text = await self._whole(key(pod))
        if text is None:
            return False  # it is gone
        if has_started(text, uid):
            self._sent.add(uid)
            return True
        self._sent.has_not_started(uid, version)
        return False
