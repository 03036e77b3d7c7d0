"""The journal of a gang's commit: which pods are being bound where, in an annotation of their PodGroup.

A group in memory has no object: there one of its pods carries the journal, and is the last to go if it must be undone.

It is written before the first binding and taken away after the last, so whoever reads it later (this leader after a
failure, the next one after a crash) knows what was meant. One annotation is one write of the API server: it is there
whole or not at all, whatever dies in between.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

import msgspec

from muster.engine.core.jobs import Job
from muster.engine.core.state import State
from muster.model.core import Pod
from muster.model.meta import Object
from muster.model.meta import key as key_of
from muster.model.scheduling import PodGroup

JOURNAL = "muster.io/commit"
# Kubernetes allows 256 KiB of annotations on an object; the owner's own need room, too.
PLAIN_LIMIT = 32 * 1024
LIMIT = 200 * 1024
# Enough of a uid to tell a pod from one made anew under its name.
UID_PART = 8


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One pod of a commit."""

    node: str
    uid: str  # its beginning
    notes: dict[str, str] = {}  # annotations that go with the binding


class Journal(msgspec.Struct, frozen=True, kw_only=True):
    """A commit that has begun: the leader that wrote it, when, and pod name → where it goes."""

    holder: str
    at: float
    pods: dict[str, Entry]

    def same(self, name: str, uid: str) -> bool:
        """Is this the pod that was meant, not one made anew under its name?"""
        entry = self.pods.get(name)
        return entry is not None and uid.startswith(entry.uid)


class JournalCarrier(msgspec.Struct, frozen=True):
    """The object that carries a gang's journal: its PodGroup, or one of its pods."""

    kind: type[PodGroup] | type[Pod]
    key: str
    uid: str

    @property
    def pod(self) -> str:
        return self.key if self.kind is Pod else ""


class TooLarge(ValueError):
    """The gang's journal does not fit into an annotation."""


def encode(journal: Journal) -> str:
    """The annotation; large journals are compressed."""
    text = msgspec.json.encode(journal)
    if len(text) <= PLAIN_LIMIT:
        return text.decode()
    packed = "z:" + base64.b85encode(zlib.compress(text, 6)).decode()
    if len(packed) > LIMIT:
        raise TooLarge(f"the journal of {len(journal.pods)} bindings takes {len(packed)} bytes, more than {LIMIT}")
    return packed


def decode(text: str) -> Journal | None:
    """The journal in an annotation; None if it cannot be read (somebody else wrote there)."""
    try:
        raw = zlib.decompress(base64.b85decode(text[2:])) if text.startswith("z:") else text.encode()
        return msgspec.json.decode(raw, type=Journal)
    except (msgspec.MsgspecError, ValueError, zlib.error):
        return None


def journal_of(carrier: Object) -> Journal | None:
    text = carrier.metadata.annotations.get(JOURNAL)
    return None if text is None else decode(text)


def open_journal(state: State, job: Job) -> tuple[JournalCarrier, Object] | None:
    """Where the job's journal is, if it has one: on its group, else on the first of its pods."""
    group = state.objects["PodGroup"].get(job.key)
    if group is not None and JOURNAL in group.metadata.annotations:
        return JournalCarrier(PodGroup, job.key, group.metadata.uid), group
    carriers = [task for task in job.tasks.values() if JOURNAL in task.pod.metadata.annotations]
    if not carriers:
        return None
    first = min(carriers, key=lambda task: task.key)
    return JournalCarrier(Pod, first.key, first.pod.metadata.uid), first.pod


def carrier_for(state: State, job: Job, first: Pod) -> JournalCarrier:
    """Where the job's next journal goes, if it has none; `first` is a pod of the commit."""
    group = state.objects["PodGroup"].get(job.key)
    if group is not None:
        return JournalCarrier(PodGroup, job.key, group.metadata.uid)
    return JournalCarrier(Pod, key_of(first), first.metadata.uid)


def written(text: str | None, uid: str) -> dict[str, Any]:
    """The merge patch that writes the annotation, or (None) takes it away."""
    return {"metadata": {"uid": uid, "annotations": {JOURNAL: text}}}
