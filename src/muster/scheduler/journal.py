"""The journal of a gang's commit, and the recovery of a commit that was interrupted.

The journal is an annotation of the pod that is bound first: which pods are being bound to which nodes. The binding
itself writes it, so it takes no call of its own, and it is there as soon as a pod of the gang is bound. The other pods
are bound after that. Whoever reads it later (this leader after an error, the next one after a crash) knows what was
intended.

A journal is open as long as one of its pods is pending. A closed one never opens again, because a bound pod never
becomes pending and a recreated pod has another uid. So the journal of a complete commit stays on its pod and means
nothing. If a pod of an incomplete commit is recreated, its journal closes although the gang is partial: the leader also
remembers the journals of the commits that it saw incomplete, until their gangs have their minimum or nothing is bound.

Recovery binds the remaining pods to the intended nodes if they still have capacity. Otherwise the next cycles may find
other nodes, and if the gang is incomplete after a grace period, its bound pods are evicted. An open journal of a gang
that has its minimum, or none of whose pods is bound any more, is removed.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any

import msgspec
from msgspec import Struct

from muster.engine.core.jobs import Job, Status, Task
from muster.engine.core.state import State
from muster.engine.volumes.volume_claims import claim_name, is_bound
from muster.model.core import Pod
from muster.model.pod_states import is_finished, is_rejected
from muster.model.storage import PersistentVolumeClaim

JOURNAL = "muster.io/commit"
UNCOMPRESSED_MAX_BYTES = 32 * 1024
# Annotations that are added to the pod later need space, too.
MAX_BYTES = 200 * 1024
# A tenant can write the annotation too: one that takes more than this when it is decompressed is not a journal.
DECOMPRESSED_MAX_BYTES = 2 << 20
# Kubernetes allows 256 KiB for all annotations of an object. A binding is not checked, but every later change of the
# pod is, so some of it is left for annotations that others add.
ANNOTATIONS_MAX_BYTES = 240 * 1024
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
        return entry is not None and entry.uid == uid[:UID_PREFIX_CHARS]

    def of(self, uids: Mapping[str, str]) -> Journal:
        """Returns the journal with only those of its pods that exist (name → uid)."""
        pods = {name: entry for name, entry in self.pods.items() if name in uids and self.same(name, uids[name])}
        return Journal(holder=self.holder, at=self.at, pods=pods)


NO_JOURNALS: Mapping[str, Journal] = {}


class JournalCarrier(msgspec.Struct, frozen=True):
    """The pod that carries a gang's journal."""

    key: str
    uid: str


class TooLarge(ValueError):
    """The gang's journal does not fit into an annotation."""


def encode(journal: Journal, annotations: Mapping[str, str] | None = None) -> str:
    """Returns the annotation's value; large journals are compressed.

    Raises TooLarge if it does not fit beside these annotations of the same pod.
    """
    text = msgspec.json.encode(journal)
    value = text.decode()
    if len(text) > DECOMPRESSED_MAX_BYTES:
        raise TooLarge(f"the journal of {len(journal.pods)} bindings takes {len(text)} bytes, more than can be read")
    if len(text) > UNCOMPRESSED_MAX_BYTES:
        value = "z:" + base64.b85encode(zlib.compress(text, 6)).decode()
    others = {name: other for name, other in (annotations or {}).items() if name != JOURNAL}
    taken = sum(len(name.encode()) + len(other.encode()) for name, other in others.items())
    most = min(MAX_BYTES, ANNOTATIONS_MAX_BYTES - len(JOURNAL) - taken)
    size = len(value.encode())
    if size > most:
        raise TooLarge(f"the journal of {len(journal.pods)} bindings takes {size} bytes, more than {max(most, 0)}")
    return value


def decode(text: str) -> Journal | None:
    """Returns the journal of an annotation; None if it is not valid (another program wrote it)."""
    try:
        raw = _decompressed(base64.b85decode(text[2:])) if text.startswith("z:") else text.encode()
        return msgspec.json.decode(raw, type=Journal)
    except (ValueError, RecursionError, zlib.error):  # msgspec.DecodeError is a ValueError
        return None


def _decompressed(value: bytes) -> bytes:
    stream = zlib.decompressobj()
    raw = stream.decompress(value, DECOMPRESSED_MAX_BYTES)
    if not stream.eof:
        raise ValueError("cut off, or larger than a journal")
    return raw


def journal_of(pod: Pod) -> Journal | None:
    text = pod.metadata.annotations.get(JOURNAL)
    return None if text is None else decode(text)


def open_journals(job: Job, carried: Mapping[str, Journal]) -> list[tuple[JournalCarrier, Journal]]:
    """Returns those of the carried journals (pod → journal) that are open, the latest one last."""
    pending = [task for task in job.tasks.values() if task.status == Status.PENDING]
    found: list[tuple[JournalCarrier, Journal]] = []
    for task in job.tasks.values() if pending else ():
        journal = carried.get(task.key)
        if journal is not None and any(journal.same(one.name, one.uid) for one in pending):
            found.append((JournalCarrier(task.key, task.pod.metadata.uid), journal))
    return sorted(found, key=lambda one: (one[1].at, one[0].key))


