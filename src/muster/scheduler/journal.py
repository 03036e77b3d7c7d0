"""The journal of a gang's commit, and the recovery of a commit that was interrupted.

The journal is an annotation of the PodGroup: which pods are being bound to which nodes. It is written before the first
binding and removed after the last. Whoever reads it later (this leader after an error, the next one after a crash)
knows what was intended. One annotation is one write of the API server: it is there completely or not at all. A group
in memory has no object; there one of its pods carries the journal, and is evicted last if the commit is undone.

Recovery binds the remaining pods to the intended nodes if they still have capacity. Otherwise the next cycles may find
other nodes, and if the gang is incomplete after a grace period, its bound pods are evicted. The journal of a complete
gang, or of one without a bound pod, is only removed.
"""

from __future__ import annotations

import base64
import zlib
from enum import Enum
from typing import Any

import msgspec
from msgspec import Struct

from muster.engine.core.jobs import Job, Status, Task
from muster.engine.core.state import State
from muster.model.core import Pod
from muster.model.meta import Object
from muster.model.meta import key as key_of
from muster.model.scheduling import PodGroup

JOURNAL = "muster.io/commit"
# Kubernetes allows 256 KiB of annotations on an object; the user's annotations need space, too.
UNCOMPRESSED_MAX_BYTES = 32 * 1024
MAX_BYTES = 200 * 1024
# Enough of a uid to distinguish a pod from one that was recreated under the same name.
UID_PREFIX_CHARS = 8
RECOVERY_GRACE_S = 30.0
_BOUND = (Status.BOUND, Status.RUNNING, Status.ALLOCATED, Status.BINDING)


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One pod of a commit."""

    node: str
    uid: str  # its first UID_PREFIX_CHARS characters
    annotations: dict[str, str] = {}  # written with the binding


class Journal(msgspec.Struct, frozen=True, kw_only=True):
    """A commit that has begun: the leader that wrote it, when, and pod name → its binding."""

    holder: str
    at: float
    pods: dict[str, Entry]

    def same(self, name: str, uid: str) -> bool:
        """Returns whether this is the pod of the journal, not one that was recreated under its name."""
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
    """Returns the annotation's value; large journals are compressed."""
    text = msgspec.json.encode(journal)
    if len(text) <= UNCOMPRESSED_MAX_BYTES:
        return text.decode()
    packed = "z:" + base64.b85encode(zlib.compress(text, 6)).decode()
    if len(packed) > MAX_BYTES:
        raise TooLarge(f"the journal of {len(journal.pods)} bindings takes {len(packed)} bytes, more than {MAX_BYTES}")
    return packed


def decode(text: str) -> Journal | None:
    """Returns the journal of an annotation; None if it is not valid (another program wrote it)."""
    try:
        raw = zlib.decompress(base64.b85decode(text[2:])) if text.startswith("z:") else text.encode()
        return msgspec.json.decode(raw, type=Journal)
    except (msgspec.MsgspecError, ValueError, zlib.error):
        return None


def journal_of(carrier: Object) -> Journal | None:
    text = carrier.metadata.annotations.get(JOURNAL)
    return None if text is None else decode(text)


def open_journal(state: State, job: Job) -> tuple[JournalCarrier, Object] | None:
    """Returns the object with the job's journal: its group, or the first of its pods that carries one."""
    group = state.objects["PodGroup"].get(job.key)
    if group is not None and JOURNAL in group.metadata.annotations:
        return JournalCarrier(PodGroup, job.key, group.metadata.uid), group
    carriers = [task for task in job.tasks.values() if JOURNAL in task.pod.metadata.annotations]
    if not carriers:
        return None
    first = min(carriers, key=lambda task: task.key)
    return JournalCarrier(Pod, first.key, first.pod.metadata.uid), first.pod


def carrier_for(state: State, job: Job, first: Pod) -> JournalCarrier:
    """Returns the carrier of a new journal of the job; `first` is a pod of the commit."""
    group = state.objects["PodGroup"].get(job.key)
    if group is not None:
        return JournalCarrier(PodGroup, job.key, group.metadata.uid)
    return JournalCarrier(Pod, key_of(first), first.metadata.uid)


def annotation_patch(text: str | None, uid: str) -> dict[str, Any]:
    """Returns the merge patch that writes the annotation, or (None) removes it."""
    return {"metadata": {"uid": uid, "annotations": {JOURNAL: text}}}


# --- recovery


class RecoveryAction(Enum):
    CLOSE = "close"  # remove the journal
    FINISH = "finish"  # bind the remaining pods as intended
    WAIT = "wait"  # leave the remaining pods to the next cycles
    UNDO = "undo"  # evict the bound pods


class Recovery(Struct, frozen=True):
    """What to do about one journal."""

    action: RecoveryAction
    tasks: tuple[Task, ...] = ()  # to bind (FINISH) or to evict (UNDO)
    journal: Journal | None = None
    carrier: JournalCarrier | None = None  # of the journal; None: it is gone


def recover(state: State, group: str, tried: bool, since: float, now: float) -> Recovery:
    """Returns what to do about the group's journal.

    `tried`: FINISH was returned before; `since`: when this leader first saw the journal.
    """
    job = state.jobs.get(group)
    found = open_journal(state, job) if job is not None else None
    if found is None or job is None:
        return Recovery(RecoveryAction.CLOSE)
    carrier, obj = found
    journal = journal_of(obj)
    if journal is None:
        return Recovery(RecoveryAction.CLOSE, carrier=carrier)
    tasks = [t for t in job.tasks.values() if journal.same(t.name, t.uid)]
    bound = [t for t in tasks if t.status in _BOUND]
    rest = [t for t in tasks if t.status == Status.PENDING]
    # Pods that ran and ended are no sign of an interrupted commit.
    ended = job.count[Status.SUCCEEDED] or job.count[Status.FAILED]
    if not bound or job.ready >= job.min_available or ended:
        return Recovery(RecoveryAction.CLOSE, carrier=carrier)
    if rest and not tried and _have_capacity(state, rest, journal):
        return Recovery(RecoveryAction.FINISH, tuple(sorted(rest, key=lambda t: t.key)), journal)
    if now - max(since, journal.at) < RECOVERY_GRACE_S:
        return Recovery(RecoveryAction.WAIT)
    # The pod that carries the journal is evicted last: as long as it exists, the next leader knows what to undo.
    others = [t for t in bound if t.key != carrier.pod]
    return Recovery(RecoveryAction.UNDO, tuple(sorted(others or bound, key=lambda t: t.key)), journal)


def _have_capacity(state: State, tasks: list[Task], journal: Journal) -> bool:
    """Returns whether the intended nodes exist and have the capacity that these pods request."""
    state.refresh()
    nodes = state.nodes
    requested: dict[int, dict[str, int]] = {}
    for task in tasks:
        node = nodes.rank.get(journal.pods[task.name].node, -1)
        if node < 0 or nodes.objects[node].spec.unschedulable:
            return False
        here = requested.setdefault(node, {})
        for name, amount in task.shape.amounts.items():
            here[name] = here.get(name, 0) + amount
    rows = nodes.axis.rows
    return all(
        int(nodes.idle[rows[name], node]) >= amount for node, here in requested.items() for name, amount in here.items()
    )
