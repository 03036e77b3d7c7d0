"""The engine's state on a live cluster: what the watches tell, and what we did that they have not told yet.

A pod whose binding has been sent is *assumed* on its node, a pod whose eviction was accepted is assumed to be leaving.
An assumption ends when the watch shows it true, when the call failed, or when the pod turns out to be something else
(another uid, another node, gone). The object last seen is kept beside each assumption, so taking it back is exact.

Only the cycle thread touches the state. The event loop puts what happened into the inbox, from where it is taken in
before each cycle.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from muster.engine.core.plan import Plan
from muster.engine.core.podgroups import OWNING, groups_of
from muster.engine.core.state import State
from muster.model.batch import APPLICATION_KINDS
from muster.model.collector import collector_paused
from muster.model.core import Pod
from muster.model.meta import Object
from muster.model.pod_states import is_active, is_terminating
from muster.model.scheduling import Queue
from muster.scheduler.assumed_claims import AssumedClaims
from muster.scheduler.backoffs import Backoffs
from muster.scheduler.inbox import BindRefused, CallResult, CommitFinished, EvictionRefused, Message, Observed
from muster.scheduler.journal import JOURNAL
from muster.scheduler.kubelet_rejections import rejected
from muster.scheduler.queueing_hints import Hint, queueing_hint
from muster.store.clock import timestamp

# When the watch should have shown what the API server accepted; then the pod is looked at.
CONFIRM = 30.0


@dataclass(slots=True)
class Assumed:
    uid: str
    node: str  # "" = the assumption is that it leaves
    seen: Pod
    notes: Mapping[str, str] = field(default_factory=dict)
    check_at: float | None = None  # None: the call is still on its way

    def on(self, pod: Pod) -> Pod:
        """The pod as it will be once the call has its effect."""
        meta = pod.metadata
        if not self.node:
            return replace(pod, metadata=replace(meta, deletion_timestamp=meta.deletion_timestamp or timestamp(0)))
        if self.notes:
            meta = replace(meta, annotations={**meta.annotations, **self.notes})
        return replace(pod, metadata=meta, spec=replace(pod.spec, node_name=self.node))


class Cache:
    def __init__(self, scheduler_names: Iterable[str], clock: Callable[[], float] = time.monotonic) -> None:
        self.state = State(scheduler_names)
        self.backoffs = Backoffs()
        self._clock = clock
        self.assumed: dict[str, Assumed] = {}
        self.committing: set[str] = set()  # groups whose commit the binder has in hand
        self.journalled: set[str] = set()  # groups that carry a journal
        self.carriers: set[str] = set()  # pods that carry one
        self.claims = AssumedClaims(self.state)
        self.inbox: deque[Message] = deque()
        self._nodes: dict[str, Object] = {}
        self._rejected: list[str] = []
        self._accepted = 0

    # --- from the event loop

    def put(self, message: Message) -> None:
        """Thread-safe: deque.append is one step."""
        self.inbox.append(message)

    # --- cycle thread

    def load(self, objects: Mapping[str, Mapping[str, Object]]) -> None:
        """The first look at the cluster, all at once."""
        self.state.load({kind: dict(sorted(some.items())) for kind, some in sorted(objects.items())})
        self._nodes = dict(objects.get("Node", {}))
        self.journalled = {
            key for key, group in objects.get("PodGroup", {}).items() if JOURNAL in group.metadata.annotations
        }
        for key, task in self.state.tasks.items():
            self._note_pod(key, task.pod)

    def open_journals(self) -> set[str]:
        """The groups with a journal that the binder does not have in hand."""
        carrying = (task.job for key in self.carriers if (task := self.state.tasks.get(key)) is not None)
        return (self.journalled | {job.key for job in carrying if job is not None}) - self.committing

    def take_in(self) -> Hint:
        """Bring the state up to date; how much of it bears on a decision."""
        most = Hint.IGNORE
        with collector_paused():
            for _ in range(len(self.inbox)):
                message = self.inbox.popleft()
                if isinstance(message, Observed):
                    most = max(most, self._see(message))
                elif isinstance(message, CallResult):
                    self._accepted += message.done and bool(message.node)
                    most = max(most, self._settle(message))
                elif isinstance(message, CommitFinished):
                    self.committing.discard(message.group)
                    most = max(most, Hint.SCHEDULE_SOON)
                elif isinstance(message, BindRefused):
                    self.backoffs.hold(message, self._clock())
                elif isinstance(message, EvictionRefused):
                    self.backoffs.refused(message, self._clock())
        return most

    def assume(self, plan: Plan) -> None:
        """What the plan decides holds from now on, until we hear otherwise."""
        for key, node in plan.binds.items():
            notes: dict[str, str] = {}
            for effect in plan.effects.get(key, ()):
                if effect.kind == "annotations":
                    notes.update(effect.values)
                elif effect.kind == "claim":
                    self.claims.lay(key, effect.key, effect.values)
            self._assume(key, node, notes)
        for eviction in plan.evictions:
            self._assume(eviction.pod, "", {})

    def take_rejected(self) -> list[str]:
        """Pods that a kubelet turned away, since the last time."""
        found, self._rejected = self._rejected, []
        return found

    def take_accepted(self) -> int:
        """How many bindings the API server accepted, since the last time."""
        found, self._accepted = self._accepted, 0
        return found

    def overdue(self, now: float) -> dict[str, str]:
        """Pods (with their uids) whose accepted call the watch should have shown by now."""
        return {key: a.uid for key, a in self.assumed.items() if a.check_at is not None and a.check_at <= now}

    def _assume(self, key: str, node: str, notes: Mapping[str, str]) -> None:
        task = self.state.tasks[key]
        before = self.assumed.get(key)
        # A pod that is assumed bound may be evicted at once; what was seen last stays what it was.
        seen = before.seen if before is not None else task.pod
        made = self.assumed[key] = Assumed(task.pod.metadata.uid, node, seen, notes)
        self.state.upsert("Pod", key, made.on(task.pod))

    # --- taking in

    def _see(self, message: Observed) -> Hint:
        kind, key, new = message.kind, message.key, message.object
        if kind == "Pod":
            return self._see_pod(key, new if isinstance(new, Pod) else None, message.looked)
        if kind == "Node":
            weight = queueing_hint(self._nodes.get(key), new)
            if weight == Hint.IGNORE:
                return weight  # a heartbeat must not void what is known of the node
            if new is None:
                self._nodes.pop(key, None)
            else:
                self._nodes[key] = new
            return self._put(kind, key, new, weight)
        new = self.claims.over(kind, key, new)
        old = self.state.objects[kind].get(key)
        gone = old if new is None else None
        weight = queueing_hint(old, new)
        if weight == Hint.IGNORE and new is not None and isinstance(new, (Queue, *APPLICATION_KINDS)):
            self.state.objects[kind][key] = new  # only its status changed, which no decision asks for
            return weight
        if isinstance(gone, OWNING):
            # Its pods will go with it; meanwhile they are not placed as if nobody had asked for a gang.
            for group in filter(None, map(self.state.jobs.get, groups_of(gone))):
                for member in group.tasks:
                    self.backoffs.look_for_owner(member)
        if kind == "PodGroup":
            if new is not None and JOURNAL in new.metadata.annotations:
                self.journalled.add(key)
            else:
                self.journalled.discard(key)
        return self._put(kind, key, new, weight)

    def _see_pod(self, key: str, new: Pod | None, looked: bool) -> Hint:
        known = self.state.tasks.get(key)
        old = known.pod if known is not None else None
        if new is None:
            self.carriers.discard(key)
        else:
            self._note_pod(key, new)
            if rejected(new):
                self._rejected.append(key)
        assumed = self.assumed.get(key)
        if assumed is not None:
            # An accepted call that is overdue, and has had no effect when asked after, never will.
            over = looked and assumed.check_at is not None and assumed.check_at <= self._clock()
            if new is not None and new.metadata.uid == assumed.uid and not self._shown(assumed, new) and not over:
                assumed.seen = new
                new = assumed.on(new)
            else:
                self._forget(key)
        elif old is not None and new is not None and _older(old, new):
            return Hint.IGNORE
        return self._put("Pod", key, new, queueing_hint(old, new) if old is not new else Hint.IGNORE)

    def _note_pod(self, key: str, pod: Pod) -> None:
        """What a pod says that is not for decisions."""
        if JOURNAL in pod.metadata.annotations:
            self.carriers.add(key)
        else:
            self.carriers.discard(key)
        if not pod.spec.node_name and pod.metadata.owner_references:
            self.backoffs.look_for_owner(key)

    @staticmethod
    def _shown(assumed: Assumed, new: Pod) -> bool:
        """Does the cluster show the outcome, be it the assumed one or another?"""
        if assumed.node:
            return bool(new.spec.node_name) or is_terminating(new)
        return not is_active(new)

    def _settle(self, message: CallResult) -> Hint:
        assumed = self.assumed.get(message.key)
        if assumed is None or (assumed.uid, assumed.node) != (message.uid, message.node):
            return Hint.IGNORE  # the watch was faster
        if message.done:
            assumed.check_at = self._clock() + CONFIRM
            return Hint.IGNORE
        self._forget(message.key)
        self.state.upsert("Pod", message.key, assumed.seen)
        return Hint.SCHEDULE_NOW

    def _forget(self, key: str) -> None:
        del self.assumed[key]
        self.claims.lift(key)

    def _put(self, kind: str, key: str, new: Object | None, weight: Hint) -> Hint:
        if new is None:
            self.state.remove(kind, key)
        else:
            self.state.upsert(kind, key, new)
        return weight


def _older(old: Pod, new: Pod) -> bool:
    """A pod never loses its node: an object that says so was overtaken by a look at the API server."""
    same = old.metadata.uid == new.metadata.uid
    return same and bool(old.spec.node_name) and not new.spec.node_name
