"""Decides whether a pod is visible to its edge node or held back, by the binding state of its application.

Only pods that were never sent to their node are held back: otherwise a change of a label or a policy would delete a
running pod at the edge. With `strict`, a pod is held back whenever its application is not bound.

A pod that has started was sent, by whichever replica: its status shows it after every restart. Pods that were sent and
have not started yet are remembered here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from msgspec import Struct

from muster.groupctl.edge_gate.edition_check import EditionCheck
from muster.groupctl.owners import OwnerResolver
from muster.groups.applications import OwnerLoop
from muster.groups.binding import hold_reason
from muster.model.core import Pod
from muster.model.kinds import decode_json
from muster.model.meta import controller, key

Whole = Callable[[str], Awaitable[bytes | None]]
"""ns/name → the pod with all its fields in JSON, None if it is gone."""


class PodVisibility:
    def __init__(
        self,
        owners: OwnerResolver,
        editions: EditionCheck | None = None,
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


MAX_REMEMBERED = 100_000


class _Status(Struct, rename="camel"):
    phase: str | None = None
    start_time: str | None = None
    container_statuses: list[msgspec.Raw] | None = None
    init_container_statuses: list[msgspec.Raw] | None = None
    ephemeral_container_statuses: list[msgspec.Raw] | None = None


class _Metadata(Struct):
    uid: str = ""


class _Pod(Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    status: _Status | None = None


_pod = msgspec.json.Decoder(_Pod)


def has_started(text: bytes, uid: str) -> bool:
    """Whether a kubelet has accepted the pod: a start time, a container status, or a phase other than Pending.

    `text` is the pod in JSON; a pod of the same name with another UID is another pod.
    """
    try:
        pod = _pod.decode(text)
    except msgspec.DecodeError:
        return False
    if pod.metadata.uid != uid:
        return False
    status = pod.status or _Status()
    containers = (status.container_statuses, status.init_container_statuses, status.ephemeral_container_statuses)
    return bool(status.start_time) or any(containers) or (status.phase or "Pending") != "Pending"


class SentPods:
    """By UID; the oldest are forgotten beyond MAX_REMEMBERED, by when they have started or are gone."""

    def __init__(self, most: int = MAX_REMEMBERED) -> None:
        self._most = most
        self._sent: dict[str, None] = {}
        self._waiting: dict[str, str] = {}  # UID → the version at which it was seen not to have started

    def __contains__(self, uid: str) -> bool:
        return uid in self._sent

    def __len__(self) -> int:
        return len(self._sent)

    def add(self, uid: str) -> None:
        if uid:
            self._sent.pop(uid, None)
            self._sent[uid] = None
            self._waiting.pop(uid, None)
            _shorten(self._sent, self._most)

    def is_waiting(self, uid: str, version: str) -> bool:
        """Whether the pod is known not to have started at this version of it."""
        return bool(version) and self._waiting.get(uid) == version

    def has_not_started(self, uid: str, version: str) -> None:
        self._waiting.pop(uid, None)
        self._waiting[uid] = version
        _shorten(self._waiting, self._most)


def _shorten(table: dict[str, str] | dict[str, None], most: int) -> None:
    while len(table) > most:
        del table[next(iter(table))]
