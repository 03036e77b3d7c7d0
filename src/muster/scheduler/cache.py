"""The engine's state on a live cluster: what the watches have shown, and the scheduler's own writes that they have not.

A pod whose binding was sent is *assumed* to be on its node, a pod whose eviction was accepted to be terminating. An
assumption ends when the watch confirms it, when the call failed, or when the pod has changed otherwise (another uid,
another node, deleted). The observed object is kept with each assumption, so that removing it is exact.

Only the cycle thread changes the state. The event loop puts messages into the inbox, which are applied before each
cycle.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from muster.engine.core.moved_pods import reads_equal
from muster.engine.core.plan import Plan
from muster.engine.core.podgroups import OWNING, groups_of
from muster.engine.core.state import State
from muster.model.batch import APPLICATION_KINDS
from muster.model.collector import collector_paused
from muster.model.core import Pod
from muster.model.meta import Object, timestamp
from muster.model.pod_states import is_active, is_rejected, is_terminating
from muster.model.scheduling import Queue
from muster.scheduler.assumed_claims import AssumedClaims
from muster.scheduler.backoffs import Backoffs
from muster.scheduler.inbox import BindRefused, CallResult, CommitFinished, EvictionRefused, Message, Observed
from muster.scheduler.journal import JOURNAL, Journal, decode, journal_of
from muster.scheduler.queueing_hints import Hint, queueing_hint

# If the watch has not shown an accepted call after this time, the pod is read from the API server.
CONFIRM_TIMEOUT_S = 30.0


@dataclass(slots=True)
class Assumed:
    """The assumption about one pod."""

    uid: str
    node: str  # "": it is assumed to be terminating
    observed: Pod
    annotations: Mapping[str, str] = field(default_factory=dict)
    check_at: float | None = None  # None: the call is in flight

    def on(self, pod: Pod) -> Pod:
        """Returns the pod as it will be after the call."""
        meta = pod.metadata
        if not self.node:
            return replace(pod, metadata=replace(meta, deletion_timestamp=meta.deletion_timestamp or timestamp(0)))
        if self.annotations:
            meta = replace(meta, annotations={**meta.annotations, **self.annotations})
        return replace(pod, metadata=meta, spec=replace(pod.spec, node_name=self.node))


class Cache:
    """The engine's state, the assumptions on top of it, and the inbox."""

    def __init__(self, scheduler_names: Iterable[str], clock: Callable[[], float] = time.monotonic) -> None:
        self.state = State(scheduler_names)
        self.backoffs = Backoffs()
        self._clock = clock
        self.assumed: dict[str, Assumed] = {}
        self.committing: set[str] = set()  # groups whose commit the binder is sending
        self.held: set[str] = set()  # those of them for which a cycle decided more bindings
        self.carriers: dict[str, Journal] = {}  # bound pods with a journal that may be open
        self.unfinished: dict[str, Journal] = {}  # group → the journal of a commit that this leader saw incomplete
        self.claims = AssumedClaims(self.state)
        self.inbox: deque[Message] = deque()
        self._nodes: dict[str, Object] = {}
        self._rejected: list[str] = []
        self._accepted = 0

    # --- from the event loop

    def put(self, message: Message) -> None:
        """Adds a message. Thread-safe, because deque.append is atomic."""
        self.inbox.append(message)

    # --- cycle thread

    def load(self, objects: Mapping[str, Mapping[str, Object]]) -> None:
        """Loads the whole cluster."""
        self.state.load({kind: dict(sorted(some.items())) for kind, some in sorted(objects.items())})
        self._nodes = dict(objects.get("Node", {}))
        for key, task in self.state.tasks.items():
            self._track_pod(key, task.pod)

    def open_journals(self) -> set[str]:
        """Returns the groups with a journal that may be open, and whose commit the binder is not sending."""
        carrying = (task.job for key in self.carriers if (task := self.state.tasks.get(key)) is not None)
        return ({job.key for job in carrying if job is not None} | self.unfinished.keys()) - self.committing

    def close_journals(self, group: str) -> None:
        """Forgets the journals of the group."""
        self.unfinished.pop(group, None)
        job = self.state.jobs.get(group)
        for key in job.tasks if job is not None else ():
            self.carriers.pop(key, None)

    def apply_messages(self) -> Hint:
        """Applies the messages of the inbox; returns the most urgent hint among them."""
        most = Hint.IGNORE
        with collector_paused():
            for _ in range(len(self.inbox)):
                message = self.inbox.popleft()
                if isinstance(message, Observed):
                    most = max(most, self._observe(message))
                elif isinstance(message, CallResult):
                    self._accepted += message.accepted and bool(message.node)
                    most = max(most, self._on_result(message))
                elif isinstance(message, CommitFinished):
                    most = max(most, self._on_finished(message))
                elif isinstance(message, BindRefused):
                    self.backoffs.bind_refused(message, self._clock())
                elif isinstance(message, EvictionRefused):
                    self.backoffs.eviction_refused(message, self._clock())
        return most

    def assume(self, plan: Plan, journals: Mapping[str, str] | None = None) -> None:
        """Assumes the bindings and evictions of the plan until the watch or a failed call says otherwise.

        `journals`: pod → the journal that its binding writes.
        """
        for key, node in plan.binds.items():
            for claim, values in plan.claims_of(key):
                self.claims.assume(key, claim, values)
            annotations = plan.annotations_of(key)
            if journals and key in journals:
                annotations[JOURNAL] = journals[key]
            self._assume(key, node, annotations)
        for eviction in plan.evictions:
            self._assume(eviction.pod, "", {})

    def take_rejected(self) -> list[str]:
        """Returns the pods that a kubelet has rejected since the last call."""
        found, self._rejected = self._rejected, []
        return found

    def take_accepted(self) -> int:
        """Returns how many bindings the API server has accepted since the last call."""
        found, self._accepted = self._accepted, 0
        return found

    def overdue(self, now: float) -> dict[str, str]:
        """Returns the pods (with their uids) whose accepted call the watch should have shown by now."""
        return {key: a.uid for key, a in self.assumed.items() if a.check_at is not None and a.check_at <= now}

    def _assume(self, key: str, node: str, annotations: Mapping[str, str]) -> None:
        task = self.state.tasks[key]
        before = self.assumed.get(key)
        # A pod that is assumed bound may be evicted at once; the observed pod is still the one before the binding.
        observed = before.observed if before is not None else task.pod
        assumed = self.assumed[key] = Assumed(task.pod.metadata.uid, node, observed, annotations)
        self.state.upsert("Pod", key, assumed.on(task.pod))

    # --- messages

    def _observe(self, message: Observed) -> Hint:
        kind, key, new = message.kind, message.key, message.object
        if kind == "Pod":
            pod = new if isinstance(new, Pod) else None
            if not self._is_stale(message, pod):
                return self._observe_pod(key, pod, message.polled)
            known = self.state.tasks.get(key)
            if known is not None:
                self._track_pod(key, known.pod)  # it was read because its journal could not be removed
            return Hint.IGNORE
        if kind == "Node":
            hint = queueing_hint(self._nodes.get(key), new)
            if hint == Hint.IGNORE:
                return hint  # a heartbeat must not invalidate the caches of the node
            if new is None:
                self._nodes.pop(key, None)
            else:
                self._nodes[key] = new
            return self._store(kind, key, new, hint)
        new = self.claims.apply(kind, key, new)
        old = self.state.objects[kind].get(key)
        gone = old if new is None else None
        hint = queueing_hint(old, new)
        if hint == Hint.IGNORE and new is not None and isinstance(new, (Queue, *APPLICATION_KINDS)):
            self.state.objects[kind][key] = new  # only its status changed, which no decision depends on
            return hint
        if isinstance(gone, OWNING):
            # Its pods will be deleted with it; meanwhile they are not scheduled as if they were no gang.
            for group in filter(None, map(self.state.jobs.get, groups_of(gone))):
                for member in group.tasks:
                    self.backoffs.await_owner(member)
        return self._store(kind, key, new, hint)

    def _observe_pod(self, key: str, new: Pod | None, polled: bool) -> Hint:
        known = self.state.tasks.get(key)
        old = known.pod if known is not None else None
        if new is None:
            self.carriers.pop(key, None)
        else:
            self._track_pod(key, new)
            if is_rejected(new):
                self._rejected.append(key)
        assumed = self.assumed.get(key)
        if assumed is not None:
            # An accepted call that is overdue and had no effect according to a GET never will.
            expired = polled and assumed.check_at is not None and assumed.check_at <= self._clock()
            same = new is not None and new.metadata.uid == assumed.uid
            if new is not None and same and not self._is_confirmed(assumed, new) and not expired:
                assumed.observed = new
                new = assumed.on(new)
            else:
                self._forget(key)
        elif old is not None and new is not None and _older(old, new):
            return Hint.IGNORE
        if known is not None and new is not None and reads_equal(known.pod, new):
            # A condition, a container's status, or the confirmation of an assumption: the task and its job stay as
            # they are, and what is known about them stays valid.
            known.pod = new
            return Hint.IGNORE
        return self._store("Pod", key, new, queueing_hint(old, new) if old is not new else Hint.IGNORE)

    def _is_stale(self, message: Observed, new: Pod | None) -> bool:
        """Returns whether the watch has shown more of the pod than this answer to a GET."""
        if not message.polled:
            return False
        known = self.state.tasks.get(message.key)
        if known is None:
            return True  # it was deleted, or the watch will show it
        if new is None:
            return bool(message.uid) and known.pod.metadata.uid != message.uid
        return _version(new) < _version(known.pod)

    def _track_pod(self, key: str, pod: Pod) -> None:
        """Records whether the pod carries a journal, and whether its owner must be known first."""
        # A pending pod has an annotation of somebody else: the scheduler writes a journal with the binding.
        journal = journal_of(pod) if pod.spec.node_name else None
        if journal is not None:
            self.carriers[key] = journal.of(self._uids_beside(pod, journal.pods))
        else:
            self.carriers.pop(key, None)
        if not pod.spec.node_name and pod.metadata.owner_references:
            self.backoffs.await_owner(key)

    def _uids_beside(self, pod: Pod, names: Iterable[str]) -> dict[str, str]:
        """Returns name → uid of those of these pods that exist in the namespace of this pod."""
        meta, tasks = pod.metadata, self.state.tasks
        beside = ((name, tasks.get(f"{meta.namespace}/{name}")) for name in names)
        return {name: task.uid for name, task in beside if task is not None} | {meta.name: meta.uid}

    @staticmethod
    def _is_confirmed(assumed: Assumed, new: Pod) -> bool:
        """Returns whether the pod shows the outcome of the call, the assumed one or another."""
        if assumed.node:
            return bool(new.spec.node_name) or is_terminating(new)
        return not is_active(new)

    def _on_result(self, message: CallResult) -> Hint:
        assumed = self.assumed.get(message.key)
        if assumed is None or (assumed.uid, assumed.node) != (message.uid, message.node):
            return Hint.IGNORE  # the watch has shown it already
        if message.accepted:
            assumed.check_at = self._clock() + CONFIRM_TIMEOUT_S
            return Hint.IGNORE
        self._forget(message.key)
        self.state.upsert("Pod", message.key, assumed.observed)
        return Hint.SCHEDULE_NOW if message.urgent else Hint.SCHEDULE_SOON

    def _on_finished(self, message: CommitFinished) -> Hint:
        self.committing.discard(message.group)
        journal = decode(message.journal) if message.journal else None
        if journal is not None:
            self.unfinished[message.group] = journal
        if message.group in self.held:
            self.held.discard(message.group)
            return Hint.SCHEDULE_NOW
        return Hint.SCHEDULE_SOON

    def _forget(self, key: str) -> None:
        del self.assumed[key]
        self.claims.forget(key)

    def _store(self, kind: str, key: str, new: Object | None, hint: Hint) -> Hint:
        if new is None:
            self.state.remove(kind, key)
        else:
            self.state.upsert(kind, key, new)
        return hint


def _version(pod: Pod) -> int:
    """Returns the resourceVersion as a number; those of pods are comparable, as the informers compare them."""
    text = pod.metadata.resource_version
    return int(text) if text.isdecimal() else 0


def _older(old: Pod, new: Pod) -> bool:
    """Returns whether `new` is older than `old`, which came from a GET: a pod never loses its node."""
    same = old.metadata.uid == new.metadata.uid
    return same and bool(old.spec.node_name) and not new.spec.node_name