def unfinished_journal(job: Job, opened: list[Journal], remembered: Journal | None) -> Journal | None:
    """Returns one journal for all incomplete commits of the job, with those of their pods that still exist."""
    journals = opened if remembered is None else [*opened, remembered]
    if not journals:
        return None
    journals = sorted(journals, key=lambda one: one.at)
    uids = {task.name: task.uid for task in job.tasks.values()}
    pods = {name: entry for one in journals for name, entry in one.of(uids).pods.items()}
    return Journal(holder=journals[-1].holder, at=journals[-1].at, pods=pods)


def removal(carrier: JournalCarrier) -> dict[str, Any]:
    """Returns the merge patch that removes the journal; with the uid, because a pod can be recreated by its name."""
    return {"metadata": {"uid": carrier.uid, "annotations": {JOURNAL: None}}}


# --- recovery


class RecoveryAction(Enum):
    CLOSE = "close"  # nothing is left to do; remove an open journal
    FINISH = "finish"  # bind the remaining pods as intended
    WAIT = "wait"  # leave the remaining pods to the next cycles
    UNDO = "undo"  # evict the bound pods


class Recovery(Struct, frozen=True):
    """What to do about one journal."""

    action: RecoveryAction
    tasks: tuple[Task, ...] = ()  # to bind (FINISH) or to evict (UNDO)
    journal: Journal | None = None
    carriers: tuple[JournalCarrier, ...] = ()  # of the open journals, which can be removed (CLOSE)


class Attempts(Struct, frozen=True):
    """What the leader knows about the recovery of a group, apart from the cluster's state."""

    since: float  # when it first saw the journal
    carried: Mapping[str, Journal] = NO_JOURNALS  # pod → its journal
    tried: bool = False  # FINISH was returned before
    remembered: Journal | None = None  # of a commit that this leader saw incomplete
    assumed: Collection[str] = ()  # pods that are assumed to be bound or terminating
    evicted: Collection[str] = ()  # those of them that are assumed to be terminating
    unanswered: Collection[str] = ()  # those of them whose call is in flight
    kept: Collection[str] = ()  # pods whose eviction was refused a moment ago


def recover(state: State, group: str, attempts: Attempts, now: float) -> Recovery:
    """Returns what to do about the group's journal."""
    job = state.jobs.get(group)
    if job is None:
        return Recovery(RecoveryAction.CLOSE)
    opened = open_journals(job, attempts.carried)
    journal = unfinished_journal(job, [one for _, one in opened], attempts.remembered)
    if journal is None:
        # A pod whose binding fails is pending again, and opens the journal again.
        return Recovery(RecoveryAction.WAIT if attempts.unanswered else RecoveryAction.CLOSE)
    carriers = tuple(carrier for carrier, _ in opened)
    tasks = [t for t in job.tasks.values() if t.name in journal.pods]
    bound = [t for t in tasks if t.status in _BOUND]
    rest = [t for t in tasks if t.status == Status.PENDING]
    if any(t.key in attempts.evicted for t in tasks):
        return Recovery(RecoveryAction.WAIT, journal=journal)  # an eviction can still be refused
    # A gang whose pods have run and ended has started; one whose pods a kubelet rejected has not.
    if not bound or any(is_finished(t.pod) and not is_rejected(t.pod) for t in tasks):
        return Recovery(RecoveryAction.CLOSE, carriers=carriers)
    if job.ready >= job.min_available:
        if attempts.assumed:
            return Recovery(RecoveryAction.WAIT, journal=journal)  # the watch may yet show that a pod is gone
        return Recovery(RecoveryAction.CLOSE, carriers=carriers)
    suffices = job.ready + len(rest) >= job.min_available  # not if its undoing has begun
    if not attempts.tried and suffices and _have_claims(state, rest) and _have_capacity(state, rest, journal):
        return Recovery(RecoveryAction.FINISH, tuple(sorted(rest, key=lambda t: t.key)), journal)
    # The pod that carries the journal is evicted last: as long as it exists, the next leader knows what to undo.
    others = [t for t in bound if not carriers or t.key != carriers[-1].key]
    victims = [t for t in others or bound if t.key not in attempts.kept]
    if not victims or now - attempts.since < RECOVERY_GRACE_S:
        return Recovery(RecoveryAction.WAIT, journal=journal)
    return Recovery(RecoveryAction.UNDO, tuple(sorted(victims, key=lambda t: t.key)), journal)


def _have_claims(state: State, tasks: list[Task]) -> bool:
    """Returns whether all claims of these pods are bound: only a cycle can choose volumes."""
    claims = state.objects["PersistentVolumeClaim"]
    for task in tasks:
        for name in filter(None, (claim_name(task.name, volume) for volume in task.pod.spec.volumes)):
            claim = claims.get(f"{task.namespace}/{name}")
            if not isinstance(claim, PersistentVolumeClaim) or not is_bound(claim):
                return False
    return True


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
