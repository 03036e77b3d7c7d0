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

MAX_REMEMBERED_PODS = 100_000

FetchPod = Callable[[str], Awaitable[bytes | None]]
"""Takes ns/name; returns the pod with all its fields in JSON, None if it does not exist."""


class PodVisibility:
    """Returns why pods are held back, and remembers the pods that were sent."""

    def __init__(
        self,
        owners: OwnerResolver,
        editions: EditionCheck | None = None,
        fetch_pod: FetchPod | None = None,
        *,
        strict: bool = False,
    ) -> None:
        """`editions`: pods that differ from their group's edition are held, too; `fetch_pod` reads them to compare."""
        self._owners = owners
        self._editions = editions
        self._fetch_pod = fetch_pod
        self._sent = None if strict else SentPods()

    async def hold_reason(self, pod: Pod, text: bytes | None = None) -> str | None:
        """Returns why the pod is held back; None if it is sent. Raises ApiError if its owners cannot be read.

        `text`: the whole pod in JSON, if it is available.
        """
        if self._sent is not None and pod.metadata.uid in self._sent:
            return None
        why = await self._hold_reason(pod, text)
        return None if why is not None and await self._was_sent(pod, text) else why

    def record_sent(self, pod: Pod, text: bytes | None) -> None:
        """Records that the pod is about to be sent to a client. A pod that has started need not be remembered."""
        status = pod.status
        started = text is not None and (status.start_time or status.phase not in ("", "Pending"))
        if self._sent is not None and not started:
            self._sent.add(pod.metadata.uid)

    async def _hold_reason(self, pod: Pod, text: bytes | None) -> str | None:
        if controller(pod.metadata) is None and self._editions is None:
            return hold_reason(pod.metadata.labels)
        try:
            application = await self._owners.application_of(pod)
        except OwnerLoop:
            return None  # it belongs to no application, so no policy is required
        why = hold_reason(application.labels)
        if why is not None:
            return f"{application}: {why}"
        if self._editions is None or not self._editions.apply_to(application):
            return None
        if text is None and self._fetch_pod is not None:
            text = await self._fetch_pod(key(pod))
            found = None if text is None else decode_json(Pod, text)
            if found is None or found.metadata.uid != pod.metadata.uid:
                return None
            pod = found
        return None if text is None else await self._editions.outdated(application, pod, text)

    async def _was_sent(self, pod: Pod, text: bytes | None) -> bool:
        """Returns whether the status shows that the pod was sent; if only metadata is available, reads it once per
        version."""
        if self._sent is None:
            return False
        uid, version = pod.metadata.uid, pod.metadata.resource_version
        if text is not None:
            return has_started(text, uid)  # not remembered: a caller of POST /gate can claim any status
        if self._fetch_pod is None or self._sent.is_unstarted(uid, version):
            return False
        text = await self._fetch_pod(key(pod))
        if text is None:
            return False  # it was deleted
        if has_started(text, uid):
            self._sent.add(uid)
            return True
        self._sent.record_unstarted(uid, version)
        return False


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
    """The pods that were sent, by UID. Beyond MAX_REMEMBERED_PODS the oldest are forgotten: by then they have started
    or are gone."""

    def __init__(self, limit: int = MAX_REMEMBERED_PODS) -> None:
        self._limit = limit
        self._sent: dict[str, None] = {}
        self._unstarted: dict[str, str] = {}  # UID → the version at which it was seen not to have started

    def __contains__(self, uid: str) -> bool:
        return uid in self._sent

    def __len__(self) -> int:
        return len(self._sent)

    def add(self, uid: str) -> None:
        if uid:
            self._sent.pop(uid, None)
            self._sent[uid] = None
            self._unstarted.pop(uid, None)
            _drop_oldest(self._sent, self._limit)

    def is_unstarted(self, uid: str, version: str) -> bool:
        """Returns whether the pod is known not to have started at this version."""
        return bool(version) and self._unstarted.get(uid) == version

    def record_unstarted(self, uid: str, version: str) -> None:
        self._unstarted.pop(uid, None)
        self._unstarted[uid] = version
        _drop_oldest(self._unstarted, self._limit)


def _drop_oldest(table: dict[str, str] | dict[str, None], limit: int) -> None:
    while len(table) > limit:
        del table[next(iter(table))]
