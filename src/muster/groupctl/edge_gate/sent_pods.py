"""Which pods were sent to their node: those stay visible, whatever becomes of their application's policies.

A pod that has started was sent, whoever sent it; its status says so to every replica and after every restart. Pods
that were sent and have not started yet are remembered here.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

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
