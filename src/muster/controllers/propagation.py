"""PropagationPolicyController: binds applications to their policies, and evicts pods that are in the wrong node group.

Pods on nodes of no group of the policy are misplaced, pods beyond a group's number are redundant; both go only where
their replacement has a place to go to, at the pace of `pace`, past the guards of `eviction`. What holds is written into
the policies' statuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from zlib import crc32

from msgspec.structs import replace

from muster.controllers.applications import Applications, usable
from muster.controllers.binding import Binding
from muster.controllers.conditions import merged
from muster.controllers.divided import Division
from muster.controllers.eviction import active, is_ready, ranked, spared
from muster.controllers.pace import SETTLE, Pace, Rate
from muster.controllers.policy_status import application_status, policy_conditions
from muster.controllers.retries import Retries
from muster.controllers.seats import seat_rate, write_seats
from muster.controllers.tables import Ref
from muster.groups.applications import Application, Unit
from muster.groups.gate import DOMAIN, Pair
from muster.groups.propagation import Propagation
from muster.groups.standing import Standing
from muster.model.batch import Deployment, ReplicaSet, ReplicationController, StatefulSet
from muster.model.core import Node, Pod
from muster.model.custom import CustomApplication
from muster.model.groups import BoundApplication, PolicyStatus, PropagationPolicy
from muster.model.meta import Object
from muster.model.meta import key as key_of
from muster.store import NotFound, Severity, Store, StoreError

OBSERVED = f"{DOMAIN}/observed"
RULE = "propagation"
_REASONS = {"using": "GroupNameCase", "there is no node group": "GroupUnknown"}
# Their pods are made anew elsewhere. A DaemonSet's would come back to the same node, a Job's work would be lost.
_REPLACED = (Deployment, ReplicaSet, StatefulSet, ReplicationController, CustomApplication)
_POLICY = ""  # in the place of an application's kind, where a policy's status is to be written again


def _unheard(*_: object) -> None:
    """For whom it is nobody's business."""


class PropagationPolicyController:
    """`nudge`: touch pending pods when something changes for them, as kube-scheduler needs it to try them again.

    `seats`: write them on pods as their deletion cost. `custom`: the kinds of applications that are configured.
    """

    def __init__(
        self,
        store: Store,
        *,
        nudge: bool = True,
        seats: bool = False,
        settle: float = SETTLE,
        custom: Sequence[type[CustomApplication]] = (),
        evicted: Callable[[Pod, str], None] = _unheard,
        report: Callable[[str], None] = _unheard,
    ) -> None:
        self._store = store
        self._nudge = nudge
        self._seats = seats
        self._seat_rate = seat_rate()
        self._settle = settle
        self._evicted = evicted
        self._retries: Retries[Ref] = Retries(report)
        self._apps = Applications(store, Pair.PROPAGATION, custom)
        self._binding = Binding(store, Pair.PROPAGATION, (self._good,))
        self._paces: dict[Ref, Pace] = {}
        self._rate = Rate()
        self._warned: dict[str, list[str]] = {}
        self._records: dict[Ref, tuple[str, BoundApplication]] = {}  # application → policy key, what is told of it

    def run(self) -> bool:
        """Do what is to be done now; whether anything was written."""
        dirty = self._apps.follow()
        now = self._store.clock.now()
        dirty.update({ref: None for ref, p in self._paces.items() if p.wake is not None and p.wake <= now})
        policies, self._apps.policies = self._apps.policies, {}
        for kind, key in self._retries.due(now):
            if kind == _POLICY:
                policies[key] = None
            else:
                dirty[kind, key] = None
        self._wrote = False
        for ref in sorted(dirty):
            with self._retries.trying(ref, now):
                for policy in self._look(ref):
                    policies[policy] = None
        for key in sorted(policies):
            with self._retries.trying((_POLICY, key), now):
                self._report(key)
        return self._wrote

    def next_time(self) -> float | None:
        """When evictions that wait for nothing but time go on, or a write is tried again."""
        times = [pace.wake for pace in self._paces.values() if pace.wake is not None]
        again = self._retries.next_time()
        return min(times if again is None else [*times, again], default=None)

    # --- one application

    def _look(self, ref: Ref) -> Iterator[str]:
        """Put one application right; the policies of which there is something new to tell."""
        before = self._records.pop(ref, None)
        if before is not None:
            yield before[0]
        app = self._apps.object(ref)
        bound = None if app is None else self._binding.settle(app)
        if app is not None:
            self._wrote = self._wrote or app.metadata.labels.get(Pair.PROPAGATION.binding) != bound
        if app is None or bound is None:
            self._paces.pop(ref, None)
            return
        policy = f"{app.metadata.namespace or 'default'}/{bound}"
        meant = self._apps.grouping.policies.read(policy)
        assert meant is not None  # the binding was checked against it
        pace = self._paces.setdefault(ref, Pace(self._settle))
        divided = self._divided(app, bound, meant)
        self._rebalance(divided, pace)
        if self._seats and not self._rolling(app):
            unit = (type(app).__name__, key_of(app))
            wrote, again = write_seats(self._store, divided, Application(app, unit), self._seat_rate)
            self._wrote = self._wrote or wrote
            if again is not None:
                pace.wake = again if pace.wake is None else min(pace.wake, again)
        self._records[ref] = policy, application_status(divided, pace.stopped)
        yield policy

    def _good(self, app: Object, policy: str) -> str | None:
        """The check before binding: the policy is there and can be used."""
        meant = self._apps.grouping.policies.read(f"{app.metadata.namespace or 'default'}/{policy}")
        if meant is None:
            return f"PropagationPolicy {policy} not found"
        return f"PropagationPolicy {policy} cannot be used: {meant.errors[0]}" if meant.errors else None

    def _divided(self, app: Object, policy: str, meant: Propagation) -> Division:
        unit: Unit = (type(app).__name__, key_of(app))
        as_one = Application(app, unit)
        found = Division(app, policy, meant, meant.quotas(as_one.replicas, as_one.uid))
        group_of = self._apps.grouping.group_of(tuple(meant.groups))
        for pods in self._apps.units(app):
            for pod in pods:
                if not active(pod):
                    found.leaving += pod.metadata.deletion_timestamp is not None
                elif not pod.spec.node_name:
                    found.pending.append(pod)
                elif (group := group_of.get(pod.spec.node_name)) is not None:
                    found.current.setdefault(group, []).append(pod)
                else:
                    found.misplaced.append(pod)
        return found

    # --- evictions

    def _rebalance(self, divided: Division, pace: Pace) -> None:
        now = self._store.clock.now()
        inputs = (divided.policy, tuple(divided.quotas.groups.items()), self._apps.version)
        if self._nudge and pace.inputs != inputs:
            self._touch(divided)
        pace.look(inputs, now)
        app, replicas = divided.app, divided.quotas.replicas
        if not isinstance(app, _REPLACED) or replicas is None or self._rolling(app):
            return
        standing = Standing(divided.quotas, divided.counts)
        excess = standing.excess()
        if not excess and not divided.misplaced:
            return
        lacking = sum(standing.lack(group) for group in self._open_groups(divided.meant))
        budget = lacking - len(divided.pending) - divided.leaving
        if budget <= 0:
            return
        moving = divided.leaving + sum(1 for pod in divided.pods if not is_ready(pod))
        room = min(budget, pace.room(replicas, moving, len(divided.pending), now))
        for pod in self._candidates(divided, excess):
            if room <= 0:
                return
            if self._rate.ready(now) > now:
                pace.wake = self._rate.ready(now)
                return
            if self._evict(pod, divided, pace, now):
                room -= 1

    def _candidates(self, divided: Division, excess: dict[str, int]) -> Iterator[Pod]:
        """Misplaced pods, then redundant ones of the group that has most too many; never those that are spared."""
        by_ordinal = isinstance(divided.app, StatefulSet)
        tables = self._apps.tables
        yield from (p for p in ranked(divided.misplaced, by_ordinal=by_ordinal) if spared(p, tables) is None)
        for group in sorted(excess, key=lambda g: -excess[g]):
            pods = [p for p in ranked(divided.current[group], by_ordinal=by_ordinal) if spared(p, tables) is None]
            yield from pods[: excess[group]]

    def _evict(self, pod: Pod, divided: Division, pace: Pace, now: float) -> bool:
        key, policy = key_of(pod), f"{divided.app.metadata.namespace or 'default'}/{divided.policy}"
        try:
            self._store.evict(key, by=f"PropagationPolicy {policy}", rule=RULE, uid=pod.metadata.uid)
        except NotFound:
            return False
        except StoreError as fault:
            self._store.event(divided.app, Severity.WARNING, "EvictionBlocked", f"pod {key}: {fault}")
            pace.wake = now + 10.0
            return False
        self._rate.take()
        pace.last = now
        self._wrote = True
        text = f"evicted pod {key} from node {pod.spec.node_name}, as PropagationPolicy {divided.policy} wants it"
        self._store.event(divided.app, Severity.NORMAL, "Evicted", text)
        self._evicted(pod, policy)
        return True

    def _open_groups(self, meant: Propagation) -> list[str]:
        """The policy's groups that have a node which would take a pod."""
        nodes = self._apps.tables.of(Node)
        group_of = self._apps.grouping.group_of(tuple(meant.groups))
        found = {group for name, group in group_of.items() if name in nodes and usable(nodes[name])}
        return [group for group in meant.groups if group in found]

    def _rolling(self, app: Object) -> bool:
        """Is the application on its way from one template to another?"""
        if isinstance(app, Deployment):
            if any(c.reason == "ProgressDeadlineExceeded" for c in app.status.conditions):
                return False
            alive = [pods for pods in self._apps.units(app) if any(active(pod) for pod in pods)]
            return app.status.observed_generation < app.metadata.generation or len(alive) > 1
        if isinstance(app, StatefulSet):
            return app.status.update_revision != app.status.current_revision
        return False

    def _touch(self, divided: Division) -> None:
        """kube-scheduler tries a pod again that an extender refused when one of its labels changes."""
        group_of = self._apps.grouping.group_of(tuple(divided.meant.groups))
        seen = repr((divided.policy, list(divided.quotas.groups.items()), sorted(group_of.items())))
        mark = f"{crc32(seen.encode()):08x}"
        for pod in divided.pending:
            if pod.metadata.labels.get(OBSERVED) != mark:
                try:
                    self._store.patch(Pod, key_of(pod), {"metadata": {"labels": {OBSERVED: mark}}})
                    self._wrote = True
                except NotFound:
                    continue

    # --- what is told

    def _report(self, key: str) -> None:
        policy = self._apps.tables.of(PropagationPolicy).get(key)
        meant = self._apps.grouping.policies.read(key)
        if policy is None or meant is None:
            return
        self._warn(policy, meant)
        records = [record for of, record in (self._records[ref] for ref in sorted(self._records)) if of == key]
        words = policy_conditions(meant, records, policy.metadata.generation)
        now = self._store.clock.now()
        status = PolicyStatus(
            observed_generation=policy.metadata.generation,
            conditions=merged(policy.status.conditions, words, now),
            applications=records,
        )
        if status == policy.status:
            return
        try:
            self._store.update_status(replace(policy, status=status))
            self._wrote = True
        except NotFound:
            return

    def _warn(self, policy: PropagationPolicy, meant: Propagation) -> None:
        """What is odd about the policy, as events, once."""
        key, said = key_of(policy), [str(trouble) for trouble in (*meant.errors, *meant.warnings)]
        for text in said:
            if text not in self._warned.get(key, ()):
                reason = next((reason for word, reason in _REASONS.items() if word in text), "PolicyWarning")
                self._store.event(policy, Severity.WARNING, reason, text)
        self._warned[key] = said
